/* Exchange of halos in 3 or 4 dimensions by ranks whose boxes lie in regions, each on its own host, in one of three ways:
 *
 *   part   messages whose bodies are layers of a region: gathered and scattered at the memory's side
 *   copy   layers copied from region to region by one batch, and a barrier
 *   pack   messages of bytes that the program packs and unpacks
 *
 * All give the same bits. Run by `hanare run --nodes 2 -n 2 -- halo 64 --mode part --check`.
 *
 * SOURCE: [D3 §5.5, fig 5] halos described as derived types, packed and unpacked by the memory.
 */
/* FEATURE: D3-F25 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "options.h"

typedef struct run {
    job j;
    box b;
    int faces; /* two for each dimension: number k is toward dimension k / 2, upward if k is odd */
    hanare_group *group;
    hanare_mailbox *box;
    hanare_region *field; /* two fields, used in turn */
    char name[128];
    double *at[2];
    double *packed[HALO_FACES_MAX], *unpacked;
    hanare_region *beside[HALO_FACES_MAX];
    hanare_batch *copies[2];
} run;

static hanare_shape shape_of(const run *r, const face *f, int turn)
{
    hanare_dim dims[3];
    for (int k = 0; k < f->dims; k++)
        dims[k].count = f->counts[k], dims[k].stride = (int64_t)(f->steps[k] * sizeof(double));
    uint64_t first = ((size_t)turn * r->b.count + f->first) * sizeof(double);
    return hanare_shape_subarray(first, f->run * sizeof(double), (uint32_t)f->dims, dims);
}

static hanare_region *field_of(run *r, int rank, char *name, size_t name_len)
{
    char what[32];
    snprintf(what, sizeof what, "field%d", rank);
    return job_region(&r->j, what, 2 * r->b.count * sizeof(double), NULL, name, name_len);
}

/* Bytes of all messages of a step, and of the next that a neighbour may begin before; blocks of the heap are multiples of 64. */
static size_t receive_len(const run *r)
{
    size_t len = 0;
    for (int k = 0; k < r->faces; k++)
        len += box_edge(&r->b, k / 2, k % 2).count * sizeof(double) + 4096;
    return 3 * len;
}

static void begin(run *r, const options *o)
{
    size_t len;
    void *ptr;
    r->b = box_of(dims_of(o), o->side, r->j.rank, r->j.ranks);
    r->faces = 2 * r->b.dims;
    r->field = field_of(r, r->j.rank, r->name, sizeof r->name);
    job_must(hanare_map(r->field, &ptr, &len));
    r->at[0] = (double *)ptr, r->at[1] = r->at[0] + r->b.count;
    box_fill(&r->b, r->at[0]);
    box_fill(&r->b, r->at[1]);
    job_must(hanare_group_open(r->j.pool, NULL, 0, &r->group));
    job_must(hanare_mailbox_open(r->group, receive_len(r), &r->box));
    r->unpacked = (double *)malloc(r->b.count * sizeof(double));
    for (int k = 0; k < r->faces; k++) {
        char name[128];
        r->packed[k] = (double *)malloc(box_edge(&r->b, k / 2, k % 2).count * sizeof(double));
        if (r->packed[k] == NULL || r->unpacked == NULL)
            exit(1);
        r->beside[k] = field_of(r, box_beside(&r->b, k / 2, k % 2), name, sizeof name);
    }
    for (int turn = 0; turn < 2; turn++) {
        job_must(hanare_batch_begin(r->j.pool, &r->copies[turn]));
        for (int k = 0; k < r->faces; k++) {
            face from = box_edge(&r->b, k / 2, k % 2), to = box_halo(&r->b, k / 2, !(k % 2));
            hanare_shape edge = shape_of(r, &from, turn), halo = shape_of(r, &to, turn);
            job_must(hanare_batch_copy(r->copies[turn], r->field, &edge, r->beside[k], &halo));
        }
    }
}

