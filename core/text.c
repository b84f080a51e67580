/* IDs as text and as bytes. */
#include "core/text.h"

#include "core/error.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

/* Two characters for every number of two digits: half the steps of one at a time. */
static const char decimal_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                    "8081828384858687888990919293949596979899";

#define ROW(a)                                                                                                         \
    a, 'A', a, 'B', a, 'C', a, 'D', a, 'E', a, 'F', a, 'G', a, 'H', a, 'I', a, 'J', a, 'K', a, 'L', a, 'M', a, 'N', a, \
        'O', a, 'P', a, 'Q', a, 'R', a, 'S', a, 'T', a, 'U', a, 'V', a, 'W', a, 'X', a, 'Y', a, 'Z', a, 'a', a, 'b',   \
        a, 'c', a, 'd', a, 'e', a, 'f', a, 'g', a, 'h', a, 'i', a, 'j', a, 'k', a, 'l', a, 'm', a, 'n', a, 'o', a,     \
        'p', a, 'q', a, 'r', a, 's', a, 't', a, 'u', a, 'v', a, 'w', a, 'x', a, 'y', a, 'z', a, '0', a, '1', a, '2',   \
        a, '3', a, '4', a, '5', a, '6', a, '7', a, '8', a, '9', a, '-', a, '_'
static const char base64url_pairs[2 * 4096] = {
    ROW('A'), ROW('B'), ROW('C'), ROW('D'), ROW('E'), ROW('F'), ROW('G'), ROW('H'), ROW('I'), ROW('J'), ROW('K'),
    ROW('L'), ROW('M'), ROW('N'), ROW('O'), ROW('P'), ROW('Q'), ROW('R'), ROW('S'), ROW('T'), ROW('U'), ROW('V'),
    ROW('W'), ROW('X'), ROW('Y'), ROW('Z'), ROW('a'), ROW('b'), ROW('c'), ROW('d'), ROW('e'), ROW('f'), ROW('g'),
    ROW('h'), ROW('i'), ROW('j'), ROW('k'), ROW('l'), ROW('m'), ROW('n'), ROW('o'), ROW('p'), ROW('q'), ROW('r'),
    ROW('s'), ROW('t'), ROW('u'), ROW('v'), ROW('w'), ROW('x'), ROW('y'), ROW('z'), ROW('0'), ROW('1'), ROW('2'),
    ROW('3'), ROW('4'), ROW('5'), ROW('6'), ROW('7'), ROW('8'), ROW('9'), ROW('-'), ROW('_'),
};
#undef ROW

#define ROW(a)                                                                                                         \
    a, '0', a, '1', a, '2', a, '3', a, '4', a, '5', a, '6', a, '7', a, '8', a, '9', a, 'A', a, 'B', a, 'C', a, 'D', a, \
        'E', a, 'F', a, 'G', a, 'H', a, 'J', a, 'K', a, 'M', a, 'N', a, 'P', a, 'Q', a, 'R', a, 'S', a, 'T', a, 'V',   \
        a, 'W', a, 'X', a, 'Y', a, 'Z'
static const char base32_pairs[2 * 32 * 32] = {
    ROW('0'), ROW('1'), ROW('2'), ROW('3'), ROW('4'), ROW('5'), ROW('6'), ROW('7'), ROW('8'), ROW('9'), ROW('A'),
    ROW('B'), ROW('C'), ROW('D'), ROW('E'), ROW('F'), ROW('G'), ROW('H'), ROW('J'), ROW('K'), ROW('M'), ROW('N'),
    ROW('P'), ROW('Q'), ROW('R'), ROW('S'), ROW('T'), ROW('V'), ROW('W'), ROW('X'), ROW('Y'), ROW('Z')};
#undef ROW

