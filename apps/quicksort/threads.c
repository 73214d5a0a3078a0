/* Quicksort in main memory by threads of OpenMP, as ranks do it. Run `quicksort-threads 16777216 --threads 2`. */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"
#include <omp.h>

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    uint32_t *numbers = (uint32_t *)take_pages(o.count * sizeof *numbers, o.pages);
    uint32_t *sorted = (uint32_t *)take_pages(o.count * sizeof *sorted, o.pages);
    notice *notices = (notice *)take_pages(SORT_RANKS_MAX * sizeof *notices, o.pages);
    for (size_t k = 0; k < o.count; k++)
        numbers[k] = sort_number(k);

    double start = seconds();
#pragma omp parallel num_threads((int)o.threads)
    {
        size_t rank = (size_t)omp_get_thread_num(), ranks = (size_t)omp_get_num_threads();
        size_t first = sort_first(o.count, rank, ranks), count = sort_first(o.count, rank + 1, ranks) - first;
        uint32_t bounds[SORT_RANKS_MAX];
        sort_sample(&notices[rank], numbers + first, count);
#pragma omp barrier
        sort_bounds(notices, ranks, bounds);
        sort_deal(&notices[rank], numbers + first, count, bounds, ranks);
#pragma omp barrier
        size_t place = sort_place(notices, rank, ranks), filled = 0;
        for (size_t of = 0; of < ranks; of++) {
            size_t share = sort_share(&notices[of], rank);
            const uint32_t *from = numbers + sort_first(o.count, of, ranks) + notices[of].firsts[rank];
            memcpy(sorted + place + filled, from, share * sizeof *sorted);
            filled += share;
        }
        sort_numbers(sorted + place, filled);
    }
    double end = seconds();

    line to = begin_line(&o, "threads", o.threads);
    line_number(to, "seconds", end - start);
    return end_line(&o, to, sorted);
}
