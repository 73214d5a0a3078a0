/* Himeno's benchmark in main memory by threads of OpenMP, planes dealt as to ranks. Run `himeno-threads M --threads 2`. */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"
#include <omp.h>

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    grid g = himeno_grid(o.size);
    float *pressure = (float *)take_pages(himeno_len_bytes(&g), o.pages);
    double *sums = (double *)take_pages(g.i * sizeof(double), o.pages);
    double start = 0, end = 0, gosa = 0;
    for (size_t i = 0; i < g.i; i++)
        himeno_fill(&g, pressure, i);

#pragma omp parallel num_threads((int)o.threads)
    {
        size_t rank = (size_t)omp_get_thread_num();
        planes mine = himeno_share(&g, rank, (size_t)omp_get_num_threads());
        share s = himeno_begin(&g, mine, (float *)take_pages(himeno_share_len_bytes(&g, mine), o.pages));
#pragma omp barrier
        if (rank == 0)
            start = seconds();
        for (size_t sweep = 0; sweep < o.sweeps; sweep++) {
            for (size_t i = mine.first; i < mine.last; i++)
                sums[i] = himeno_sweep(&s, pressure, i);
#pragma omp barrier
            if (rank == 0)
                gosa = himeno_gosa(&g, sums);
            for (size_t i = mine.first; i < mine.last; i++)
                himeno_keep(&s, pressure, i);
#pragma omp barrier
        }
        if (rank == 0)
            end = seconds();
    }

    line to = begin_line(&o, "threads", o.threads);
    line_number(to, "seconds", end - start);
    return end_line(&o, to, end - start, gosa, pressure);
}
