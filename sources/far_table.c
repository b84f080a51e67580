/* The driver of far stores: from the one flow of lease tables to four functions, by way of core/part. */
#include "sources/far_table.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

kz_status kz__far_init(kz__far *f, const kz__far_store *far, const kz__table_store *store, const char *name,
                       const kz__url *url, const kz_source_options *options, const char *const *more, kz_error *err)
{
    f->far = far;
    return kz__table_source_init(&f->base, store, name, url, options, more, err);
}

void kz__far_free(kz__far *f)
{
    for (size_t i = 0; i < f->room; i++)
        kz__part_free(f->services[i].part);
    free(f->services);
}

/* The store failed: what it did in this transaction is void, and what comes after it in a group fails alike. */
static kz_status broken(kz__far *f, kz_status status, const kz_error *why, kz_error *err)
{
    f->failed = *why;
    f->failed.status = status;
    if (err)
        *err = f->failed;
    return status;
}

/* Parts have the driver as their ctx, since services move when there are more of them. */
static kz_status ask(void *ctx, kz__part *part, const kz__part_question *question, kz_error *err)
{
    kz__far *f = ctx;
    kz_error why = {0};
    size_t at = 0;
    while (f->services[at].part != part)
        at++;
    kz_status status = f->far->ask(f, &f->services[at], question, &why);
    return status ? broken(f, status, &why, err) : KZ_OK;
}

/* A place for a service that is not in the transaction yet. */
static kz_status add_service(kz__far *f, const char *name, kz_error *err)
{
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 2;
        kz__far_service *grown = realloc(f->services, room * sizeof *grown);
        if (!grown)
            return kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
        f->services = grown;
        for (; f->room < room; f->room++)
            grown[f->room] = (kz__far_service){0};
    }
    kz__far_service *s = &f->services[f->count];
    kz__part *part = s->part ? s->part : kz__part_new(ask, f);
    if (!part)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
    *s = (kz__far_service){.part = part};
    strcpy(s->name, name);
    return kz__part_begin(part, 0, err);
}

static kz__far_service *find_service(kz__far *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->services[i].name, name) == 0)
            return &f->services[i];
    return NULL;
}

/* Nothing is open any more. */
static void forget(kz__far *f)
{
    f->open = false;
    f->count = 0;
    f->service = NULL;
    f->failed = (kz_error){0};
}

static void abandon(kz__far *f)
{
    if (f->open)
        f->far->rollback(f);
    forget(f);
}

/* The transaction so far, with what the operation needs of it. */
static kz_status begin(kz__far *f, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    kz_error why = {0};
    bool further = f->open;
    f->service = ask->service ? find_service(f, ask->service) : NULL;
    if (further) {
        unsigned attempt = t->attempt;
        *t = f->so_far;
        t->attempt = attempt;
        t->service_write = false;
        t->found = f->service && (f->service->found || f->service->write);
    }
    if (f->service) {
        t->service = f->service->service;
        return KZ_OK;
    }
    kz_status status = ask->service ? add_service(f, ask->service, err) : KZ_OK;
    if (status || (further && !ask->service))
        return status;
    kz__far_service *fresh = ask->service ? &f->services[f->count] : NULL;
    f->open = true;
    status = f->far->begin(f, ask, further, t, fresh, &why);
    if (status)
        return broken(f, status, &why, err);
    if (fresh) {
        f->count++;
        f->service = fresh;
        t->found = fresh->found;
        t->service = fresh->service;
        if (!fresh->found)
            kz__part_know_all(fresh->part);
    }
    /* A release may be of any height: all that it can mean comes in one trip. */
    if (ask->write && ask->release && fresh && fresh->found)
        return kz__part_want_node(fresh->part, &fresh->service, ask->release->id, err);
    return KZ_OK;
}

kz_status kz__far_begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    kz__far *f = (kz__far *)base;
    if (f->failed.status) {
        if (err)
            *err = f->failed;
        return f->failed.status;
    }
    kz_status status = begin(f, ask, t, err);
    if (status && !base->grouped)
        abandon(f);
    return status;
}

kz__rows kz__far_rows(kz__table_source *base)
{
    return kz__part_rows(((kz__far *)base)->service->part);
}

static kz_status finish(kz__far *f, kz_error *err)
{
    kz_error why = {0};
    kz_status status = f->far->commit(f, &f->so_far, f->services, f->count, &why);
    if (status)
        broken(f, status, &why, err);
    else
        f->open = false;
    abandon(f);
    return status;
}

kz_status kz__far_commit(kz__table_source *base, kz__transaction *t, kz_error *err)
{
    kz__far *f = (kz__far *)base;
    f->so_far = *t;
    if (f->service) {
        kz__part_keep(f->service->part);
        if (t->service_write) {
            f->service->service = t->service;
            f->service->write = true;
        }
        f->service = NULL;
    }
    return base->grouped ? KZ_OK : finish(f, err);
}

void kz__far_rollback(kz__table_source *base, kz_status why)
{
    (void)why;
    kz__far *f = (kz__far *)base;
    if (f->service)
        kz__part_undo(f->service->part);
    f->service = NULL;
    if (!base->grouped)
        abandon(f);
}

kz_status kz__far_group_begin(kz__table_source *base, kz_error *err)
{
    (void)base;
    (void)err;
    return KZ_OK;
}

kz_status kz__far_group_commit(kz__table_source *base, kz_error *err)
{
    kz__far *f = (kz__far *)base;
    kz_status status = f->failed.status;
    if (status && err)
        *err = f->failed;
    if (status || !f->open) {
        abandon(f);
        return status;
    }
    return finish(f, err);
}
