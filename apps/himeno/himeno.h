/* Himeno's benchmark: Jacobi's method with a 19-point stencil for the pressure of an incompressible flow, in single
 * precision. One source of loops for main memory, threads, ranks and MPI.
 *
 * SOURCE: [Himeno benchmark, as described at i.riken.jp/en/supercom/documents/himenobmt] the equation, the sizes, the
 * start values, omega, the 34 floating-point operations counted for a point. The loops are our own.
 *
 * Only the pressure is read across planes; the coefficients belong to whoever computes the plane. The squares of a
 * plane's changes are summed in one order, and planes in theirs, so that all versions give the same bits.
 */
#ifndef HIMENO_H
#define HIMENO_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Points of the whole grid; those computed are all but the outermost, and the last of each dimension is never used. */
typedef struct grid {
    size_t i, j, k;
} grid;

/* The grid of a size by its name ("XS", "S", "M", "L"); zeros for another name. */
static inline grid himeno_grid(const char *size)
{
    static const struct named {
        const char *name;
        grid points;
    } known[] = {{"XS", {32, 32, 64}}, {"S", {64, 64, 128}}, {"M", {128, 128, 256}}, {"L", {256, 256, 512}}};
    grid none = {0, 0, 0};
    for (size_t at = 0; at < sizeof known / sizeof *known; at++)
        if (strcmp(known[at].name, size) == 0)
            return known[at].points;
    return none;
}

static inline size_t himeno_plane(const grid *g) { return g->j * g->k; }

static inline size_t himeno_len_bytes(const grid *g) { return g->i * himeno_plane(g) * sizeof(float); }

/* Planes 1 to i - 3 are computed, as i - 1 is the last index that the benchmark uses and borders stay. */
static inline size_t himeno_inner(const grid *g) { return g->i - 3; }

/* Floating-point operations of a sweep. SOURCE: [as above] */
static inline double himeno_flops(const grid *g) { return 34.0 * (double)(g->i - 3) * (double)(g->j - 3) * (double)(g->k - 3); }

/* A rank's planes [first, last). */
typedef struct planes {
    size_t first, last;
} planes;

static inline planes himeno_share(const grid *g, size_t rank, size_t ranks)
{
    size_t inner = himeno_inner(g), step = inner / ranks, rest = inner % ranks;
    planes mine;
    mine.first = 1 + rank * step + (rank < rest ? rank : rest);
    mine.last = mine.first + step + (rank < rest);
    return mine;
}

/* What belongs to a share: 12 coefficients of each point, its source term, and the pressure to come. */
enum { A0, A1, A2, A3, B0, B1, B2, C0, C1, C2, BOUND, SOURCE_TERM, COEFFICIENT_COUNT };
typedef struct share {
    grid g;
    planes mine;
    float *coefficient[COEFFICIENT_COUNT]; /* the first is that of point (mine.first, 0, 0) */
    float *next;                           /* likewise */
} share;

static inline size_t himeno_share_len_bytes(const grid *g, planes mine)
{
    return (COEFFICIENT_COUNT + 1) * (mine.last - mine.first) * himeno_plane(g) * sizeof(float);
}

/* The start values of a share in `memory`, himeno_share_len_bytes of it. */
static inline share himeno_begin(const grid *g, planes mine, float *memory)
{
    share s;
    size_t points = (mine.last - mine.first) * himeno_plane(g);
    s.g = *g;
    s.mine = mine;
    for (int which = 0; which < COEFFICIENT_COUNT; which++) {
        float value = which <= A2 || (which >= C0 && which <= BOUND) ? 1.0f : which == A3 ? 1.0f / 6.0f : 0.0f;
        s.coefficient[which] = memory + (size_t)which * points;
        for (size_t at = 0; at < points; at++)
            s.coefficient[which][at] = value;
    }
    s.next = memory + (size_t)COEFFICIENT_COUNT * points;
    memset(s.next, 0, points * sizeof(float));
    return s;
}

/* The start pressure of plane i. */
static inline void himeno_fill(const grid *g, float *pressure, size_t i)
{
    float value = (float)(i * i) / (float)((g->i - 2) * (g->i - 2));
    for (size_t at = 0; at < himeno_plane(g); at++)
        pressure[i * himeno_plane(g) + at] = value;
}

enum { ROW_MAX = 512, LANES = 8 };

/* One row of points: the pressures of its own and of the eight rows around it, and of its share. */
typedef struct row {
    const float *here, *up, *down, *left, *right, *up_left, *up_right, *down_left, *down_right;
    const float *coefficient[COEFFICIENT_COUNT];
} row;

