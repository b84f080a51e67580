/* kazahana serve: the lease server and the ID service. */
#include "server/serve.h"
#include "cli/command.h"
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

/* The settings are read by the server's own code; what every command answers to is answered here. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run(const struct command *command, int argc, char **argv)
{
    static settings s;
    if (asks_for_help(argc, argv)) {
        fputs(command->help, stdout);
        return EXIT_DONE;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("kazahana %s\n", kz_version());
        return EXIT_DONE;
    }
    bool check_only = false, usage = false;
    char message[512];
    settings_init(&s);
    if (!settings_read(&s, argc - 1, argv + 1, &check_only, &usage, message)) {
        settings_free(&s);
        if (usage)
            report_usage(command, "%s", message);
        return report_failure("%s", message);
    }
    int result = 0;
    if (check_only && serve_check(&s, message))
        puts("the configuration is good");
    else if (check_only)
        result = report_failure("%s", message);
    else
        result = serve(&s);
    settings_free(&s);
    return result;
}

static const char help[] =
    "Usage: kazahana serve [OPTION]...\n"
    "\n"
    "Serves leases and IDs over HTTP until it gets SIGTERM or SIGINT. SIGHUP reads the tokens, the log level and the\n"
    "services again.\n"
    "\n"
    "      --listen ADDR:PORT    where (127.0.0.1:7070); port 0 takes any that is free; unix:/path for a socket\n"
    "      --store URL           the lease table (the embedded SQLite file)\n"
    "      --ids-from URL        where /id gets its node from (a lease of the store's)\n"
    "      --layout L            of the IDs of /id\n"
    "      --service S           that /id mints for (default)\n"
    "      --throughput MIN:MAX  IDs a ms that /id may need (256)\n"
    "      --backward P          when the clock went back: fail, wait:MS, logical\n"
    "      --fallback F          never, fenced (default), any\n"
    "      --server-name N,...   names that clients may call it by, beside those of loopback\n"
    "      --token-file F        POST, DELETE and /leases want one of its tokens\n"
    "      --key-file F          keys of external IDs, for /decode\n"
    "      --tls-cert F, --tls-key F\n"
    "      --config FILE         more settings, and [service \"name\"] and [profile \"name\"] sections\n"
    "      --profile NAME        of the file; snowflake and tsid need none\n"
    "      --check-config        only read the settings and the files they name, and say whether they are good\n"
    "      --loops N             threads that serve (one for each core)\n"
    "      --connections N       at the same time (10000)\n"
    "      --handshakes N        TLS handshakes at the same time (1000)\n"
    "      --request-timeout T, --idle-timeout T\n"
    "      --max-services N      services that the store may have before no more are made (1000); 0: no limit\n"
    "      --ui on|off           the page for browsers at / (on)\n"
    "      --no-create-services  refuse services that are not in the file\n"
    "      --log-level L         error, warning, info (default), debug\n"
    "      --log-format F        logfmt (default), json\n"
    "      --access-log          a line for each request\n"
    "\n"
    "Every option is also a KAZAHANA_* variable (KAZAHANA_LISTEN) and a key of the file (listen = ...).\n"
    "\n"
    "Examples:\n"
    "  kazahana serve\n"
    "  curl -s localhost:7070/id\n"
    "  kazahana serve --listen 0.0.0.0:7070 --store redis://localhost --token-file /etc/kazahana/tokens\n"
    "  WORKER_ID=7 kazahana serve --profile snowflake\n";

const struct command serve_command = {"serve", "the server: leases and IDs over HTTP", help, run};
