/* What all lease tables share: their URL parameters, their time, secrets, and the checks of a release. */
#include "sources/lease_table.h"
#include "core/error.h"
#include "core/hash.h"
#include "lib/clock.h"
#include "lib/random.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECRET_BYTES 16
#define NAME_CHARS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* A wall clock that is slewed stays within this of the boot clock. */
#define STEP_MS   1000
#define DRIFT_PPM 500

kz_status kz__duration_parse(const char *text, int64_t *ms, kz_error *err)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value < INT64_C(1000000000000); p++)
        value = value * 10 + (*p - '0');
    if (p > text)
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
            if (strcmp(p, units[i].name) == 0 && value <= INT64_MAX / units[i].ms) {
                *ms = value * units[i].ms;
                return KZ_OK;
            }
    return kz__fail(err, KZ_INVALID, "\"%s\" is not a duration: write a number and ms, s, min, h or d, as in 10min",
                    text);
}

kz_status kz__service_name_check(const char *name, kz_error *err)
{
    size_t length = strlen(name);
    if (length && length < KZ_SERVICE_SIZE && strspn(name, NAME_CHARS) == length)
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "\"%.70s\" is not the name of a service: 1 to %d of a-z A-Z 0-9 . _ -", name,
                    KZ_SERVICE_SIZE - 1);
}

static kz_status check_params(const kz__url *url, const char *const *more, kz_error *err)
{
    const char *known[KZ__URL_PARAMS_MAX + 1] = {"lease", "service", "amnesia", "create"};
    size_t count = 4;
    while (more && *more && count < KZ__URL_PARAMS_MAX)
        known[count++] = *more++;
    return kz__url_only(url, known, err);
}

