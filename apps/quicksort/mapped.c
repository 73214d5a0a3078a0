/* Quicksort on mapped memory by one rank or several. Each rank splits its part of the numbers, fetches what is its own from
 * all parts, and sorts it where it belongs. Alone it sorts in place, as quicksort does.
 * Run by `hanare run --nodes 2 -n 2 -- quicksort-mapped 16777216 --mode coherent`.
 *
 * SOURCE: [Euphoria §5.3] parallel quicksort; README.md says why it was slower there, and what is done about it here.
 */
/* FEATURE: EU-F20 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "options.h"

typedef struct run {
    job j;
    size_t count, rank, ranks;
    mapped numbers_memory, sorted_memory, notices_memory;
    uint32_t *numbers, *sorted;
    notice *notices;
} run;

/* Others may read what this rank tells after the next meeting. */
static void tell(run *r) { job_publish(&r->j, &r->notices_memory, &r->notices[r->rank], sizeof *r->notices); }

static void hear(run *r)
{
    for (size_t of = 0; of < r->ranks; of++)
        if (of != r->rank)
            job_refresh(&r->j, &r->notices_memory, &r->notices[of], sizeof *r->notices);
}

/* Splits this rank's part for all. */
static void split(run *r)
{
    size_t first = sort_first(r->count, r->rank, r->ranks), count = sort_first(r->count, r->rank + 1, r->ranks) - first;
    notice *mine = &r->notices[r->rank];
    uint32_t bounds[SORT_RANKS_MAX];
    sort_sample(mine, r->numbers + first, count);
    tell(r);
    job_meet(&r->j);
    hear(r);
    sort_bounds(r->notices, r->ranks, bounds);
    sort_deal(mine, r->numbers + first, count, bounds, r->ranks);
    tell(r);
    /* What stays here need not leave. */
    size_t low = (size_t)mine->firsts[r->rank], high = (size_t)mine->firsts[r->rank + 1];
    job_publish(&r->j, &r->numbers_memory, r->numbers + first, low * sizeof *r->numbers);
    job_publish(&r->j, &r->numbers_memory, r->numbers + first + high, (count - high) * sizeof *r->numbers);
    job_meet(&r->j);
    hear(r);
}

/* Fetches this rank's numbers from all parts to where they belong, and sorts them. */
static void gather(run *r)
{
    size_t place = sort_place(r->notices, r->rank, r->ranks), filled = 0;
    for (size_t of = 0; of < r->ranks; of++) {
        size_t share = sort_share(&r->notices[of], r->rank);
        const uint32_t *from = r->numbers + sort_first(r->count, of, r->ranks) + r->notices[of].firsts[r->rank];
        if (of != r->rank)
            job_refresh(&r->j, &r->numbers_memory, from, share * sizeof *from);
        memcpy(r->sorted + place + filled, from, share * sizeof *from);
        filled += share;
    }
    sort_numbers(r->sorted + place, filled);
    job_publish(&r->j, &r->sorted_memory, r->sorted + place, filled * sizeof *r->sorted);
}

static void begin(run *r, const options *o)
{
    int consistency = job_consistency(o->mode);
    size_t len = o->count * sizeof(uint32_t);
    const char *placement = job_interleave(len / r->ranks);
    r->count = o->count;
    r->numbers_memory = job_map(&r->j, "numbers", len, placement, consistency);
    r->numbers = (uint32_t *)(void *)r->numbers_memory.ptr;
    r->sorted = r->numbers;
    if (r->ranks > 1) {
        r->sorted_memory = job_map(&r->j, "sorted", len, placement, consistency);
        r->notices_memory = job_map(&r->j, "notices", r->ranks * sizeof(notice), NULL, consistency);
        r->sorted = (uint32_t *)(void *)r->sorted_memory.ptr;
        r->notices = (notice *)(void *)r->notices_memory.ptr;
    }
    for (size_t k = sort_first(r->count, r->rank, r->ranks); k < sort_first(r->count, r->rank + 1, r->ranks); k++)
        r->numbers[k] = sort_number(k);
}

int main(int argc, char **argv)
{
    run r;
    options o = read_options(argc, argv);
    int status = 0;
    memset(&r, 0, sizeof r);
    r.j = job_begin("quicksort");
    r.rank = (size_t)r.j.rank, r.ranks = (size_t)r.j.ranks;
    if (r.ranks > SORT_RANKS_MAX) {
        fprintf(stderr, "quicksort: %lu ranks are more than %d\n", (unsigned long)r.ranks, SORT_RANKS_MAX);
        return 2;
    }
    begin(&r, &o);

    job_start(&r.j);
    if (r.ranks == 1)
        sort_numbers(r.numbers, r.count);
    else {
        split(&r);
        gather(&r);
    }
    times was = job_stop(&r.j);

    if (r.rank == 0) {
        line to = begin_line(&o, "mapped", r.ranks);
        line_text(to, "mode", o.mode);
        line_times(to, &was);
        if (o.check && r.ranks > 1)
            job_refresh(&r.j, &r.sorted_memory, r.sorted, r.count * sizeof *r.sorted);
        status = end_line(&o, to, r.sorted);
    }
    job_unmap(&r.j, &r.numbers_memory);
    if (r.ranks > 1) {
        job_unmap(&r.j, &r.sorted_memory);
        job_unmap(&r.j, &r.notices_memory);
    }
    job_end(&r.j);
    return status;
}
