/* The matrix product of the drivers paper's figure 4 on mapped memory: as distributed.c, but the pages of A and B that a
 * rank reads come when it reads them, from wherever they lie.
 * Run by `hanare run --nodes 2 -n 2 -- matmul-mapped 1024 --mode coherent`.
 */
/* FEATURE: D2-F4 D2-F19 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "options.h"

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    job j = job_begin("matmul");
    size_t len = o.n * o.n * sizeof(double), ranks = (size_t)j.ranks;
    const char *placement = job_interleave(len / ranks), *names[3] = {"a", "b", "c"};
    mapped memory[3];
    double *matrix[3];
    int status = 0;
    for (int at = 0; at < 3; at++) {
        memory[at] = job_map(&j, names[at], len, placement, job_consistency(o.mode));
        matrix[at] = (double *)(void *)memory[at].ptr;
    }

    double whole = seconds();
    if (j.rank == 0)
        for (int at = 0; at < 2; at++) {
            matrix_fill(matrix[at], o.n, (uint64_t)at + 1);
            job_publish(&j, &memory[at], matrix[at], len);
        }
    job_meet(&j);
    rows mine = rows_of(o.n, (size_t)j.rank, ranks);
    size_t own = (mine.last - mine.first) * o.n * sizeof(double);
    if (j.rank != 0) {
        job_refresh(&j, &memory[0], matrix[0] + mine.first * o.n, own);
        job_refresh(&j, &memory[1], matrix[1], len);
    }
    job_start(&j);
    product_of(&o)(o.n, mine.first, mine.last, matrix[0], matrix[1], matrix[2]);
    job_publish(&j, &memory[2], matrix[2] + mine.first * o.n, own);
    job_meet(&j);
    if (j.rank == 0)
        job_refresh(&j, &memory[2], matrix[2], len);
    times was = job_stop(&j);

    if (j.rank == 0) {
        outcome line = {o.mode, j.ranks, was.seconds, seconds() - whole, (unsigned long long)was.bytes, 0, 0};
        status = print_outcome(&o, &line, matrix[0], matrix[1], matrix[2]);
    }
    for (int at = 0; at < 3; at++)
        job_unmap(&j, &memory[at]);
    job_end(&j);
    return status;
}