#define ROW(a)                                                                                                         \
    a, '0', a, '1', a, '2', a, '3', a, '4', a, '5', a, '6', a, '7', a, '8', a, '9', a, 'A', a, 'B', a, 'C', a, 'D', a, \
        'E', a, 'F', a, 'G', a, 'H', a, 'I', a, 'J', a, 'K', a, 'L', a, 'M', a, 'N', a, 'O', a, 'P', a, 'Q', a, 'R',   \
        a, 'S', a, 'T', a, 'U', a, 'V', a, 'W', a, 'X', a, 'Y', a, 'Z', a, 'a', a, 'b', a, 'c', a, 'd', a, 'e', a,     \
        'f', a, 'g', a, 'h', a, 'i', a, 'j', a, 'k', a, 'l', a, 'm', a, 'n', a, 'o', a, 'p', a, 'q', a, 'r', a, 's',   \
        a, 't', a, 'u', a, 'v', a, 'w', a, 'x', a, 'y', a, 'z'
static const char base62_pairs[2 * 62 * 62] = {
    ROW('0'), ROW('1'), ROW('2'), ROW('3'), ROW('4'), ROW('5'), ROW('6'), ROW('7'), ROW('8'), ROW('9'), ROW('A'),
    ROW('B'), ROW('C'), ROW('D'), ROW('E'), ROW('F'), ROW('G'), ROW('H'), ROW('I'), ROW('J'), ROW('K'), ROW('L'),
    ROW('M'), ROW('N'), ROW('O'), ROW('P'), ROW('Q'), ROW('R'), ROW('S'), ROW('T'), ROW('U'), ROW('V'), ROW('W'),
    ROW('X'), ROW('Y'), ROW('Z'), ROW('a'), ROW('b'), ROW('c'), ROW('d'), ROW('e'), ROW('f'), ROW('g'), ROW('h'),
    ROW('i'), ROW('j'), ROW('k'), ROW('l'), ROW('m'), ROW('n'), ROW('o'), ROW('p'), ROW('q'), ROW('r'), ROW('s'),
    ROW('t'), ROW('u'), ROW('v'), ROW('w'), ROW('x'), ROW('y'), ROW('z')};
#undef ROW

/* The value of a base64url character, with this bit set to tell it from all others. */
enum { IN_ALPHABET = 64 };
static const uint8_t base64url_values[256] = {
    ['A'] = 64,  ['B'] = 65,  ['C'] = 66,  ['D'] = 67,  ['E'] = 68,  ['F'] = 69,  ['G'] = 70,  ['H'] = 71,
    ['I'] = 72,  ['J'] = 73,  ['K'] = 74,  ['L'] = 75,  ['M'] = 76,  ['N'] = 77,  ['O'] = 78,  ['P'] = 79,
    ['Q'] = 80,  ['R'] = 81,  ['S'] = 82,  ['T'] = 83,  ['U'] = 84,  ['V'] = 85,  ['W'] = 86,  ['X'] = 87,
    ['Y'] = 88,  ['Z'] = 89,  ['a'] = 90,  ['b'] = 91,  ['c'] = 92,  ['d'] = 93,  ['e'] = 94,  ['f'] = 95,
    ['g'] = 96,  ['h'] = 97,  ['i'] = 98,  ['j'] = 99,  ['k'] = 100, ['l'] = 101, ['m'] = 102, ['n'] = 103,
    ['o'] = 104, ['p'] = 105, ['q'] = 106, ['r'] = 107, ['s'] = 108, ['t'] = 109, ['u'] = 110, ['v'] = 111,
    ['w'] = 112, ['x'] = 113, ['y'] = 114, ['z'] = 115, ['0'] = 116, ['1'] = 117, ['2'] = 118, ['3'] = 119,
    ['4'] = 120, ['5'] = 121, ['6'] = 122, ['7'] = 123, ['8'] = 124, ['9'] = 125, ['-'] = 126, ['_'] = 127,
};

