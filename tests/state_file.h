/* A temporary folder with a state file in it, read and spoiled by tests. */
#ifndef KZ_TESTS_STATE_FILE_H
#define KZ_TESTS_STATE_FILE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_SIZE = 512, STATE_SIZE = 2 * RECORD_SIZE };

typedef struct state_file {
    char folder[32], path[64], url[96];
} state_file;

static inline void state_file_begin(state_file *f, unsigned node)
{
    strcpy(f->folder, "/tmp/kz-state-XXXXXX");
    if (!mkdtemp(f->folder))
        abort();
    snprintf(f->path, sizeof f->path, "%s/state", f->folder);
    snprintf(f->url, sizeof f->url, "static:%u?state=%s", node, f->path);
}

static inline void state_file_end(const state_file *f)
{
    unlink(f->path);
    rmdir(f->folder);
}

static inline size_t state_file_read(const state_file *f, char bytes[static STATE_SIZE])
{
    FILE *file = fopen(f->path, "r");
    if (!file)
        return 0;
    size_t length = fread(bytes, 1, STATE_SIZE, file);
    fclose(file);
    return length;
}

static inline void state_file_write(const state_file *f, const char *bytes, size_t length)
{
    FILE *file = fopen(f->path, "w");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file))
        abort();
}

/* The mark of one record; false if there is none. */
static inline bool state_record_mark(const char *record, uint64_t *number, kz_id *mark)
{
    char text[RECORD_SIZE + 1];
    memcpy(text, record, RECORD_SIZE);
    text[RECORD_SIZE] = 0;
    return sscanf(text, "kazahana-state 1 record %" SCNu64 " layout %*s node %*u mark %" SCNu64, number, mark) == 2;
}

/* The newest mark, and which record has it: 0 or 1; -1 without any. */
static inline int state_file_mark(const state_file *f, kz_id *mark)
{
    char bytes[STATE_SIZE];
    size_t length = state_file_read(f, bytes);
    int newest = -1;
    uint64_t newest_number = 0;
    for (int i = 0; i < 2 && length >= (size_t)(i + 1) * RECORD_SIZE; i++) {
        uint64_t number;
        kz_id found;
        if (state_record_mark(bytes + i * RECORD_SIZE, &number, &found) && (newest < 0 || number > newest_number)) {
            newest = i;
            newest_number = number;
            *mark = found;
        }
    }
    return newest;
}

#endif
