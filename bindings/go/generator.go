//go:build cgo

package kazahana

// #include <stdlib.h>
// #include "glue.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync"
	"time"
	"unsafe"
)

const defaultTimeout = 10 * time.Second

// How long to wait after an answer that does not say it: no lease, the keeper goes on trying.
const leaseRetry = 20 * time.Millisecond

// No wait is longer: what it waits for may come sooner than was said.
const napMax = 100 * time.Millisecond

// Generator mints IDs. Make one with Open; any number of goroutines may use it.
type Generator struct {
	page    *page // nil: every ID is asked for in C
	free    func()
	timeout time.Duration
	url     string

	mu  sync.RWMutex // held for reading while C is called
	gen *C.kz_generator
	log cgo.Handle
}

// Open makes a generator on the source that url names; an empty url is the embedded default. With a lease table it
// waits for the first lease. Close it when done: what it holds is given back then.
func Open(url string, options ...Option) (*Generator, error) {
	s := settings{timeout: defaultTimeout}
	for _, option := range options {
		option(&s)
	}
	if strings.IndexByte(url, 0) >= 0 {
		return nil, &Error{Status: StatusInvalid, Message: "a source URL has no NUL byte"}
	}
	if err := registerSources(); err != nil {
		return nil, err
	}
	g := &Generator{timeout: s.timeout, url: url}
	if err := g.open(&s); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(g, (*Generator).abandon)
	return g, nil
}

func (g *Generator) open(s *settings) error {
	var options C.kz_options
	var cerr C.kz_error
	C.kz_options_init(&options)
	s.numbers(&options)
	if s.log != nil {
		g.log = cgo.NewHandle(s.log)
	}
	var status C.kz_status
	withText(g.url, func(url *C.char) {
		withText(s.service, func(service *C.char) {
			withText(s.layout, func(layout *C.char) {
				withText(s.meta, func(meta *C.char) {
					if service != nil {
						options.service = service
					}
					options.layout, options.meta = layout, meta
					status = C.kz_go_open(&g.gen, url, &options, C.uintptr_t(g.log), &cerr)
				})
			})
		})
	})
	if status != C.KZ_OK {
		g.freeLog()
		return goError(status, &cerr)
	}
	g.page, g.free = share(g.gen)
	return nil
}

func (s *settings) numbers(o *C.kz_options) {
	o.timeout_ms = milliseconds(s.timeout)
	if s.fallback != nil {
		o.fallback = C.kz_fallback(*s.fallback)
	}
	if s.backward != nil {
		o.backward = C.kz_backward(*s.backward)
		o.max_backward_ms = milliseconds(*s.maxBackward)
	}
	if s.maxAhead != nil {
		o.max_ahead_ms = milliseconds(*s.maxAhead)
	}
	if s.throughputMin != 0 || s.throughputMax != 0 {
		o.throughput_min_per_ms = C.uint32_t(s.throughputMin)
		o.throughput_max_per_ms = C.uint32_t(s.throughputMax)
	}
	if s.renewAt != 0 {
		o.renew_at = C.double(s.renewAt)
	}
	if s.retryInitial != 0 || s.retryMax != 0 {
		o.retry_initial_ms, o.retry_max_ms = milliseconds(s.retryInitial), milliseconds(s.retryMax)
	}
	if s.coarse {
		o.clock = C.KZ_CLOCK_COARSE
	}
	if s.randomStart {
		o.seq_start = C.KZ_SEQ_RANDOM
	}
}

// Next returns an ID above all that this generator gave before. It waits when it has to: until ctx ends, or for the
// time WithTimeout allows.
func (g *Generator) Next(ctx context.Context) (uint64, error) {
	if id := g.claim(); id != 0 {
		return id, nil
	}
	var id [1]uint64
	err := g.wait(ctx, id[:])
	return id[0], err
}

// TryNext is Next without waiting: ErrAgain where Next would wait, with the time after which to ask again in Retry.
func (g *Generator) TryNext() (uint64, error) {
	if id := g.claim(); id != 0 {
		return id, nil
	}
	var id [1]uint64
	err := g.mint(id[:])
	return id[0], err
}

// Fill puts IDs into all of ids, in increasing order. On an error none of them may be used.
func (g *Generator) Fill(ids []uint64) error { return g.FillContext(context.Background(), ids) }

// FillContext is Fill that ends with ctx.
func (g *Generator) FillContext(ctx context.Context, ids []uint64) error {
	for len(ids) > 0 {
		part := ids
		if limit := 1 << 16; len(part) > limit {
			part = part[:limit] // so that no other caller of Close waits long
		}
		if err := g.wait(ctx, part); err != nil {
			return err
		}
		ids = ids[len(part):]
	}
	return nil
}

