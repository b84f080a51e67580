/* All settings together: flags first, then the environment, then the file, each keeping to its rank. */
#include "server/settings.h"

#include "server/settings_value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "KAZAHANA_"

void settings_init(settings *s)
{
    *s = (settings){
        .create_services = true,
        .connections_max = 10000,
        .max_services = 1000,
        .handshakes_max = 1000,
        .request_ms = 10000,
        .idle_ms = 60000,
        .write_ms = 10000,
        .log_level = 2,
    };
    kz_options_init(&s->ids);
}

void settings_free(settings *s)
{
    char *texts[] = {s->listen,     s->store,    s->ids_from, s->layout,  s->service, s->server_name,
                     s->token_file, s->key_file, s->tls_cert, s->tls_key, s->profile, s->config_file};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    for (size_t i = 0; i < SETTINGS_KEYS_MAX; i++)
        free(s->given[i]);
    for (int i = 0; i < s->word_count; i++)
        free(s->words[i]);
    free(s->words);
    *s = (settings){0};
}

const char *settings_unix_path(const char *listen)
{
    return strncmp(listen, "unix:", 5) == 0 ? listen + 5 : NULL;
}

static bool split_listen(const char *text, char host[static 64], const char **port_text)
{
    const char *colon = strrchr(text, ':'), *from = text, *to = colon;
    if (!colon)
        return false;
    if (*text == '[') {
        if (colon == text || colon[-1] != ']')
            return false;
        from++;
        to--;
    }
    if (to <= from || to - from >= 64)
        return false;
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    *port_text = colon + 1;
    return true;
}

bool settings_listen(const char *text, char host[static 64], uint16_t *port, char message[static 512])
{
    const char *digits;
    char name[64];
    unsigned char address[16];
    if (!split_listen(text, name, &digits)) {
        snprintf(message, 512, "\"%.100s\" is not ADDRESS:PORT, such as 127.0.0.1:7070 or [::1]:7070", text);
        return false;
    }
    size_t length = strlen(digits);
    unsigned long number =
        length && length <= 5 && strspn(digits, "0123456789") == length ? strtoul(digits, NULL, 10) : 65536;
    if (number > 65535) {
        snprintf(message, 512, "\"%.100s\": port \"%.20s\" is not a number from 0 to 65535", text, digits);
        return false;
    }
    if (strcmp(name, "localhost") == 0)
        strcpy(name, "127.0.0.1");
    if (inet_pton(*text == '[' ? AF_INET6 : AF_INET, name, address) != 1) {
        snprintf(message, 512,
                 "\"%.100s\": \"%s\" is not an address of this machine in numbers (0.0.0.0 or [::] for all of them)",
                 text, name);
        return false;
    }
    strcpy(host, name);
    *port = (uint16_t)number;
    return true;
}

/* ---- flags ---- */

static bool take_flag(settings *s, const char *word, const char *following, bool *took_following,
                      char message[static 512])
{
    char why[SETTINGS_WHY_SIZE];
    size_t length = strcspn(word + 2, "=");
    const char *value = word[2 + length] ? word + 2 + length + 1 : NULL;
    const settings_key *key = settings_key_find(word + 2, length, true);
    if (!key) {
        snprintf(message, 512, "unknown option --%.*s", length < 100 ? (int)length : 100, word + 2);
        return false;
    }
    if (key->is_switch && value) {
        snprintf(message, 512, "--%.*s takes no value", (int)length, word + 2);
        return false;
    }
    if (key->is_switch)
        value = "yes";
    else if (!value && !following) {
        snprintf(message, 512, "--%.*s needs a value", (int)length, word + 2);
        return false;
    } else if (!value) {
        value = following;
        *took_following = true;
    }
    if (settings_set(s, key, value, RANK_FLAG, why))
        return true;
    snprintf(message, 512, "--%.*s: %s", (int)length, word + 2, why);
    return false;
}

static bool read_flags(settings *s, int argc, char **argv, bool *check_only, char message[static 512])
{
    for (int i = 0; i < argc; i++) {
        bool took_following = false;
        if (strcmp(argv[i], "--check-config") == 0) {
            *check_only = true;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2]) {
            snprintf(message, 512, "unexpected argument %.100s", argv[i]);
            return false;
        }
        if (!take_flag(s, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &took_following, message))
            return false;
        i += took_following;
    }
    return true;
}

/* ---- the environment ---- */

static const settings_key *key_of_variable(const char *name, size_t length)
{
    char lower[64];
    if (length >= sizeof lower)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        if (islower((unsigned char)name[i]))
            return NULL;
        lower[i] = (char)tolower((unsigned char)name[i]);
    }
    return settings_key_find(lower, length, false);
}