kz_status kz__table_params_read(const kz__url *url, const kz_source_options *options, const char *const *more,
                                kz__table_params *params, kz_error *err)
{
    kz__table_params p = {.lease_ms = KZ__LEASE_MS_DEFAULT, .layout_given = options->layout != NULL};
    p.layout = options->layout ? *options->layout : *kz_layout_preset(0);
    kz_status status = check_params(url, more, err);
    if (status)
        return status;
    const char *lease = kz__url_param(url, "lease");
    if (lease && (status = kz__duration_parse(lease, &p.lease_ms, err)))
        return status;
    const char *amnesia = kz__url_param(url, "amnesia");
    if (amnesia && strcmp(amnesia, "quarantine") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: amnesia=%s is not known, only amnesia=quarantine", url->scheme,
                        amnesia);
    p.quarantine = amnesia != NULL;
    const char *create = kz__url_param(url, "create");
    if (create && strcmp(create, "no") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: create=%s is not known, only create=no", url->scheme, create);
    p.create = !create;
    const char *opener = options->service && *options->service ? options->service : "default";
    const char *service = kz__url_param(url, "service");
    if (!service)
        service = opener;
    if ((status = kz__service_name_check(opener, err)) || (status = kz__service_name_check(service, err)))
        return status;
    strcpy(p.opener, opener);
    strcpy(p.service, service);
    kz__service probe;
    status = kz__service_init(&probe, p.service, &p.layout, p.lease_ms, err);
    if (status == KZ_OK)
        *params = p;
    return status;
}

kz_status kz__table_service(const kz__table_params *params, const char *asked, const char **name, kz_error *err)
{
    if (!asked || !*asked || strcmp(asked, params->opener) == 0) {
        *name = params->service;
        return KZ_OK;
    }
    kz_status status = kz__service_name_check(asked, err);
    if (status == KZ_OK)
        *name = asked;
    return status;
}

kz_status kz__table_layout_check(const kz__table_params *params, const kz__service *service, kz_error *err)
{
    kz__service wanted, stored = *service;
    if (!params->layout_given)
        return KZ_OK;
    kz_status status = kz__service_init(&wanted, service->name, &params->layout, service->lease_ms, err);
    if (status == KZ_OK)
        status = kz__service_adopt(&stored, &wanted, err);
    if (status || (stored.node_bits == service->node_bits && stored.seq_bits == service->seq_bits))
        return status;
    return kz__fail(err, KZ_MISMATCH,
                    "service %s has %u node and %u sequence bits, not %u and %u: its own division counts, leave the "
                    "layout out",
                    service->name, service->node_bits, service->seq_bits, wanted.node_bits, wanted.seq_bits);
}

static void hex(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

kz_status kz__secrets_draw(char (*secrets)[KZ_SECRET_SIZE], size_t count, kz_error *err)
{
    uint8_t bytes[KZ_GRANT_LEASES_MAX * SECRET_BYTES];
    if (count > KZ_GRANT_LEASES_MAX)
        count = KZ_GRANT_LEASES_MAX;
    kz_status status = kz__random(bytes, count * SECRET_BYTES, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        hex(bytes + i * SECRET_BYTES, SECRET_BYTES, secrets[i]);
    explicit_bzero(bytes, sizeof bytes);
    return KZ_OK;
}

uint64_t kz__table_blocks_in(const kz__service *service, kz__range range)
{
    unsigned height = service->seq_bits;
    uint64_t half = UINT64_C(1) << (service->node_bits + height - 1);
    uint64_t lo = (range.lo + (UINT64_C(1) << height) - 1) >> height;
    uint64_t hi = (range.hi < half ? range.hi : half) >> height;
    return lo < hi ? hi - lo : 0;
}

void kz_release_sign(const char *secret, uint32_t id, int64_t timestamp_ms, char signature[static KZ_SIGNATURE_SIZE])
{
    char text[40];
    int length = snprintf(text, sizeof text, "%" PRIu32 ":%" PRId64, id, timestamp_ms);
    uint8_t sum[KZ__SHA256_SIZE];
    kz__hmac_sha256(secret, strlen(secret), text, (size_t)length, sum);
    hex(sum, sizeof sum, signature);
}

kz_status kz__release_check(const kz_release *release, int64_t now_ms, kz_error *err)
{
    const char *signature = release->signature;
    if (!signature || strlen(signature) != KZ_SIGNATURE_SIZE - 1 ||
        strspn(signature, "0123456789abcdefABCDEF") != KZ_SIGNATURE_SIZE - 1)
        return kz__fail(err, KZ_INVALID, "a release is signed with %d hex digits", KZ_SIGNATURE_SIZE - 1);
    int64_t off_ms;
    if (__builtin_sub_overflow(release->timestamp_ms, now_ms, &off_ms) || off_ms > KZ__RELEASE_SKEW_MS ||
        off_ms < -KZ__RELEASE_SKEW_MS)
        return kz__fail(err, KZ_INVALID,
                        "a release of time %" PRId64 " is more than %d s off the table's, %" PRId64
                        ": use the source's time, and sign anew for every try",
                        release->timestamp_ms, KZ__RELEASE_SKEW_MS / 1000, now_ms);
    return KZ_OK;
}

bool kz__release_signed_with(const kz_release *release, const char *secret)
{
    char mine[KZ_SIGNATURE_SIZE], given[KZ_SIGNATURE_SIZE] = "";
    kz_release_sign(secret, release->id, release->timestamp_ms, mine);
    for (size_t i = 0; i < sizeof given - 1 && release->signature[i]; i++)
        given[i] = (char)(release->signature[i] >= 'A' && release->signature[i] <= 'F' ? release->signature[i] | 0x20
                                                                                       : release->signature[i]);
    return kz__same_bytes(mine, given, sizeof mine);
}

static bool signed_with(void *ctx, const char *secret)
{
    return kz__release_signed_with(ctx, secret);
}

kz_status kz__table_release_signed(const kz__rows *rows, kz__service *service, const kz_release *release,
                                   int64_t now_ms, kz_error *err)
{
    kz_status status = kz__release_check(release, now_ms, err);
    if (status)
        return status;
    return kz__table_release_if(rows, service, release->id, signed_with, (void *)(uintptr_t)release,
                                release->timestamp_ms, now_ms, err);
}

void kz__grant_copy(kz_grant *to, const kz_grant *from)
{
    memcpy(to, from, offsetof(kz_grant, leases));
    memcpy(to->leases, from->leases, from->count * sizeof from->leases[0]);
}

void kz__boot_name(char name[static KZ__BOOT_NAME_SIZE])
{
    size_t length = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, name, 36);
        length = got > 0 ? (size_t)got : 0;
        close(fd);
    }
    /* Boot clocks of two time namespaces differ, though the boot is the same. */
    if (length) {
        name[length++] = ' ';
        ssize_t got = readlink("/proc/self/ns/time", name + length, KZ__BOOT_NAME_SIZE - length - 1);
        length += got > 0 ? (size_t)got : 0;
    }
    name[length] = '\0';
}

/* Steps of the wall clock that are followed, within one boot and over a restart of the machine. */
#define STEP_BELIEVED_MS   (INT64_C(24) * 3600 * 1000)
#define REBOOT_BELIEVED_MS (INT64_C(20) * 365 * 24 * 3600 * 1000)

int64_t kz__table_time_read(kz__table_time *time, const kz_clock *clock, const char *boot, int64_t *step_ms)
{
    int64_t wall_ms = clock->wall_ns(clock->ctx) / KZ__NS_PER_MS;
    int64_t boot_ms = clock->boot_ns(clock->ctx) / KZ__NS_PER_MS;
    int64_t now_ms = wall_ms > time->high_ms ? wall_ms : time->high_ms;
    *step_ms = 0;
    if (*boot && strcmp(boot, time->boot) == 0 && boot_ms >= time->boot_ms) {
        int64_t elapsed_ms = boot_ms - time->boot_ms;
        int64_t apart_ms = (wall_ms - time->wall_ms) - elapsed_ms;
        /* Two clocks of one boot that are further apart than this: one of them is wrong, and time never goes back. The
         * step that is smaller can be mended later. */
        if (apart_ms > STEP_BELIEVED_MS)
            now_ms = time->high_ms;
        else if (apart_ms < -STEP_BELIEVED_MS)
            elapsed_ms = 0;
        int64_t slack_ms = elapsed_ms / 1000000 * DRIFT_PPM + elapsed_ms % 1000000 * DRIFT_PPM / 1000000;
        if (elapsed_ms - slack_ms > now_ms - time->high_ms)
            now_ms = time->high_ms + elapsed_ms - slack_ms;
        int64_t off_ms = wall_ms - time->wall_ms - elapsed_ms;
        if (off_ms > STEP_MS + slack_ms || off_ms < -STEP_MS - slack_ms)
            *step_ms = off_ms;
    }
    if (time->high_ms && now_ms - time->high_ms > REBOOT_BELIEVED_MS)
        now_ms = time->high_ms;
    time->high_ms = now_ms;
    time->wall_ms = wall_ms;
    time->boot_ms = boot_ms;
    if (time->boot != boot)
        snprintf(time->boot, sizeof time->boot, "%s", boot);
    return now_ms;
}

#define BEHIND_MS 1000

kz_status kz__table_clock_check(const char *name, int64_t clock_ms, int64_t high_ms, int64_t wall_ms, bool grants,
                                int64_t *now_ms, kz_error *err)
{
    if (clock_ms > high_ms + STEP_BELIEVED_MS && clock_ms > wall_ms + STEP_BELIEVED_MS)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is more than a day ahead of the lease table's time and of this machine's clock: "
                        "nothing is written until it was set right",
                        name);
    if (grants && clock_ms < high_ms - BEHIND_MS)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is %" PRId64 " ms behind what it has answered before: nothing is granted until "
                        "it has caught up; set that machine's clock",
                        name, high_ms - clock_ms);
    *now_ms = clock_ms > high_ms ? clock_ms : high_ms;
    return KZ_OK;
}

void kz__table_step_log(const kz_source_options *options, const char *where, int64_t step_ms)
{
    if (!step_ms || !options->log)
        return;
    char message[KZ_MESSAGE_SIZE];
    snprintf(message, sizeof message,
             "%s: the wall clock was set %s by %" PRId64 " ms; the table's time goes on upward", where,
             step_ms < 0 ? "back" : "forward", step_ms < 0 ? -step_ms : step_ms);
    options->log(options->log_ctx, KZ_LOG_WARNING, message);
}
