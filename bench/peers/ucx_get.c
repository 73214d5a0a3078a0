/* UCX over TCP loopback, two processes: ucp_get, and a round trip of active messages whose reply has the bytes.
 * `UCX_TLS=tcp ucx_get ROUNDS`, or `ucx_get version`. The target makes progress all the time: over TCP a get needs it.
 */
#define _GNU_SOURCE
#include "figures.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { ASK = 1, ANSWER = 2, REQUEST_LEN = 96 };

typedef struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h peer;
    int pipe; /* to the other process, for what has to be known before */
    char *memory;
    size_t answered; /* bytes of answers that arrived */
} side;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "ucx_get: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void finish(side *me, void *sent)
{
    if (sent == NULL)
        return;
    if (UCS_PTR_IS_ERR(sent))
        check(UCS_PTR_STATUS(sent), "operation");
    while (ucp_request_check_status(sent) == UCS_INPROGRESS)
        ucp_worker_progress(me->worker);
    check(ucp_request_check_status(sent), "operation");
    ucp_request_free(sent);
}

static void send_bytes(side *me, const void *bytes, size_t len)
{
    if (write(me->pipe, &len, sizeof len) != (ssize_t)sizeof len || write(me->pipe, bytes, len) != (ssize_t)len)
        die("ucx_get: write");
}

static size_t receive_bytes(side *me, void *bytes, size_t max)
{
    size_t len = 0;
    if (recv(me->pipe, &len, sizeof len, MSG_WAITALL) != (ssize_t)sizeof len || len > max ||
        recv(me->pipe, bytes, len, MSG_WAITALL) != (ssize_t)len)
        die("ucx_get: read");
    return len;
}

static void noop(void *request, ucs_status_t status, void *data)
{
    (void)request, (void)status, (void)data;
}

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

static void on_message(side *me, unsigned id, ucp_am_recv_callback_t handler)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .id = id,
                                    .flags = UCP_AM_FLAG_WHOLE_MSG,
                                    .cb = handler,
                                    .arg = me};
    check(ucp_worker_set_am_recv_handler(me->worker, &param), "handler");
}

static void open_side(side *me)
{
    char theirs[4096];
    ucp_address_t *ours;
    size_t len;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA | UCP_FEATURE_AM};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    check(ucp_init(&params, NULL, &me->context), "init");
    check(ucp_worker_create(me->context, &single, &me->worker), "worker");
    check(ucp_worker_get_address(me->worker, &ours, &len), "address");
    send_bytes(me, ours, len);
    receive_bytes(me, theirs, sizeof theirs);
    ucp_ep_params_t peer = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)theirs};
    check(ucp_ep_create(me->worker, &peer, &me->peer), "endpoint");
    ucp_worker_release_address(me->worker, ours);
    me->memory = aligned_alloc(4096, SIZE_MAX_BYTES);
    memset(me->memory, 1, SIZE_MAX_BYTES);
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
    int pipes[2];
    char packed[4096];
    uint64_t from;
    ucp_rkey_h key;
    long rounds = argc > 1 ? atol(argv[1]) : 10000;
    if (argc > 1 && strcmp(argv[1], "version") == 0)
        return puts(ucp_get_version_string()) < 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pipes) < 0)
        die("ucx_get: socketpair");
    pid_t server = fork();
    me.pipe = pipes[server == 0];
    close(pipes[server != 0]);
    if (server == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_side(&me);
    if (server == 0)
        serve(&me);
    receive_bytes(&me, &from, sizeof from);
    receive_bytes(&me, packed, sizeof packed);
    check(ucp_ep_rkey_unpack(me.peer, packed, &key), "key");
    on_message(&me, ANSWER, on_answer);
    measure(&me, from, key, rounds);
    close(me.pipe);
    waitpid(server, NULL, 0);
    return 0;
}
