/* Answers of a lease server: what is taken from them keeps to the ranges, and what is refused changes nothing. The
 * first byte picks the question. */
#include "target.h"

#include "sources/http_answer.h"

#define REQUEST "00112233445566778899aabbccddeeff"

static void must_be_whole(const kz_lease *lease, int64_t source_ms)
{
    MUST(lease->reserved_bits + lease->time_bits + lease->node_bits + lease->seq_bits == 64);
    MUST(lease->time_bits >= 1 && lease->time_bits <= 63);
    MUST(lease->node_bits >= 1 && lease->node_bits <= 32 && lease->seq_bits <= 32);
    MUST(lease->id < UINT64_C(1) << (lease->node_bits - 1));
    MUST(lease->created_ms >= 0 && lease->created_ms < lease->expired_ms && lease->expired_ms > source_ms);
    MUST(lease->fallback_created_ms >= 0 && lease->fallback_created_ms <= lease->fallback_expired_ms);
    MUST(lease->epoch_ms >= 0);
    MUST(lease->secret[0] && memchr(lease->secret, 0, sizeof lease->secret));
}

static void check_grant(const char *text, size_t size, const char *request)
{
    static kz_grant grant, before;
    kz_error err;
    memset(&grant, 0x5a, sizeof grant);
    before = grant;
    kz_status status = kz__http_grant_read(text, size, request, &grant, &err);
    if (status) {
        must_explain(&err, status);
        MUST(memcmp(&grant, &before, sizeof grant) == 0);
        return;
    }
    MUST(grant.count >= 1 && grant.count <= KZ_GRANT_LEASES_MAX);
    MUST(grant.source_ms >= 0 && grant.resume == 0 && grant.grace_ms == 0);
    for (size_t i = 0; i < grant.count; i++)
        must_be_whole(&grant.leases[i], grant.source_ms);
}

static void check_time(const char *text, size_t size)
{
    int64_t ms = -1;
    uint64_t generation = 1;
    kz_error err;
    kz_status status = kz__http_time_read(text, size, &ms, &generation, &err);
    if (status) {
        must_explain(&err, status);
        MUST(ms == -1 && generation == 1);
    } else {
        MUST(ms >= 0);
    }
}

static bool look(void *ctx, const kz_lease_info *info)
{
    (void)ctx;
    MUST(info->service[0] && memchr(info->service, 0, sizeof info->service));
    MUST(memchr(info->holder, 0, sizeof info->holder));
    MUST(info->created_ms >= 0 && info->expired_ms >= 0 && info->fallback_expired_ms >= 0);
    return true;
}

static void check_page(const char *text, size_t size)
{
    char cursor[KZ__HTTP_CURSOR_SIZE] = "before";
    bool more = true;
    kz_error err;
    kz_status status = kz__http_page_read(text, size, look, NULL, &more, cursor, &err);
    if (status) {
        must_explain(&err, status);
        MUST(strcmp(cursor, "before") == 0);
    }
    MUST(more && memchr(cursor, 0, sizeof cursor));
}

static void check_health(const char *text, size_t size)
{
    kz_source_health health = {.lease_ms = 600000};
    kz_error err;
    kz_status status = kz__http_health_read(text, size, &health, &err);
    if (status)
        must_explain(&err, status);
    MUST(health.lease_ms > 0 && memchr(health.note, 0, sizeof health.note));
}

static void check_problem(const char *text, size_t size)
{
    kz__http_problem problem;
    kz__http_problem_read(text, size, &problem);
    MUST(memchr(problem.text, 0, sizeof problem.text));
    for (const char *at = problem.text; *at; at++)
        MUST((unsigned char)*at >= 0x20 && *at != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *text = text_of(data + 1, size - 1);
    switch (data[0] % 6) {
    case 0:
        check_grant(text, size - 1, REQUEST);
        break;
    case 1:
        check_grant(text, size - 1, NULL);
        break;
    case 2:
        check_time(text, size - 1);
        break;
    case 3:
        check_page(text, size - 1);
        break;
    case 4:
        check_health(text, size - 1);
        break;
    default:
        check_problem(text, size - 1);
    }
    free(text);
    return 0;
}
