//go:build cgo

package kazahana

// #include "glue.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"kazahana/internal/ticks"
)

// page is C's kz_page, the words on which IDs are claimed; the header says what each promises. A call into C costs
// more than the claim, so Go makes it and asks C when the page gives nothing: once a millisecond, when a run is used
// up, and for every failure.
type page struct {
	deadline, span, hi atomic.Uint64
	_                  [13]uint64
	next               atomic.Uint64
}

// Its fields lie where C has them.
var _ = [1]struct{}{}[unsafe.Sizeof(page{})-unsafe.Sizeof(C.kz_page{})]
var _ = [1]struct{}{}[unsafe.Offsetof(page{}.next)-unsafe.Offsetof(C.kz_page{}.next)]
var _ = [1]struct{}{}[unsafe.Offsetof(page{}.hi)-unsafe.Offsetof(C.kz_page{}.hi)]

// claimMax is how many points one add may claim.
const claimMax = 65536

// share returns the page, nil where its deadline cannot be compared with this processor's counter.
func share(gen *C.kz_generator) (p *page, free func()) {
	if !ticks.Known {
		return nil, func() {}
	}
	var cpuTicks C.bool
	cpage := C.kz_share(gen, &cpuTicks)
	free = func() { C.kz_page_free(cpage) }
	if !bool(cpuTicks) {
		return nil, free
	}
	return (*page)(unsafe.Pointer(cpage)), free
}

// open says whether the page's millisecond is not over.
func (p *page) open() bool { return p.deadline.Load()-ticks.Now()-1 < p.span.Load() }

// claim returns an ID, or 0.
func (g *Generator) claim() uint64 {
	p := g.page
	if p == nil || !p.open() {
		return 0
	}
	hi := p.hi.Load() // before the add, never after
	id := p.next.Add(1) - 1
	runtime.KeepAlive(g) // the page is freed with the generator
	if id < hi {
		return id
	}
	return 0
}

// claimRun fills the beginning of ids from one run, and returns how many.
func (g *Generator) claimRun(ids []uint64) int {
	p := g.page
	if p == nil || !p.open() {
		return 0
	}
	want := uint64(len(ids))
	if want > claimMax {
		want = claimMax
	}
	hi := p.hi.Load()
	first := p.next.Add(want) - want
	runtime.KeepAlive(g)
	if first >= hi {
		return 0
	}
	if hi-first < want {
		want = hi - first
	}
	for i := range ids[:want] {
		ids[i] = first + uint64(i)
	}
	return int(want)
}
