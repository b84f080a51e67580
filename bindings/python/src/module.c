/* The module kazahana._core: errors, texts and bytes, and what all its files share. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>

/* ------------------------------------------------------------------------------------------------------- errors */

PyObject *kzpy_message(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *kzpy_raise(const kz_error *err)
{
    PyObject *errors = PyImport_ImportModule("kazahana.errors");
    if (!errors)
        return NULL;
    PyObject *error =
        PyObject_CallMethod(errors, "from_library", "sNsLL", kz_status_name(err->status), kzpy_message(err->message),
                            kz_status_name(err->cause), (long long)err->backward_ms, (long long)err->limit_ms);
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_DECREF(errors);
    return NULL;
}

PyObject *kzpy_fail(kz_status status, const char *format, ...)
{
    kz_error err = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(err.message, sizeof err.message, format, args);
    va_end(args);
    return kzpy_raise(&err);
}

bool kzpy_id(PyObject *number, kz_id *id)
{
    *id = PyLong_AsUnsignedLongLong(number);
    if (*id != (kz_id)-1 || !PyErr_Occurred())
        return true;
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        PyObject *text = PyObject_Repr(number);
        PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
        if (bytes)
            kzpy_fail(KZ_INVALID,
                      "%.64s is not an ID: expected 0 to 2**64 - 1 (a negative number from a signed column: add 2**64)",
                      PyBytes_AsString(bytes));
        Py_XDECREF(bytes);
        Py_XDECREF(text);
    }
    return false;
}

/* -------------------------------------------------------------------------------------------------------- types */

int kzpy_add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type)
        return -1;
    int failed = PyModule_AddObject(module, strrchr(spec->name, '.') + 1, type);
    if (failed)
        Py_DECREF(type);
    return failed;
}

void kzpy_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ----------------------------------------------------------------------------------------------- texts and bytes */

static PyObject *to_text(PyObject *module, PyObject *args)
{
    PyObject *number;
    int form;
    kz_id id;
    char text[KZ_TEXT_SIZE];
    if (!PyArg_ParseTuple(args, "Oi:to_text", &number, &form) || !kzpy_id(number, &id))
        return NULL;
    kz_text(id, (kz_form)form, text);
    return PyUnicode_FromString(text);
}

static PyObject *from_text(PyObject *module, PyObject *args)
{
    const char *text;
    int form;
    kz_id id;
    kz_error err;
    if (!PyArg_ParseTuple(args, "si:from_text", &text, &form))
        return NULL;
    if (kz_text_parse(text, (kz_form)form, &id, &err))
        return kzpy_raise(&err);
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *to_bytes(PyObject *module, PyObject *number)
{
    kz_id id;
    uint8_t bytes[8];
    if (!kzpy_id(number, &id))
        return NULL;
    kz_id_to_bytes(id, bytes);
    return PyBytes_FromStringAndSize((const char *)bytes, sizeof bytes);
}

static PyObject *from_bytes(PyObject *module, PyObject *args)
{
    const char *bytes;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y#:from_bytes", &bytes, &length))
        return NULL;
    if (length != 8)
        return kzpy_fail(KZ_INVALID, "%zd bytes are not an ID: expected 8", length);
    return PyLong_FromUnsignedLongLong(kz_id_from_bytes((const uint8_t *)bytes));
}

static PyObject *time_parse(PyObject *module, PyObject *args)
{
    const char *text;
    int64_t unix_ms;
    kz_error err;
    if (!PyArg_ParseTuple(args, "s:time_parse", &text))
        return NULL;
    if (kz_time_parse(text, &unix_ms, &err))
        return kzpy_raise(&err);
    return PyLong_FromLongLong(unix_ms);
}

static PyObject *silence(PyObject *module, PyObject *unused)
{
    kzpy_silence();
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------------------------------- module */

static PyMethodDef functions[] = {
    {"to_text", to_text, METH_VARARGS, "to_text(id, form) -> str"},
    {"from_text", from_text, METH_VARARGS, "from_text(text, form) -> int"},
    {"to_bytes", to_bytes, METH_O, "to_bytes(id) -> bytes: eight, big-endian, so that they sort like the number"},
    {"from_bytes", from_bytes, METH_VARARGS, "from_bytes(eight bytes) -> int"},
    {"time_parse", time_parse, METH_VARARGS, "time_parse(text) -> Unix milliseconds"},
    {"silence", silence, METH_NOARGS, "silence(): no log line reaches Python from here on"},
    {0},
};

/* ((name, number, text), ...): every status there is. */
static PyObject *statuses(void)
{
#define COUNT(name, number, text) +1
    PyObject *all = PyTuple_New(KZ_STATUS_MAP(COUNT));
    Py_ssize_t place = 0;
#define ADD(name, number, text)                                                                                        \
    if (all)                                                                                                           \
        PyTuple_SetItem(all, place++, Py_BuildValue("sis", kz_status_name(KZ_##name), number, text));
    KZ_STATUS_MAP(ADD)
#undef ADD
#undef COUNT
    return all;
}

static int add_constants(PyObject *module)
{
    PyObject *all = statuses();
    if (!all || PyModule_AddObject(module, "STATUSES", all)) {
        Py_XDECREF(all);
        return -1;
    }
    return PyModule_AddStringConstant(module, "VERSION", kz_version());
}

static int fill(PyObject *module)
{
    /* Log lines come from threads that Python does not know, and those can only find the main interpreter. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "kazahana works in the main interpreter only, not in a sub-interpreter");
        return -1;
    }
    if (add_constants(module) || kzpy_init_generator(module) || kzpy_init_layout(module) ||
        kzpy_init_external(module) || kzpy_init_mono(module))
        return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,  .m_name = "kazahana._core", .m_doc = "libkazahana as it is. Use the package kazahana.",
    .m_methods = functions, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
