/* The settings, one by one: how each is called, read and checked. */
#include "server/settings_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY          char why[static SETTINGS_WHY_SIZE]
#define LEASE_MS_MIN INT64_C(100)
#define LEASE_MS_MAX INT64_C(604800000)

__attribute__((format(printf, 2, 3))) static bool refuse(WHY, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, SETTINGS_WHY_SIZE, format, args);
    va_end(args);
    return false;
}

/* ---- kinds of value ---- */

static bool read_text(char **to, const char *value, WHY)
{
    char *copy = strdup(value);
    if (!copy)
        return refuse(why, "out of memory");
    free(*to);
    *to = copy;
    return true;
}

static bool read_number(const char *value, uint64_t min, uint64_t max, uint64_t *number, WHY)
{
    kz_error err;
    return !kz_number_parse(value, min, max, number, &err) || refuse(why, "%s", err.message);
}

static bool read_duration(const char *value, int64_t min_ms, int64_t max_ms, int64_t *ms, WHY)
{
    kz_error err;
    return !kz_duration_parse(value, min_ms, max_ms, ms, &err) || refuse(why, "%s", err.message);
}

/* An option of the generator, as the library reads it. Its message begins with the name and a colon. */
static bool read_option(kz_options *options, const char *name, const char *value, WHY)
{
    kz_error err;
    return !kz_options_set(options, name, value, &err) || refuse(why, "%s", err.message + strlen(name) + 2);
}

static bool read_choice(const char *value, const char *const *names, int *choice, WHY)
{
    char all[128] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(value, names[i]) == 0) {
            *choice = i;
            return true;
        }
        size_t length = strlen(all);
        snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", names[i]);
    }
    return refuse(why, "\"%.100s\" is not one of %s", value, all);
}

static bool read_yes_no(const char *value, bool *yes, WHY)
{
    static const char *const names[] = {"no", "yes", "false", "true", "off", "on", "0", "1", NULL};
    int choice;
    if (!read_choice(value, names, &choice, why))
        return refuse(why, "\"%.100s\" is neither yes nor no", value);
    *yes = choice & 1;
    return true;
}

/* Shows nothing of the value: it may hold a password. */
static bool read_url(char **to, const char *value, WHY)
{
    size_t scheme = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    if (!scheme || value[scheme] != ':')
        return refuse(why, "not a source URL, such as sqlite:/var/lib/kazahana/leases.db or redis://host:6379/0");
    return read_text(to, value, why);
}

static bool check_layout(const char *value, bool leased, WHY)
{
    kz_layout layout;
    kz_error err;
    if (kz_layout_parse(value, &layout, &err))
        return refuse(why, "%s", err.message);
    if (layout.flags & KZ_LAYOUT_DECODE_ONLY)
        return refuse(why, "layout %.60s can only be decoded", value);
    if (leased && !layout.node_bits)
        return refuse(why, "layout %.60s has no node bits and cannot be leased", value);
    return true;
}

/* ---- the settings ---- */

static bool read_listen(settings *s, const char *value, WHY)
{
    char host[64], message[512];
    uint16_t port;
    const char *path = settings_unix_path(value);
    if (path && (*path != '/' || strlen(path) >= 108))
        return refuse(why, "\"%.120s\" is not unix: and the full path of a socket, below 108 characters", value);
    if (path)
        return read_text(&s->listen, value, why);
    if (!settings_listen(value, host, &port, message))
        return refuse(why, "%.300s", message);
    return read_text(&s->listen, value, why);
}

/* TSID slots are kept by whoever mints from them, and have no fallback half: they cannot be leased out further. */
static bool read_store(settings *s, const char *value, WHY)
{
    if (strncmp(value, "tsid+", 5) == 0)
        return refuse(why, "TSID slots are no lease table: name them with ids_from (--ids-from)");
    return read_url(&s->store, value, why);
}

static bool read_path(char **to, const char *value, WHY)
{
    return *value ? read_text(to, value, why) : refuse(why, "the name of a file is missing");
}

