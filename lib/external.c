/* External IDs: keys, and IDs to texts that hide order and time, and back. */
#include "core/cipher.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "host/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEYS = 4, /* as many as two bits can number */
    KEY_BYTES = 16,
    SECRET_MIN = 16,
    SECRET_MAX = 1024,
    FILE_MAX = 64 * 1024,
    TYPE_MAX = KZ_EXTERNAL_TYPED_SIZE - KZ_EXTERNAL_SIZE - 1,
};

/* How far ahead of this machine's clock an ID's time may be: the clocks of sources differ. */
#define AHEAD_MS (INT64_C(24) * 3600 * 1000)

typedef enum cipher { NOT_LOADED = 0, XTEA, SPECK } cipher;

static const char *const cipher_names[] = {[XTEA] = "xtea", [SPECK] = "speck"};

typedef struct key {
    cipher algorithm;
    uint8_t secret[KZ__SHA256_SIZE]; /* what HKDF extracted from it: the keys of types are made of this */
    union {
        kz__xtea xtea;
        kz__speck speck;
    };
} key;

struct kz_external_keys {
    unsigned encoder; /* the number of the first key in the text */
    key numbered[KEYS];
};

/* Where an error is. Messages never show a word of the line: one that lacks a field has its secret in another's place.
 */
typedef struct place {
    const char *path; /* NULL: the text came from memory */
    size_t line;
} place;

static kz_status fail_line(kz_error *err, place at, const char *what)
{
    const char *path = at.path ? at.path : "keys";
    return kz__fail(err, KZ_INVALID, "%s, line %zu: %s", path, at.line, what);
}

typedef struct span {
    const char *start;
    size_t length;
} span;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the first word off a line; an empty one when there is none left. */
static span take_word(span *line)
{
    while (line->length && is_blank(*line->start))
        line->start++, line->length--;
    span word = {line->start, 0};
    while (line->length && !is_blank(*line->start))
        line->start++, line->length--, word.length++;
    return word;
}

static span take_line(span *text)
{
    span line = {text->start, text->length};
    const char *end = text->length ? memchr(text->start, '\n', text->length) : NULL;
    if (end)
        line.length = (size_t)(end - text->start);
    size_t used = line.length + (end != NULL);
    text->start += used;
    text->length -= used;
    return line;
}

static cipher cipher_named(span word)
{
    for (cipher a = XTEA; a <= SPECK; a++)
        if (strlen(cipher_names[a]) == word.length && memcmp(cipher_names[a], word.start, word.length) == 0)
            return a;
    return NOT_LOADED;
}

/* Makes the cipher of a key whose algorithm and secret are there, for one type of ID or, with NULL, for IDs of none. */
static void expand(key *k, const char *type)
{
    uint8_t derived[KEY_BYTES];
    char info[KZ__HKDF_INFO_MAX];
    snprintf(info, sizeof info, "kazahana external %s%s%s", cipher_names[k->algorithm], type ? " " : "",
             type ? type : "");
    kz__hkdf_expand(k->secret, info, derived, sizeof derived);
    if (k->algorithm == XTEA)
        kz__xtea_expand(&k->xtea, derived);
    else
        kz__speck_expand(&k->speck, derived);
    explicit_bzero(derived, sizeof derived);
}

static kz_status read_secret(span word, place at, uint8_t secret[static SECRET_MAX], kz_error *err)
{
    if (word.length % 2)
        return fail_line(err, at, "the secret has an odd number of hex digits");
    if (word.length < 2 * SECRET_MIN)
        return fail_line(err, at, "the secret is shorter than 16 bytes (32 hex digits)");
    if (word.length > 2 * SECRET_MAX)
        return fail_line(err, at, "the secret is longer than 1024 bytes (2048 hex digits)");
    for (size_t i = 0; i < word.length; i += 2) {
        int high = kz__hex_value(word.start[i]), low = kz__hex_value(word.start[i + 1]);
        if (high < 0 || low < 0)
            return fail_line(err, at, "the secret has a character that is no hex digit");
        secret[i / 2] = (uint8_t)(high << 4 | low);
    }
    return KZ_OK;
}

