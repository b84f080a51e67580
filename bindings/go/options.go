package kazahana

import "time"

// Fallback says whether IDs may be minted without a lease.
type Fallback int

// The kinds of fallback.
const (
	FallbackNever  Fallback = 0
	FallbackFenced Fallback = 1 // from the window granted together with the lease: as safe as a lease. The default
	FallbackAny    Fallback = 2 // then random ones too, which promise nothing
)

// Backward says what to do when the clock is behind the last ID.
type Backward int

// The policies for a clock that went back.
const (
	BackwardFail    Backward = 0
	BackwardWait    Backward = 1 // the default, up to 5 s
	BackwardLogical Backward = 2 // go on upward from the last ID
)

// LogLevel is the weight of a line given to WithLog.
type LogLevel int

// The weights.
const (
	LogError   LogLevel = 0
	LogWarning LogLevel = 1
	LogInfo    LogLevel = 2
)

type settings struct {
	service, layout, meta        string
	fallback                     *Fallback
	backward                     *Backward
	maxBackward, maxAhead        *time.Duration
	retryInitial, retryMax       time.Duration
	timeout                      time.Duration
	throughputMin, throughputMax uint32
	renewAt                      float64
	coarse, randomStart          bool
	log                          func(LogLevel, string)
}

// Option changes how a generator works; the defaults are those of kazahana.h.
type Option func(*settings)

// WithService chooses the ID space of a lease table ("default" without).
func WithService(name string) Option { return func(s *settings) { s.service = name } }

// WithLayout chooses the bits: a preset's name, or TIME-NODE-SEQ@EPOCH.
func WithLayout(layout string) Option { return func(s *settings) { s.layout = layout } }

// WithMeta tells people who holds a lease: a JSON object of texts. Without it, host and pid.
func WithMeta(json string) Option { return func(s *settings) { s.meta = json } }

// WithFallback says whether IDs may be minted without a lease.
func WithFallback(f Fallback) Option { return func(s *settings) { s.fallback = &f } }

// WithBackward says what to do when the clock went back. With BackwardWait, max is how long to wait: 0 fails at once,
// negative waits for ever.
func WithBackward(policy Backward, max time.Duration) Option {
	return func(s *settings) { s.backward, s.maxBackward = &policy, &max }
}

// WithMaxAhead bounds how far BackwardLogical may run ahead of the clock (1 s without).
func WithMaxAhead(max time.Duration) Option { return func(s *settings) { s.maxAhead = &max } }

// WithTimeout bounds Open, and every wait for an ID (10 s without). 0 never waits, negative waits without limit.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithThroughput says how many IDs a millisecond to ask leases for, at first and at most (256 and 256 without).
func WithThroughput(min, max uint32) Option {
	return func(s *settings) { s.throughputMin, s.throughputMax = min, max }
}

// WithRenewAt says after which part of a lease's time the next one is asked for (0.9 without).
func WithRenewAt(part float64) Option { return func(s *settings) { s.renewAt = part } }

// WithRetry sets the pause after a failed attempt to get a lease, which doubles up to max (1 s and 60 s without).
func WithRetry(initial, max time.Duration) Option {
	return func(s *settings) { s.retryInitial, s.retryMax = initial, max }
}

// WithCoarseClock allows times that are one tick of the kernel's clock old: cheaper with many threads.
func WithCoarseClock() Option { return func(s *settings) { s.coarse = true } }

// WithRandomStart begins each millisecond's sequence at a random point of the lower half.
func WithRandomStart() Option { return func(s *settings) { s.randomStart = true } }

// WithLog gets what the generator has to say, a line at a time, from any goroutine or thread.
func WithLog(log func(level LogLevel, line string)) Option { return func(s *settings) { s.log = log } }
