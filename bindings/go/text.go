//go:build cgo

package kazahana

// #include <stdlib.h>
// #include "glue.h"
import "C"

import "unsafe"

// Form is a way to write an ID.
type Form int

// The forms.
const (
	Decimal   Form = 0
	Hex       Form = 1
	Base32    Form = 2 // 13 characters, Crockford, as TSIDs are written
	Base62    Form = 3 // 11 characters
	Base64URL Form = 4 // 11 characters
)

func free(text *C.char) { C.free(unsafe.Pointer(text)) }

// Format writes an ID; an unknown form gives an empty text.
func Format(id uint64, form Form) string {
	var text [C.KZ_TEXT_SIZE]C.char
	n := C.kz_text(C.kz_id(id), C.kz_form(form), &text[0])
	return C.GoStringN(&text[0], C.int(n))
}

// Parse reads a text whole; the error names the character or the length at fault.
func Parse(text string, form Form) (uint64, error) {
	var id C.kz_id
	var cerr C.kz_error
	ctext := C.CString(text)
	defer free(ctext)
	if status := C.kz_text_parse(ctext, C.kz_form(form), &id, &cerr); status != C.KZ_OK {
		return 0, goError(status, &cerr)
	}
	return uint64(id), nil
}
