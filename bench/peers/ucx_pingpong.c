/* A message there and back by active messages of UCX, two processes. `UCX_TLS=... ucx_pingpong LENGTH:COUNT...` prints
 * `pingpong NANOSECONDS...`, half of the median of COUNT round trips for each length in bytes; `ucx_pingpong version`. What comes back is
 * looked at.
 */
#define _GNU_SOURCE
#include "ucx_side.h"

enum { MESSAGE = 1, COUNT_MAX = 100000 };

static ucs_status_t on_bytes(void *arg, const void *head, size_t head_len, void *data, size_t len,
                             const ucp_am_recv_param_t *param)
{
    side *me = arg;
    (void)head, (void)head_len, (void)param;
    memcpy(me->memory, data, len);
    me->answered++;
    return UCS_OK;
}

static void send_message(side *me, const char *bytes, size_t len)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    finish(me, ucp_am_send_nbx(me->peer, MESSAGE, NULL, 0, bytes, len, &param));
}

static void receive_message(side *me)
{
    while (me->answered == 0)
        ucp_worker_progress(me->worker);
    me->answered--;
}

static double time_one(side *me, char *bytes, size_t len, long rounds, int rank)
{
    static double times[COUNT_MAX];
    for (size_t at = 0; at < len; at++)
        bytes[at] = (char)(at * 7 + (size_t)rank);
    memset(me->memory, 0, len);
    for (long k = -rounds / 10 - 1; k < rounds; k++) {
        double start = now_ns();
        if (rank == 0)
            send_message(me, bytes, len);
        receive_message(me);
        if (rank == 1)
            send_message(me, bytes, len);
        if (k >= 0)
            times[k] = (now_ns() - start) / 2;
    }
    for (size_t at = 0; at < len; at++)
        if (me->memory[at] != (char)(at * 7 + (size_t)(1 - rank))) {
            fprintf(stderr, "error: other bytes came back\n");
            exit(1);
        }
    return median(times, (size_t)rounds);
}

int main(int argc, char **argv)
{
    side me = {0};
    char end = 0, *bytes = malloc(SIZE_MAX_BYTES);
    double figures[64];
    int figure_count = 0;
    if (argc > 1 && strcmp(argv[1], "version") == 0)
        return puts(ucp_get_version_string()) < 0;
    int rank = fork_side(&me);
    on_message(&me, MESSAGE, on_bytes);
    /* Nothing is sent before both listen. */
    send_bytes(&me, &end, 1);
    receive_bytes(&me, &end, 1);
    for (int k = 1; k < argc && figure_count < 64; k++) {
        unsigned long len;
        long rounds;
        if (sscanf(argv[k], "%lu:%ld", &len, &rounds) != 2 || rounds < 1 || rounds > COUNT_MAX || len > SIZE_MAX_BYTES)
            continue;
        figures[figure_count++] = time_one(&me, bytes, len, rounds, rank);
    }
    if (rank == 1) {
        /* What was sent last may wait here: the other says when it has all. */
        while (recv(me.pipe, &end, 1, MSG_DONTWAIT) < 0)
            ucp_worker_progress(me.worker);
        _exit(0);
    }
    printf("pingpong");
    for (int k = 0; k < figure_count; k++)
        printf(" %.1f", figures[k]);
    printf("\n");
    fflush(stdout);
    close(me.pipe);
    wait(NULL);
    return 0;
}
