/* What other files share of the text forms: base64url with its two spare bits, hex digits, naming a character. */
#ifndef KZ_CORE_TEXT_H
#define KZ_CORE_TEXT_H

#include <kazahana.h>

/* 64 bits as 11 characters and a terminating zero. The last character has room for two bits more: `spare`, 0..3. */
void kz__base64url_write(uint64_t value, unsigned spare, char text[static KZ_BASE64URL_LEN + 1]);

/* Reads them back. KZ_INVALID: not 11 characters of the alphabet. */
kz_status kz__base64url_read(const char *text, uint64_t *value, unsigned *spare, kz_error *err);

/* 0..15, or -1 for what is no hex digit. */
int kz__hex_value(char c);

/* A character as a message can show it: 'x', or 0x0a where printing it would spoil the line. */
const char *kz__show_char(char c, char shown[static 8]);

#endif