/* Crockford's digits plus one, so that 0 is what is no digit; lenient as Crockford wants it. */
static const char base32_digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static const uint8_t base32_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,  ['8'] = 9,
    ['9'] = 10, ['A'] = 11, ['a'] = 11, ['B'] = 12, ['b'] = 12, ['C'] = 13, ['c'] = 13, ['D'] = 14, ['d'] = 14,
    ['E'] = 15, ['e'] = 15, ['F'] = 16, ['f'] = 16, ['G'] = 17, ['g'] = 17, ['H'] = 18, ['h'] = 18, ['J'] = 19,
    ['j'] = 19, ['K'] = 20, ['k'] = 20, ['M'] = 21, ['m'] = 21, ['N'] = 22, ['n'] = 22, ['P'] = 23, ['p'] = 23,
    ['Q'] = 24, ['q'] = 24, ['R'] = 25, ['r'] = 25, ['S'] = 26, ['s'] = 26, ['T'] = 27, ['t'] = 27, ['V'] = 28,
    ['v'] = 28, ['W'] = 29, ['w'] = 29, ['X'] = 30, ['x'] = 30, ['Y'] = 31, ['y'] = 31, ['Z'] = 32, ['z'] = 32,
    ['O'] = 1,  ['o'] = 1,  ['I'] = 2,  ['i'] = 2,  ['L'] = 2,  ['l'] = 2,
};

static const char base62_digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

enum { BASE32_LEN = 13, BASE62_LEN = 11, HEX_LEN = 16, DECIMAL_MAX_LEN = 20 };

const char *kz__show_char(char c, char shown[static 8])
{
    if (c >= ' ' && c <= '~')
        snprintf(shown, 8, "'%c'", c);
    else
        snprintf(shown, 8, "0x%02x", (unsigned char)c);
    return shown;
}

int kz__hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int base62_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 36;
    return -1;
}

static kz_status fail_char(kz_error *err, const char *form, const char *text, size_t index)
{
    char shown[8];
    return kz__fail(err, KZ_INVALID, "%s at position %zu is no %s digit", kz__show_char(text[index], shown), index + 1,
                    form);
}

static kz_status fail_size(kz_error *err, const char *text)
{
    return kz__fail(err, KZ_INVALID, "%s is above 18446744073709551615, the largest 64-bit number", text);
}

static kz_status check_length(const char *form, const char *text, size_t wanted, kz_error *err)
{
    size_t length = strlen(text);
    if (length == wanted)
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "%s has %zu characters, not %zu", form, wanted, length);
}

static void put_pair(char *at, const char *pairs, uint64_t number)
{
    memcpy(at, pairs + 2 * number, 2);
}

/* Four pairs that do not wait for one another. */
static void put_8_digits(char *at, uint32_t number)
{
    uint32_t high = number / 10000, low = number % 10000;
    put_pair(at, decimal_pairs, high / 100);
    put_pair(at + 2, decimal_pairs, high % 100);
    put_pair(at + 4, decimal_pairs, low / 100);
    put_pair(at + 6, decimal_pairs, low % 100);
}

/* Without zeros in front: one to eight. */
static char *put_first_digits(char *at, uint32_t number)
{
    char *end = at + 1;
    for (uint32_t rest = number; rest >= 10; rest /= 10)
        end++;
    for (at = end; number >= 10; number /= 10)
        *--at = (char)('0' + number % 10);
    *--at = (char)('0' + number);
    return end;
}

/* Each digit is written where it belongs at once: to copy what was just written in pieces means to wait for it. */
static size_t write_decimal(kz_id id, char *text)
{
    const uint64_t e8 = 100000000;
    uint64_t upper = id / e8;
    uint32_t head = (uint32_t)(upper / e8), tail = (uint32_t)(id % e8);
    char *at;
    if (head) {
        at = put_first_digits(text, head);
        put_8_digits(at, (uint32_t)(upper % e8));
        put_8_digits(at + 8, tail);
        at += 16;
    } else if (upper) {
        at = put_first_digits(text, (uint32_t)upper);
        put_8_digits(at, tail);
        at += 8;
    } else {
        at = put_first_digits(text, tail);
    }
    *at = 0;
    return (size_t)(at - text);
}

