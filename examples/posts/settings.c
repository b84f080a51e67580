/* Settings: one table gives the flags, the variables, the help and the checks. */
#include "settings.h"

#include <kazahana.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USAGE = 2, COUNT = 9 };

static char default_instance[96];

/* A text setting has no maximum, a number has one. */
typedef struct setting {
    const char *flag, *variable, *fallback, *help;
    long least, most;
} setting;

static const setting table[COUNT] = {
    {"listen", "LISTEN", "127.0.0.1:8080", "ADDRESS:PORT to listen on", 0, 0},
    {"database", "DATABASE_URL", NULL, "postgresql://user@host/db (required)", 0, 0},
    {"source", "KAZAHANA_SOURCE", NULL, "where the node comes from, as tsid+redis://host:6379/0 (required)", 0, 0},
    {"key-file", "KAZAHANA_KEY_FILE", "", "keys for external IDs; without it a public mixer is used", 0, 0},
    {"instance", "INSTANCE", default_instance, "the name of this instance in answers and logs", 0, 0},
    {"threads", "THREADS", "4", "threads, each with a database connection", 1, 64},
    {"max-connections", "MAX_CONNECTIONS", "512", "clients at the same time", 1, 100000},
    {"idle", "IDLE_SECONDS", "60", "seconds until a silent client is let go", 1, 3600},
    {"database-wait", "DATABASE_WAIT_SECONDS", "30", "seconds to wait for the database at the start", 0, 3600},
};

static void print_help(void)
{
    printf("Usage: posts [--FLAG VALUE]...\n\nA small backend for posts whose IDs are made by kazahana.\n\n");
    for (int i = 0; i < COUNT; i++) {
        const setting *t = &table[i];
        char flag[40], variable[40];
        snprintf(flag, sizeof flag, "--%s", t->flag);
        snprintf(variable, sizeof variable, "or %s", t->variable);
        printf("  %-18s %-24s %s", flag, variable, t->help);
        printf(t->fallback && *t->fallback ? " (%s)\n" : "\n", t->fallback);
    }
    printf("  --help, --version\n\nGET /health says how it is. SIGTERM ends it in good order.\n");
}

static void refuse(const setting *t, const char *value, const char *what)
{
    fprintf(stderr, "posts: --%s (or %s): '%s' %s\n", t->flag, t->variable, value, what);
    exit(USAGE);
}

static int number(const setting *t, const char *value)
{
    char *end;
    char what[80];
    errno = 0;
    long n = strtol(value, &end, 10);
    snprintf(what, sizeof what, "is not a number from %ld to %ld", t->least, t->most);
    if (errno || end == value || *end || n < t->least || n > t->most)
        refuse(t, value, what);
    return (int)n;
}

/* A header carries the name, so it is of printable characters. */
static void check_instance(const setting *t, const char *value)
{
    if (!*value || strlen(value) > 64)
        refuse(t, value, "is not a name of 1 to 64 characters");
    for (const char *at = value; *at; at++)
        if (*at <= ' ' || *at > '~')
            refuse(t, value, "is not a name of printable ASCII characters without blanks");
}

static void read_flags(const char *values[COUNT], int argc, char **argv)
{
    enum { HELP = 'h', VERSION = 'V', FIRST = 256 };
    struct option options[COUNT + 3] = {{"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}};
    for (int i = 0; i < COUNT; i++)
        options[i + 2] = (struct option){table[i].flag, required_argument, NULL, FIRST + i};
    for (int flag; (flag = getopt_long(argc, argv, "hV", options, NULL)) != -1;) {
        if (flag == HELP) {
            print_help();
            exit(0);
        }
        if (flag == VERSION) {
            printf("posts, with kazahana %s\n", kz_version());
            exit(0);
        }
        if (flag == '?') {
            fprintf(stderr, "posts: --help lists what there is\n");
            exit(USAGE);
        }
        values[flag - FIRST] = optarg;
    }
    if (optind < argc) {
        fprintf(stderr, "posts: '%s' is not a flag; --help lists what there is\n", argv[optind]);
        exit(USAGE);
    }
}

void settings_read(settings *s, int argc, char **argv)
{
    char host[65] = "posts";
    gethostname(host, sizeof host - 1);
    snprintf(default_instance, sizeof default_instance, "%.40s-%ld", host, (long)getpid());

    const char *values[COUNT] = {0};
    read_flags(values, argc, argv);
    for (int i = 0; i < COUNT; i++) {
        const char *variable = getenv(table[i].variable);
        if (!values[i])
            values[i] = variable && *variable ? variable : table[i].fallback;
        if (!values[i]) {
            fprintf(stderr, "posts: --%s or the variable %s is required: %s\n", table[i].flag, table[i].variable,
                    table[i].help);
            exit(USAGE);
        }
    }
    check_instance(&table[4], values[4]);
    *s = (settings){
        .listen = values[0],
        .database = values[1],
        .source = values[2],
        .key_file = *values[3] ? values[3] : NULL,
        .instance = values[4],
        .threads = number(&table[5], values[5]),
        .max_connections = number(&table[6], values[6]),
        .idle_s = number(&table[7], values[7]),
        .database_wait_s = number(&table[8], values[8]),
    };
}
