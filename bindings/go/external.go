//go:build cgo

package kazahana

// #include <stdlib.h>
// #include "glue.h"
import "C"

import "runtime"

// Keys turn IDs into external ones, 11 characters that hide order and time, and back. A nil *Keys is the public mixer,
// which hides nothing from somebody who knows it.
type Keys struct{ c *C.kz_external_keys }

// ParseKeys reads lines `N xtea|speck HEXSECRET`: the first key encodes, all decode.
func ParseKeys(text string) (*Keys, error) {
	k := new(Keys)
	var cerr C.kz_error
	ctext := C.CString(text)
	defer free(ctext)
	if status := C.kz_external_keys_parse(&k.c, ctext, C.size_t(len(text)), &cerr); status != C.KZ_OK {
		return nil, goError(status, &cerr)
	}
	runtime.SetFinalizer(k, func(k *Keys) { C.kz_external_keys_free(k.c) })
	return k, nil
}

// LoadKeys is ParseKeys from a file.
func LoadKeys(path string) (*Keys, error) {
	k := new(Keys)
	var cerr C.kz_error
	cpath := C.CString(path)
	defer free(cpath)
	if status := C.kz_external_keys_load(&k.c, cpath, &cerr); status != C.KZ_OK {
		return nil, goError(status, &cerr)
	}
	runtime.SetFinalizer(k, func(k *Keys) { C.kz_external_keys_free(k.c) })
	return k, nil
}

func (k *Keys) get() *C.kz_external_keys {
	if k == nil {
		return nil
	}
	return k.c
}

// External returns the external form of an ID.
func (k *Keys) External(id uint64) string {
	var text [C.KZ_EXTERNAL_SIZE]C.char
	C.kz_external_encode(k.get(), C.kz_id(id), &text[0])
	runtime.KeepAlive(k)
	return C.GoString(&text[0])
}

// Internal turns an external form back.
func (k *Keys) Internal(text string) (uint64, error) {
	var id C.kz_id
	var cerr C.kz_error
	ctext := C.CString(text)
	defer free(ctext)
	status := C.kz_external_decode(k.get(), ctext, &id, &cerr)
	runtime.KeepAlive(k)
	if status != C.KZ_OK {
		return 0, goError(status, &cerr)
	}
	return uint64(id), nil
}

// ExternalTyped is External with a type in front, such as user_: 1 to 16 of a-z0-9, beginning with a letter. With keys
// the type is part of the key.
func (k *Keys) ExternalTyped(kind string, id uint64) (string, error) {
	var text [C.KZ_EXTERNAL_TYPED_SIZE]C.char
	var cerr C.kz_error
	ckind := C.CString(kind)
	defer free(ckind)
	status := C.kz_external_encode_typed(k.get(), ckind, C.kz_id(id), &text[0], &cerr)
	runtime.KeepAlive(k)
	if status != C.KZ_OK {
		return "", goError(status, &cerr)
	}
	return C.GoString(&text[0]), nil
}

// InternalTyped turns ExternalTyped back. A text of another type, or none, is refused.
func (k *Keys) InternalTyped(kind, text string) (uint64, error) {
	var id C.kz_id
	var cerr C.kz_error
	ckind, ctext := C.CString(kind), C.CString(text)
	defer free(ckind)
	defer free(ctext)
	status := C.kz_external_decode_typed(k.get(), ckind, ctext, nil, 0, &id, &cerr)
	runtime.KeepAlive(k)
	if status != C.KZ_OK {
		return 0, goError(status, &cerr)
	}
	return uint64(id), nil
}
