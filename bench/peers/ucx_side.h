/* Two processes that talk by UCX: what the programs over it share. */
#ifndef UCX_SIDE_H
#define UCX_SIDE_H

#include "figures.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

typedef struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h peer;
    int pipe; /* to the other process, for what has to be known before */
    char *memory;
    size_t answered; /* bytes that have arrived */
} side;

static inline void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "ucx: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static inline void finish(side *me, void *sent)
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

static inline void send_bytes(side *me, const void *bytes, size_t len)
{
    if (write(me->pipe, &len, sizeof len) != (ssize_t)sizeof len || write(me->pipe, bytes, len) != (ssize_t)len)
        die("ucx: write");
}

static inline size_t receive_bytes(side *me, void *bytes, size_t max)
{
    size_t len = 0;
    if (recv(me->pipe, &len, sizeof len, MSG_WAITALL) != (ssize_t)sizeof len || len > max ||
        recv(me->pipe, bytes, len, MSG_WAITALL) != (ssize_t)len)
        die("ucx: read");
    return len;
}

static inline void noop(void *request, ucs_status_t status, void *data)
{
    (void)request, (void)status, (void)data;
}

static inline void on_message(side *me, unsigned id, ucp_am_recv_callback_t handler)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .id = id,
                                    .flags = UCP_AM_FLAG_WHOLE_MSG,
                                    .cb = handler,
                                    .arg = me};
    check(ucp_worker_set_am_recv_handler(me->worker, &param), "handler");
}

static inline void open_side(side *me)
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

/* Makes the other process, and returns whether this one is it. It goes with this one. */
static inline int fork_side(side *me)
{
    int pipes[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pipes) < 0)
        die("ucx: socketpair");
    pid_t child = fork();
    me->pipe = pipes[child == 0];
    close(pipes[child != 0]);
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_side(me);
    return child == 0;
}

#endif
