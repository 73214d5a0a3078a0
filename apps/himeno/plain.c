/* Himeno's benchmark in main memory by one thread: what all other versions are measured against. Run `himeno-plain M`. */
/* FEATURE: D2-F21 */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    grid g = himeno_grid(o.size);
    planes mine = himeno_share(&g, 0, 1);
    float *pressure = (float *)take_pages(himeno_len_bytes(&g), o.pages);
    double *sums = (double *)take_pages(g.i * sizeof(double), o.pages);
    share s = himeno_begin(&g, mine, (float *)take_pages(himeno_share_len_bytes(&g, mine), o.pages));
    for (size_t i = 0; i < g.i; i++)
        himeno_fill(&g, pressure, i);

    double start = seconds(), gosa = 0;
    for (size_t sweep = 0; sweep < o.sweeps; sweep++) {
        for (size_t i = mine.first; i < mine.last; i++)
            sums[i] = himeno_sweep(&s, pressure, i);
        for (size_t i = mine.first; i < mine.last; i++)
            himeno_keep(&s, pressure, i);
        gosa = himeno_gosa(&g, sums);
    }
    double end = seconds();

    line to = begin_line(&o, "plain", 1);
    line_number(to, "seconds", end - start);
    return end_line(&o, to, end - start, gosa, pressure);
}
