/* The config file. inih takes lines apart into keys and values; sections, line numbers and limits are seen to here,
 * because it knows of no empty section, cuts long names short without a word, and takes an indented line for a
 * continuation of the one above. */
#include "server/settings_value.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTIONS_MAX 160
#define BLANKS       " \t\r\f\v"

typedef enum section_kind { SECTION_SERVER, SECTION_PROFILE, SECTION_SERVICE } section_kind;

typedef struct section {
    section_kind kind;
    char name[KZ_SERVICE_SIZE];
    int line;
} section;

typedef struct reading {
    settings *to;
    const char *file;
    const char *at, *end; /* what is still to be read */
    int line;
    section sections[SECTIONS_MAX]; /* the first: [server], which is there without being written */
    size_t section_count;
    const section *now;
    int server_lines[SETTINGS_KEYS_MAX];  /* where [server] gave the key; 0: not yet */
    int profile_lines[SETTINGS_KEYS_MAX]; /* the same of the profile that is being read */
    const char *service_keys[8];          /* those that the service being read has had */
    size_t service_key_count;
    int failed_line; /* 0: nothing wrong so far */
    char *message;
} reading;

__attribute__((format(printf, 2, 3))) static int fail(reading *r, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    r->failed_line = r->line;
    snprintf(r->message, 512, "%.80s:%d: %s", r->file, r->line, what);
    return 0;
}

/* ---- sections ---- */

static bool begin_service(reading *r, const char *name)
{
    if (!settings_service_name(name))
        return fail(r, "\"%.70s\" is not the name of a service: 1 to %d of a-z A-Z 0-9 . _ -", name,
                    KZ_SERVICE_SIZE - 1);
    if (r->to->service_count == SERVICES_MAX)
        return fail(r, "service \"%s\" is one too many: at most %d", name, SERVICES_MAX);
    service_settings *service = &r->to->services[r->to->service_count++];
    *service = (service_settings){0};
    strcpy(service->name, name);
    return true;
}

static bool begin_section(reading *r, section_kind kind, const char *name)
{
    static const char *const kinds[] = {"server", "profile", "service"};
    if (kind == SECTION_PROFILE && (!*name || strlen(name) >= sizeof r->now->name))
        return fail(r, "\"%.70s\" is not the name of a profile: 1 to %zu characters", name, sizeof r->now->name - 1);
    for (size_t i = 0; i < r->section_count; i++) {
        section *seen = &r->sections[i];
        if (seen->kind != kind || strcmp(seen->name, name) != 0)
            continue;
        if (seen->line)
            return fail(r, "[%s%s%s%s] is there twice, first in line %d", kinds[kind], *name ? " \"" : "", name,
                        *name ? "\"" : "", seen->line);
        /* [server] goes on with what stands before any section. */
        seen->line = r->line;
        r->now = seen;
        return true;
    }
    if (r->section_count == SECTIONS_MAX)
        return fail(r, "too many sections: at most %d", SECTIONS_MAX - 1);
    if (kind == SECTION_SERVICE && !begin_service(r, name))
        return false;
    section *new = &r->sections[r->section_count++];
    *new = (section){.kind = kind, .line = r->line};
    snprintf(new->name, sizeof new->name, "%s", name);
    r->now = new;
    memset(r->profile_lines, 0, sizeof r->profile_lines);
    r->service_key_count = 0;
    return true;
}

/* `[server]`, `[profile "prod"]`, `[service "payments"]`, and nothing behind but a comment. */
static bool read_section(reading *r, const char *line, size_t length)
{
    char text[256], name[256] = "";
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), line);
    const char *kind = text + 1 + strspn(text + 1, BLANKS);
    int kind_length = (int)strcspn(kind, BLANKS "\"]");
    const char *at = kind + kind_length + strspn(kind + kind_length, BLANKS);
    bool named = *at == '"';
    if (named) {
        const char *name_end = strchr(at + 1, '"');
        if (!name_end)
            return fail(r, "%.80s: the second \" is missing", text);
        snprintf(name, sizeof name, "%.*s", (int)(name_end - at - 1), at + 1);
        at = name_end + 1 + strspn(name_end + 1, BLANKS);
    }
    if (*at != ']')
        return fail(r, "%.80s: not a section: write [server], [profile \"name\"] or [service \"name\"]", text);
    at += 1 + strspn(at + 1, BLANKS);
    if (*at && *at != ';' && *at != '#')
        return fail(r, "\"%.80s\" stands behind a section", at);
    if (named && kind_length == 7 && memcmp(kind, "service", 7) == 0)
        return begin_section(r, SECTION_SERVICE, name);
    if (named && kind_length == 7 && memcmp(kind, "profile", 7) == 0)
        return begin_section(r, SECTION_PROFILE, name);
    if (!named && kind_length == 6 && memcmp(kind, "server", 6) == 0)
        return begin_section(r, SECTION_SERVER, "");
    return fail(r, "unknown section [%.*s]: known are [server], [profile \"name\"] and [service \"name\"]",
                kind_length < 80 ? kind_length : 80, kind);
}

/* ---- keys ---- */

