/* The type Generator: minting.
 *
 * kz_try_next never sleeps, so it is called with the GIL held: that is cheaper than giving it up. Only when there is no
 * ID without waiting the GIL is given up and the library sleeps, a slice at a time, so that a signal's handler runs in
 * between and close() from another thread is seen. */
#include "core.h"

#include <time.h>
#include <unistd.h>

/* A batch is minted in pieces of up to this many; fewer than the smaller number are not worth giving the GIL up. */
enum { BULK_MIN = 32, BULK_MAX = 1024 };

typedef struct generator {
    PyObject base;
    kz_generator *gen; /* NULL before it is opened and once it is closed */
    kzpy_sink *sink;
    int64_t timeout_ms;
    unsigned busy;  /* calls on `gen` that are under way without the GIL ... */
    pid_t busy_pid; /* ... in this process: a fork leaves them behind */
} generator;

static int64_t boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static PyObject *fail_closed(void)
{
    return kzpy_fail(KZ_INVALID, "this generator is closed");
}

/* ------------------------------------------------------------------------------------------------------ waiting */

static void forget_parents_calls(generator *self)
{
    if (self->busy_pid != getpid())
        self->busy = 0;
    self->busy_pid = getpid();
}

/* kz_mint without the GIL. What the library leaves of a slice (it refuses a wait that is longer than that at once) is
 * slept through here, unless it is the last one. */
static kz_status mint_in_a_slice(generator *self, kz_id *ids, size_t count, int64_t slice_ms, bool last, kz_error *err)
{
    kz_generator *gen = self->gen;
    forget_parents_calls(self);
    self->busy++;
    PyThreadState *gil = PyEval_SaveThread();
    int64_t end_ms = boot_ms() + slice_ms;
    kz_status status = kz_mint(gen, ids, count, slice_ms, err);
    int64_t left_ms = end_ms - boot_ms();
    if (status && !last && left_ms > 0)
        usleep((useconds_t)(left_ms * 1000));
    PyEval_RestoreThread(gil);
    self->busy--;
    return status;
}

/* One try of up to a slice; left_ms negative: no limit. KZ_AGAIN: it failed for want of time only. */
static kz_status try_a_slice(generator *self, kz_id *id, int64_t left_ms, kz_error *err)
{
    /* Asked without any time, the library tells what a wait may cure from what it cannot. */
    kz_status status = kz_mint(self->gen, id, 1, 0, err);
    if (left_ms == 0 || (status != KZ_AGAIN && status != KZ_LEASE_ACQUISITION))
        return status;
    bool last = left_ms > 0 && left_ms <= KZPY_SLICE_MS;
    status = mint_in_a_slice(self, id, 1, last ? left_ms : KZPY_SLICE_MS, last, err);
    if (last || status == KZ_OK)
        return status;
    /* Behind by more than all the time there is: it refuses that at once, and names that time as the limit. */
    if (status == KZ_CLOCK_BACKWARD && left_ms > 0 && err->backward_ms > left_ms)
        return mint_in_a_slice(self, id, 1, left_ms, true, err);
    bool too_short = status == KZ_TIMEOUT || status == KZ_LEASE_ACQUISITION || status == KZ_CLOCK_BACKWARD;
    return too_short ? KZ_AGAIN : status;
}

/* What is left of timeout_ms for a call that began then; negative: no limit. */
static int64_t time_left_ms(const generator *self, int64_t began_ms)
{
    if (self->timeout_ms <= 0)
        return self->timeout_ms;
    int64_t passed_ms = boot_ms() - began_ms;
    return passed_ms < self->timeout_ms ? self->timeout_ms - passed_ms : 0;
}

/* One ID for a call that began then; false and an exception. */
static bool wait_for_id(generator *self, kz_id *id, int64_t began_ms)
{
    kz_error err;
    kz_status status;
    int64_t left_ms;
    do {
        if (PyErr_CheckSignals())
            return false;
        if (!self->gen) {
            fail_closed();
            return false;
        }
        left_ms = time_left_ms(self, began_ms);
        status = try_a_slice(self, id, left_ms, &err);
    } while (status == KZ_AGAIN && left_ms != 0);
    if (status == KZ_OK)
        return true;
    if (self->timeout_ms > 0 && (status == KZ_AGAIN || status == KZ_TIMEOUT))
        kzpy_fail(KZ_TIMEOUT, "no ID within %lld ms", (long long)self->timeout_ms);
    else
        kzpy_raise(&err);
    return false;
}

/* ------------------------------------------------------------------------------------------------------ minting */

static PyObject *next_id(PyObject *op)
{
    generator *self = (generator *)op;
    kz_id id;
    if (self->gen && kz_try_next(self->gen, &id) == KZ_OK)
        return PyLong_FromUnsignedLongLong(id);
    return wait_for_id(self, &id, boot_ms()) ? PyLong_FromUnsignedLongLong(id) : NULL;
}

static PyObject *next_id_method(PyObject *op, PyObject *unused)
{
    return next_id(op);
}

