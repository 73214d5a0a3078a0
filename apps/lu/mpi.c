/* LU by ranks of MPI, blocks of rows dealt as on mapped memory; a block of pivot rows is broadcast in each step.
 * Run by `mpirun -n 2 lu-mpi 2048`.
 */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"
#include <mpi.h>

/* Rows of block b from the diagonal on, as they lie. */
static void broadcast(const matrix *m, size_t b, size_t ranks)
{
    size_t first = lu_first(m, b);
    MPI_Datatype rows;
    MPI_Type_vector((int)(lu_first(m, b + 1) - first), (int)(m->n - first), (int)m->step, MPI_DOUBLE, &rows);
    MPI_Type_commit(&rows);
    MPI_Bcast(lu_row(m, first) + first, 1, rows, (int)lu_owner(b, ranks), MPI_COMM_WORLD);
    MPI_Type_free(&rows);
}

/* Brings every row to rank 0. */
static void gather(const matrix *m, size_t rank, size_t ranks)
{
    for (size_t b = 0; b < lu_blocks(m); b++) {
        int count = (int)((lu_first(m, b + 1) - lu_first(m, b)) * m->step), owner = (int)lu_owner(b, ranks);
        if (owner == 0)
            continue;
        if (rank == 0)
            MPI_Recv(lu_row(m, lu_first(m, b)), count, MPI_DOUBLE, owner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (owner == (int)rank)
            MPI_Send(lu_row(m, lu_first(m, b)), count, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks, status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    options o = read_options(argc, argv);
    matrix m = matrix_of(&o);
    m.a = (double *)take_pages(lu_len_bytes(&m), o.pages);
    for (size_t b = 0; b < lu_blocks(&m); b++)
        if (lu_owner(b, (size_t)ranks) == (size_t)rank)
            lu_fill(&m, b);

    MPI_Barrier(MPI_COMM_WORLD);
    double start = seconds();
    if (rank == 0)
        lu_factor(&m, 0);
    for (size_t s = 0; s + 1 < lu_blocks(&m); s++) {
        broadcast(&m, s, (size_t)ranks);
        lu_step_of(&m, s, (size_t)rank, (size_t)ranks, NULL, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double end = seconds();

    if (o.check)
        gather(&m, (size_t)rank, (size_t)ranks);
    if (rank == 0) {
        line to = begin_line(&o, "mpi", (size_t)ranks);
        line_number(to, "seconds", end - start);
        status = end_line(&o, to, &m);
    }
    MPI_Finalize();
    return status;
}