// wait mints without sleeping inside C: between two tries this goroutine sleeps.
func (g *Generator) wait(ctx context.Context, ids []uint64) error {
	var began time.Time
	for {
		err := g.mintSome(&ids)
		if err == nil {
			return nil
		}
		e := err.(*Error)
		if e.Status != StatusAgain && e.Status != StatusLeaseAcquisition {
			return err
		}
		now := time.Now()
		if began.IsZero() {
			began = now
		}
		nap := e.Retry
		if nap <= 0 {
			nap = leaseRetry
		}
		if nap > napMax {
			nap = napMax
		}
		if g.timeout >= 0 && now.Sub(began)+nap > g.timeout {
			if e.Status == StatusLeaseAcquisition {
				return err
			}
			return &Error{Status: StatusTimeout, Message: fmt.Sprintf("no ID within %v: %s", g.timeout, e.Message)}
		}
		if err := sleep(ctx, nap); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Done() == nil {
		time.Sleep(d)
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// mintSome mints what can be had at once of ids, and moves ids on behind it.
func (g *Generator) mintSome(ids *[]uint64) error {
	for len(*ids) > 0 {
		n := g.claimRun(*ids)
		if n == 0 {
			if err := g.mint((*ids)[:1]); err != nil {
				return err
			}
			n = 1
		}
		*ids = (*ids)[n:]
	}
	return nil
}

// mint asks C for all of ids, without sleeping.
func (g *Generator) mint(ids []uint64) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.gen == nil {
		return ErrClosed
	}
	var cerr C.kz_error
	status := C.kz_mint(g.gen, (*C.kz_id)(unsafe.Pointer(&ids[0])), C.size_t(len(ids)), 0, &cerr)
	if status != C.KZ_OK {
		return goError(status, &cerr)
	}
	return nil
}

// Stats is what a generator did and where it stands.
type Stats struct {
	Leased, Fenced, Unfenced uint64 // IDs by kind
	SequenceExhausted        uint64 // milliseconds whose slots were used up while more were wanted
	ClockBackward            uint64 // steps of the clock backwards
	ClockBackwardMax         time.Duration
	Ahead                    time.Duration // how far the last ID is ahead of the clock
	Leases, LeasesAcquired   uint64
	LeasesReleased           uint64
	AcquireFailures          uint64
	ThroughputPerMs          uint64
	LeaseAge                 time.Duration
	Last                     uint64
	UnfencedNow              bool // IDs minted now promise nothing
}

// Stats returns the generator's counters.
func (g *Generator) Stats() (Stats, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.gen == nil {
		return Stats{}, ErrClosed
	}
	var s C.kz_stats
	C.kz_stats_init(&s)
	if status := C.kz_stats_get(g.gen, &s); status != C.KZ_OK {
		return Stats{}, &Error{Status: Status(status), Message: C.GoString(C.kz_status_text(status))}
	}
	ms := func(n C.int64_t) time.Duration { return time.Duration(n) * time.Millisecond }
	return Stats{
		Leased: uint64(s.ids_leased), Fenced: uint64(s.ids_fenced), Unfenced: uint64(s.ids_unfenced),
		SequenceExhausted: uint64(s.sequence_exhausted), ClockBackward: uint64(s.clock_backward),
		ClockBackwardMax: ms(s.clock_backward_max_ms), Ahead: ms(s.ahead_ms), Leases: uint64(s.leases),
		LeasesAcquired: uint64(s.leases_acquired), LeasesReleased: uint64(s.leases_released),
		AcquireFailures: uint64(s.acquire_failures), ThroughputPerMs: uint64(s.throughput_per_ms),
		LeaseAge: ms(s.lease_age_ms), Last: uint64(s.last), UnfencedNow: bool(s.unfenced),
	}, nil
}

// Layout is the layout of the IDs it mints.
func (g *Generator) Layout() (Layout, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.gen == nil {
		return Layout{}, ErrClosed
	}
	var l Layout
	C.kz_generator_layout(g.gen, &l.c)
	return l, nil
}

// Close gives back what the generator holds and ends it. Calls under way end first; later ones give ErrClosed. It may
// take as long as an exchange with the source. A second Close does nothing.
func (g *Generator) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gen != nil {
		C.kz_close(g.gen)
		g.gen = nil
		g.freeLog()
	}
	return nil
}

// abandon runs when nobody can use the generator any more; only then may its page go. Giving back what a forgotten one
// holds waits for a network, which must not hold up other finalizers.
func (g *Generator) abandon() {
	go func() {
		g.Close()
		g.free()
	}()
}

func (g *Generator) freeLog() {
	if g.log != 0 {
		g.log.Delete()
		g.log = 0
	}
}

//export kazahanaLog
func kazahanaLog(handle C.uintptr_t, level C.int, message *C.char) {
	cgo.Handle(handle).Value().(func(LogLevel, string))(LogLevel(level), C.GoString(message))
}
