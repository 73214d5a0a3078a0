/* LU in main memory by threads of OpenMP, blocks of rows dealt as to ranks. Run `lu-threads 2048 --threads 2`. */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"
#include <omp.h>

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    matrix m = matrix_of(&o);
    m.a = (double *)take_pages(lu_len_bytes(&m), o.pages);
    for (size_t b = 0; b < lu_blocks(&m); b++)
        lu_fill(&m, b);

    double start = seconds();
#pragma omp parallel num_threads((int)o.threads)
    {
        size_t rank = (size_t)omp_get_thread_num(), ranks = (size_t)omp_get_num_threads();
        if (rank == 0)
            lu_factor(&m, 0);
        for (size_t s = 0; s + 1 < lu_blocks(&m); s++) {
#pragma omp barrier
            lu_step_of(&m, s, rank, ranks, NULL, NULL);
        }
    }
    double end = seconds();

    line to = begin_line(&o, "threads", o.threads);
    line_number(to, "seconds", end - start);
    return end_line(&o, to, &m);
}