static int service_key(reading *r, const char *key, const char *value)
{
    static const char *const known[] = {"layout", "lease", "max_throughput", "high_blocks"};
    char why[SETTINGS_WHY_SIZE];
    for (size_t i = 0; i < r->service_key_count; i++)
        if (strcmp(r->service_keys[i], key) == 0)
            return fail(r, "%s is there twice in [service \"%s\"]", key, r->now->name);
    if (!settings_set_service(&r->to->services[r->to->service_count - 1], key, value, why))
        return strncmp(why, "unknown key", 11) == 0 ? fail(r, "%s", why) : fail(r, "%s: %s", key, why);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], key) == 0)
            r->service_keys[r->service_key_count++] = known[i];
    return 1;
}

static int server_key(reading *r, const char *name, const char *value)
{
    char why[SETTINGS_WHY_SIZE];
    const settings_key *key = settings_key_find(name, strlen(name), false);
    if (!key && r->now->kind == SECTION_PROFILE)
        return fail(r, "unknown key \"%.60s\" in [profile \"%s\"]", name, r->now->name);
    if (!key)
        return fail(r, "unknown key \"%.60s\"", name);
    if (!key->in_file)
        return fail(r, "%s cannot stand in the file: it is given as a flag or in the environment", name);
    int *lines = r->now->kind == SECTION_PROFILE ? r->profile_lines : r->server_lines;
    int *line = &lines[key - settings_key_at(0)];
    if (*line)
        return fail(r, "%s is there twice, first in line %d", name, *line);
    *line = r->line;
    settings_rank rank = RANK_FILE;
    if (r->now->kind == SECTION_PROFILE)
        rank = r->to->profile && strcmp(r->to->profile, r->now->name) == 0 ? RANK_PROFILE : RANK_CHECKED;
    return settings_set(r->to, key, value, rank, why) ? 1 : fail(r, "%s: %s", name, why);
}

/* inih's handler. Its idea of the section is not asked for. */
static int take_key(void *user, const char *section_name, const char *name, const char *value)
{
    (void)section_name;
    reading *r = user;
    if (r->failed_line)
        return 0;
    return r->now->kind == SECTION_SERVICE ? service_key(r, name, value) : server_key(r, name, value);
}

/* inih's reader: one line of the file for each call, so that its count of lines is the file's. */
static char *give_line(char *to, int room, void *user)
{
    reading *r = user;
    if (r->failed_line || r->at == r->end)
        return NULL;
    const char *line_end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *line = r->at, *stop = line_end ? line_end : r->end;
    r->at = line_end ? line_end + 1 : r->end;
    r->line++;
    strcpy(to, "\n");
    if (r->line == 1 && stop - line >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3;
    while (line < stop && strchr(BLANKS, *line) && *line)
        line++;
    size_t length = (size_t)(stop - line);
    if (memchr(line, '\0', length)) {
        fail(r, "a zero byte: this is not a text file");
    } else if (length && *line == '[') {
        read_section(r, line, length);
    } else if (length && *line != '#' && *line != ';') {
        if (length + 3 > (size_t)room)
            fail(r, "a line of %zu characters: at most %d", length, room - 3);
        else
            snprintf(to, (size_t)room, "%.*s\n", (int)length, line);
    }
    return r->failed_line ? NULL : to;
}

static bool profile_is_there(const reading *r)
{
    for (size_t i = 0; i < r->section_count; i++)
        if (r->sections[i].kind == SECTION_PROFILE && strcmp(r->sections[i].name, r->to->profile) == 0)
            return true;
    return false;
}

bool settings_parse(settings *s, const char *name, const char *text, size_t length, char message[static 512])
{
    if (length > SETTINGS_FILE_MAX) {
        snprintf(message, 512, "%.300s: larger than %d KiB", name, SETTINGS_FILE_MAX / 1024);
        return false;
    }
    reading *r = calloc(1, sizeof *r);
    if (!r) {
        snprintf(message, 512, "out of memory");
        return false;
    }
    *r = (reading){.to = s, .file = name, .at = text, .end = text + length, .message = message, .section_count = 1};
    r->now = r->sections;
    int wrong = ini_parse_stream(give_line, r, take_key, r);
    bool right = !r->failed_line && !wrong;
    if (wrong > 0 && (!r->failed_line || wrong < r->failed_line)) {
        r->line = wrong;
        fail(r, "neither a section nor key = value");
    } else if (wrong < 0) {
        snprintf(message, 512, "%.300s: out of memory", name);
    } else if (right && s->profile && profile_is_there(r)) {
        s->profile_found = true;
    } else if (right && s->profile && !settings_is_built_in(s->profile)) {
        snprintf(message, 512, "%.300s: there is no [profile \"%.63s\"]", name, s->profile);
        right = false;
    }
    free(r);
    return right;
}

bool settings_parse_file(settings *s, const char *path, char message[static 512])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = malloc(SETTINGS_FILE_MAX + 1);
    size_t length = 0;
    ssize_t got = 1;
    while (fd >= 0 && text && length <= SETTINGS_FILE_MAX && got > 0) {
        do
            got = read(fd, text + length, SETTINGS_FILE_MAX + 1 - length);
        while (got < 0 && errno == EINTR);
        length += got > 0 ? (size_t)got : 0;
    }
    bool right = fd >= 0 && text && got >= 0;
    if (!right)
        snprintf(message, 512, "%.300s: %s", path, text ? strerror(errno) : "out of memory");
    else
        right = settings_parse(s, path, text, length, message);
    if (fd >= 0)
        close(fd);
    free(text);
    return right;
}
