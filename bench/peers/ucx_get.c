/* UCX over TCP loopback, two processes: ucp_get, and a round trip of active messages whose reply has the bytes.
 * `UCX_TLS=tcp ucx_get ROUNDS`, or `ucx_get version`. The target makes progress all the time: over TCP a get needs it.
 */
#define _GNU_SOURCE
#include "ucx_side.h"

enum { ASK = 1, ANSWER = 2, REQUEST_LEN = 96 };

/* The head of a question says how many bytes to answer; the answer is sent without waiting for it. */
static ucs_status_t on_ask(void *arg, const void *head, size_t head_len, void *data, size_t len,
                           const ucp_am_recv_param_t *param)
{
    side *me = arg;
    size_t wanted;
    (void)data, (void)len, (void)param, (void)head_len;
    memcpy(&wanted, head, sizeof wanted);
    ucp_request_param_t send = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK,
                                .flags = UCP_AM_SEND_FLAG_EAGER,
                                .cb.send = noop};
    void *sent = ucp_am_send_nbx(me->peer, ANSWER, NULL, 0, me->memory, wanted, &send);
    if (UCS_PTR_IS_PTR(sent))
        ucp_request_free(sent);
    return UCS_OK;
}

static ucs_status_t on_answer(void *arg, const void *head, size_t head_len, void *data, size_t len,
                              const ucp_am_recv_param_t *param)
{
    side *me = arg;
    (void)head, (void)head_len, (void)param;
    memcpy(me->memory, data, len);
    me->answered += len;
    return UCS_OK;
}

static void serve(side *me)
{
    ucp_mem_map_params_t region = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = me->memory,
                                   .length = SIZE_MAX_BYTES};
    ucp_mem_h mapped;
    void *key;
    size_t len;
    char end;
    check(ucp_mem_map(me->context, &region, &mapped), "map");
    check(ucp_rkey_pack(me->context, mapped, &key, &len), "key");
    send_bytes(me, &me->memory, sizeof me->memory);
    send_bytes(me, key, len);
    on_message(me, ASK, on_ask);
    while (recv(me->pipe, &end, 1, MSG_DONTWAIT) < 0)
        for (int k = 0; k < 1000; k++)
            ucp_worker_progress(me->worker);
    _exit(0);
}

static double get(side *me, uint64_t from, ucp_rkey_h key, size_t size)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    double start = now_ns();
    finish(me, ucp_get_nbx(me->peer, me->memory, size, from, key, &param));
    return now_ns() - start;
}

static double round_trip(side *me, size_t size)
{
    char question[REQUEST_LEN] = {0};
    ucp_request_param_t param = {.op_attr_mask = 0};
    double start = now_ns();
    me->answered = 0;
    finish(me, ucp_am_send_nbx(me->peer, ASK, &size, sizeof size, question, sizeof question, &param));
    while (me->answered < size)
        ucp_worker_progress(me->worker);
    return now_ns() - start;
}

static void measure(side *me, uint64_t from, ucp_rkey_h key, long rounds)
{
    double *times = malloc((size_t)(rounds + 20) * sizeof *times);
    for (int k = 0; k < SIZE_COUNT; k++) {
        long count = rounds_of(SIZES[k], rounds);
        for (long at = -count / 10; at < count; at++)
            times[at < 0 ? 0 : at] = get(me, from, key, SIZES[k]);
        print_figure("get", SIZES[k], median(times, (size_t)count));
        for (long at = -count / 10; at < count; at++)
            times[at < 0 ? 0 : at] = round_trip(me, SIZES[k]);
        print_figure("am", SIZES[k], median(times, (size_t)count));
    }
    free(times);
}

int main(int argc, char **argv)
{
    side me = {0};
    char packed[4096];
    uint64_t from;
    ucp_rkey_h key;
    long rounds = argc > 1 ? atol(argv[1]) : 10000;
    if (argc > 1 && strcmp(argv[1], "version") == 0)
        return puts(ucp_get_version_string()) < 0;
    if (fork_side(&me))
        serve(&me);
    receive_bytes(&me, &from, sizeof from);
    receive_bytes(&me, packed, sizeof packed);
    check(ucp_ep_rkey_unpack(me.peer, packed, &key), "key");
    on_message(&me, ANSWER, on_answer);
    measure(&me, from, key, rounds);
    close(me.pipe);
    wait(NULL);
    return 0;
}
