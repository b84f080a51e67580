#include "glue.h"
#include "_cgo_export.h"

static void log_line(void *ctx, kz_log_level level, const char *message)
{
    kazahanaLog((uintptr_t)ctx, (int)level, (char *)(uintptr_t)message);
}

kz_status kz_go_open(kz_generator **gen, const char *url, kz_options *options, uintptr_t log, kz_error *err)
{
    if (log) {
        options->log = log_line;
        options->log_ctx = (void *)log;
    }
    return kz_open(gen, url, options, err);
}

static kz_status open_source(void **source, const char *url, const kz_source_options *options, kz_source_facts *facts,
                             kz_error *err)
{
    uintptr_t handle = 0;
    int status = kazahanaHTTPOpen((char *)(uintptr_t)url, options->timeout_ms, &handle, err);
    if (status)
        return (kz_status)status;
    *source = (void *)handle;
    if (options->layout)
        facts->layout = *options->layout;
    return KZ_OK;
}

static kz_status acquire(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    return (kz_status)kazahanaHTTPAcquire((uintptr_t)source, (kz_acquire *)(uintptr_t)request, grant, err);
}

static kz_status release(void *source, const kz_release *release, kz_error *err)
{
    return (kz_status)kazahanaHTTPRelease((uintptr_t)source, (kz_release *)(uintptr_t)release, err);
}

static kz_status now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    return (kz_status)kazahanaHTTPNow((uintptr_t)source, source_ms, generation, err);
}

static void close_source(void *source, bool forked)
{
    (void)forked; /* a Go program does not go on in a forked child */
    kazahanaHTTPClose((uintptr_t)source);
}

kz_status kz_go_register_http(kz_error *err)
{
    static const char *const schemes[] = {"http", "https"};
    static kz_source_ops ops[2];
    for (int i = 0; i < 2; i++) {
        ops[i] = (kz_source_ops){.struct_size = sizeof ops[i],
                                 .scheme = schemes[i],
                                 .open = open_source,
                                 .acquire = acquire,
                                 .release = release,
                                 .now = now,
                                 .close = close_source};
        kz_status status = kz_source_register(&ops[i], err);
        if (status)
            return status;
    }
    return KZ_OK;
}
