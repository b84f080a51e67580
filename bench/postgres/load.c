/* Gives PostgreSQL one piece of work, and prints the seconds that passed and those that its process was on a CPU. The
 * second number is the one to believe on a machine that does other things too.
 *
 *     load URL KIND ROWS BATCH        rows with keys of a kind: kazahana, uuid4, uuid4-text, uuid7, bigserial
 *     load URL query SQL TIMES        a query, and the best of so many times
 *
 * A batch of 1 is an INSERT with its own commit, a larger one a COPY. Keys are made before the clock starts. */
#include <kazahana.h>

#include <libpq-fe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { KEY_SIZE = 40, BATCH_MAX = 10000, LINE_SIZE = 256 };

/* About as long as people's posts are. */
static const char content[] =
    "It snows from a clear sky: the wind has carried the flakes from where the clouds are, and "
    "whoever looks up sees nothing but blue.";

typedef enum kind { KAZAHANA, UUID4, UUID4_TEXT, UUID7, BIGSERIAL, KINDS } kind;
static const char *const kind_names[KINDS] = {"kazahana", "uuid4", "uuid4-text", "uuid7", "bigserial"};
static const char *const tables[KINDS] = {"posts_kazahana", "posts_uuid4", "posts_uuid4_text", "posts_uuid7",
                                          "posts_bigserial"};

static kz_generator *generator;
static kz_monouuid *monouuid;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static void make_uuid4(char key[KEY_SIZE])
{
    kz_uuid uuid;
    if (getrandom(uuid.bytes, sizeof uuid.bytes, 0) != sizeof uuid.bytes)
        die("getrandom", "failed");
    uuid.bytes[6] = (uint8_t)(0x40 | (uuid.bytes[6] & 0x0F));
    uuid.bytes[8] = (uint8_t)(0x80 | (uuid.bytes[8] & 0x3F));
    kz_uuid_text(&uuid, key);
}

static void make_key(kind k, char key[KEY_SIZE])
{
    kz_id id;
    kz_uuid uuid;
    kz_status status = KZ_OK;
    if (k == KAZAHANA && !(status = kz_next(generator, &id)))
        kz_text(id, KZ_DECIMAL, key);
    else if (k == UUID7 && !(status = kz_monouuid_next(monouuid, &uuid)))
        kz_uuid_text(&uuid, key);
    else if (k == UUID4 || k == UUID4_TEXT)
        make_uuid4(key);
    else if (k != BIGSERIAL)
        die(kind_names[k], kz_status_text(status));
}

static void check(PGconn *c, PGresult *result, ExecStatusType wanted)
{
    if (PQresultStatus(result) != wanted)
        die("PostgreSQL", PQerrorMessage(c));
    PQclear(result);
}

static void prepare_insert(PGconn *c, kind k)
{
    char sql[LINE_SIZE];
    snprintf(sql, sizeof sql, "INSERT INTO %s (%suser_id, content) VALUES (%s)", tables[k],
             k == BIGSERIAL ? "" : "id, ", k == BIGSERIAL ? "$1, $2" : "$1, $2, $3");
    check(c, PQprepare(c, "insert", sql, 0, NULL), PGRES_COMMAND_OK);
}

static void insert(PGconn *c, kind k, const char *key)
{
    const char *values[] = {key, "42", content};
    int skip = k == BIGSERIAL;
    check(c, PQexecPrepared(c, "insert", 3 - skip, values + skip, NULL, NULL, 0), PGRES_COMMAND_OK);
}

