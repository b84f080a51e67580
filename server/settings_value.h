/* One setting by its name: the same for a flag, a variable of the environment and a line of the file. */
#ifndef KZ_SERVER_SETTINGS_VALUE_H
#define KZ_SERVER_SETTINGS_VALUE_H

#include "server/settings.h"

#define SETTINGS_WHY_SIZE 384

/* Where a value comes from; the higher one stays. */
typedef enum settings_rank {
    RANK_CHECKED = 0, /* only read, to see whether it is right: a profile that was not chosen */
    RANK_FILE,
    RANK_PROFILE,
    RANK_ENVIRONMENT,
    RANK_FLAG
} settings_rank;

typedef struct settings_key {
    const char *name; /* "request_timeout" */
    bool in_file;     /* may stand in the file */
    bool is_switch;   /* as a flag it takes no value */
    bool (*read)(settings *s, const char *value, char why[static SETTINGS_WHY_SIZE]);
    bool reloadable; /* SIGHUP takes a new value over; else it waits for a restart */
} settings_key;

/* In order, for index 0 and up; NULL past the last. */
const settings_key *settings_key_at(size_t index);

/* Hyphens count as underscores if `hyphens` is set. NULL: no such key. */
const settings_key *settings_key_find(const char *name, size_t length, bool hyphens);

/* Reads the value always and keeps it unless something of a higher rank is there. False: `why` says what is wrong. */
bool settings_set(settings *s, const settings_key *key, const char *value, settings_rank rank,
                  char why[static SETTINGS_WHY_SIZE]);

/* A line of a [service "..."] section. */
bool settings_set_service(service_settings *service, const char *key, const char *value,
                          char why[static SETTINGS_WHY_SIZE]);

/* 1 to 63 characters of a-z A-Z 0-9 . _ - */
bool settings_service_name(const char *name);

/* server/settings_file.c: the config file's text, called `name` in messages. */
#define SETTINGS_FILE_MAX (256 * 1024)
bool settings_parse(settings *s, const char *name, const char *text, size_t length, char message[static 512]);
bool settings_parse_file(settings *s, const char *path, char message[static 512]);

/* server/settings_profile.c: profiles that need no file, `snowflake` and `tsid`. */
bool settings_is_built_in(const char *profile);
/* Takes over the one that was chosen. */
bool settings_built_in(settings *s, char message[static 512]);

#endif
