/* Introduces kz_external_encode and kz_external_decode, keys and their rotation, kz_text and kz_text_parse. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>
#include <string.h>

/* Key files as kz_external_keys_load reads them. The first line encodes, every line decodes. */
static const char first_key[] = "1 xtea 6f7261726520686f73682077612079756b69\n";
static const char rotated[] = "2 speck 686f6e6f626f6e6f20746f20616b6520\n"
                              "1 xtea 6f7261726520686f73682077612079756b69\n";

static int check(const kz_external_keys *keys, kz_id id, const char *what)
{
    char text[KZ_EXTERNAL_SIZE];
    kz_error err;
    kz_id back;
    kz_external_encode(keys, id, text);
    if (kz_external_decode(keys, text, &back, &err)) {
        fprintf(stderr, "external_ids: %s: %s\n", what, err.message);
        return 1;
    }
    if (back != id) {
        fprintf(stderr, "external_ids: %s: %s came back as another ID\n", what, text);
        return 1;
    }
    printf("%-12s %s\n", what, text);
    return 0;
}

int main(void)
{
    const kz_id id = 7277771434402209792u;
    int result = 1;
    kz_error err;
    kz_external_keys *old_keys = NULL, *new_keys = NULL;
    kz_id back;

    /* Plain texts of the number: they show it to everybody. */
    static const struct {
        kz_form form;
        const char *name;
    } forms[] = {
        {KZ_DECIMAL, "decimal"},     {KZ_HEX, "hex"}, {KZ_BASE32, "base32"}, {KZ_BASE62, "base62"},
        {KZ_BASE64URL, "base64url"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char text[KZ_TEXT_SIZE];
        kz_text(id, forms[i].form, text);
        printf("%-12s %s\n", forms[i].name, text);
        if (kz_text_parse(text, forms[i].form, &back, &err) || back != id)
            goto out;
    }

    /* The mixer hides the order from the eye; a key hides it from people. */
    if (check(NULL, id, "mixed"))
        goto out;
    if (kz_external_keys_parse(&old_keys, first_key, strlen(first_key), &err) ||
        kz_external_keys_parse(&new_keys, rotated, strlen(rotated), &err)) {
        fprintf(stderr, "external_ids: %s\n", err.message);
        goto out;
    }
    if (check(old_keys, id, "key 1") || check(new_keys, id, "key 2"))
        goto out;

    /* A link that went out before the rotation still reads after it ... */
    char text[KZ_EXTERNAL_SIZE];
    kz_external_encode(old_keys, id, text);
    if (kz_external_decode(new_keys, text, &back, &err) || back != id) {
        fprintf(stderr, "external_ids: the old link is lost\n");
        goto out;
    }
    /* ... and one made with a key that is not loaded is refused, not misread. */
    kz_external_encode(new_keys, id, text);
    if (kz_external_decode(old_keys, text, &back, &err) != KZ_UNKNOWN_KEY) {
        fprintf(stderr, "external_ids: a text of an unknown key was read\n");
        goto out;
    }
    result = 0;

out:
    kz_external_keys_free(new_keys);
    kz_external_keys_free(old_keys);
    return result;
}
