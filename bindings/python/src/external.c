/* The type ExternalIds: 11 characters that hide order and time. */
#include "core.h"

typedef struct external {
    PyObject base;
    kz_external_keys *keys; /* NULL: the mixer */
} external;

static PyObject *new_external(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"key_file", "keys", NULL};
    PyObject *path = NULL;
    const char *text = NULL;
    Py_ssize_t length = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O&z#:ExternalIds", names, PyUnicode_FSConverter, &path, &text,
                                     &length))
        return NULL;
    kz_external_keys *keys = NULL;
    kz_error err;
    kz_status status = KZ_OK;
    if (path)
        status = kz_external_keys_load(&keys, PyBytes_AsString(path), &err);
    else if (text)
        status = kz_external_keys_parse(&keys, text, (size_t)length, &err);
    Py_XDECREF(path);
    if (status)
        return kzpy_raise(&err);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *op = allocate(type, 0);
    if (op)
        ((external *)op)->keys = keys;
    else
        kz_external_keys_free(keys);
    return op;
}

static void deallocate(PyObject *op)
{
    kz_external_keys_free(((external *)op)->keys);
    kzpy_free(op);
}

static PyObject *encode(PyObject *op, PyObject *number)
{
    kz_id id;
    char text[KZ_EXTERNAL_SIZE];
    if (!kzpy_id(number, &id))
        return NULL;
    kz_external_encode(((external *)op)->keys, id, text);
    return PyUnicode_FromString(text);
}

static PyObject *decode(PyObject *op, PyObject *args)
{
    const char *text;
    kz_id id;
    kz_error err;
    if (!PyArg_ParseTuple(args, "s:decode", &text))
        return NULL;
    if (kz_external_decode(((external *)op)->keys, text, &id, &err))
        return kzpy_raise(&err);
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *encode_typed(PyObject *op, PyObject *args)
{
    const char *type;
    PyObject *number;
    kz_id id;
    kz_error err;
    char text[KZ_EXTERNAL_TYPED_SIZE];
    if (!PyArg_ParseTuple(args, "sO:encode_typed", &type, &number) || !kzpy_id(number, &id))
        return NULL;
    if (kz_external_encode_typed(((external *)op)->keys, type, id, text, &err))
        return kzpy_raise(&err);
    return PyUnicode_FromString(text);
}

static PyObject *decode_typed(PyObject *op, PyObject *args)
{
    const char *type, *text, *layout_text = "kazahana";
    kz_layout layout;
    kz_id id;
    kz_error err;
    if (!PyArg_ParseTuple(args, "ss|s:decode_typed", &type, &text, &layout_text))
        return NULL;
    if (kz_layout_parse(layout_text, &layout, &err) ||
        kz_external_decode_typed(((external *)op)->keys, type, text, &layout, 0, &id, &err))
        return kzpy_raise(&err);
    return PyLong_FromUnsignedLongLong(id);
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_O, "encode(id, /)\n--\n\nThe ID as 11 characters of base64url."},
    {"decode", decode, METH_VARARGS, "decode(text, /)\n--\n\nThe ID that such a text stands for."},
    {"encode_typed", encode_typed, METH_VARARGS,
     "encode_typed(type, id, /)\n--\n\nThe same with the type and _ in front; with keys the type is part of the key."},
    {"decode_typed", decode_typed, METH_VARARGS,
     "decode_typed(type, text, layout='kazahana', /)\n--\n\nThe ID of a text of that type. InvalidError: it has "
     "another "
     "type, or\nwhat comes out is no ID of the layout, or one of the future."},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_external},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {0},
};

static PyType_Spec spec = {
    .name = "kazahana._core.ExternalIds",
    .basicsize = sizeof(external),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

int kzpy_init_external(PyObject *module)
{
    return kzpy_add_type(module, &spec);
}
