//go:build cgo

package kazahana

// #include <string.h>
// #include "glue.h"
import "C"

import (
	"encoding/hex"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

var (
	registerOnce sync.Once
	registerErr  error
)

// registerSources makes http: and https: known to C, once.
func registerSources() error {
	registerOnce.Do(func() {
		var cerr C.kz_error
		if status := C.kz_go_register_http(&cerr); status != C.KZ_OK {
			registerErr = goError(status, &cerr)
		}
	})
	return registerErr
}

// fail fills in C's error.
func fail(e *Error, err *C.kz_error) C.int {
	if err != nil {
		*err = C.kz_error{status: C.kz_status(e.Status)}
		text := []byte(e.Message)
		if len(text) > C.KZ_MESSAGE_SIZE-1 {
			text = text[:C.KZ_MESSAGE_SIZE-1]
		}
		for i, b := range text {
			err.message[i] = C.char(b)
		}
	}
	return C.int(e.Status)
}

func server(handle C.uintptr_t) *leaseServer { return cgo.Handle(handle).Value().(*leaseServer) }

func (s *leaseServer) serviceFor(asked *C.char) string {
	if s.service != "" {
		return s.service
	}
	if asked == nil || *asked == 0 {
		return "default"
	}
	return C.GoString(asked)
}

//export kazahanaHTTPOpen
func kazahanaHTTPOpen(url *C.char, timeoutMs C.int64_t, handle *C.uintptr_t, err *C.kz_error) C.int {
	s, e := newLeaseServer(C.GoString(url), time.Duration(timeoutMs)*time.Millisecond)
	if e != nil {
		return fail(e, err)
	}
	*handle = C.uintptr_t(cgo.NewHandle(s))
	return C.KZ_OK
}

//export kazahanaHTTPAcquire
func kazahanaHTTPAcquire(handle C.uintptr_t, request *C.kz_acquire, grant *C.kz_grant, err *C.kz_error) C.int {
	s := server(handle)
	id := C.GoBytes(unsafe.Pointer(&request.request_id[0]), C.KZ_REQUEST_ID_SIZE)
	text := ""
	for _, b := range id {
		if b != 0 {
			text = hex.EncodeToString(id)
			break
		}
	}
	holder := ""
	if request.holder != nil {
		holder = C.GoString(request.holder)
	}
	answer, e := s.acquire(s.serviceFor(request.service), holder, text, uint32(request.throughput_per_ms))
	if e != nil {
		return fail(e, err)
	}
	*grant = C.kz_grant{source_ms: C.int64_t(*answer.ServerTime), count: C.size_t(len(answer.Leases))}
	if answer.Generation != nil {
		grant.generation = C.uint64_t(*answer.Generation)
	}
	for i := range answer.Leases {
		l := &answer.Leases[i]
		c := &grant.leases[i]
		c.created_ms, c.expired_ms = C.int64_t(*l.Created), C.int64_t(*l.Expired)
		c.fallback_created_ms, c.fallback_expired_ms = C.int64_t(*l.FallbackCreated), C.int64_t(*l.FallbackExpired)
		c.epoch_ms, c.id = C.int64_t(*l.CustomEpoch), C.uint32_t(*l.ID)
		c.reserved_bits, c.time_bits = C.uint8_t(*l.BitReserve), C.uint8_t(*l.BitTs)
		c.node_bits, c.seq_bits = C.uint8_t(*l.BitID), C.uint8_t(*l.BitSeq)
		for k := 0; k < len(l.Secret); k++ {
			c.secret[k] = C.char(l.Secret[k])
		}
	}
	return C.KZ_OK
}

//export kazahanaHTTPRelease
func kazahanaHTTPRelease(handle C.uintptr_t, release *C.kz_release, err *C.kz_error) C.int {
	s := server(handle)
	if e := s.release(s.serviceFor(release.service), uint32(release.id), int64(release.timestamp_ms),
		C.GoString(release.signature)); e != nil {
		return fail(e, err)
	}
	return C.KZ_OK
}

//export kazahanaHTTPNow
func kazahanaHTTPNow(handle C.uintptr_t, sourceMs *C.int64_t, generation *C.uint64_t, err *C.kz_error) C.int {
	ms, number, e := server(handle).now()
	if e != nil {
		return fail(e, err)
	}
	*sourceMs, *generation = C.int64_t(ms), C.uint64_t(number)
	return C.KZ_OK
}

//export kazahanaHTTPClose
func kazahanaHTTPClose(handle C.uintptr_t) {
	server(handle).client.CloseIdleConnections()
	cgo.Handle(handle).Delete()
}