static bool read_config(settings *s, const char *value, WHY)
{
    return read_path(&s->config_file, value, why);
}

static bool read_profile(settings *s, const char *value, WHY)
{
    return *value ? read_text(&s->profile, value, why) : refuse(why, "the name of a profile is missing");
}

static bool read_ids_from(settings *s, const char *value, WHY)
{
    return read_url(&s->ids_from, value, why);
}

static bool read_layout(settings *s, const char *value, WHY)
{
    return check_layout(value, false, why) && read_text(&s->layout, value, why);
}

bool settings_service_name(const char *name)
{
    kz_options scratch;
    kz_options_init(&scratch);
    return !kz_options_set(&scratch, "service", name, NULL);
}

static bool read_service(settings *s, const char *value, WHY)
{
    kz_options scratch;
    kz_options_init(&scratch);
    return read_option(&scratch, "service", value, why) && read_text(&s->service, value, why);
}

static bool read_server_name(settings *s, const char *value, WHY)
{
    size_t length = strlen(value);
    if (!length || strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:_, \t") != length)
        return refuse(why, "\"%.100s\" is not a name or address, or several with commas between them", value);
    return read_text(&s->server_name, value, why);
}

static bool read_backward(settings *s, const char *value, WHY)
{
    return read_option(&s->ids, "backward", value, why);
}

static bool read_fallback(settings *s, const char *value, WHY)
{
    return read_option(&s->ids, "fallback", value, why);
}

static bool read_throughput(settings *s, const char *value, WHY)
{
    return read_option(&s->ids, "throughput", value, why);
}

static bool read_token_file(settings *s, const char *value, WHY)
{
    return read_path(&s->token_file, value, why);
}

static bool read_key_file(settings *s, const char *value, WHY)
{
    return read_path(&s->key_file, value, why);
}

static bool read_tls_cert(settings *s, const char *value, WHY)
{
    return read_path(&s->tls_cert, value, why);
}

static bool read_tls_key(settings *s, const char *value, WHY)
{
    return read_path(&s->tls_key, value, why);
}

static bool read_loops(settings *s, const char *value, WHY)
{
    uint64_t number;
    if (!read_number(value, 0, 256, &number, why))
        return false;
    s->loops = (unsigned)number;
    return true;
}

static bool read_connections(settings *s, const char *value, WHY)
{
    uint64_t number;
    if (!read_number(value, 1, 1000000, &number, why))
        return false;
    s->connections_max = (unsigned)number;
    return true;
}

static bool read_handshakes(settings *s, const char *value, WHY)
{
    uint64_t number;
    if (!read_number(value, 1, 1000000, &number, why))
        return false;
    s->handshakes_max = (unsigned)number;
    return true;
}

static bool read_access_log(settings *s, const char *value, WHY)
{
    return read_yes_no(value, &s->access_log, why);
}

static bool read_max_services(settings *s, const char *value, WHY)
{
    uint64_t number;
    if (!read_number(value, 0, 1000000, &number, why))
        return false;
    s->max_services = (uint32_t)number;
    return true;
}

static bool read_request_timeout(settings *s, const char *value, WHY)
{
    return read_duration(value, 100, 3600000, &s->request_ms, why);
}

static bool read_idle_timeout(settings *s, const char *value, WHY)
{
    return read_duration(value, 100, 86400000, &s->idle_ms, why);
}

static bool read_ui(settings *s, const char *value, WHY)
{
    bool yes = true;
    if (!read_yes_no(value, &yes, why))
        return false;
    s->no_ui = !yes;
    return true;
}

static bool read_log_level(settings *s, const char *value, WHY)
{
    static const char *const names[] = {"error", "warning", "info", "debug", NULL};
    return read_choice(value, names, &s->log_level, why);
}

static bool read_log_format(settings *s, const char *value, WHY)
{
    static const char *const names[] = {"logfmt", "json", NULL};
    int choice;
    if (!read_choice(value, names, &choice, why))
        return false;
    s->log_json = choice == 1;
    return true;
}

static bool read_no_create_services(settings *s, const char *value, WHY)
{
    bool yes = false;
    if (!read_yes_no(value, &yes, why))
        return false;
    s->create_services = !yes;
    return true;
}

static const settings_key keys[] = {
    {"listen", true, false, read_listen, false},
    {"store", true, false, read_store, false},
    {"config", false, false, read_config, false},
    {"profile", false, false, read_profile, false},
    {"ids_from", true, false, read_ids_from, false},
    {"layout", true, false, read_layout, false},
    {"service", true, false, read_service, false},
    {"backward", true, false, read_backward, false},
    {"fallback", true, false, read_fallback, false},
    {"throughput", true, false, read_throughput, false},
    {"server_name", true, false, read_server_name, false},
    {"token_file", true, false, read_token_file, true},
    {"key_file", true, false, read_key_file, false},
    {"tls_cert", true, false, read_tls_cert, false},
    {"tls_key", true, false, read_tls_key, false},
    {"loops", true, false, read_loops, false},
    {"connections", true, false, read_connections, false},
    {"max_services", true, false, read_max_services, false},
    {"request_timeout", true, false, read_request_timeout, false},
    {"idle_timeout", true, false, read_idle_timeout, false},
    {"ui", true, false, read_ui, false},
    {"handshakes", true, false, read_handshakes, false},
    {"access_log", true, true, read_access_log, false},
    {"log_level", true, false, read_log_level, true},
    {"log_format", true, false, read_log_format, false},
    {"no_create_services", true, true, read_no_create_services, false},
};
_Static_assert(sizeof keys / sizeof *keys <= SETTINGS_KEYS_MAX, "each has its rank");

const settings_key *settings_key_at(size_t index)
{
    return index < sizeof keys / sizeof *keys ? &keys[index] : NULL;
}

static bool is_named(const char *key, const char *name, size_t length, bool hyphens)
{
    if (strlen(key) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != (hyphens && key[i] == '_' ? '-' : key[i]))
            return false;
    return true;
}

const settings_key *settings_key_find(const char *name, size_t length, bool hyphens)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (is_named(keys[i].name, name, length, hyphens))
            return &keys[i];
    return NULL;
}

