/* The config file: what is refused is explained in one line, what is taken keeps its limits. */
#include "target.h"

#include "server/settings_value.h"

static void must_be_settings(const settings *s)
{
    char host[64], why[512];
    uint16_t port;
    kz_layout layout;
    MUST(!s->listen || settings_listen(s->listen, host, &port, why));
    MUST(!s->layout || kz_layout_parse(s->layout, &layout, NULL) == KZ_OK);
    MUST(s->ids.throughput_min_per_ms >= 1 && s->ids.throughput_min_per_ms <= s->ids.throughput_max_per_ms);
    MUST(s->connections_max >= 1 && s->request_ms >= 100 && s->idle_ms >= 100);
    MUST(s->log_level >= 0 && s->log_level <= 3);
    MUST(s->service_count <= SERVICES_MAX);
    for (size_t i = 0; i < s->service_count; i++) {
        const service_settings *service = &s->services[i];
        MUST(settings_service_name(service->name));
        MUST(!service->layout[0] || kz_layout_parse(service->layout, &layout, NULL) == KZ_OK);
        MUST(service->lease_ms == 0 || service->lease_ms >= 100);
        for (size_t k = 0; k < i; k++)
            MUST(strcmp(service->name, s->services[k].name) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Not a text: nothing ends it but its length. */
    char *text = malloc(size ? size : 1), message[512] = "";
    MUST(text);
    if (size)
        memcpy(text, data, size);
    for (int with_profile = 0; with_profile < 2; with_profile++) {
        settings s;
        settings_init(&s);
        s.profile = with_profile ? strdup("prod") : NULL;
        message[0] = '\0';
        if (settings_parse(&s, "f", text, size, message))
            must_be_settings(&s);
        else
            MUST(strncmp(message, "f:", 2) == 0 && strlen(message) > 4 && !strchr(message, '\n'));
        settings_free(&s);
    }
    free(text);
    return 0;
}
