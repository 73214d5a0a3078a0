/* Himeno's benchmark with the pressure on mapped memory, by one rank or several: each computes its planes and reads the
 * planes beside them straight from where they lie. Two meetings a sweep: when all have read the old pressure, and when
 * all have stored the new one.
 * Run by `hanare run --nodes 2 -n 2 -- himeno-mapped M --mode coherent`.
 *
 * SOURCE: [D2 §6.5(3), eq (12)] the pressure alone is shared; the coefficients are each rank's own.
 */
/* FEATURE: D2-F21 D2-F4 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "../kit/pages.h"
#include "options.h"

typedef struct run {
    job j;
    mapped memory;
    grid g;
    share s;
    float *pressure;
    double *sums; /* of all planes: a rank's begin on a page of its own */
    planes *of;   /* each rank's planes */
} run;

/* Where a rank puts the sums of its planes, behind the pressure. */
static double *sums_of(const run *r, size_t rank)
{
    size_t pages = (r->g.i * sizeof(double) + PAGE_LEN - 1) / PAGE_LEN;
    return (double *)(void *)(r->memory.ptr + himeno_len_bytes(&r->g) + rank * pages * PAGE_LEN);
}

static size_t region_len(const grid *g, size_t ranks)
{
    size_t pages = (g->i * sizeof(double) + PAGE_LEN - 1) / PAGE_LEN;
    return himeno_len_bytes(g) + ranks * pages * PAGE_LEN;
}

static void publish_plane(run *r, size_t i)
{
    size_t plane = himeno_plane(&r->g);
    job_publish(&r->j, &r->memory, r->pressure + i * plane, plane * sizeof(float));
}

static void refresh_plane(run *r, size_t i)
{
    size_t plane = himeno_plane(&r->g);
    job_refresh(&r->j, &r->memory, r->pressure + i * plane, plane * sizeof(float));
}

/* Whether a plane is another rank's. Borders are nobody's: they stay. */
static int is_others(const run *r, size_t i)
{
    return i >= 1 && i <= himeno_inner(&r->g) && (i < r->s.mine.first || i >= r->s.mine.last);
}

/* Rank 0's sum over all ranks' planes. */
static double gosa_of(run *r)
{
    for (size_t rank = 0; rank < (size_t)r->j.ranks; rank++) {
        planes theirs = r->of[rank];
        double *sums = sums_of(r, rank);
        if (rank > 0)
            job_refresh(&r->j, &r->memory, sums + theirs.first, (theirs.last - theirs.first) * sizeof(double));
        memcpy(r->sums + theirs.first, sums + theirs.first, (theirs.last - theirs.first) * sizeof(double));
    }
    return himeno_gosa(&r->g, r->sums);
}

/* One sweep; the result is rank 0's. */
static double sweep(run *r)
{
    planes mine = r->s.mine;
    size_t plane = himeno_plane(&r->g);
    double *sums = sums_of(r, (size_t)r->j.rank), gosa = 0;
    if (is_others(r, mine.first - 1))
        refresh_plane(r, mine.first - 1);
    if (is_others(r, mine.last))
        refresh_plane(r, mine.last);
    for (size_t i = mine.first; i < mine.last; i++)
        sums[i] = himeno_sweep(&r->s, r->pressure, i);
    job_publish(&r->j, &r->memory, sums + mine.first, (mine.last - mine.first) * sizeof(double));
    job_meet(&r->j);
    if (r->j.rank == 0)
        gosa = gosa_of(r);
    /* Planes that others have read must be taken back before they are written. */
    if (is_others(r, mine.first - 1))
        job_claim(&r->j, r->pressure + mine.first * plane, plane * sizeof(float));
    if (is_others(r, mine.last))
        job_claim(&r->j, r->pressure + (mine.last - 1) * plane, plane * sizeof(float));
    for (size_t i = mine.first; i < mine.last; i++)
        himeno_keep(&r->s, r->pressure, i);
    publish_plane(r, mine.first);
    if (mine.last - mine.first > 1)
        publish_plane(r, mine.last - 1);
    job_meet(&r->j);
    return gosa;
}

static void begin(run *r, const options *o)
{
    size_t ranks = (size_t)r->j.ranks, part = himeno_len_bytes(&r->g) / ranks;
    r->memory = job_map(&r->j, "pressure", region_len(&r->g, ranks), job_interleave(part), job_consistency(o->mode));
    r->pressure = (float *)(void *)r->memory.ptr;
    r->sums = (double *)take_pages(r->g.i * sizeof(double), o->pages);
    r->of = (planes *)take_pages(ranks * sizeof(planes), o->pages);
    for (size_t rank = 0; rank < ranks; rank++)
        r->of[rank] = himeno_share(&r->g, rank, ranks);
    planes mine = r->of[r->j.rank];
    r->s = himeno_begin(&r->g, mine, (float *)take_pages(himeno_share_len_bytes(&r->g, mine), o->pages));
    /* The borders are the first and the last rank's; each publishes all it has filled. */
    size_t first = r->j.rank == 0 ? 0 : mine.first, last = (size_t)r->j.rank == ranks - 1 ? r->g.i : mine.last;
    for (size_t i = first; i < last; i++)
        himeno_fill(&r->g, r->pressure, i);
    for (size_t i = first; i < last; i++)
        publish_plane(r, i);
    job_meet(&r->j);
}

int main(int argc, char **argv)
{
    run r;
    options o = read_options(argc, argv);
    int status = 0;
    double gosa = 0;
    r.j = job_begin("himeno");
    r.g = himeno_grid(o.size);
    if ((size_t)r.j.ranks > himeno_inner(&r.g)) {
        fprintf(stderr, "himeno: %d ranks are more than the %lu planes of size %s\n", r.j.ranks,
                (unsigned long)himeno_inner(&r.g), o.size);
        return 2;
    }
    begin(&r, &o);

    job_start(&r.j);
    for (size_t k = 0; k < o.sweeps; k++)
        gosa = sweep(&r);
    times was = job_stop(&r.j);

    if (o.check)
        for (size_t i = r.s.mine.first; i < r.s.mine.last; i++)
            publish_plane(&r, i);
    job_meet(&r.j);
    if (r.j.rank == 0) {
        line to = begin_line(&o, "mapped", (size_t)r.j.ranks);
        line_text(to, "mode", o.mode);
        line_times(to, &was);
        if (o.check)
            job_refresh(&r.j, &r.memory, r.pressure, himeno_len_bytes(&r.g));
        status = end_line(&o, to, was.seconds, gosa, r.pressure);
    }
    job_unmap(&r.j, &r.memory);
    job_end(&r.j);
    return status;
}
