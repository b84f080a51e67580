/* The binding from the inside. The library's own header says what everything means.
 *
 * Limited API of Python 3.9: one binary for all later versions. It has no way from a type to its module's state, so
 * there is no state at all: what is needed from Python (the exceptions) is imported when it is needed. */
#ifndef KZPY_CORE_H
#define KZPY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <kazahana.h>

/* A sleep that a signal or close() should end is made of pieces of this length. */
#define KZPY_SLICE_MS 100

/* Raises the exception of kazahana.errors that stands for err->status; returns NULL. */
PyObject *kzpy_raise(const kz_error *err);
/* The same with a message of the binding's own. */
PyObject *kzpy_fail(kz_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A str of the library's words; NULL and an exception. What they name may be cut off within a character. */
PyObject *kzpy_message(const char *text);
/* An ID from an int; false and an exception if it is none. */
bool kzpy_id(PyObject *number, kz_id *id);
/* Makes a type and puts it into the module under its own name. */
int kzpy_add_type(PyObject *module, PyType_Spec *spec);
/* Frees an instance of a type that was made from a spec, after its own parts. */
void kzpy_free(PyObject *self);

/* ------------------------------------------------------------------------------------------------------ logging */

/* Where the library's log lines go. They come from any thread, also from one that Python has never seen. */
typedef struct kzpy_sink {
    PyObject *callable; /* or NULL. Looked at and changed with the GIL only */
    _Atomic bool silent;
} kzpy_sink;

/* For a function of a level and a line; NULL and an exception. kzpy_open takes it over. */
kzpy_sink *kzpy_sink_new(PyObject *callable);
/* A kz_log_fn; `ctx` is a sink. */
void kzpy_log(void *ctx, kz_log_level level, const char *message);
/* No log line of any generator reaches Python from here on. */
void kzpy_silence(void);

/* ------------------------------------------------------------------------------------------------------- opening */

/* kz_open, without the GIL, and so that a signal's handler can end the wait for the first lease: NULL then, with the
 * handler's exception. Takes the sink over: it belongs to the generator, or is gone if there is none. */
kz_generator *kzpy_open(const char *url, const kz_options *options, kzpy_sink *sink);
/* kz_close without the GIL, and frees the sink. Called by the generator's own log function it closes behind its back.
 */
void kzpy_close(kz_generator *gen, kzpy_sink *sink);

/* An instance of `type`, which is the type Layout or made from it. */
PyObject *kzpy_layout_new(PyObject *type, const kz_layout *layout);

/* The parts of the module. */
int kzpy_init_generator(PyObject *module);
int kzpy_init_layout(PyObject *module);
int kzpy_init_external(PyObject *module);
int kzpy_init_mono(PyObject *module);

#endif
