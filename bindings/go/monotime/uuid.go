package monotime

import (
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// The bits of a UUID: 48 of milliseconds, 4 of version, 12 zero; then 4 of variant, 16 of magic, 24 of node, 20 of
// nanoseconds within the millisecond.
const (
	version   = 0x7000
	magic     = 0x8e355 // the variant's nibble, then 0xE355
	magicBit  = 44
	nodeBit   = 20
	nanoMask  = 1<<nodeBit - 1
	nsInMs    = 1000000
	textLen   = 36
	maxNodeID = 1<<24 - 1
)

// UUID is a UUID of version 7 that carries a node and a nanosecond.
type UUID [16]byte

// ZeroUUID stands for "none known" where a last UUID is asked for.
var ZeroUUID UUID

// MonoUUID is a generator of UUIDs for one node. Make one with NewMonoUUID.
type MonoUUID struct {
	last atomic.Int64
	low  uint64 // variant, magic and node
}

// GenUUID is another name for MonoUUID.
type GenUUID = MonoUUID

// NewMonoUUID makes a generator for a node in 1..16777215 that goes on above last: ZeroUUID, or a UUID of the same
// node.
func NewMonoUUID(nodeID int, last UUID) (*MonoUUID, error) {
	if nodeID < 1 || nodeID > maxNodeID {
		return nil, fmt.Errorf("node %d is not in 1..%d (24 bits)", nodeID, maxNodeID)
	}
	g := &MonoUUID{low: lowBits(nodeID)}
	if last == ZeroUUID {
		return g, nil
	}
	ns, node, wrong := last.takeApart()
	if wrong != "" {
		return nil, fmt.Errorf("the last UUID %s is not a monotime UUID: %s", last, wrong)
	}
	if node != nodeID {
		return nil, fmt.Errorf("the last UUID %s is of node %d, not of node %d", last, node, nodeID)
	}
	g.last.Store(ns)
	return g, nil
}

// NewGenUUID is another name for NewMonoUUID.
func NewGenUUID(nodeID int, last UUID) (*GenUUID, error) { return NewMonoUUID(nodeID, last) }

// Next returns a UUID that sorts above all that this generator returned before the call.
func (g *MonoUUID) Next() UUID { return makeUUID(g.low, claim(&g.last, wallNow())) }

// MinUUID returns the smallest UUID that a node can have at a time: for range scans. Node 0, which no generator has,
// sorts before all others within the nanosecond's millisecond.
func MinUUID(nodeID int, t time.Time) (UUID, error) {
	ns := t.UnixNano()
	if nodeID < 0 || nodeID > maxNodeID {
		return UUID{}, fmt.Errorf("node %d is not in 0..%d (24 bits)", nodeID, maxNodeID)
	}
	if ns < 0 || !time.Unix(0, ns).Equal(t) {
		return UUID{}, fmt.Errorf("%v is not between 1970 and 2262, where these UUIDs lie", t)
	}
	return makeUUID(lowBits(nodeID), ns), nil
}

func lowBits(nodeID int) uint64 { return magic<<magicBit | uint64(nodeID)<<nodeBit }

func makeUUID(low uint64, ns int64) (u UUID) {
	binary.BigEndian.PutUint64(u[:8], uint64(ns)/nsInMs<<16|version)
	binary.BigEndian.PutUint64(u[8:], low|uint64(ns)%nsInMs)
	return u
}

// takeApart returns the time and the node of one of ours, or what is wrong with another.
func (u UUID) takeApart() (ns int64, node int, wrong string) {
	high, low := binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
	ms, nano := high>>16, low&nanoMask
	switch {
	case high>>12&15 != version>>12:
		return 0, 0, "its version is not 7"
	case high&0xfff != 0:
		return 0, 0, "the 12 bits after the version are not zero"
	case low>>magicBit != magic:
		return 0, 0, "its variant and magic are not 8 and 0xE355"
	case nano >= nsInMs:
		return 0, 0, "its nanoseconds within the millisecond are above 999999"
	case ms > math.MaxInt64/nsInMs || ms == math.MaxInt64/nsInMs && nano > math.MaxInt64%nsInMs:
		return 0, 0, "its time is past the year 2262"
	}
	return int64(ms*nsInMs + nano), int(low >> nodeBit & maxNodeID), ""
}

// Parse returns the time and the node inside, and whether the UUID is a monotime UUID at all.
func (u UUID) Parse() (t time.Time, nodeID int, ok bool) {
	ns, node, wrong := u.takeApart()
	if wrong != "" {
		return time.Time{}, 0, false
	}
	return time.Unix(0, ns), node, true
}

// Time returns the time inside, the zero time if it is not a monotime UUID.
func (u UUID) Time() time.Time {
	t, _, _ := u.Parse()
	return t
}

// NodeID returns the node inside, 0 if it is not a monotime UUID.
func (u UUID) NodeID() int {
	_, node, _ := u.Parse()
	return node
}

// String returns the usual 36 characters.
func (u UUID) String() string {
	text, _ := u.MarshalText()
	return string(text)
}

// MarshalText implements encoding.TextMarshaler.
func (u UUID) MarshalText() ([]byte, error) {
	text := make([]byte, textLen)
	at := 0
	for _, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if at > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], part)
	}
	return text, nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It takes monotime UUIDs and the zero UUID, nothing else.
func (u *UUID) UnmarshalText(text []byte) error {
	if len(text) != textLen {
		return fmt.Errorf("a UUID has %d characters, not %d", textLen, len(text))
	}
	var read UUID
	digits := 0
	for i := 0; i < textLen; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return fmt.Errorf("a UUID has '-' at position %d, not %q", i+1, text[i])
			}
			i++
			continue
		}
		if _, err := hex.Decode(read[digits:digits+1], text[i:i+2]); err != nil {
			return fmt.Errorf("%q at position %d of a UUID is not hexadecimal", text[i:i+2], i+1)
		}
		digits, i = digits+1, i+2
	}
	return u.set(read)
}

func (u *UUID) set(read UUID) error {
	if _, _, wrong := read.takeApart(); wrong != "" && read != ZeroUUID {
		return fmt.Errorf("%s is not a monotime UUID: %s", read, wrong)
	}
	*u = read
	return nil
}

// MarshalBinary implements encoding.BinaryMarshaler: the 16 bytes.
func (u UUID) MarshalBinary() ([]byte, error) { return append([]byte(nil), u[:]...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (u *UUID) UnmarshalBinary(data []byte) error {
	if len(data) != len(u) {
		return fmt.Errorf("a UUID has 16 bytes, not %d", len(data))
	}
	var read UUID
	copy(read[:], data)
	return u.set(read)
}

// Value implements driver.Valuer: the UUID as text.
func (u UUID) Value() (driver.Value, error) { return u.String(), nil }

// Scan implements sql.Scanner, for text, 16 bytes, and NULL, which gives ZeroUUID.
func (u *UUID) Scan(src any) error {
	switch s := src.(type) {
	case nil:
		*u = ZeroUUID
		return nil
	case string:
		return u.UnmarshalText([]byte(s))
	case []byte:
		if len(s) == len(u) {
			return u.UnmarshalBinary(s)
		}
		return u.UnmarshalText(s)
	}
	return fmt.Errorf("a UUID cannot be read from a %T", src)
}