static void copy(PGconn *c, kind k, char keys[][KEY_SIZE], int count)
{
    char sql[LINE_SIZE], line[LINE_SIZE + KEY_SIZE];
    snprintf(sql, sizeof sql, "COPY %s (%suser_id, content) FROM STDIN", tables[k], k == BIGSERIAL ? "" : "id, ");
    check(c, PQexec(c, sql), PGRES_COPY_IN);
    for (int i = 0; i < count; i++) {
        int length = snprintf(line, sizeof line, "%s%s42\t%s\n", k == BIGSERIAL ? "" : keys[i],
                              k == BIGSERIAL ? "" : "\t", content);
        if (PQputCopyData(c, line, length) != 1)
            die("COPY", PQerrorMessage(c));
    }
    if (PQputCopyEnd(c, NULL) != 1)
        die("COPY", PQerrorMessage(c));
    check(c, PQgetResult(c), PGRES_COMMAND_OK);
    PQclear(PQgetResult(c)); /* the NULL that ends a COPY */
}

typedef struct spent {
    double wall_s, cpu_s;
} spent;

/* Until now: by the clock, and by the kernel's account of the process that serves this connection. */
static spent now(PGconn *c)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    char path[64];
    unsigned long long on_cpu_ns = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", PQbackendPID(c));
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &on_cpu_ns) != 1)
        die(path, "cannot be read: is the server on this machine?");
    fclose(file);
    return (spent){(double)t.tv_sec + (double)t.tv_nsec / 1e9, (double)on_cpu_ns / 1e9};
}

static spent since(PGconn *c, spent begun)
{
    spent end = now(c);
    return (spent){end.wall_s - begun.wall_s, end.cpu_s - begun.cpu_s};
}

static spent load(PGconn *c, kind k, long rows, int batch)
{
    static char keys[BATCH_MAX][KEY_SIZE];
    spent sum = {0};
    if (batch == 1)
        prepare_insert(c, k);
    for (long done = 0; done < rows; done += batch) {
        int count = rows - done < batch ? (int)(rows - done) : batch;
        for (int i = 0; i < count; i++)
            make_key(k, keys[i]);
        spent begun = now(c);
        if (batch == 1)
            insert(c, k, keys[0]);
        else
            copy(c, k, keys, count);
        spent one = since(c, begun);
        sum = (spent){sum.wall_s + one.wall_s, sum.cpu_s + one.cpu_s};
    }
    return sum;
}

static spent query(PGconn *c, const char *sql, int times)
{
    spent best = {0};
    for (int i = 0; i < times; i++) {
        spent begun = now(c);
        check(c, PQexec(c, sql), PGRES_TUPLES_OK);
        spent one = since(c, begun);
        best.wall_s = i && best.wall_s < one.wall_s ? best.wall_s : one.wall_s;
        best.cpu_s = i && best.cpu_s < one.cpu_s ? best.cpu_s : one.cpu_s;
    }
    return best;
}

static PGconn *connect_to(const char *url)
{
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) != CONNECTION_OK)
        die("PostgreSQL", PQerrorMessage(c));
    return c;
}

static void open_generators(void)
{
    kz_error err;
    kz_options options;
    kz_options_init(&options);
    options.layout = "tsid";
    if (kz_open(&generator, "static:1", &options, &err) || kz_monouuid_new(&monouuid, 1, NULL, &err))
        die("kazahana", err.message);
}

int main(int argc, char **argv)
{
    bool is_query = argc == 5 && !strcmp(argv[2], "query");
    int k = 0, last = argc == 5 ? atoi(argv[4]) : 0;
    long rows = argc == 5 ? atol(argv[3]) : 0;
    while (k < KINDS && (argc != 5 || strcmp(argv[2], kind_names[k])))
        k++;
    if (last < 1 || last > BATCH_MAX || (!is_query && (k == KINDS || rows < 1))) {
        fprintf(stderr,
                "Usage: load URL kazahana|uuid4|uuid4-text|uuid7|bigserial ROWS BATCH (1..%d)\n"
                "       load URL query SQL TIMES\n",
                BATCH_MAX);
        return 2;
    }
    open_generators();
    PGconn *c = connect_to(argv[1]);
    spent s = is_query ? query(c, argv[3], last) : load(c, (kind)k, rows, last);
    printf("%.6f %.6f\n", s.wall_s, s.cpu_s);
    PQfinish(c);
    kz_close(generator);
    kz_monouuid_free(monouuid);
    return 0;
}
