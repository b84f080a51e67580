/* The server from the inside: what its routes share. */
#ifndef KZ_SERVER_APP_H
#define KZ_SERVER_APP_H

#include "server/http.h"
#include "server/settings.h"
#include "server/store.h"
#include "server/tokens.h"

#include <pthread.h>
#include <stdatomic.h>

/* The routes, for the table in app.c and for the metrics' labels. */
typedef enum route_name {
    ROUTE_NONE, /* refused, or nothing is there */
    ROUTE_ID,
    ROUTE_IDS,
    ROUTE_DECODE,
    ROUTE_ACQUIRE,
    ROUTE_RELEASE,
    ROUTE_LEASES,
    ROUTE_TIME,
    ROUTE_HEALTH,
    ROUTE_LIVE,
    ROUTE_READY,
    ROUTE_METRICS,
    ROUTE_OPENAPI,
    ROUTE_ROOT,
    ROUTE_UI,
    ROUTES
} route_name;

#define HTTP_BUCKETS 8
extern const int64_t http_bucket_us[HTTP_BUCKETS];

/* Of one loop, which alone writes them. */
typedef struct route_counts {
    _Atomic uint64_t by_class[6]; /* 1xx to 5xx, by the first digit */
    _Atomic uint64_t buckets[HTTP_BUCKETS + 1];
    _Atomic uint64_t sum_ns;
} route_counts;

typedef struct minter minter;

typedef struct app {
    settings *settings;
    store *store;
    kz_generator *gen;
    kz_external_keys *keys; /* of external IDs; NULL: the mixer */
    minter *minter;
    http_server *http;
    pthread_rwlock_t reload_lock; /* SIGHUP changes the tokens and the services */
    tokens *tokens;               /* NULL: nobody is asked for one */
    bool has_tokens;              /* they may change, but not vanish */
    bool on_loopback;             /* nobody else can reach it, except through a browser here */
    unsigned loops;
    route_counts (*counts)[ROUTES]; /* for each loop */
} app;

/* A request with what the path holds behind the route's name: "/lease/17" has the rest "17". */
typedef struct call {
    app *app;
    const http_request *request;
    http_reply *reply;
    http_text rest;
} call;

/* app.c */
http_outcome app_handle(void *app, const http_request *request, http_reply *reply);
void app_observe(void *app, unsigned loop, unsigned tag, int status, int64_t ns);
/* The labels of a route in the metrics: its method, and its path as the description has it. */
const char *route_method(route_name name);
const char *route_path(route_name name);

/* Fills in application/problem+json. */
http_outcome problem(http_reply *reply, int status, const char *title, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The problem that a status of the library is. */
http_outcome problem_of(http_reply *reply, kz_status status, const char *detail);
/* A text as a JSON string with its quotes. */
void write_json_text(http_reply *reply, const char *text);

/* query.c */
typedef enum query_found { QUERY_ABSENT, QUERY_VALUE, QUERY_BAD } query_found;
/* The value of a query parameter, percent signs decoded. BAD: it is too long for `size`, or a percent sign in it stands
 * for nothing; `value` is not to be used then. ABSENT leaves `value` as it is. */
query_found query_value(const http_request *request, const char *name, char *value, size_t size);
#define UNKNOWN_SIZE 256
/* Is every key of the query one of these (the last is NULL), and there once? Else the message names it. */
bool query_is_known(const http_request *request, const char *const *known, char message[static UNKNOWN_SIZE]);
/* "service" is not known here: did you mean "serviceId"? */
void explain_unknown(const char *name, const char *const *known, char message[static UNKNOWN_SIZE]);
/* False: it does not fit, or a percent sign stands for nothing, or for a zero. */
bool percent_decode(http_text text, bool plus_is_blank, char *value, size_t size, size_t *length);
/* -1: it is none. */
int hex_digit(char c);

/* doors.c */
/* True: this request is not let in, and the reply says why. */
bool door_closed(app *a, const http_request *request, bool wants_token, http_reply *reply);

/* ids.c */
http_outcome get_id(call *c);
http_outcome get_ids(call *c);
http_outcome get_decode(call *c);
typedef enum id_shape { SHAPE_ID, SHAPE_IDS, SHAPE_LINES } id_shape;
void write_ids(http_reply *reply, id_shape how, const kz_id *ids, size_t count);

/* minter.c */
/* Mints with the app's generator; asked from when the loops are there. */
minter *minter_start(app *a);
void minter_stop(minter *m);
/* The answer is sent when its IDs are there, or 2 s after there were none any more. */
http_outcome minter_wait(minter *m, http_reply *reply, id_shape shape, size_t count);

/* leases.c */
/* Gives the store a job (NULL: out of memory) with this app and this reply in it; `done` sends the reply. */
http_outcome submit(call *c, store_job *job, void (*done)(store_job *));
http_outcome post_lease(call *c);
http_outcome delete_lease(call *c);
http_outcome get_leases(call *c);
http_outcome get_time(call *c);

/* health.c */
http_outcome get_health(call *c);
http_outcome get_live(call *c);

/* metrics.c */
http_outcome get_metrics(call *c);

/* openapi.c */
http_outcome get_openapi(call *c);

/* ui.c */
http_outcome get_root(call *c);
http_outcome get_ui(call *c);

#endif