/* Eight digits at once: a nibble to each byte, and 39 more for those from `a` on. */
static void put_8_hex(char *at, uint64_t number)
{
    number = (number | number << 16) & UINT64_C(0x0000ffff0000ffff);
    number = (number | number << 8) & UINT64_C(0x00ff00ff00ff00ff);
    number = (number | number << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t letters = (number + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    number = htobe64(number + UINT64_C(0x3030303030303030) + letters * ('a' - '9' - 1));
    memcpy(at, &number, 8);
}

static size_t write_hex(kz_id id, char *text)
{
    put_8_hex(text, id >> 32);
    put_8_hex(text + 8, id & UINT32_MAX);
    text[HEX_LEN] = 0;
    return HEX_LEN;
}

static size_t write_base32(kz_id id, char *text)
{
    text[0] = base32_digits[id >> 60];
    for (int i = 0; i < BASE32_LEN / 2; i++)
        put_pair(text + 1 + 2 * i, base32_pairs, id >> (50 - 10 * i) & 1023);
    text[BASE32_LEN] = 0;
    return BASE32_LEN;
}

static void put_5_base62(char *at, uint32_t number)
{
    uint32_t upper = number / 3844;
    put_pair(at + 3, base62_pairs, number % 3844);
    put_pair(at + 1, base62_pairs, upper % 3844);
    at[0] = base62_digits[upper / 3844];
}

static size_t write_base62(kz_id id, char *text)
{
    const uint64_t five_digits = 62ull * 62 * 62 * 62 * 62; /* below 2^32: the rest is cheap 32-bit arithmetic */
    uint64_t upper = id / five_digits;
    put_5_base62(text + 6, (uint32_t)(id % five_digits));
    put_5_base62(text + 1, (uint32_t)(upper % five_digits));
    text[0] = base62_digits[upper / five_digits];
    text[BASE62_LEN] = 0;
    return BASE62_LEN;
}

void kz__base64url_write(uint64_t value, unsigned spare, char text[static KZ_BASE64URL_LEN + 1])
{
    put_pair(text, base64url_pairs, value >> 52);
    put_pair(text + 2, base64url_pairs, value >> 40 & 4095);
    put_pair(text + 4, base64url_pairs, value >> 28 & 4095);
    put_pair(text + 6, base64url_pairs, value >> 16 & 4095);
    put_pair(text + 8, base64url_pairs, value >> 4 & 4095);
    text[10] = base64url_pairs[2 * ((value & 15) << 2 | (spare & 3)) + 1];
    text[11] = 0;
}

size_t kz_text(kz_id id, kz_form form, char text[KZ_AT_LEAST(KZ_TEXT_SIZE)])
{
    switch (form) {
    case KZ_DECIMAL:
        return write_decimal(id, text);
    case KZ_HEX:
        return write_hex(id, text);
    case KZ_BASE32:
        return write_base32(id, text);
    case KZ_BASE62:
        return write_base62(id, text);
    case KZ_BASE64URL:
        kz__base64url_write(id, 0, text);
        return KZ_BASE64URL_LEN;
    }
    text[0] = 0;
    return 0;
}

static kz_status read_decimal(const char *text, kz_id *id, kz_error *err)
{
    size_t length = strlen(text);
    uint64_t number = 0;
    bool above = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return fail_char(err, "decimal", text, i);
        above |= __builtin_mul_overflow(number, 10, &number);
        above |= __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number);
    }
    if (length == 0 || length > DECIMAL_MAX_LEN)
        return kz__fail(err, KZ_INVALID, "a decimal ID has 1 to 20 digits, not %zu", length);
    if (above)
        return fail_size(err, text);
    *id = number;
    return KZ_OK;
}

static kz_status read_hex(const char *text, kz_id *id, kz_error *err)
{
    size_t start = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0;
    size_t length = strlen(text);
    uint64_t number = 0;
    for (size_t i = start; i < length; i++) {
        int value = kz__hex_value(text[i]);
        if (value < 0)
            return fail_char(err, "hex", text, i);
        number = number << 4 | (unsigned)value;
    }
    if (length == start || length - start > HEX_LEN)
        return kz__fail(err, KZ_INVALID, "a hex ID has 1 to 16 digits, not %zu", length - start);
    *id = number;
    return KZ_OK;
}

