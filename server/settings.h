/* What the server is told: flags, then KAZAHANA_* in the environment, then the profile, then the rest of the file. */
#ifndef KZ_SERVER_SETTINGS_H
#define KZ_SERVER_SETTINGS_H

#include <kazahana.h>

#define SERVICES_MAX      64
#define SETTINGS_KEYS_MAX 32

typedef struct service_settings {
    char name[KZ_SERVICE_SIZE];
    char layout[KZ_LAYOUT_TEXT_SIZE]; /* empty: the default */
    int64_t lease_ms;                 /* 0: the default */
    uint32_t max_throughput;          /* 0: the default */
    bool high_blocks;
} service_settings;

/* Texts belong to the struct. */
typedef struct settings {
    char *listen;      /* "127.0.0.1:7070", "[::1]:7070", "0.0.0.0:7070" */
    char *store;       /* a source URL; NULL: the embedded default */
    char *ids_from;    /* a source URL; NULL: a lease from the server's own store */
    char *layout;      /* of the IDs of /id; NULL: the source's */
    char *service;     /* that /id mints for; "default" */
    char *server_name; /* what clients may call it beside loopback, several with blanks or commas; NULL: nothing */
    char *token_file;  /* NULL: no token is asked for */
    char *key_file;    /* of external IDs; NULL: the mixer */
    char *tls_cert, *tls_key;
    char *profile;        /* as chosen */
    char *config_file;    /* as read; NULL: none */
    kz_options ids;       /* of /id's generator: backward, fallback, throughput */
    bool no_ui;           /* GET / is the list of paths for browsers too */
    bool create_services; /* unknown ones are created on demand (default) */
    unsigned loops;       /* 0: one for each core */
    unsigned connections_max;
    uint32_t max_services; /* that the store may have before clients make up no more; 0: no limit */
    int64_t request_ms, idle_ms, write_ms;
    int log_level; /* 0 error, 1 warning, 2 info, 3 debug */
    bool log_json;
    bool access_log;                         /* a line for each request */
    unsigned handshakes_max;                 /* TLS handshakes under way */
    service_settings services[SERVICES_MAX]; /* [service "name"] sections */
    size_t service_count;
    /* For settings*.c alone: where each value came from, its text, and the words it was started with, for
     * settings_reload. */
    bool profile_found; /* in the file */
    uint8_t ranks[SETTINGS_KEYS_MAX];
    char *given[SETTINGS_KEYS_MAX]; /* the texts; NULL: the default */
    char **words;
    int word_count;
} settings;

void settings_init(settings *s);

/* Reads argv (the words behind `kazahana serve`, the first is argv[0]), the environment and the config file. True on
 * success; else what is wrong is in `message` (with file and line where it applies), and *usage says whether it is a
 * usage error (exit 2). *check_only: --check-config was given. --help and --version are the caller's. After
 * settings_init; settings_free either way. */
bool settings_read(settings *s, int argc, char **argv, bool *check_only, bool *usage, char message[static 512]);

/* The config file again, for SIGHUP: what may change while running (log level, services, token file). True: taken over,
 * and `message` names what changed beside that and waits for a restart, or is empty. False: nothing was changed. */
bool settings_reload(settings *s, char message[static 512]);

void settings_free(settings *s);

/* The path behind "unix:", or NULL if it is no such address. */
const char *settings_unix_path(const char *listen);
/* "host:port" taken apart; IPv6 in brackets. */
bool settings_listen(const char *text, char host[static 64], uint16_t *port, char message[static 512]);

#endif
