/* The same exchange by ranks of MPI, with derived types or packed by the program. Run by `mpirun -n 2 halo-mpi 64`. */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "options.h"
#include <mpi.h>

typedef struct run {
    box b;
    int rank, ranks, faces;
    double *at[2];
    MPI_Datatype edge[HALO_FACES_MAX], halo[HALO_FACES_MAX];
    double *out[HALO_FACES_MAX], *in[HALO_FACES_MAX];
    double exchange_s;
} run;

/* A layer as a sub-array of the box. */
static MPI_Datatype type_of(const box *b, int d, size_t at)
{
    int sizes[HALO_DIMS_MAX + 1], counts[HALO_DIMS_MAX + 1], firsts[HALO_DIMS_MAX + 1];
    MPI_Datatype type;
    for (int k = 0; k < b->dims; k++)
        sizes[k] = (int)b->span, counts[k] = k == d ? 1 : (int)b->side, firsts[k] = k == d ? (int)at : 1;
    sizes[b->dims] = counts[b->dims] = (int)b->site, firsts[b->dims] = 0;
    MPI_Type_create_subarray(b->dims + 1, sizes, counts, firsts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void begin(run *r, const options *o)
{
    r->b = box_of(dims_of(o), o->side, r->rank, r->ranks);
    r->faces = 2 * r->b.dims;
    for (int turn = 0; turn < 2; turn++) {
        r->at[turn] = (double *)malloc(r->b.count * sizeof(double));
        if (r->at[turn] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        box_fill(&r->b, r->at[turn]);
    }
    for (int k = 0; k < r->faces; k++) {
        size_t len = box_edge(&r->b, k / 2, k % 2).count * sizeof(double);
        r->edge[k] = type_of(&r->b, k / 2, k % 2 ? r->b.side : 1);
        r->halo[k] = type_of(&r->b, k / 2, k % 2 ? r->b.side + 1 : 0);
        r->out[k] = (double *)malloc(len), r->in[k] = (double *)malloc(len);
        if (r->out[k] == NULL || r->in[k] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void exchange(run *r, double *field, int packs)
{
    MPI_Request all[2 * HALO_FACES_MAX];
    double start = seconds();
    for (int k = 0; k < r->faces; k++) {
        int count = packs ? (int)box_halo(&r->b, k / 2, k % 2).count : 1;
        MPI_Irecv(packs ? r->in[k] : field, count, packs ? MPI_DOUBLE : r->halo[k], box_beside(&r->b, k / 2, k % 2), k ^ 1,
                  MPI_COMM_WORLD, &all[k]);
    }
    for (int k = 0; k < r->faces; k++) {
        face edge = box_edge(&r->b, k / 2, k % 2);
        if (packs)
            face_move(&edge, field, r->out[k], 0);
        MPI_Isend(packs ? r->out[k] : field, packs ? (int)edge.count : 1, packs ? MPI_DOUBLE : r->edge[k],
                  box_beside(&r->b, k / 2, k % 2), k, MPI_COMM_WORLD, &all[r->faces + k]);
    }
    MPI_Waitall(2 * r->faces, all, MPI_STATUSES_IGNORE);
    for (int k = 0; k < r->faces && packs; k++) {
        face halo = box_halo(&r->b, k / 2, k % 2);
        face_move(&halo, field, r->in[k], 1);
    }
    r->exchange_s += seconds() - start;
}

static size_t check(const run *r, const options *o)
{
    unsigned long wrong, all = 0;
    double *right = halo_alone(r->b.dims, r->b.side, r->ranks, o->sweeps);
    wrong = right == NULL ? 1 : box_wrong(&r->b, r->at[o->sweeps % 2], right + (size_t)r->rank * r->b.count);
    free(right);
    MPI_Reduce(&wrong, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    run r;
    int status = 0;
    memset(&r, 0, sizeof r);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    options o = read_options(argc, argv, "types|pack", "types");
    begin(&r, &o);

    MPI_Barrier(MPI_COMM_WORLD);
    double start = seconds();
    for (size_t k = 0; k < o.sweeps; k++) {
        exchange(&r, r.at[k % 2], strcmp(o.mode, "pack") == 0);
        box_sweep(&r.b, r.at[k % 2], r.at[1 - k % 2]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double all = seconds() - start, sum = 0;

    size_t wrong = o.check ? check(&r, &o) : 0;
    MPI_Reduce(&r.exchange_s, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (r.rank == 0) {
        line to = begin_line(&o, "mpi", r.ranks);
        line_number(to, "seconds", all);
        line_number(to, "fault_s", sum / r.ranks);
        status = end_line(&o, to, wrong);
    }
    MPI_Finalize();
    return status;
}
