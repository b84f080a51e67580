/* A Redis server of the test's own: on a free port of the loopback, in a folder that goes with it. */
#include "tests/redis_server.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX    48
#define START_TRIES 6000 /* of 10 ms */

const char *redis_server_missing(void)
{
    return system("command -v redis-server >/dev/null && command -v redis-cli >/dev/null") == 0
               ? NULL
               : "redis-server or redis-cli is not installed";
}

/* Below those that the kernel gives to outgoing connections, so that none of them takes it before it is used, or while
 * a server is down. */
int redis_server_free_port(void)
{
    for (;;) {
        uint16_t drawn;
        assert_int_equal(getrandom(&drawn, sizeof drawn, 0), sizeof drawn);
        int port = 10000 + drawn % 22768;
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        int result = bind(fd, (struct sockaddr *)&address, sizeof address);
        close(fd);
        if (result == 0)
            return port;
    }
}

/* It accepts connections before it has loaded its data: its log says when it has. */
static bool is_ready(const char *log)
{
    char text[8192] = "";
    FILE *file = fopen(log, "r");
    if (!file)
        return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    return strstr(text, "Ready to accept connections") != NULL;
}

static void run(redis_server *server, const char *const *extra)
{
    char port[16], log[128];
    snprintf(port, sizeof port, "%d", server->port);
    snprintf(log, sizeof log, "%s/log", server->folder);
    const char *args[ARGS_MAX] = {"redis-server",
                                  "--bind",
                                  "127.0.0.1",
                                  "--dir",
                                  server->folder,
                                  "--appendonly",
                                  "yes",
                                  "--appendfsync",
                                  "always",
                                  "--save",
                                  "",
                                  "--logfile",
                                  log,
                                  "--daemonize",
                                  "no"};
    size_t count = 15;
    if (server->tls) {
        const char *tls[] = {"--port",
                             "0",
                             "--tls-port",
                             port,
                             "--tls-cert-file",
                             server->cacert,
                             "--tls-key-file",
                             server->cacert,
                             "--tls-auth-clients",
                             "no",
                             "--tls-ca-cert-file",
                             server->cacert};
        for (size_t i = 0; i < sizeof tls / sizeof tls[0]; i++)
            args[count++] = tls[i];
    } else {
        args[count++] = "--port";
        args[count++] = port;
    }
    if (*server->password) {
        args[count++] = "--requirepass";
        args[count++] = server->password;
    }
    for (; extra && *extra; extra++)
        args[count++] = *extra;
    assert_true(count < ARGS_MAX);

    unlink(log);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        execvp(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    for (int i = 0; i < START_TRIES && !is_ready(log) && waitpid(server->pid, NULL, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (!is_ready(log))
        fail_msg("redis-server did not come up on port %d, see %s", server->port, log);
}

static void prepare(redis_server *server)
{
    *server = (redis_server){.port = redis_server_free_port()};
    /* What is tested is a server's death, not the machine's: memory keeps a file through that, and syncs fast. */
    strcpy(server->folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/kazahana-redis.XXXXXX" : "/tmp/kazahana-redis.XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d/0", server->port);
}

void redis_server_start(redis_server *server, const char *const *extra)
{
    prepare(server);
    run(server, extra);
}

void redis_server_start_with_password(redis_server *server, const char *password)
{
    prepare(server);
    snprintf(server->password, sizeof server->password, "%s", password);
    run(server, NULL);
}

void redis_server_start_tls(redis_server *server)
{
    prepare(server);
    server->tls = true;
    snprintf(server->cacert, sizeof server->cacert, "%s/both.pem", server->folder);
    snprintf(server->url, sizeof server->url, "rediss://localhost:%d/0?cacert=%s", server->port, server->cacert);
    char command[512];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
             "-addext subjectAltName=DNS:localhost -keyout %s -out %s.cert 2>/dev/null && cat %s.cert >> %s",
             server->cacert, server->cacert, server->cacert, server->cacert);
    assert_int_equal(system(command), 0);
    run(server, NULL);
}

void redis_server_restart(redis_server *server)
{
    assert_int_equal(server->pid, 0);
    run(server, NULL);
}

void redis_server_kill(redis_server *server)
{
    if (!server->pid)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void redis_server_stop(redis_server *server)
{
    redis_server_kill(server);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", server->folder);
    if (system(command) != 0)
        print_message("%s could not be removed\n", server->folder);
}

void redis_server_command(const redis_server *server, const char *command, char *out, size_t room)
{
    char line[1024];
    snprintf(line, sizeof line, "redis-cli -h 127.0.0.1 -p %d %s%s %s 2>/dev/null", server->port,
             *server->password ? "-a " : "", server->password, command);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    char drop[4096];
    size_t got = fread(out ? out : drop, 1, out ? room - 1 : sizeof drop, pipe);
    if (out)
        out[got] = '\0';
    pclose(pipe);
}
