/* A bare TCP socket on loopback, request and reply, two processes: `echo ROUNDS`.
 * A request has the bytes of a get's message (a head of 32 and a command of 64); a reply has a head and the data.
 *
 * Three kinds of waiting. `awake`: both sides pause, then check and yield for 50 us, then park, as Hanare does; requests
 * follow each other at once, so nobody parks. `parked`: the same, but requests come 1 ms apart, so the server has parked
 * and every one wakes it. `blocked`: also 1 ms apart, and the server blocks in recv at once, without staying awake first.
 */
#define _GNU_SOURCE
#include "figures.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { REQUEST_LEN = 96, HEAD_LEN = 32, PAUSES = 20 };
static const double YIELD_NS = 50e3;

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Receives exactly `len` bytes; returns 0 at the end of the stream. */
static int receive(int peer, char *bytes, size_t len, int blocking)
{
    int tries = 0;
    double since = 0;
    while (len > 0) {
        ssize_t got = recv(peer, bytes, len, blocking ? 0 : MSG_DONTWAIT);
        if (got > 0) {
            bytes += got, len -= (size_t)got, tries = 0, since = 0;
        } else if (got == 0) {
            return 0;
        } else if (errno != EAGAIN && errno != EINTR) {
            die("echo: recv");
        } else if (++tries <= PAUSES) {
            pause_cpu();
        } else if (since == 0 || now_ns() - since < YIELD_NS) {
            since = since == 0 ? now_ns() : since;
            sched_yield();
        } else {
            struct pollfd event = {peer, POLLIN, 0};
            poll(&event, 1, -1);
        }
    }
    return 1;
}

static void send_all(int peer, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(peer, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            die("echo: send");
        if (sent > 0)
            bytes += sent, len -= (size_t)sent;
    }
}

static void no_delay(int peer)
{
    int yes = 1;
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* The request's first bytes say how much to answer and whether to block for the next one. */
typedef struct request {
    size_t reply_len;
    int blocking;
} request;

static void serve(int listener)
{
    char bytes[REQUEST_LEN], *reply = calloc(1, HEAD_LEN + SIZE_MAX_BYTES);
    int peer = accept(listener, NULL, NULL);
    request wanted = {0, 0};
    if (peer < 0 || reply == NULL)
        die("echo: accept");
    no_delay(peer);
    while (receive(peer, bytes, REQUEST_LEN, wanted.blocking)) {
        memcpy(&wanted, bytes, sizeof wanted);
        send_all(peer, reply, HEAD_LEN + wanted.reply_len);
    }
    _exit(0);
}

static double one(int peer, size_t size, int blocking, char *reply)
{
    char bytes[REQUEST_LEN] = {0};
    request wanted = {size, blocking};
    memcpy(bytes, &wanted, sizeof wanted);
    double start = now_ns();
    send_all(peer, bytes, REQUEST_LEN);
    if (!receive(peer, reply, HEAD_LEN + size, 0))
        die("echo: the server went");
    return now_ns() - start;
}

/* The median of `count` requests, each after `idle_us` of silence. */
static double measure(int peer, size_t size, long count, unsigned idle_us, int blocking)
{
    char *reply = malloc(HEAD_LEN + SIZE_MAX_BYTES);
    double *times = malloc((size_t)count * sizeof *times);
    for (long k = -count / 10; k < count; k++) {
        if (idle_us > 0)
            usleep(idle_us);
        double ns = one(peer, size, blocking, reply);
        if (k >= 0)
            times[k] = ns;
    }
    double middle = median(times, (size_t)count);
    free(times), free(reply);
    return middle;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 10000;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &at_len) < 0)
        die("echo: listen");
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener);
    }
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(peer, (struct sockaddr *)&at, sizeof at) < 0)
        die("echo: connect");
    no_delay(peer);
    for (int k = 0; k < SIZE_COUNT; k++)
        print_figure("awake", SIZES[k], measure(peer, SIZES[k], rounds_of(SIZES[k], rounds), 0, 0));
    for (int k = 0; k < 2; k++) {
        long few = rounds / 50 < 20 ? 20 : rounds / 50;
        print_figure("parked", SIZES[k], measure(peer, SIZES[k], few, 1000, 0));
        print_figure("blocked", SIZES[k], measure(peer, SIZES[k], few, 1000, 1));
    }
    close(peer);
    return 0;
}
