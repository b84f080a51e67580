// Package monotime gives strictly increasing nanoseconds, and UUIDs of version 7 made of them.
//
// Both follow one rule: next = max(now, last + 1). A clock that is set back, stands still or is asked too often makes
// the values logical for a while: they go on upward by one, ahead of the clock, until it has caught up. Nothing ever
// waits, and any number of goroutines may call at once.
//
//	mono := monotime.New(lastKnownTimestamp) // 0 for a fresh start
//	ts := mono.Next()
//
//	gen, err := monotime.NewMonoUUID(nodeID, lastKnownUUID) // monotime.ZeroUUID for a fresh start
//	id := gen.Next()
//
// Uniqueness holds for one generator, and for UUIDs for one node: no two generators may have the same node, nor start
// from the same last known value.
package monotime

import "sync/atomic"

// Monotime is a generator of nanoseconds since 1970. Make one with New.
type Monotime struct {
	last atomic.Int64
}

// Gen is another name for Monotime.
type Gen = Monotime

// New makes a generator whose values are above last and not before the clock. A last below 0 counts as 0.
func New(last int64) *Monotime {
	g := new(Monotime)
	if last > 0 {
		g.last.Store(last)
	}
	return g
}

// NewGen is another name for New.
func NewGen(last int64) *Gen { return New(last) }

// Next returns a value that is above all that this generator returned before the call. It panics when the values have
// run out, in the year 2262.
func (g *Monotime) Next() int64 { return claim(&g.last, wallNow()) }

// claim moves last to the next value and returns it: whoever moved the word owns the value.
func claim(last *atomic.Int64, now int64) int64 {
	for {
		old := last.Load()
		next := now
		if next <= old {
			next = old + 1
		}
		if next <= 0 {
			panic("monotime: no value is left before the year 2262, the end of 64-bit nanoseconds")
		}
		if last.CompareAndSwap(old, next) {
			return next
		}
	}
}
