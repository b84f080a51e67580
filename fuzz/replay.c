/* Runs a fuzz target over every file of the directories given, where there is no libFuzzer. With --seconds N it goes on
 * for so long with the files changed at random: no match for a fuzzer that sees coverage, but it needs only a compiler
 * with sanitizers. */
#include "target.h"

#include <dirent.h>
#include <errno.h>
#include <time.h>

enum { FILES_MAX = 1024, SIZE_MAX_KEPT = 65536 };

static struct {
    uint8_t *data;
    size_t size;
} files[FILES_MAX];
static size_t file_count;
static uint64_t state = 1;

static uint64_t draw(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

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
    MUST(file_count < FILES_MAX);
    files[file_count].data = data;
    files[file_count++].size = size;
}

static void run_directory(const char *directory)
{
    DIR *dir = opendir(directory);
    if (!dir) {
        fprintf(stderr, "%s: %s\n", directory, strerror(errno));
        exit(1);
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        run_file(path);
    }
    closedir(dir);
}

/* One of the files, with a few bytes changed, a piece cut out, doubled, or taken from another. */
static size_t change(uint8_t *out)
{
    size_t from = draw() % file_count,
           size = files[from].size < SIZE_MAX_KEPT / 2 ? files[from].size : SIZE_MAX_KEPT / 2;
    if (size)
        memcpy(out, files[from].data, size);
    for (uint64_t n = 1 + draw() % 4; n && size; n--) {
        size_t at = draw() % size, length = 1 + draw() % (size - at < 32 ? size - at : 32);
        size_t other = draw() % file_count;
        switch (draw() % 5) {
        case 0:
            out[at] ^= (uint8_t)(1u << draw() % 8);
            break;
        case 1:
            out[at] = (uint8_t) "\r\n\0:;= 09-+%,\xff/?&{}\"["[draw() % 22];
            break;
        case 2:
            memmove(out + at, out + at + length, size - at - length);
            size -= length;
            break;
        case 3:
            memmove(out + at + length, out + at, size - at);
            size += length;
            break;
        default:
            if (length > files[other].size)
                length = files[other].size;
            if (length)
                memcpy(out + at, files[other].data + draw() % (files[other].size - length + 1), length);
        }
    }
    return size;
}

static uint64_t run_changed(long seconds)
{
    uint64_t runs = 0;
    for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
        /* A copy of just that size, so that a byte read past its end is noticed. */
        static uint8_t room[SIZE_MAX_KEPT];
        size_t size = change(room);
        uint8_t *data = malloc(size + !size);
        MUST(data);
        memcpy(data, room, size);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        runs++;
    }
    return runs;
}

int main(int argc, char **argv)
{
    long seconds = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = strtol(argv[++i], NULL, 10);
        else
            run_directory(argv[i]);
    }
    uint64_t runs = file_count ? run_changed(seconds) : 0;
    printf("%zu files, %llu changed\n", file_count, (unsigned long long)runs);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].data);
    return file_count ? 0 : 1;
}
