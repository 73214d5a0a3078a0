/* LU on mapped memory by one rank or several: each owns blocks of rows, and reads the block of pivot rows that another
 * has factored straight from where it lies. Nobody writes a block that is factored, so ranks need not meet: each waits
 * until the block that it needs is factored, and who is ahead computes while others bring theirs.
 * FEATURE: RF-F21
 * Run by `hanare run --nodes 2 -n 2 -- lu-mapped 2048 --mode coherent`.
 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "options.h"

typedef struct run {
    job j;
    mapped memory;
    tally factored; /* blocks that are */
    matrix m;
} run;

/* Block b is factored, and final. */
static void ready(void *closure, size_t b)
{
    run *r = (run *)closure;
    size_t first = lu_first(&r->m, b), rows = lu_first(&r->m, b + 1) - first;
    job_publish(&r->j, &r->memory, lu_row(&r->m, first), rows * r->m.step * sizeof(double));
    if (r->j.ranks > 1)
        job_raise(&r->factored, b + 1);
}

/* Brings what is needed of another's block when it is factored: its columns from the diagonal on. */
static void bring(run *r, size_t b)
{
    size_t first = lu_first(&r->m, b), last = lu_first(&r->m, b + 1);
    job_wait_for(&r->j, &r->factored, b + 1);
    job_update(&r->j, &r->memory, lu_row(&r->m, first), (last - first) * r->m.step * sizeof(double));
    for (size_t i = first; i < last; i++)
        job_touch(&r->j, lu_row(&r->m, i) + first, (r->m.n - first) * sizeof(double));
}

static void decompose(run *r)
{
    size_t rank = (size_t)r->j.rank, ranks = (size_t)r->j.ranks;
    if (lu_owner(0, ranks) == rank) {
        lu_factor(&r->m, 0);
        ready(r, 0);
    }
    for (size_t s = 0; s + 1 < lu_blocks(&r->m); s++) {
        if (lu_owner(s, ranks) != rank)
            bring(r, s);
        lu_step_of(&r->m, s, rank, ranks, ready, r);
    }
}

int main(int argc, char **argv)
{
    run r;
    options o = read_options(argc, argv);
    int status = 0;
    r.j = job_begin("lu");
    r.m = matrix_of(&o);
    r.memory = job_map(&r.j, "matrix", lu_len_bytes(&r.m), job_interleave(o.block * r.m.step * sizeof(double)),
                       job_consistency(o.mode));
    r.factored = job_tally(&r.j, "factored");
    r.m.a = (double *)(void *)r.memory.ptr;
    for (size_t b = 0; b < lu_blocks(&r.m); b++)
        if (lu_owner(b, (size_t)r.j.ranks) == (size_t)r.j.rank)
            lu_fill(&r.m, b);

    job_start(&r.j);
    decompose(&r);
    times was = job_stop(&r.j);

    if (r.j.rank == 0) {
        line to = begin_line(&o, "mapped", (size_t)r.j.ranks);
        line_text(to, "mode", o.mode);
        line_times(to, &was);
        if (o.check)
            job_refresh(&r.j, &r.memory, r.m.a, lu_len_bytes(&r.m));
        status = end_line(&o, to, &r.m);
    }
    job_end_tally(&r.j, &r.factored);
    job_unmap(&r.j, &r.memory);
    job_end(&r.j);
    return status;
}
