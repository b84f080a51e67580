//go:build cgo

package kazahana

// #include <stdlib.h>
// #include "glue.h"
import "C"

import "time"

// Layout says how an ID's bits are divided.
type Layout struct{ c C.kz_layout }

// Parts is what an ID contains.
type Parts struct {
	Time     time.Time
	Node     uint32
	Seq      uint32
	Fallback bool // minted without a lease
}

// ParseLayout reads a preset's name, or TIME-NODE-SEQ@EPOCH such as 41-14-8@2026-01-01.
func ParseLayout(text string) (l Layout, err error) {
	var cerr C.kz_error
	ctext := C.CString(text)
	defer free(ctext)
	if status := C.kz_layout_parse(ctext, &l.c, &cerr); status != C.KZ_OK {
		return Layout{}, goError(status, &cerr)
	}
	return l, nil
}

// Name returns the preset's name, empty for other layouts.
func (l Layout) Name() string { return C.GoString(&l.c.name[0]) }

// Bits returns how many bits time, node and sequence have.
func (l Layout) Bits() (time, node, seq int) {
	return int(l.c.time_bits), int(l.c.node_bits), int(l.c.seq_bits)
}

// Epoch returns the time of the time field's zero.
func (l Layout) Epoch() time.Time { return time.UnixMilli(int64(l.c.epoch_ms)).UTC() }

// String returns TIME-NODE-SEQ@EPOCH, which ParseLayout reads.
func (l Layout) String() string {
	var text [C.KZ_LAYOUT_TEXT_SIZE]C.char
	C.kz_layout_text(&l.c, &text[0])
	return C.GoString(&text[0])
}

// Decode takes an ID apart.
func (l Layout) Decode(id uint64) (Parts, error) {
	var parts C.kz_parts
	var cerr C.kz_error
	if status := C.kz_decode(&l.c, C.kz_id(id), &parts, &cerr); status != C.KZ_OK {
		return Parts{}, goError(status, &cerr)
	}
	return Parts{time.UnixMilli(int64(parts.unix_ms)).UTC(), uint32(parts.node), uint32(parts.seq),
		bool(parts.fallback)}, nil
}

// MinID returns the smallest ID of a time's millisecond. A span is MinID(since) <= id < MinID(until).
func (l Layout) MinID(t time.Time) (uint64, error) {
	var id C.kz_id
	var cerr C.kz_error
	if status := C.kz_min_id(&l.c, C.int64_t(t.UnixMilli()), &id, &cerr); status != C.KZ_OK {
		return 0, goError(status, &cerr)
	}
	return uint64(id), nil
}

// MaxID returns the largest ID of a time's millisecond.
func (l Layout) MaxID(t time.Time) (uint64, error) {
	var id C.kz_id
	var cerr C.kz_error
	if status := C.kz_max_id(&l.c, C.int64_t(t.UnixMilli()), &id, &cerr); status != C.KZ_OK {
		return 0, goError(status, &cerr)
	}
	return uint64(id), nil
}
