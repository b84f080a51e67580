//go:build cgo

package kazahana

// The C core lies beside these files, a flat copy that the project's scripts/flat-core makes.

// #cgo CFLAGS: -std=gnu11 -O2 -D_GNU_SOURCE -DKZ_API= -DKZ_OWN_CRYPTO -DKZ_NO_TLS -Wno-unused-parameter
// #cgo LDFLAGS: -lpthread
// #cgo kazahana_sqlite CFLAGS: -DKZ_HAVE_SQLITE
// #cgo kazahana_sqlite LDFLAGS: -lsqlite3
// #cgo kazahana_redis CFLAGS: -DKZ_HAVE_REDIS
// #cgo kazahana_redis LDFLAGS: -lhiredis
// #include <stdlib.h>
// #include "glue.h"
import "C"

import (
	"time"
	"unsafe"
)

// Available says whether this build can open generators: it was made with cgo.
const Available = true

// goError turns what C filled in into an Error.
func goError(status C.kz_status, err *C.kz_error) error {
	e := &Error{Status: Status(status), Message: C.GoString(C.kz_go_message(err))}
	if Status(err.status) != e.Status || e.Message == "" {
		e.Message = C.GoString(C.kz_status_text(status))
		return e
	}
	e.Cause = Status(err.cause)
	e.Backward = time.Duration(err.backward_ms) * time.Millisecond
	e.Limit = time.Duration(err.limit_ms) * time.Millisecond
	e.Retry = time.Duration(err.retry_us) * time.Microsecond
	return e
}

// withText calls f with a C copy of s, NULL for an empty one.
func withText(s string, f func(*C.char)) {
	if s == "" {
		f(nil)
		return
	}
	text := C.CString(s)
	defer C.free(unsafe.Pointer(text))
	f(text)
}

func milliseconds(d time.Duration) C.int64_t {
	if d < 0 {
		return -1
	}
	return C.int64_t((d + time.Millisecond - 1) / time.Millisecond)
}
