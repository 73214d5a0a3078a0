/* Himeno's benchmark by ranks of MPI, planes dealt as on mapped memory; neighbours exchange their outer planes, and rank 0
 * gathers the sums, in each sweep. Run by `mpirun -n 2 himeno-mpi M`.
 */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"
#include <mpi.h>

typedef struct run {
    grid g;
    share s;
    float *pressure; /* of the whole grid; a rank uses its planes and those beside them */
    double *sums;
    int rank, ranks;
    int *counts, *firsts; /* each rank's planes */
} run;

static float *plane_of(const run *r, size_t i) { return r->pressure + i * himeno_plane(&r->g); }

/* Sends the outer planes and brings those beside them. */
static void exchange(const run *r)
{
    int count = (int)himeno_plane(&r->g);
    int before = r->rank > 0 ? r->rank - 1 : MPI_PROC_NULL, after = r->rank + 1 < r->ranks ? r->rank + 1 : MPI_PROC_NULL;
    planes mine = r->s.mine;
    MPI_Request all[4];
    MPI_Irecv(plane_of(r, mine.first - 1), count, MPI_FLOAT, before, 0, MPI_COMM_WORLD, &all[0]);
    MPI_Irecv(plane_of(r, mine.last), count, MPI_FLOAT, after, 0, MPI_COMM_WORLD, &all[1]);
    MPI_Isend(plane_of(r, mine.first), count, MPI_FLOAT, before, 0, MPI_COMM_WORLD, &all[2]);
    MPI_Isend(plane_of(r, mine.last - 1), count, MPI_FLOAT, after, 0, MPI_COMM_WORLD, &all[3]);
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
}

static double sweep(run *r)
{
    planes mine = r->s.mine;
    const void *own = r->rank == 0 ? MPI_IN_PLACE : r->sums + mine.first;
    exchange(r);
    for (size_t i = mine.first; i < mine.last; i++)
        r->sums[i] = himeno_sweep(&r->s, r->pressure, i);
    MPI_Gatherv(own, (int)(mine.last - mine.first), MPI_DOUBLE, r->sums, r->counts, r->firsts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (size_t i = mine.first; i < mine.last; i++)
        himeno_keep(&r->s, r->pressure, i);
    return r->rank == 0 ? himeno_gosa(&r->g, r->sums) : 0;
}

/* Brings every plane to rank 0. */
static void gather(const run *r)
{
    int plane = (int)himeno_plane(&r->g);
    for (int rank = 1; rank < r->ranks; rank++) {
        float *first = plane_of(r, (size_t)r->firsts[rank]);
        if (r->rank == 0)
            MPI_Recv(first, r->counts[rank] * plane, MPI_FLOAT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (r->rank == rank)
            MPI_Send(first, r->counts[rank] * plane, MPI_FLOAT, 0, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    run r;
    int status = 0;
    double gosa = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    options o = read_options(argc, argv);
    r.g = himeno_grid(o.size);
    r.pressure = (float *)take_pages(himeno_len_bytes(&r.g), o.pages);
    r.sums = (double *)take_pages(r.g.i * sizeof(double), o.pages);
    r.counts = (int *)take_pages((size_t)r.ranks * sizeof(int), o.pages);
    r.firsts = (int *)take_pages((size_t)r.ranks * sizeof(int), o.pages);
    for (int rank = 0; rank < r.ranks; rank++) {
        planes theirs = himeno_share(&r.g, (size_t)rank, (size_t)r.ranks);
        r.counts[rank] = (int)(theirs.last - theirs.first), r.firsts[rank] = (int)theirs.first;
    }
    planes mine = himeno_share(&r.g, (size_t)r.rank, (size_t)r.ranks);
    r.s = himeno_begin(&r.g, mine, (float *)take_pages(himeno_share_len_bytes(&r.g, mine), o.pages));
    for (size_t i = 0; i < r.g.i; i++)
        himeno_fill(&r.g, r.pressure, i);

    MPI_Barrier(MPI_COMM_WORLD);
    double start = seconds();
    for (size_t k = 0; k < o.sweeps; k++)
        gosa = sweep(&r);
    MPI_Barrier(MPI_COMM_WORLD);
    double end = seconds();

    if (o.check)
        gather(&r);
    if (r.rank == 0) {
        line to = begin_line(&o, "mpi", (size_t)r.ranks);
        line_number(to, "seconds", end - start);
        status = end_line(&o, to, end - start, gosa, r.pressure);
    }
    MPI_Finalize();
    return status;
}
