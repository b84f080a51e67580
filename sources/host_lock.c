/* A lock on this host for a name: an abstract Unix socket. It leaves no file behind, needs no permission, and goes with
 * its process. A forked child lets its parent's go at once. */
#include "sources/host_lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Whoever finds it taken asks whose it is by connecting, and nobody ever accepts: so many can ask. */
#define QUESTIONS 64

/* Descriptors plus one; 0 is none. */
static _Atomic int held[64];

static void let_go_in_child(void)
{
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        int fd = atomic_exchange(&held[i], 0) - 1;
        if (fd >= 0)
            close(fd);
    }
}

static void add_handler(void)
{
    (void)pthread_atfork(NULL, NULL, let_go_in_child);
}

static bool note(int fd)
{
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&held[i], &none, fd + 1))
            return true;
    }
    return false;
}

static long holder(int fd, const struct sockaddr_un *address, socklen_t size)
{
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    if (connect(fd, (const struct sockaddr *)address, size) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
        return 0;
    return peer.pid;
}

int kz__host_lock(const char *name, long *pid)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_handler);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* The first byte is zero: a name that is no file's. */
    size_t length = strnlen(name, sizeof address.sun_path - 1);
    memcpy(address.sun_path + 1, name, length);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -2;
    if (bind(fd, (const struct sockaddr *)&address, size) == 0 && listen(fd, QUESTIONS) == 0 && note(fd))
        return fd;
    bool taken = errno == EADDRINUSE;
    *pid = taken ? holder(fd, &address, size) : 0;
    close(fd);
    return taken ? -1 : -2;
}

void kz__host_unlock(int lock)
{
    for (size_t i = 0; i < sizeof held / sizeof *held && lock >= 0; i++) {
        int mine = lock + 1;
        if (atomic_compare_exchange_strong(&held[i], &mine, 0))
            close(lock);
    }
}
