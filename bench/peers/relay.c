/* A bare message on its way through processes that each wait for it: `relay COUNT KEY=WAY ...`.
 *
 * A WAY such as `012` leads from this program by nodes 0, 1 and 2 in turn and back to it. `0+123` leads by node 0 to nodes 1 to
 * 3 at once and, when all have answered it, back. Each is taken COUNT times; the median is printed as `KEY NANOSECONDS`.
 *
 * Each node is a process, connected to all others by TCP loopback, as Hanare's are, and waits as they do: it checks and
 * yields for 50 us, then parks. A message has the bytes of a request (a head of 32 and a command of 64); nobody looks at
 * anything but where it goes.
 */
#define _GNU_SOURCE
#include "figures.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE_LEN = 96, NODE_COUNT = 4, PROGRAM = NODE_COUNT, PROCESS_COUNT, STOP_COUNT = 8 };

/* How long a node yields before it parks; a program, which waits for several of them, stays awake for longer. */
static const double NODE_YIELD_NS = 50e3, PROGRAM_YIELD_NS = 200e3;

/* Where a message goes: nodes in turn, and from the first of them to `at_once` more at the same time. */
typedef struct way {
    uint8_t stops[STOP_COUNT], stop_count, at, at_once;
} way;

typedef union message {
    way way;
    char bytes[MESSAGE_LEN];
} message;

/* A process's sockets to the others. */
typedef struct post {
    int self, peers[PROCESS_COUNT], epoll;
    double yield_ns;
} post;

static void send_to(const post *p, int to, const message *m)
{
    for (size_t sent = 0; sent < MESSAGE_LEN;) {
        ssize_t more = send(p->peers[to], m->bytes + sent, MESSAGE_LEN - sent, MSG_NOSIGNAL);
        if (more < 0 && errno != EINTR)
            die("relay: send");
        sent += more > 0 ? (size_t)more : 0;
    }
}

/* Waits for a message from anybody; returns 0 when the program has gone. */
static int receive(const post *p, message *m)
{
    struct epoll_event event;
    double since = 0;
    for (;;) {
        int ready = epoll_wait(p->epoll, &event, 1, 0);
        if (ready > 0)
            break;
        double now = now_ns();
        since = since == 0 ? now : since;
        if (now - since < p->yield_ns) {
            sched_yield();
        } else if (epoll_wait(p->epoll, &event, 1, -1) > 0) {
            break;
        }
    }
    ssize_t got = recv(event.data.fd, m->bytes, MESSAGE_LEN, MSG_WAITALL);
    if (got != 0 && got != MESSAGE_LEN)
        die("relay: recv");
    return got > 0;
}

static void serve(const post *p)
{
    message m;
    int awaited = 0;
    while (receive(p, &m)) {
        if (awaited > 0) {
            if (--awaited == 0)
                send_to(p, PROGRAM, &m);
        } else if (m.way.at_once > 0 && m.way.at == 0) {
            awaited = m.way.at_once;
            m.way.at = 1;
            for (int k = 0; k < awaited; k++)
                send_to(p, m.way.stops[1 + k], &m);
        } else if (m.way.at_once > 0) {
            send_to(p, m.way.stops[0], &m);
        } else {
            m.way.at++;
            send_to(p, m.way.at < m.way.stop_count ? m.way.stops[m.way.at] : PROGRAM, &m);
        }
    }
    _exit(0);
}

static double take(const post *p, const way *w)
{
    message m = {.way = *w};
    double start = now_ns();
    send_to(p, w->stops[0], &m);
    if (!receive(p, &m))
        die("relay: a node went");
    return now_ns() - start;
}

/* Reads `012` or `0+123`. */
static way read_way(const char *text)
{
    way w = {0};
    for (; *text; text++) {
        if (*text == '+' && w.stop_count == 1) {
            w.at_once = (uint8_t)strlen(text + 1);
        } else if (*text >= '0' && *text < '0' + NODE_COUNT && w.stop_count < STOP_COUNT) {
            w.stops[w.stop_count++] = (uint8_t)(*text - '0');
        } else {
            w.stop_count = 0;
            break;
        }
    }
    if (w.stop_count == 0) {
        fputs("relay: a case is KEY=WAY, a way is nodes in turn such as 012, or 0+123\n", stderr);
        exit(2);
    }
    return w;
}

/* Connects two sockets by TCP loopback. */
static void connect_pair(int listener, const struct sockaddr_in *at, int *pair)
{
    int yes = 1;
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(pair[0], (const struct sockaddr *)at, sizeof *at) < 0 || (pair[1] = accept(listener, NULL, NULL)) < 0)
        die("relay: connect");
    for (int k = 0; k < 2; k++)
        setsockopt(pair[k], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* What is left of all sockets for one process. */
static post post_of(int self, int sockets[PROCESS_COUNT][PROCESS_COUNT])
{
    post p = {.self = self, .epoll = epoll_create1(0), .yield_ns = self == PROGRAM ? PROGRAM_YIELD_NS : NODE_YIELD_NS};
    for (int a = 0; a < PROCESS_COUNT; a++)
        for (int b = 0; b < PROCESS_COUNT; b++) {
            if (a == b)
                continue;
            if (a != self) {
                close(sockets[a][b]);
                continue;
            }
            struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[a][b]};
            p.peers[b] = sockets[a][b];
            if (epoll_ctl(p.epoll, EPOLL_CTL_ADD, sockets[a][b], &event) < 0)
                die("relay: epoll");
        }
    return p;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 200;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), sockets[PROCESS_COUNT][PROCESS_COUNT];
    if (count < 1 || bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &at_len) < 0)
        die("relay: listen");
    for (int a = 0; a < PROCESS_COUNT; a++)
        for (int b = 0; b < a; b++) {
            int pair[2];
            connect_pair(listener, &at, pair);
            sockets[a][b] = pair[0];
            sockets[b][a] = pair[1];
        }
    for (int node = 0; node < NODE_COUNT; node++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            post p = post_of(node, sockets);
            serve(&p);
        }
    post p = post_of(PROGRAM, sockets);
    double *times = malloc((size_t)count * sizeof *times);
    for (int arg = 2; arg < argc; arg++) {
        size_t key_len = strcspn(argv[arg], "=");
        way w = read_way(argv[arg] + key_len + (argv[arg][key_len] == '='));
        for (long k = -count / 10; k < count; k++) {
            double ns = take(&p, &w);
            if (k >= 0)
                times[k] = ns;
        }
        printf("%.*s %.1f\n", (int)key_len, argv[arg], median(times, (size_t)count));
    }
    free(times);
    return 0;
}
