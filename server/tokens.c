/* Bearer tokens. Only their hashes are kept: all of one size, so that a comparison takes the same time whatever is
 * presented, and no memory dump shows a token. */
#include "server/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKENS_MAX       64
#define TOKEN_LENGTH_MIN 16
#define TOKEN_LENGTH_MAX 1024
#define FILE_MAX         (TOKENS_MAX * (TOKEN_LENGTH_MAX + 256))

struct tokens {
    size_t count;
    unsigned char hashes[TOKENS_MAX][SHA256_DIGEST_LENGTH];
};

static bool add_line(tokens *t, const char *at, size_t length, const char *path, int line, char message[static 512])
{
    while (length && strchr(" \t\r", at[length - 1]) && at[length - 1])
        length--;
    while (length && (*at == ' ' || *at == '\t')) {
        at++;
        length--;
    }
    if (!length || *at == '#')
        return true;
    for (size_t i = 0; i < length; i++)
        if (at[i] <= ' ' || at[i] > '~') {
            snprintf(message, 512, "%.300s:%d: a token is made of visible ASCII characters without blanks", path, line);
            return false;
        }
    if (length < TOKEN_LENGTH_MIN || length > TOKEN_LENGTH_MAX) {
        snprintf(message, 512, "%.300s:%d: a token of %zu characters: %d to %d are wanted", path, line, length,
                 TOKEN_LENGTH_MIN, TOKEN_LENGTH_MAX);
        return false;
    }
    if (t->count == TOKENS_MAX) {
        snprintf(message, 512, "%.300s:%d: too many tokens: at most %d", path, line, TOKENS_MAX);
        return false;
    }
    SHA256((const unsigned char *)at, length, t->hashes[t->count++]);
    return true;
}

static bool add_lines(tokens *t, const char *text, size_t length, const char *path, char message[static 512])
{
    const char *end = text + length;
    for (int line = 1; text < end; line++) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end)
            line_end = end;
        if (!add_line(t, text, (size_t)(line_end - text), path, line, message))
            return false;
        text = line_end + (line_end < end);
    }
    if (t->count)
        return true;
    snprintf(message, 512, "%.300s: no token in it", path);
    return false;
}

static ssize_t read_all(int fd, char *to, size_t room)
{
    size_t length = 0;
    ssize_t got = 1;
    while (length < room && got) {
        got = read(fd, to + length, room - length);
        if (got < 0 && errno != EINTR)
            return -1;
        length += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)length;
}

bool tokens_load(tokens **t, const char *path, char message[static 512])
{
    bool right = false;
    struct stat facts;
    ssize_t length = -1;
    tokens *new = calloc(1, sizeof *new);
    char *text = malloc(FILE_MAX + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *message = '\0';
    if (!new || !text) {
        snprintf(message, 512, "out of memory");
        goto done;
    }
    if (fd < 0 || fstat(fd, &facts) || (length = read_all(fd, text, FILE_MAX + 1)) < 0) {
        snprintf(message, 512, "%.300s: %s", path, strerror(errno));
        goto done;
    }
    if (length > FILE_MAX) {
        snprintf(message, 512, "%.300s: larger than %d KiB", path, FILE_MAX / 1024);
        goto done;
    }
    right = add_lines(new, text, (size_t)length, path, message);
    if (right) {
        if (facts.st_mode & S_IROTH)
            snprintf(message, 512, "%.300s can be read by everybody on this machine: chmod o-r", path);
        *t = new;
        new = NULL;
    }
done:
    if (length > 0)
        OPENSSL_cleanse(text, (size_t)length);
    if (fd >= 0)
        close(fd);
    free(text);
    tokens_free(new);
    return right;
}

void tokens_free(tokens *t)
{
    if (t)
        OPENSSL_cleanse(t, sizeof *t);
    free(t);
}

bool tokens_allow(const tokens *t, const char *value, size_t length)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    size_t skip = 7;
    if (length <= skip || strncasecmp(value, "Bearer ", skip) != 0)
        return false;
    while (skip < length && value[skip] == ' ')
        skip++;
    SHA256((const unsigned char *)value + skip, length - skip, hash);
    unsigned same = 0;
    for (size_t i = 0; i < t->count; i++)
        same |= CRYPTO_memcmp(hash, t->hashes[i], sizeof hash) == 0;
    return same;
}
