/* A field on a torus of 3 or 4 dimensions, dealt to ranks as boxes with a layer of halo around each: what all versions share.
 *
 * A point has one double in 3 dimensions, and in 4 as many as a spinor of QCD has. A sweep makes each point the mean of itself and
 * its neighbours, added in one order, so that all versions give the same bits.
 */
#ifndef HALO_H
#define HALO_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HALO_DIMS_MAX = 4, HALO_FACES_MAX = 2 * HALO_DIMS_MAX, SPINOR = 24 };

typedef struct box {
    int dims;
    int ranks[HALO_DIMS_MAX];   /* how many boxes there are in each dimension, the slowest first */
    int at[HALO_DIMS_MAX];      /* which of them this is */
    size_t side, span;          /* points of a side, without and with the halo */
    size_t site;                /* doubles of a point */
    size_t step[HALO_DIMS_MAX]; /* doubles from a point to the next */
    size_t count;               /* doubles of the box with its halo */
} box;

/* A layer of a box, without its edges: `run` doubles that lie together, in up to three dimensions. */
typedef struct face {
    size_t first, run;
    int dims;
    size_t counts[3], steps[3];
    size_t count; /* doubles in all */
} face;

static inline box box_of(int dims, size_t side, int rank, int ranks)
{
    box b;
    memset(&b, 0, sizeof b);
    b.dims = dims, b.side = side, b.span = side + 2, b.site = dims == 4 ? SPINOR : 1;
    for (int d = 0; d < dims; d++)
        b.ranks[d] = 1;
    /* Factors go to the dimensions in turn, the fastest first: its faces are the most scattered. */
    for (int d = dims - 1, factor = 2; ranks > 1;)
        if (ranks % factor == 0)
            b.ranks[d] *= factor, ranks /= factor, d = d > 0 ? d - 1 : dims - 1;
        else
            factor++;
    b.count = b.site;
    for (int d = dims - 1; d >= 0; d--) {
        b.step[d] = b.count, b.count *= b.span;
        b.at[d] = rank % b.ranks[d], rank /= b.ranks[d];
    }
    return b;
}

/* The rank whose box is beside this one: `upward` or downward in dimension d. It may be the same. */
static inline int box_beside(const box *b, int d, int upward)
{
    int rank = 0;
    for (int k = 0; k < b->dims; k++) {
        int at = k != d ? b->at[k] : (b->at[k] + (upward ? 1 : b->ranks[k] - 1)) % b->ranks[k];
        rank = rank * b->ranks[k] + at;
    }
    return rank;
}

/* The layer whose place in dimension d is `at`. */
static inline face box_layer(const box *b, int d, size_t at)
{
    face f;
    memset(&f, 0, sizeof f);
    f.first = at * b->step[d], f.run = b->site;
    for (int k = 0; k < b->dims; k++)
        if (k != d)
            f.first += b->step[k], f.counts[f.dims] = b->side, f.steps[f.dims++] = b->step[k];
    if (f.steps[f.dims - 1] == f.run)
        f.run *= f.counts[--f.dims];
    f.count = f.run;
    for (int k = 0; k < f.dims; k++)
        f.count *= f.counts[k];
    return f;
}

/* The outermost layer of points, and the layer of the halo beyond it. */
static inline face box_edge(const box *b, int d, int upper) { return box_layer(b, d, upper ? b->side : 1); }
static inline face box_halo(const box *b, int d, int upper) { return box_layer(b, d, upper ? b->side + 1 : 0); }

/* Copies the runs of a layer to or from a buffer, in order. */
static inline void face_move(const face *f, double *field, double *buffer, int is_in)
{
    size_t counts[3] = {1, 1, 1}, steps[3] = {0, 0, 0};
    for (int k = 0; k < f->dims; k++)
        counts[3 - f->dims + k] = f->counts[k], steps[3 - f->dims + k] = f->steps[k];
    for (size_t i = 0; i < counts[0]; i++)
        for (size_t j = 0; j < counts[1]; j++) {
            double *row = field + f->first + i * steps[0] + j * steps[1];
            if (f->run == 1 && is_in)
                for (size_t k = 0; k < counts[2]; k++)
                    row[k * steps[2]] = buffer[k];
            else if (f->run == 1)
                for (size_t k = 0; k < counts[2]; k++)
                    buffer[k] = row[k * steps[2]];
            else
                for (size_t k = 0; k < counts[2]; k++)
                    memcpy(is_in ? row + k * steps[2] : buffer + k * f->run, is_in ? buffer + k * f->run : row + k * steps[2],
                           f->run * sizeof(double));
            buffer += counts[2] * f->run;
        }
}

