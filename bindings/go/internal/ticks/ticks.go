//go:build amd64 || arm64

// Package ticks reads the processor's tick counter, the one in which a generator's deadline is counted. It is a package
// of its own because assembly cannot lie beside cgo.
package ticks

// Known says whether Now works on this kind of processor.
const Known = true

// Now returns the counter.
func Now() uint64