static PyObject *try_next_id(PyObject *op, PyObject *unused)
{
    generator *self = (generator *)op;
    kz_id id;
    if (!self->gen)
        return fail_closed();
    if (kz_try_next(self->gen, &id) == KZ_OK)
        return PyLong_FromUnsignedLongLong(id);
    kz_error err;
    kz_status status = kz_mint(self->gen, &id, 1, 0, &err);
    if (status == KZ_OK)
        return PyLong_FromUnsignedLongLong(id);
    if (status != KZ_AGAIN)
        return kzpy_raise(&err);
    Py_RETURN_NONE;
}

/* How many IDs to ask for at once: no more than a millisecond has, so that a slice is plenty of time. */
static size_t bulk_of(const generator *self)
{
    kz_layout layout;
    kz_generator_layout(self->gen, &layout);
    return layout.seq_bits < 10 ? (size_t)1 << layout.seq_bits : BULK_MAX;
}

/* Up to `want` IDs, or 0 and an exception. Many at once if that takes no more than a slice. If it does, those taken
 * until then are lost, so it goes on with a single one, which has all the time that is left. */
static size_t take(generator *self, kz_id *ids, size_t want, int64_t began_ms)
{
    int64_t left_ms = time_left_ms(self, began_ms);
    if (want >= BULK_MIN && left_ms != 0) {
        kz_error err;
        if (PyErr_CheckSignals())
            return 0;
        int64_t slice_ms = left_ms > 0 && left_ms < KZPY_SLICE_MS ? left_ms : KZPY_SLICE_MS;
        if (self->gen && mint_in_a_slice(self, ids, want, slice_ms, true, &err) == KZ_OK)
            return want;
    }
    if (self->gen && kz_try_next(self->gen, ids) == KZ_OK)
        return 1;
    return wait_for_id(self, ids, began_ms) ? 1 : 0;
}

static PyObject *next_ids(PyObject *op, PyObject *number)
{
    generator *self = (generator *)op;
    Py_ssize_t count = PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (count < 0)
        return kzpy_fail(KZ_INVALID, "%zd IDs cannot be had: expected 0 or more", count);
    if (!self->gen)
        return fail_closed();
    kz_id ids[BULK_MAX];
    size_t bulk = bulk_of(self);
    int64_t began_ms = boot_ms();
    PyObject *list = PyList_New(count);
    for (Py_ssize_t done = 0; list && done < count;) {
        size_t want = (size_t)(count - done) < bulk ? (size_t)(count - done) : bulk;
        size_t got = take(self, ids, want, began_ms);
        if (!got)
            Py_CLEAR(list);
        for (size_t i = 0; list && i < got; i++) {
            PyObject *id = PyLong_FromUnsignedLongLong(ids[i]);
            if (id)
                PyList_SetItem(list, done++, id);
            else
                Py_CLEAR(list);
        }
    }
    return list;
}

/* --------------------------------------------------------------------------------------------- opening, closing */

static PyObject *fail_open(void)
{
    return kzpy_fail(KZ_INVALID, "this generator is open already");
}

static PyObject *open_it(PyObject *op, PyObject *args)
{
    generator *self = (generator *)op;
    kz_options o;
    kz_options_init(&o);
    const char *url;
    PyObject *log;
    int fallback, backward, clock, seq_start;
    long long max_backward_ms, max_ahead_ms, timeout_ms, retry_initial_ms, retry_max_ms, least, most;
    if (!PyArg_ParseTuple(args, "zzzzOiiiiLLLLLdLL:open", &url, &o.layout, &o.service, &o.meta, &log, &fallback,
                          &backward, &clock, &seq_start, &max_backward_ms, &max_ahead_ms, &timeout_ms, &least, &most,
                          &o.renew_at, &retry_initial_ms, &retry_max_ms))
        return NULL;
    if (self->gen)
        return fail_open();
    if (least < 0 || least > UINT32_MAX || most < 0 || most > UINT32_MAX)
        return kzpy_fail(KZ_INVALID, "throughput %lld to %lld IDs a ms: expected numbers below 2**32", least, most);
    o.fallback = (kz_fallback)fallback;
    o.backward = (kz_backward)backward;
    o.clock = (kz_clock_kind)clock;
    o.seq_start = (kz_seq_start)seq_start;
    o.max_backward_ms = max_backward_ms;
    o.max_ahead_ms = max_ahead_ms;
    o.timeout_ms = timeout_ms;
    o.throughput_min_per_ms = (uint32_t)least;
    o.throughput_max_per_ms = (uint32_t)most;
    o.retry_initial_ms = retry_initial_ms;
    o.retry_max_ms = retry_max_ms;
    kzpy_sink *sink = NULL;
    if (log != Py_None) {
        sink = kzpy_sink_new(log);
        if (!sink)
            return NULL;
        o.log = kzpy_log;
        o.log_ctx = sink;
    }
    kz_generator *gen = kzpy_open(url, &o, sink);
    if (!gen)
        return NULL;
    if (self->gen) { /* by another thread, or by the log function, meanwhile */
        kzpy_close(gen, sink);
        return fail_open();
    }
    self->gen = gen;
    self->sink = sink;
    self->timeout_ms = timeout_ms;
    Py_RETURN_NONE;
}

