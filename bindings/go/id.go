package kazahana

import (
	"database/sql/driver"
	"fmt"
	"strconv"
)

// ID is an ID where it is stored or sent: in a database a bigint, in JSON a text, since JavaScript loses digits of
// numbers past 2^53.
type ID uint64

// String returns the ID in decimal.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 10) }

// MarshalText implements encoding.TextMarshaler, and so JSON.
func (id ID) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(id), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler: decimal, nothing else.
func (id *ID) UnmarshalText(text []byte) error {
	read, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not an ID in decimal (0 to 18446744073709551615)", text)
	}
	*id = ID(read)
	return nil
}

// Value implements driver.Valuer: the 64 bits as a signed number, which is what a bigint column holds.
func (id ID) Value() (driver.Value, error) { return int64(id), nil }

// Scan implements sql.Scanner, for bigint and text columns.
func (id *ID) Scan(src any) error {
	switch s := src.(type) {
	case int64:
		*id = ID(s)
		return nil
	case []byte:
		return id.scanText(string(s))
	case string:
		return id.scanText(s)
	}
	return fmt.Errorf("an ID cannot be read from a %T", src)
}

// A text column may hold either reading of the 64 bits.
func (id *ID) scanText(text string) error {
	if signed, err := strconv.ParseInt(text, 10, 64); err == nil {
		*id = ID(signed)
		return nil
	}
	return id.UnmarshalText([]byte(text))
}