/* Reads `N xtea|speck HEXSECRET`. */
static kz_status read_key(kz_external_keys *keys, span line, place at, unsigned *number, kz_error *err)
{
    span digit = take_word(&line), name = take_word(&line), hex = take_word(&line), more = take_word(&line);
    if (digit.length != 1 || *digit.start < '0' || *digit.start >= '0' + KEYS)
        return fail_line(err, at, "the key number must be 0, 1, 2 or 3");
    *number = (unsigned)(*digit.start - '0');
    cipher algorithm = cipher_named(name);
    if (algorithm == NOT_LOADED)
        return fail_line(err, at, "the algorithm must be xtea or speck");
    if (hex.length == 0)
        return fail_line(err, at, "there is no secret");
    if (more.length)
        return fail_line(err, at, "there is something behind the secret");
    key *slot = &keys->numbered[*number];
    if (slot->algorithm != NOT_LOADED)
        return fail_line(err, at, "a line above has the same key number");
    uint8_t secret[SECRET_MAX];
    kz_status status = read_secret(hex, at, secret, err);
    if (status == KZ_OK) {
        slot->algorithm = algorithm;
        kz__hkdf_extract(secret, hex.length / 2, slot->secret);
        expand(slot, NULL);
    }
    explicit_bzero(secret, sizeof secret);
    return status;
}

static kz_status read_keys(kz_external_keys *keys, span text, const char *path, kz_error *err)
{
    bool found = false;
    for (place at = {path, 1}; text.length; at.line++) {
        span line = take_line(&text);
        span rest = line;
        span first = take_word(&rest);
        if (first.length == 0 || *first.start == '#')
            continue;
        unsigned number;
        kz_status status = read_key(keys, line, at, &number, err);
        if (status)
            return status;
        if (!found)
            keys->encoder = number;
        found = true;
    }
    if (!found)
        return kz__fail(err, KZ_INVALID, "%s: no key: a line is N xtea|speck HEXSECRET", path ? path : "keys");
    return KZ_OK;
}

static kz_status new_keys(kz_external_keys **keys, span text, const char *path, kz_error *err)
{
    kz_external_keys *made = calloc(1, sizeof *made);
    if (!made)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for keys");
    kz_status status = read_keys(made, text, path, err);
    if (status) {
        kz_external_keys_free(made);
        return status;
    }
    *keys = made;
    return KZ_OK;
}

kz_status kz_external_keys_parse(kz_external_keys **keys, const char *text, size_t length, kz_error *err)
{
    return new_keys(keys, (span){text, length}, NULL, err);
}

/* Reads until the end or until the buffer is full. By read and not by stdio, whose buffer would keep the secrets. */
static kz_status read_file(int fd, char *buffer, size_t size, size_t *length, const char *path, kz_error *err)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, buffer + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kz__fail(err, KZ_SYSTEM, "key file %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        have += (size_t)got;
    }
    *length = have;
    return KZ_OK;
}

kz_status kz_external_keys_load(kz_external_keys **keys, const char *path, kz_error *err)
{
    const size_t size = FILE_MAX + 1;
    size_t length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kz__fail(err, KZ_SYSTEM, "key file %s: %s", path, strerror(errno));
    kz_status status;
    char *buffer = malloc(size);
    if (!buffer) {
        status = kz__fail(err, KZ_NO_MEMORY, "no memory for a key file");
        goto done;
    }
    status = read_file(fd, buffer, size, &length, path, err);
    if (status)
        goto done;
    if (length > FILE_MAX)
        status = kz__fail(err, KZ_INVALID, "key file %s is larger than 64 KiB", path);
    else
        status = new_keys(keys, (span){buffer, length}, path, err);
done:
    if (buffer)
        explicit_bzero(buffer, size);
    free(buffer);
    close(fd);
    return status;
}

void kz_external_keys_free(kz_external_keys *keys)
{
    if (!keys)
        return;
    explicit_bzero(keys, sizeof *keys);
    free(keys);
}

static uint64_t encipher(const key *k, kz_id id)
{
    return k->algorithm == SPECK ? kz__speck_encrypt(&k->speck, id) : kz__xtea_encrypt(&k->xtea, id);
}

static kz_id decipher(const key *k, uint64_t block)
{
    return k->algorithm == SPECK ? kz__speck_decrypt(&k->speck, block) : kz__xtea_decrypt(&k->xtea, block);
}