static PyObject *close_it(PyObject *op, PyObject *unused)
{
    generator *self = (generator *)op;
    if (!self->gen)
        Py_RETURN_NONE;
    /* From here on no call begins, and those that sleep see it after their slice. */
    kz_generator *gen = self->gen;
    kzpy_sink *sink = self->sink;
    self->gen = NULL;
    self->sink = NULL;
    forget_parents_calls(self);
    while (self->busy) {
        PyThreadState *gil = PyEval_SaveThread();
        usleep(1000);
        PyEval_RestoreThread(gil);
    }
    kzpy_close(gen, sink);
    Py_RETURN_NONE;
}

static void deallocate(PyObject *op)
{
    generator *self = (generator *)op;
    PyObject_GC_UnTrack(op);
    kz_generator *gen = self->gen;
    self->gen = NULL;
    if (gen)
        kzpy_close(gen, self->sink);
    kzpy_free(op);
}

/* A log function may know its generator. */
static int traverse(PyObject *op, visitproc visit, void *arg)
{
    generator *self = (generator *)op;
    Py_VISIT(Py_TYPE(op));
    if (self->sink)
        Py_VISIT(self->sink->callable);
    return 0;
}

static int clear(PyObject *op)
{
    generator *self = (generator *)op;
    if (self->sink)
        Py_CLEAR(self->sink->callable);
    return 0;
}

/* --------------------------------------------------------------------------------------------------- looking at it */

static PyObject *is_closed(PyObject *op, void *unused)
{
    return PyBool_FromLong(!((generator *)op)->gen);
}

/* Every number of kz_stats, in its order. */
static PyObject *stats(PyObject *op, PyObject *unused)
{
    generator *self = (generator *)op;
    if (!self->gen)
        return fail_closed();
    kz_stats s;
    kz_stats_init(&s);
    kz_status status = kz_stats_get(self->gen, &s);
    if (status)
        return kzpy_fail(status, "%s", kz_status_text(status));
    return Py_BuildValue("KKKKKLLKKKKKKKLKLNN", s.ids_leased, s.ids_fenced, s.ids_unfenced, s.sequence_exhausted,
                         s.clock_backward, s.clock_backward_max_ms, s.ahead_ms, s.sleeps, s.leases, s.throughput_per_ms,
                         s.leases_acquired, s.leases_released, s.acquire_failures, s.acquire_failures_now,
                         s.lease_age_ms, s.last, s.window_end_unix_ms, PyBool_FromLong(s.unfenced),
                         PyBool_FromLong(s.contended));
}

static PyObject *layout_as(PyObject *op, PyObject *type)
{
    generator *self = (generator *)op;
    if (!self->gen)
        return fail_closed();
    kz_layout layout;
    kz_generator_layout(self->gen, &layout);
    return kzpy_layout_new(type, &layout);
}

/* What kz_options_init says, under the names of kz_options. */
static PyObject *defaults(PyObject *type, PyObject *unused)
{
    kz_options o;
    kz_options_init(&o);
    return Py_BuildValue("{sssisisisisLsLsLsIsIsdsLsL}", "service", o.service, "fallback", (int)o.fallback, "backward",
                         (int)o.backward, "clock", (int)o.clock, "seq_start", (int)o.seq_start, "max_backward_ms",
                         (long long)o.max_backward_ms, "max_ahead_ms", (long long)o.max_ahead_ms, "timeout_ms",
                         (long long)o.timeout_ms, "throughput_min_per_ms", o.throughput_min_per_ms,
                         "throughput_max_per_ms", o.throughput_max_per_ms, "renew_at", o.renew_at, "retry_initial_ms",
                         (long long)o.retry_initial_ms, "retry_max_ms", (long long)o.retry_max_ms);
}

static PyMethodDef methods[] = {
    {"next_id", next_id_method, METH_NOARGS,
     "next_id()\n--\n\nThe next ID: larger than every one before. Waits if it has to, up to timeout_ms."},
    {"try_next_id", try_next_id, METH_NOARGS,
     "try_next_id()\n--\n\nThe next ID, or None if there is none without waiting. Never sleeps."},
    {"next_ids", next_ids, METH_O, "next_ids(count, /)\n--\n\nA list of IDs in increasing order."},
    {"close", close_it, METH_NOARGS,
     "close()\n--\n\nGives back what the generator holds. Calls that wait in other threads fail. May be called again."},
    {"_open", open_it, METH_VARARGS, NULL},
    {"_stats", stats, METH_NOARGS, NULL},
    {"_layout", layout_as, METH_O, NULL},
    {"_defaults", defaults, METH_NOARGS | METH_STATIC, NULL},
    {0},
};

static PyGetSetDef properties[] = {
    {"closed", is_closed, NULL, "Has it been closed?", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A generator of libkazahana."},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, next_id},
    {0},
};

static PyType_Spec spec = {
    .name = "kazahana._core.Generator",
    .basicsize = sizeof(generator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int kzpy_init_generator(PyObject *module)
{
    return kzpy_add_type(module, &spec);
}