/* One message for each face; what a neighbour sent upward is this one's lower halo. */
static void exchange_messages(run *r, int turn, int packs)
{
    uint64_t sends[HALO_FACES_MAX];
    hanare_message *message;
    for (int k = 0; k < r->faces; k++) {
        face edge = box_edge(&r->b, k / 2, k % 2);
        uint32_t to = (uint32_t)box_beside(&r->b, k / 2, k % 2), tag = (uint32_t)k;
        if (packs) {
            face_move(&edge, r->at[turn], r->packed[k], 0);
            job_must(hanare_send_nb(r->box, to, 0, tag, NULL, 0, r->packed[k], edge.count * sizeof(double), &sends[k]));
        } else {
            hanare_shape part = shape_of(r, &edge, turn);
            job_must(hanare_send_part_nb(r->box, to, 0, tag, NULL, 0, r->field, &part, &sends[k]));
        }
    }
    for (int k = 0; k < r->faces; k++) {
        face halo = box_halo(&r->b, k / 2, k % 2);
        int from = box_beside(&r->b, k / 2, k % 2);
        job_must(hanare_receive(r->box, from, 0, k ^ 1, HANARE_FOREVER, &message));
        if (packs) {
            job_must(hanare_message_read(message, 0, r->unpacked, halo.count * sizeof(double)));
            face_move(&halo, r->at[turn], r->unpacked, 1);
        } else {
            hanare_shape blocks = shape_of(r, &halo, turn);
            job_must(hanare_message_scatter(message, r->field, &blocks));
        }
        job_must(hanare_message_close(message));
    }
    for (int k = 0; k < r->faces; k++)
        job_must(hanare_wait_sent(r->box, &sends[k], 1, HANARE_FOREVER, NULL));
}

/* A rank writes a neighbour's halo for this turn when that one has long read it for the last but one: two barriers ago. */
static void exchange_copies(run *r, int turn)
{
    job_must(hanare_batch_run(r->copies[turn]));
    if (r->j.ranks > 1)
        job_must(hanare_barrier(r->j.pool));
}

static void exchange(run *r, const options *o, int turn)
{
    double start = seconds();
    if (o->mode[0] == 'c')
        exchange_copies(r, turn);
    else
        exchange_messages(r, turn, strcmp(o->mode, "pack") == 0);
    r->j.now.fault_s += seconds() - start;
}

/* How many rows of all ranks' points differ from a run in main memory: rank 0's result. */
static size_t check(run *r, const options *o)
{
    int turn = (int)(o->sweeps % 2);
    size_t wrong = 0, len = r->b.count * sizeof(double);
    job_must(hanare_barrier(r->j.pool));
    double *right = r->j.rank == 0 ? halo_alone(r->b.dims, r->b.side, r->j.ranks, o->sweeps) : NULL;
    for (int rank = 0; rank < r->j.ranks && r->j.rank == 0; rank++) {
        char name[128];
        hanare_region *field = field_of(r, rank, name, sizeof name);
        job_must(hanare_get(field, (size_t)turn * len, r->unpacked, len));
        wrong += right == NULL || box_wrong(&r->b, r->unpacked, right + (size_t)rank * r->b.count);
        job_must(hanare_close(field));
    }
    free(right);
    return wrong;
}

static void end(run *r)
{
    for (int k = 0; k < r->faces; k++) {
        job_must(hanare_close(r->beside[k]));
        free(r->packed[k]);
    }
    for (int turn = 0; turn < 2; turn++)
        job_must(hanare_batch_drop(r->copies[turn]));
    free(r->unpacked);
    job_must(hanare_mailbox_close(r->box));
    job_must(hanare_group_close(r->group));
    job_must(hanare_barrier(r->j.pool));
    job_must(hanare_close(r->field));
    job_must(hanare_remove(r->j.pool, r->name));
    job_end(&r->j);
}

int main(int argc, char **argv)
{
    run r;
    int status = 0;
    memset(&r, 0, sizeof r);
    options o = read_options(argc, argv, "part|copy|pack", "part");
    r.j = job_begin("halo");
    begin(&r, &o);

    job_start(&r.j);
    for (size_t k = 0; k < o.sweeps; k++) {
        exchange(&r, &o, (int)(k % 2));
        box_sweep(&r.b, r.at[k % 2], r.at[1 - k % 2]);
    }
    times was = job_stop(&r.j);

    size_t wrong = o.check ? check(&r, &o) : 0;
    if (r.j.rank == 0) {
        line to = begin_line(&o, "regions", r.j.ranks);
        line_times(to, &was);
        status = end_line(&o, to, wrong);
    }
    end(&r);
    return status;
}