/* What Kubernetes sets in every pod beside a Service called kazahana. */
static bool is_of_kubernetes(const char *name)
{
    return strncmp(name, "SERVICE_HOST=", 13) == 0 || strncmp(name, "SERVICE_PORT", 12) == 0 ||
           strncmp(name, "PORT=", 5) == 0 || strncmp(name, "PORT_", 5) == 0;
}

static bool read_environment(settings *s, char message[static 512])
{
    char why[SETTINGS_WHY_SIZE];
    for (char **variable = environ; variable && *variable; variable++) {
        const char *equals = strchr(*variable, '=');
        if (!equals || strncmp(*variable, PREFIX, strlen(PREFIX)) != 0)
            continue;
        int length = (int)(equals - *variable);
        /* These are the library's. */
        if (strncmp(*variable, "KAZAHANA_ALLOW_DEV=", 19) == 0 || strncmp(*variable, "KAZAHANA_TOKEN=", 15) == 0 ||
            strncmp(*variable, "KAZAHANA_LOCK=", 14) == 0)
            continue;
        const char *name = *variable + strlen(PREFIX);
        if (is_of_kubernetes(name))
            continue;
        const settings_key *key = key_of_variable(name, (size_t)(equals - name));
        if (!key) {
            snprintf(message, 512, "unknown variable %.*s in the environment", length < 100 ? length : 100, *variable);
            return false;
        }
        if (!settings_set(s, key, equals + 1, RANK_ENVIRONMENT, why)) {
            snprintf(message, 512, "%.*s: %s", length, *variable, why);
            return false;
        }
    }
    return true;
}

/* ---- all together ---- */

static bool default_text(char **text, const char *value)
{
    return *text || (*text = strdup(value));
}

static bool keep_words(settings *s, int argc, char **argv)
{
    s->words = calloc((size_t)argc + 1, sizeof *s->words);
    for (int i = 0; s->words && i < argc; i++) {
        if (!(s->words[i] = strdup(argv[i])))
            return false;
        s->word_count = i + 1;
    }
    return s->words;
}

/* What no value alone can get wrong. */
static bool check_together(const settings *s, char message[static 512])
{
    if (!s->tls_cert == !s->tls_key)
        return true;
    snprintf(message, 512, "%s is given without %s: TLS wants both", s->tls_cert ? "tls_cert" : "tls_key",
             s->tls_cert ? "tls_key" : "tls_cert");
    return false;
}

bool settings_read(settings *s, int argc, char **argv, bool *check_only, bool *usage, char message[static 512])
{
    *check_only = false;
    *message = '\0';
    *usage = true;
    if (!read_flags(s, argc, argv, check_only, message))
        return false;
    *usage = false;
    if (!read_environment(s, message))
        return false;
    if (s->config_file && !settings_parse_file(s, s->config_file, message))
        return false;
    if (s->profile && !s->profile_found && settings_is_built_in(s->profile)) {
        if (!settings_built_in(s, message))
            return false;
    } else if (s->profile && !s->config_file) {
        *usage = true;
        snprintf(message, 512,
                 "profile \"%.63s\" stands in a config file: name one with --config (snowflake and tsid need none)",
                 s->profile);
        return false;
    }
    if (!default_text(&s->listen, "127.0.0.1:7070") || !default_text(&s->service, "default") ||
        !keep_words(s, argc, argv)) {
        snprintf(message, 512, "out of memory");
        return false;
    }
    return check_together(s, message);
}

/* ---- again ---- */

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* What was changed and is not reloadable. */
static void name_what_waits(const settings *old, const settings *new, char message[static 512])
{
    const settings_key *key;
    size_t length = 0;
    *message = '\0';
    for (size_t i = 0; (key = settings_key_at(i)) && length < 512; i++)
        if (!key->reloadable && !same(old->given[i], new->given[i]))
            length += (size_t)snprintf(message + length, 512 - length, "%s%s", length ? ", " : "", key->name);
}

bool settings_reload(settings *s, char message[static 512])
{
    bool check_only, usage;
    settings *new = calloc(1, sizeof *new);
    if (!new) {
        snprintf(message, 512, "out of memory");
        return false;
    }
    settings_init(new);
    bool right = settings_read(new, s->word_count, s->words, &check_only, &usage, message);
    if (right) {
        name_what_waits(s, new, message);
        s->log_level = new->log_level;
        memcpy(s->services, new->services, sizeof s->services);
        s->service_count = new->service_count;
        char *token_file = s->token_file;
        s->token_file = new->token_file;
        new->token_file = token_file;
    }
    settings_free(new);
    free(new);
    return right;
}
