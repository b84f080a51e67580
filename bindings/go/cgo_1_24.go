//go:build cgo && go1.24

package kazahana

// What C is given here it neither keeps nor calls back from, so it may stay on the stack.

// #cgo noescape kz_mint
// #cgo nocallback kz_mint
// #include "glue.h"
import "C"

var _ C.kz_status
