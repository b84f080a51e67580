/* HTTP requests as they arrive: the same bytes must give the same requests and the same refusal, however they are
 * split, and what is handed on keeps its limits. */
#include "target.h"

#include "server/http_parse.h"

static void write_text(FILE *out, http_text text)
{
    fprintf(out, "%zu:", text.length);
    fwrite(text.at, 1, text.length, out);
    fputc('\n', out);
}

static void must_keep_limits(const http_request *request)
{
    MUST(request->header_count <= HTTP_HEADERS_MAX);
    MUST(request->body.length <= HTTP_BODY_MAX);
    MUST(request->path.length > 0 && request->path.length + request->query.length <= HTTP_TARGET_MAX + 1);
    MUST(request->path.at[0] == '/' || request->path.at[0] == '*');
    for (size_t i = 0; i < request->header_count; i++) {
        http_text name = request->headers[i].name, value = request->headers[i].value;
        MUST(name.length > 0);
        for (size_t k = 0; k < name.length; k++)
            MUST(name.at[k] > ' ' && name.at[k] < 0x7f && name.at[k] != ':');
        for (size_t k = 0; k < value.length; k++)
            MUST(value.at[k] != '\r' && value.at[k] != '\n' && value.at[k] != 0);
    }
}

static void write_request(FILE *out, const http_request *request)
{
    must_keep_limits(request);
    write_text(out, request->method);
    write_text(out, request->path);
    write_text(out, request->query);
    for (size_t i = 0; i < request->header_count; i++) {
        write_text(out, request->headers[i].name);
        write_text(out, request->headers[i].value);
    }
    write_text(out, request->body);
    fprintf(out, "%d %d\n", request->keep_alive, request->head);
}

/* What the bytes mean when they come in pieces, whose sizes `seed` picks: 0 for one piece, 1 for single bytes. Each
 * piece is in memory of its own, so that a look past its end is seen. */
static char *meaning(const uint8_t *data, size_t size, uint32_t seed, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    MUST(out);
    http_parser *parser = malloc(sizeof *parser);
    MUST(parser);
    http_parser_init(parser);
    bool refused = false;
    for (size_t at = 0; at < size && !refused;) {
        size_t piece = size - at;
        if (seed) {
            piece = seed == 1 ? 1 : 1 + (seed = seed * 1664525 + 1013904223) % 37;
            piece = piece < size - at ? piece : size - at;
        }
        char *bytes = malloc(piece);
        MUST(bytes);
        memcpy(bytes, data + at, piece);
        for (size_t used = 0, took; used < piece && !refused; used += took) {
            http_progress progress = http_parse(parser, bytes + used, piece - used, &took);
            MUST(took <= piece - used);
            if (progress == HTTP_PARSE_MORE) {
                MUST(used + took == piece);
            } else if (progress == HTTP_PARSE_WHOLE) {
                MUST(took > 0);
                write_request(out, &parser->request);
                if (!parser->request.keep_alive)
                    refused = true;
                http_parser_reset(parser);
            } else {
                MUST(parser->status >= 400 && parser->why && *parser->why);
                fprintf(out, "refused %d %s\n", parser->status, parser->why);
                refused = true;
            }
        }
        free(bytes);
        at += piece;
    }
    http_parser_free(parser);
    free(parser);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t whole_length, length;
    char *whole = meaning(data, size, 0, &whole_length);
    const uint32_t seeds[] = {1, 2, (uint32_t)size + 7};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char *other = meaning(data, size, seeds[i], &length);
        MUST(length == whole_length && memcmp(whole, other, length) == 0);
        free(other);
    }
    free(whole);
    return 0;
}