static kz_status read_base32(const char *text, kz_id *id, kz_error *err)
{
    kz_status status = check_length("a base32 ID", text, BASE32_LEN, err);
    if (status)
        return status;
    uint64_t number = 0;
    for (size_t i = 0; i < BASE32_LEN; i++) {
        unsigned value = base32_values[(unsigned char)text[i]];
        if (value == 0)
            return fail_char(err, "base32", text, i);
        number = number << 5 | (value - 1);
    }
    /* 13 digits are 65 bits: the topmost must be clear. */
    if (base32_values[(unsigned char)text[0]] - 1 > 15)
        return fail_size(err, text);
    *id = number;
    return KZ_OK;
}

static kz_status read_base62(const char *text, kz_id *id, kz_error *err)
{
    kz_status status = check_length("a base62 ID", text, BASE62_LEN, err);
    if (status)
        return status;
    uint64_t number = 0;
    bool above = false;
    for (size_t i = 0; i < BASE62_LEN; i++) {
        int value = base62_value(text[i]);
        if (value < 0)
            return fail_char(err, "base62", text, i);
        above |= __builtin_mul_overflow(number, 62, &number);
        above |= __builtin_add_overflow(number, (uint64_t)value, &number);
    }
    if (above)
        return fail_size(err, text);
    *id = number;
    return KZ_OK;
}

kz_status kz__base64url_read(const char *text, uint64_t *value, unsigned *spare, kz_error *err)
{
    kz_status status = check_length("base64url of 64 bits", text, KZ_BASE64URL_LEN, err);
    if (status)
        return status;
    uint64_t number = 0;
    unsigned each = IN_ALPHABET, digit = 0;
    for (size_t i = 0; i < KZ_BASE64URL_LEN; i++) {
        digit = base64url_values[(unsigned char)text[i]];
        each &= digit;
        if (i < KZ_BASE64URL_LEN - 1)
            number = number << 6 | (digit & 63);
    }
    if (each != IN_ALPHABET) {
        size_t i = 0;
        while (base64url_values[(unsigned char)text[i]])
            i++;
        return fail_char(err, "base64url", text, i);
    }
    *value = number << 4 | (digit >> 2 & 15);
    *spare = digit & 3;
    return KZ_OK;
}

static kz_status read_base64url(const char *text, kz_id *id, kz_error *err)
{
    uint64_t number;
    unsigned spare;
    kz_status status = kz__base64url_read(text, &number, &spare, err);
    if (status)
        return status;
    /* Otherwise four texts would read as one ID. */
    if (spare)
        return kz__fail(err, KZ_INVALID,
                        "the last character '%c' holds bits beyond the 64 of an ID: an external ID of key %u?",
                        text[KZ_BASE64URL_LEN - 1], spare);
    *id = number;
    return KZ_OK;
}

kz_status kz_text_parse(const char *text, kz_form form, kz_id *id, kz_error *err)
{
    switch (form) {
    case KZ_DECIMAL:
        return read_decimal(text, id, err);
    case KZ_HEX:
        return read_hex(text, id, err);
    case KZ_BASE32:
        return read_base32(text, id, err);
    case KZ_BASE62:
        return read_base62(text, id, err);
    case KZ_BASE64URL:
        return read_base64url(text, id, err);
    }
    return kz__fail(err, KZ_INVALID, "form %d is unknown (0..4)", (int)form);
}

void kz_id_to_bytes(kz_id id, uint8_t bytes[KZ_AT_LEAST(8)])
{
    uint64_t big = htobe64(id);
    memcpy(bytes, &big, sizeof big);
}

kz_id kz_id_from_bytes(const uint8_t bytes[KZ_AT_LEAST(8)])
{
    uint64_t big;
    memcpy(&big, bytes, sizeof big);
    return be64toh(big);
}
