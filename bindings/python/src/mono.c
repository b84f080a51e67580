/* The types Mono and MonoUUID: strictly increasing nanoseconds, and UUIDs of them. */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------------------------------------- nanoseconds */

typedef struct mono {
    PyObject base;
    kz_mono *mono;
} mono;

static PyObject *new_mono(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"last", NULL};
    long long last_ns = 0;
    kz_mono *made;
    kz_error err;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|L:Mono", names, &last_ns))
        return NULL;
    if (kz_mono_new(&made, last_ns, &err))
        return kzpy_raise(&err);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *op = allocate(type, 0);
    if (op)
        ((mono *)op)->mono = made;
    else
        kz_mono_free(made);
    return op;
}

static void free_mono(PyObject *op)
{
    kz_mono_free(((mono *)op)->mono);
    kzpy_free(op);
}

static PyObject *mono_iternext(PyObject *op)
{
    int64_t unix_ns;
    kz_status status = kz_mono_next(((mono *)op)->mono, &unix_ns);
    return status ? kzpy_fail(status, "%s", kz_status_text(status)) : PyLong_FromLongLong(unix_ns);
}

static PyObject *mono_next(PyObject *op, PyObject *unused)
{
    return mono_iternext(op);
}

static PyMethodDef mono_methods[] = {
    {"next", mono_next, METH_NOARGS,
     "next()\n--\n\nNanoseconds since 1970, larger than every value before, also when the clock stands or goes back."},
    {0},
};

static PyType_Slot mono_slots[] = {
    {Py_tp_doc, "Mono(last=0)\n--\n\nStrictly increasing nanoseconds, above `last`."},
    {Py_tp_new, new_mono},
    {Py_tp_dealloc, free_mono},
    {Py_tp_methods, mono_methods},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, mono_iternext},
    {0},
};

static PyType_Spec mono_spec = {
    .name = "kazahana._core.Mono",
    .basicsize = sizeof(mono),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = mono_slots,
};

/* ------------------------------------------------------------------------------------------------------- UUIDs */

/* The library does not notice a fork here. A preloaded server would mint twins in every worker, so this does. */
static _Atomic unsigned forks;

static void note_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

typedef struct monouuid {
    PyObject base;
    kz_monouuid *gen;
    unsigned forks; /* how many there had been */
} monouuid;

static PyObject *from_uuid(const kz_uuid *uuid)
{
    return PyBytes_FromStringAndSize((const char *)uuid->bytes, sizeof uuid->bytes);
}

static bool to_uuid(const char *bytes, Py_ssize_t length, kz_uuid *uuid)
{
    if (length != sizeof uuid->bytes) {
        kzpy_fail(KZ_INVALID, "%zd bytes are not a UUID: expected 16", length);
        return false;
    }
    memcpy(uuid->bytes, bytes, sizeof uuid->bytes);
    return true;
}

static PyObject *new_monouuid(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"node", "last", NULL};
    long long node;
    const char *bytes = NULL;
    Py_ssize_t length = 0;
    kz_uuid last;
    kz_monouuid *gen;
    kz_error err;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "L|z#:MonoUUID", names, &node, &bytes, &length))
        return NULL;
    if (bytes && !to_uuid(bytes, length, &last))
        return NULL;
    if (node < 1 || node > KZ_MONOUUID_NODE_MAX)
        return kzpy_fail(KZ_INVALID, "node %lld: expected 1 to %u", node, KZ_MONOUUID_NODE_MAX);
    if (kz_monouuid_new(&gen, (uint32_t)node, bytes ? &last : NULL, &err))
        return kzpy_raise(&err);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *op = allocate(type, 0);
    if (!op) {
        kz_monouuid_free(gen);
        return NULL;
    }
    ((monouuid *)op)->gen = gen;
    ((monouuid *)op)->forks = atomic_load(&forks);
    return op;
}

static void free_monouuid(PyObject *op)
{
    kz_monouuid_free(((monouuid *)op)->gen);
    kzpy_free(op);
}

static PyObject *next_bytes(PyObject *op, PyObject *unused)
{
    monouuid *self = (monouuid *)op;
    if (self->forks != atomic_load(&forks))
        return kzpy_fail(KZ_FORKED, "this MonoUUID was made by the parent process: make one here, with another node");
    kz_uuid uuid;
    kz_status status = kz_monouuid_next(self->gen, &uuid);
    return status ? kzpy_fail(status, "%s", kz_status_text(status)) : from_uuid(&uuid);
}

/* (node, unix_ns) */
static PyObject *uuid_parse(PyObject *type, PyObject *args)
{
    const char *bytes;
    Py_ssize_t length;
    kz_uuid uuid;
    uint32_t node;
    int64_t unix_ns;
    kz_error err;
    if (!PyArg_ParseTuple(args, "y#", &bytes, &length) || !to_uuid(bytes, length, &uuid))
        return NULL;
    if (kz_monouuid_parse(&uuid, &node, &unix_ns, &err))
        return kzpy_raise(&err);
    return Py_BuildValue("IL", node, (long long)unix_ns);
}

static PyObject *uuid_min(PyObject *type, PyObject *args)
{
    long long unix_ns;
    kz_uuid uuid;
    kz_error err;
    if (!PyArg_ParseTuple(args, "L", &unix_ns))
        return NULL;
    if (kz_monouuid_min(unix_ns, &uuid, &err))
        return kzpy_raise(&err);
    return from_uuid(&uuid);
}

static PyMethodDef uuid_methods[] = {
    {"next_bytes", next_bytes, METH_NOARGS, "next_bytes()\n--\n\nThe next UUID as 16 bytes."},
    {"_parse", uuid_parse, METH_VARARGS | METH_STATIC, NULL},
    {"_min", uuid_min, METH_VARARGS | METH_STATIC, NULL},
    {0},
};

static PyType_Slot uuid_slots[] = {
    {Py_tp_new, new_monouuid},
    {Py_tp_dealloc, free_monouuid},
    {Py_tp_methods, uuid_methods},
    {0},
};

static PyType_Spec uuid_spec = {
    .name = "kazahana._core.MonoUUID",
    .basicsize = sizeof(monouuid),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = uuid_slots,
};

int kzpy_init_mono(PyObject *module)
{
    static bool prepared;
    if (!prepared && pthread_atfork(NULL, NULL, note_fork)) {
        PyErr_NoMemory();
        return -1;
    }
    prepared = true;
    return kzpy_add_type(module, &mono_spec) || kzpy_add_type(module, &uuid_spec) ? -1 : 0;
}
