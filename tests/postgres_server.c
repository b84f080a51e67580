/* A PostgreSQL server of the test's own: on a free port of the loopback, in a folder that goes with it.
 *
 * It does not run as root, so there it belongs to the user that Debian's package made. */
#include "tests/postgres_server.h"
#include "tests/redis_server.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX    64
#define START_TRIES 6000 /* of 10 ms */
#define AS_OWNER    "setpriv --reuid=postgres --regid=postgres --clear-groups --pdeathsig QUIT -- "

/* Debian keeps its programs out of the PATH. */
static bool find_bin(char bin[128])
{
    glob_t found = {0};
    bool there = glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) == 0 && found.gl_pathc;
    if (there) {
        snprintf(bin, 128, "%s", found.gl_pathv[found.gl_pathc - 1]);
        *strrchr(bin, '/') = '\0';
    }
    globfree(&found);
    return there;
}

const char *postgres_server_missing(void)
{
    char bin[128];
    return find_bin(bin) ? NULL : "postgresql is not installed";
}

static const char *as_owner(void)
{
    return getuid() == 0 ? AS_OWNER : "";
}

static int run_command(const char *format, const char *a, const char *b, const char *c)
{
    char command[1024];
    snprintf(command, sizeof command, format, a, b, c);
    return system(command);
}

static bool is_ready(const postgres_server *server)
{
    char port[16];
    snprintf(port, sizeof port, "%d", server->port);
    return run_command("%s/pg_isready -q -h 127.0.0.1 -p %s%s", server->bin, port, "") == 0;
}

void postgres_server_restart(postgres_server *server, const char *const *settings)
{
    char command[2048];
    int length = snprintf(command, sizeof command, "exec %s%s/postgres -D %s/data -h 127.0.0.1 -p %d -k ''", as_owner(),
                          server->bin, server->folder, server->port);
    for (; settings && *settings; settings++)
        length += snprintf(command + length, sizeof command - (size_t)length, " -c %s", *settings);
    snprintf(command + length, sizeof command - (size_t)length, " >>%s/log 2>&1", server->folder);
    assert_int_equal(server->pid, 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGQUIT);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < START_TRIES && !is_ready(server) && waitpid(server->pid, NULL, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (!is_ready(server))
        fail_msg("postgres did not come up on port %d, see %s/log", server->port, server->folder);
}

void postgres_server_start(postgres_server *server, const char *const *settings)
{
    *server = (postgres_server){.port = redis_server_free_port()};
    assert_true(find_bin(server->bin));
    /* What is tested is a server's death, not the machine's: memory keeps a file through that, and syncs fast. */
    strcpy(server->folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/kazahana-postgres.XXXXXX" : "/tmp/kazahana-postgres.XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->url, sizeof server->url, "postgres://postgres@127.0.0.1:%d/postgres", server->port);
    if (getuid() == 0)
        assert_int_equal(
            run_command("chown postgres:postgres %s && chmod 700 %s%s", server->folder, server->folder, ""), 0);
    assert_int_equal(run_command("cd / && %s%s/initdb --no-sync -D %s/data -U postgres -A trust --encoding=UTF8 "
                                 "--locale=C >/dev/null",
                                 as_owner(), server->bin, server->folder),
                     0);
    postgres_server_restart(server, settings);
}

void postgres_server_stop(postgres_server *server)
{
    if (!server->pid)
        return;
    kill(server->pid, SIGQUIT);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void postgres_server_remove(postgres_server *server)
{
    postgres_server_stop(server);
    if (*server->folder && run_command("rm -rf '%s'%s%s", server->folder, "", "") != 0)
        print_message("%s could not be removed\n", server->folder);
}

void postgres_server_sql(const postgres_server *server, const char *sql, char *out, size_t room)
{
    char command[4096], drop[4096];
    snprintf(command, sizeof command, "%s/psql -X -q -A -t -v ON_ERROR_STOP=1 '%s' 2>&1 <<'EOF'\n%s\nEOF", server->bin,
             server->url, sql);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *text = out ? out : drop;
    size_t got = fread(text, 1, (out ? room : sizeof drop) - 1, pipe);
    text[got] = '\0';
    if (pclose(pipe) != 0)
        fail_msg("%s: %s", sql, text);
}