/* Calls `each` with the first double of every row of points, and with the row's place in all dimensions but the last. */
static inline void box_rows(const box *b, void (*each)(const box *, size_t first, const size_t *place, void *), void *closure)
{
    size_t place[HALO_DIMS_MAX] = {0, 0, 0, 0};
    for (int d = 0; d >= 0;) {
        size_t first = b->site;
        for (d = 0; d < b->dims - 1; d++)
            first += (place[d] + 1) * b->step[d];
        each(b, first, place, closure);
        for (d = b->dims - 2; d >= 0 && ++place[d] == b->side; d--)
            place[d] = 0;
    }
}

/* A number of a point that depends on its place on the torus alone. */
static inline void fill_row(const box *b, size_t first, const size_t *place, void *field)
{
    uint64_t row = 0;
    for (int d = 0; d < b->dims - 1; d++)
        row = row * b->side * (uint64_t)b->ranks[d] + (uint64_t)b->at[d] * b->side + place[d];
    int last = b->dims - 1;
    for (size_t at = 0; at < b->side * b->site; at++) {
        uint64_t point = row * b->side * (uint64_t)b->ranks[last] * b->site + (uint64_t)b->at[last] * b->side * b->site + at;
        uint64_t mixed = (point + 1) * 0x9E3779B97F4A7C15u;
        ((double *)field)[first + at] = (double)((mixed ^ mixed >> 29) >> 11) / 9007199254740992.0;
    }
}

/* Numbers inside, and nothing that could be taken for one in the halo. */
static inline void box_fill(const box *b, double *field)
{
    for (size_t at = 0; at < b->count; at++)
        field[at] = NAN;
    box_rows(b, fill_row, field);
}

typedef struct two_fields {
    const double *old;
    double *fresh;
    size_t wrong;
} two_fields;

static inline void sweep_row(const box *b, size_t first, const size_t *place, void *closure)
{
    const two_fields *two = (const two_fields *)closure;
    const double *old = two->old + first;
    double weight = 1.0 / (2 * b->dims + 1);
    (void)place;
    for (size_t at = 0; at < b->side * b->site; at++) {
        double sum = old[at];
        for (int d = 0; d < b->dims; d++)
            sum += *(old + at - b->step[d]) + old[at + b->step[d]];
        two->fresh[first + at] = sum * weight;
    }
}

static inline void box_sweep(const box *b, const double *old, double *fresh)
{
    two_fields two = {old, fresh, 0};
    box_rows(b, sweep_row, &two);
}

static inline void compare_row(const box *b, size_t first, const size_t *place, void *closure)
{
    two_fields *two = (two_fields *)closure;
    (void)place;
    two->wrong += memcmp(two->old + first, two->fresh + first, b->side * b->site * sizeof(double)) != 0;
}

/* How many rows of points differ in any bit. */
static inline size_t box_wrong(const box *b, const double *field, double *right)
{
    two_fields two = {field, right, 0};
    box_rows(b, compare_row, &two);
    return two.wrong;
}

/* All ranks' boxes after `sweeps`, in main memory and by plain copies, one behind the other; NULL without memory. */
static inline double *halo_alone(int dims, size_t side, int ranks, size_t sweeps)
{
    box b = box_of(dims, side, 0, ranks);
    double *all = (double *)malloc(2 * (size_t)ranks * b.count * sizeof(double));
    double *buffer = (double *)malloc(b.count * sizeof(double));
    double *old = all, *fresh = all + (size_t)ranks * b.count;
    for (int rank = 0; rank < ranks && all != NULL && buffer != NULL; rank++)
        b = box_of(dims, side, rank, ranks), box_fill(&b, old + (size_t)rank * b.count);
    for (size_t k = 0; k < sweeps && all != NULL && buffer != NULL; k++) {
        for (int rank = 0; rank < ranks; rank++) {
            b = box_of(dims, side, rank, ranks);
            for (int to = 0; to < 2 * dims; to++) {
                face from = box_edge(&b, to / 2, !(to % 2)), into = box_halo(&b, to / 2, to % 2);
                face_move(&from, old + (size_t)box_beside(&b, to / 2, to % 2) * b.count, buffer, 0);
                face_move(&into, old + (size_t)rank * b.count, buffer, 1);
            }
            box_sweep(&b, old + (size_t)rank * b.count, fresh + (size_t)rank * b.count);
        }
        double *was = old;
        old = fresh, fresh = was;
    }
    if (all != NULL && buffer != NULL && old != all)
        memmove(all, old, (size_t)ranks * b.count * sizeof(double));
    free(buffer);
    if (buffer == NULL)
        free(all), all = NULL;
    return all;
}

#endif