void kz_external_encode(const kz_external_keys *keys, kz_id id, char text[KZ_AT_LEAST(KZ_EXTERNAL_SIZE)])
{
    if (keys)
        kz__base64url_write(encipher(&keys->numbered[keys->encoder], id), keys->encoder, text);
    else
        kz__base64url_write(kz__mix(id), 0, text);
}

/* Reads the 11 characters and finds the key they were made with: NULL for the mixer. */
static kz_status read_block(const kz_external_keys *keys, const char *text, uint64_t *block, const key **k,
                            kz_error *err)
{
    unsigned number;
    kz_status status = kz__base64url_read(text, block, &number, err);
    if (status)
        return status;
    *k = keys ? &keys->numbered[number] : NULL;
    if (keys && (*k)->algorithm == NOT_LOADED)
        return kz__fail(err, KZ_UNKNOWN_KEY, "%s was made with key %u, which is not loaded", text, number);
    if (!keys && number)
        return kz__fail(err, KZ_UNKNOWN_KEY, "%s was made with key %u, and no keys are loaded", text, number);
    return KZ_OK;
}

kz_status kz_external_decode(const kz_external_keys *keys, const char *text, kz_id *id, kz_error *err)
{
    uint64_t block;
    const key *k;
    kz_status status = read_block(keys, text, &block, &k, err);
    if (status == KZ_OK)
        *id = k ? decipher(k, block) : kz__unmix(block);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- types */

static kz_status check_type(const char *type, kz_error *err)
{
    size_t length = strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (length && length <= TYPE_MAX && !type[length] && *type >= 'a')
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "\"%.32s\" is not a type: 1 to %d of a-z and 0-9, beginning with a letter", type,
                    TYPE_MAX);
}

kz_status kz_external_encode_typed(const kz_external_keys *keys, const char *type, kz_id id,
                                   char text[KZ_AT_LEAST(KZ_EXTERNAL_TYPED_SIZE)], kz_error *err)
{
    kz_status status = check_type(type, err);
    if (status)
        return status;
    size_t length = strlen(type);
    memcpy(text, type, length);
    text[length++] = '_';
    if (!keys) {
        kz_external_encode(NULL, id, text + length);
        return KZ_OK;
    }
    key typed = keys->numbered[keys->encoder];
    expand(&typed, type);
    kz__base64url_write(encipher(&typed, id), keys->encoder, text + length);
    explicit_bzero(&typed, sizeof typed);
    return KZ_OK;
}

/* Is it an ID of this layout, from no later than that? A text of another type, or under another key, seldom is. */
static kz_status check_sense(const char *type, const char *text, const kz_layout *layout, int64_t latest_unix_ms,
                             kz_id id, kz_error *err)
{
    kz_parts parts;
    if (!layout)
        layout = kz_layout_preset(0);
    if (!latest_unix_ms)
        latest_unix_ms = (int64_t)(kz__clock_ns(CLOCK_REALTIME) / 1000000) + AHEAD_MS;
    if (kz_decode(layout, id, &parts, NULL) == KZ_OK && parts.unix_ms <= latest_unix_ms)
        return KZ_OK;
    char written[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(layout, written);
    return kz__fail(err, KZ_INVALID,
                    "%s does not hold an ID: it was made for another type than %s or with another key, or its ID is "
                    "not of layout %s",
                    text, type, written);
}

kz_status kz_external_decode_typed(const kz_external_keys *keys, const char *type, const char *text,
                                   const kz_layout *layout, int64_t latest_unix_ms, kz_id *id, kz_error *err)
{
    kz_status status = check_type(type, err);
    if (status)
        return status;
    size_t length = strlen(type);
    if (strncmp(text, type, length) != 0 || text[length] != '_')
        return kz__fail(err, KZ_INVALID, "\"%.40s\" is no external ID of type %s: that begins with %s_", text, type,
                        type);
    uint64_t block;
    const key *k;
    status = read_block(keys, text + length + 1, &block, &k, err);
    if (status)
        return status;
    if (!k) {
        *id = kz__unmix(block);
        return KZ_OK;
    }
    key typed = *k;
    expand(&typed, type);
    kz_id found = decipher(&typed, block);
    explicit_bzero(&typed, sizeof typed);
    status = check_sense(type, text, layout, latest_unix_ms, found, err);
    if (status == KZ_OK)
        *id = found;
    return status;
}
