/* Runs a fuzz target over every file of the directories given, where there is no libFuzzer. */
#include "target.h"

#include <dirent.h>
#include <errno.h>

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t size = 0, room = 4096, got;
    uint8_t *data = malloc(room);
    MUST(data);
    while ((got = fread(data + size, 1, room - size, file)) > 0) {
        size += got;
        if (size == room) {
            data = realloc(data, room *= 2);
            MUST(data);
        }
    }
    fclose(file);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int run_directory(const char *directory)
{
    DIR *dir = opendir(directory);
    if (!dir) {
        fprintf(stderr, "%s: %s\n", directory, strerror(errno));
        exit(1);
    }
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        run_file(path);
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += run_directory(argv[i]);
    printf("%d files\n", count);
    return count ? 0 : 1;
}
