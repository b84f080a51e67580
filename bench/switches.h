/* How often threads left the processor: each time, something had woken them before. */
#ifndef KZ_BENCH_SWITCHES_H
#define KZ_BENCH_SWITCHES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All threads of this process but the first, since they were started; -1 where /proc does not say. */
static inline long times_switched(void)
{
    long all = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return -1;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], line[128];
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (strstr(line, "ctxt_switches:"))
                all += strtol(strchr(line, ':') + 1, NULL, 10);
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return all;
}

#endif
