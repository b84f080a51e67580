package monotime

import (
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// The runtime's monotonic clock: half of what time.Now costs, which reads two clocks.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// The wall clock is looked at this often; between two looks it is carried on by the monotonic one. So a step of the
// wall clock is noticed at most this much later. It decides how fresh values are, nothing else.
const lookNs = int64(time.Millisecond)

var wall struct {
	offset atomic.Int64 // wall clock minus monotonic clock at the last look
	until  atomic.Int64 // the monotonic time of the next look; written after offset
}

// wallNow returns the time in nanoseconds since 1970, at most a millisecond behind a clock that was just set.
func wallNow() int64 {
	mono := nanotime()
	if mono < wall.until.Load() {
		return mono + wall.offset.Load()
	}
	now := time.Now().UnixNano()
	mono = nanotime()
	wall.offset.Store(now - mono)
	wall.until.Store(mono + lookNs)
	return now
}
