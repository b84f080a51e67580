//go:build !cgo

package kazahana

import "context"

// Available says whether this build can open generators: it was made without cgo.
const Available = false

var errNoCgo = &Error{Status: StatusUnsupported, Message: "this program was built without cgo (CGO_ENABLED=0), and " +
	"kazahana's generators are C: build with CGO_ENABLED=1 and a C compiler, or ask a lease server for IDs (GET /id)"}

// Generator mints IDs; a build without cgo cannot open one.
type Generator struct{}

// Stats is what a generator did.
type Stats struct{ Last uint64 }

// Open says why it cannot.
func Open(string, ...Option) (*Generator, error) { return nil, errNoCgo }

// Next gives the same error as Open.
func (*Generator) Next(context.Context) (uint64, error) { return 0, errNoCgo }

// TryNext gives the same error as Open.
func (*Generator) TryNext() (uint64, error) { return 0, errNoCgo }

// Fill gives the same error as Open.
func (*Generator) Fill([]uint64) error { return errNoCgo }

// FillContext gives the same error as Open.
func (*Generator) FillContext(context.Context, []uint64) error { return errNoCgo }

// Stats gives the same error as Open.
func (*Generator) Stats() (Stats, error) { return Stats{}, errNoCgo }

// Close does nothing.
func (*Generator) Close() error { return nil }
