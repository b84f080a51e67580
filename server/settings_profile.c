/* The profiles that are there without a config file: each is the service of a program that kazahana can stand in for.
 */
#include "server/settings_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the environment; it must be no more than a host or a port, since it becomes a part of a URL. */
static const char *variable(const char *name, const char *otherwise, char message[static 512])
{
    const char *value = getenv(name);
    if (!value || !*value)
        return otherwise;
    if (strlen(value) < 256 &&
        strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") == strlen(value))
        return value;
    snprintf(message, 512, "%s: \"%.100s\" is not a host or a port", name, value);
    return NULL;
}

bool settings_is_built_in(const char *profile)
{
    return strcmp(profile, "snowflake") == 0 || strcmp(profile, "tsid") == 0;
}

bool settings_built_in(settings *s, char message[static 512])
{
    char text[1024];
    const char *host = "", *port = "";
    bool tsid = strcmp(s->profile, "tsid") == 0;
    if (tsid &&
        (!(host = variable("REDIS_HOST", "localhost", message)) || !(port = variable("REDIS_PORT", "6379", message))))
        return false;
    if (tsid)
        snprintf(text, sizeof text, "[profile \"tsid\"]\nids_from = tsid+redis://%s:%s\n", host, port);
    else
        snprintf(text, sizeof text,
                 "[profile \"snowflake\"]\nids_from = env:WORKER_ID?default=0\nlayout = snowflake\n"
                 "backward = fail\n");
    return settings_parse(s, s->profile, text, strlen(text), message);
}