/* The pressures to come of points 1 to count - 2, and the squares of their changes. */
static inline void himeno_row(const row *r, size_t count, float *restrict next, float *restrict squares)
{
    const float *here = r->here, *up = r->up, *down = r->down, *left = r->left, *right = r->right;
    const float *up_left = r->up_left, *up_right = r->up_right, *down_left = r->down_left, *down_right = r->down_right;
    const float *a0 = r->coefficient[A0], *a1 = r->coefficient[A1], *a2 = r->coefficient[A2], *a3 = r->coefficient[A3];
    const float *b0 = r->coefficient[B0], *b1 = r->coefficient[B1], *b2 = r->coefficient[B2];
    const float *c0 = r->coefficient[C0], *c1 = r->coefficient[C1], *c2 = r->coefficient[C2];
    const float *bound = r->coefficient[BOUND], *source = r->coefficient[SOURCE_TERM];
    for (size_t k = 1; k < count - 1; k++) {
        float sum = a0[k] * down[k] + a1[k] * right[k] + a2[k] * here[k + 1]
                    + b0[k] * (down_right[k] - down_left[k] - up_right[k] + up_left[k])
                    + b1[k] * (right[k + 1] - left[k + 1] - right[k - 1] + left[k - 1])
                    + b2[k] * (down[k + 1] - up[k + 1] - down[k - 1] + up[k - 1])
                    + c0[k] * up[k] + c1[k] * left[k] + c2[k] * here[k - 1] + source[k];
        float change = (sum * a3[k] - here[k]) * bound[k];
        squares[k] = change * change;
        next[k] = here[k] + 0.8f * change;
    }
}

/* Sums of a row's squares, in lanes that a processor adds side by side. */
static inline void himeno_add(float *lanes, const float *squares, size_t count)
{
    size_t k = 1;
    for (; k + LANES <= count - 1; k += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += squares[k + (size_t)lane];
    for (; k < count - 1; k++)
        lanes[0] += squares[k];
}

/* Computes plane i of the share from the pressure of three planes, and gives the sum of the squares of its changes. */
static inline double himeno_sweep(const share *s, const float *pressure, size_t i)
{
    size_t k = s->g.k, plane = himeno_plane(&s->g), own = (i - s->mine.first) * plane;
    float squares[ROW_MAX];
    double sum = 0;
    for (size_t j = 1; j < s->g.j - 2; j++) {
        const float *here = pressure + i * plane + j * k;
        float lanes[LANES] = {0};
        row r;
        r.here = here, r.up = here - plane, r.down = here + plane, r.left = here - k, r.right = here + k;
        r.up_left = r.up - k, r.up_right = r.up + k, r.down_left = r.down - k, r.down_right = r.down + k;
        for (int which = 0; which < COEFFICIENT_COUNT; which++)
            r.coefficient[which] = s->coefficient[which] + own + j * k;
        himeno_row(&r, k - 1, s->next + own + j * k, squares);
        himeno_add(lanes, squares, k - 1);
        for (int lane = 0; lane < LANES; lane++)
            sum += (double)lanes[lane];
    }
    return sum;
}

/* Takes over the pressure to come of plane i. */
static inline void himeno_keep(const share *s, float *pressure, size_t i)
{
    size_t k = s->g.k, plane = himeno_plane(&s->g), own = (i - s->mine.first) * plane;
    for (size_t j = 1; j < s->g.j - 2; j++)
        memcpy(pressure + i * plane + j * k + 1, s->next + own + j * k + 1, (k - 3) * sizeof(float));
}

/* The sum over planes, in their order. */
static inline double himeno_gosa(const grid *g, const double *sums)
{
    double gosa = 0;
    for (size_t i = 1; i <= himeno_inner(g); i++)
        gosa += sums[i];
    return gosa;
}

/* Everything by one: fills the pressure, does the sweeps, gives the last one's sum of squares. -1 without memory. */
static inline double himeno_alone(const grid *g, size_t sweeps, float *pressure, float *memory, double *sums)
{
    share all = himeno_begin(g, himeno_share(g, 0, 1), memory);
    for (size_t i = 0; i < g->i; i++)
        himeno_fill(g, pressure, i);
    for (size_t sweep = 0; sweep < sweeps; sweep++) {
        for (size_t i = all.mine.first; i < all.mine.last; i++)
            sums[i] = himeno_sweep(&all, pressure, i);
        for (size_t i = all.mine.first; i < all.mine.last; i++)
            himeno_keep(&all, pressure, i);
    }
    return himeno_gosa(g, sums);
}

#endif
