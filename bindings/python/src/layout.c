/* The type Layout: how an ID's bits are divided, and what can be read from an ID by it. */
#include "core.h"

typedef struct layout {
    PyObject base;
    kz_layout layout;
} layout;

static const kz_layout *value_of(PyObject *op)
{
    return &((layout *)op)->layout;
}

PyObject *kzpy_layout_new(PyObject *type, const kz_layout *value)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    PyObject *op = allocate((PyTypeObject *)type, 0);
    if (op)
        ((layout *)op)->layout = *value;
    return op;
}

static PyObject *new_from_text(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"text", NULL};
    const char *text = "kazahana";
    kz_layout value;
    kz_error err;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s:Layout", names, &text))
        return NULL;
    if (kz_layout_parse(text, &value, &err))
        return kzpy_raise(&err);
    return kzpy_layout_new((PyObject *)type, &value);
}

static PyObject *preset_names(PyObject *type, PyObject *unused)
{
    PyObject *names = PyList_New(0);
    const kz_layout *preset;
    for (size_t i = 0; names && (preset = kz_layout_preset(i)); i++) {
        PyObject *name = PyUnicode_FromString(preset->name);
        if (!name || PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *as_text(PyObject *op)
{
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(value_of(op), text);
    return PyUnicode_FromString(text);
}

/* (unix_ms, node, seq, fallback) */
static PyObject *decode(PyObject *op, PyObject *number)
{
    kz_id id;
    kz_parts parts;
    kz_error err;
    if (!kzpy_id(number, &id))
        return NULL;
    if (kz_decode(value_of(op), id, &parts, &err))
        return kzpy_raise(&err);
    return Py_BuildValue("LIIO", (long long)parts.unix_ms, parts.node, parts.seq, parts.fallback ? Py_True : Py_False);
}

typedef kz_status bound(const kz_layout *, int64_t, kz_id *, kz_error *);

static PyObject *bound_of(PyObject *op, PyObject *args, bound *ask)
{
    long long unix_ms;
    kz_id id;
    kz_error err;
    if (!PyArg_ParseTuple(args, "L", &unix_ms))
        return NULL;
    if (ask(value_of(op), unix_ms, &id, &err))
        return kzpy_raise(&err);
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *min_id(PyObject *op, PyObject *args)
{
    return bound_of(op, args, kz_min_id);
}

static PyObject *max_id(PyObject *op, PyObject *args)
{
    return bound_of(op, args, kz_max_id);
}

/* Every value of kz_layout_facts, in its order; None for an instant that never comes. */
static PyObject *facts(PyObject *op, PyObject *unused)
{
    kz_layout_facts f;
    kz_layout_describe(value_of(op), &f);
    PyObject *negative = f.turns_negative ? PyLong_FromLongLong(f.negative_unix_ms) : Py_BuildValue("");
    return Py_BuildValue("IKKKLLON", f.reserved_bits, f.nodes, f.leasable_nodes, f.ids_per_step, f.first_unix_ms,
                         f.last_unix_ms, f.turns_negative ? Py_True : Py_False, negative);
}

/* (epoch_ms, unit_ms, time_bits, node_bits, seq_bits, has_fallback, node_lowest, decode_only, name) */
static PyObject *fields(PyObject *op, PyObject *unused)
{
    const kz_layout *l = value_of(op);
    return Py_BuildValue("LIIIIOOOs", (long long)l->epoch_ms, l->unit_ms, (unsigned)l->time_bits,
                         (unsigned)l->node_bits, (unsigned)l->seq_bits,
                         l->flags & KZ_LAYOUT_FALLBACK ? Py_True : Py_False,
                         l->flags & KZ_LAYOUT_NODE_LOWEST ? Py_True : Py_False,
                         l->flags & KZ_LAYOUT_DECODE_ONLY ? Py_True : Py_False, l->name);
}

static PyMethodDef methods[] = {
    {"_preset_names", preset_names, METH_NOARGS | METH_STATIC, NULL},
    {"_decode", decode, METH_O, NULL},
    {"_min_id", min_id, METH_VARARGS, NULL},
    {"_max_id", max_id, METH_VARARGS, NULL},
    {"_facts", facts, METH_NOARGS, NULL},
    {"_fields", fields, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Layout(text='kazahana')\n--\n\nHow an ID's bits are divided."},
    {Py_tp_new, new_from_text},
    {Py_tp_dealloc, kzpy_free},
    {Py_tp_methods, methods},
    {Py_tp_str, as_text},
    {0},
};

static PyType_Spec spec = {
    .name = "kazahana._core.Layout",
    .basicsize = sizeof(layout),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

int kzpy_init_layout(PyObject *module)
{
    return kzpy_add_type(module, &spec);
}