bool settings_set(settings *s, const settings_key *key, const char *value, settings_rank rank, WHY)
{
    uint8_t *present = &s->ranks[key - keys];
    if (rank != RANK_CHECKED && rank >= *present) {
        if (!key->read(s, value, why) || !read_text(&s->given[key - keys], value, why))
            return false;
        *present = (uint8_t)rank;
        return true;
    }
    settings *unused = calloc(1, sizeof *unused);
    if (!unused)
        return refuse(why, "out of memory");
    settings_init(unused);
    bool right = key->read(unused, value, why);
    settings_free(unused);
    free(unused);
    return right;
}

bool settings_set_service(service_settings *service, const char *key, const char *value, WHY)
{
    if (strcmp(key, "layout") == 0) {
        if (!check_layout(value, true, why))
            return false;
        if (strlen(value) >= sizeof service->layout)
            return refuse(why, "\"%.100s\" is too long for a layout", value);
        strcpy(service->layout, value);
        return true;
    }
    if (strcmp(key, "lease") == 0)
        return read_duration(value, LEASE_MS_MIN, LEASE_MS_MAX, &service->lease_ms, why);
    if (strcmp(key, "high_blocks") == 0)
        return read_yes_no(value, &service->high_blocks, why);
    if (strcmp(key, "max_throughput") == 0) {
        uint64_t number;
        if (!read_number(value, 1, UINT32_MAX, &number, why))
            return false;
        service->max_throughput = (uint32_t)number;
        return true;
    }
    return refuse(why,
                  "unknown key \"%.60s\" in [service \"%s\"]: known are layout, lease, max_throughput, high_blocks",
                  key, service->name);
}
