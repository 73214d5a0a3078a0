/* Quicksort of 32-bit numbers, by one or by several: one source of loops for main memory, threads and ranks.
 *
 * Several sort like this: each splits its part of the numbers by bounds that all agree on, as quicksort's own first levels
 * would; then each fetches the numbers between its two bounds from all parts, once, and sorts them where they belong.
 */
#ifndef SORT_H
#define SORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Number k of the input (splitmix64). */
static inline uint32_t sort_number(size_t k)
{
    uint64_t z = ((uint64_t)k + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

enum { SORT_SHORT = 24 };

static inline void sort_insert(uint32_t *numbers, size_t count)
{
    for (size_t at = 1; at < count; at++) {
        uint32_t number = numbers[at];
        size_t to = at;
        for (; to > 0 && numbers[to - 1] > number; to--)
            numbers[to] = numbers[to - 1];
        numbers[to] = number;
    }
}

/* Sinks the number at `top` of the heap numbers[0, count). */
static inline void sort_sink(uint32_t *numbers, size_t top, size_t count)
{
    uint32_t number = numbers[top];
    for (size_t below = 2 * top + 1; below < count; below = 2 * top + 1) {
        below += below + 1 < count && numbers[below + 1] > numbers[below];
        if (numbers[below] <= number)
            break;
        numbers[top] = numbers[below];
        top = below;
    }
    numbers[top] = number;
}

/* What is left to quicksort where its pivots were bad too often: no input takes longer than count * log(count). */
static inline void sort_heap(uint32_t *numbers, size_t count)
{
    for (size_t top = count / 2; top > 0; top--)
        sort_sink(numbers, top - 1, count);
    for (size_t last = count; last > 1; last--) {
        uint32_t greatest = numbers[0];
        numbers[0] = numbers[last - 1];
        numbers[last - 1] = greatest;
        sort_sink(numbers, 0, last - 1);
    }
}

static inline uint32_t sort_middle(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Parts the numbers at a pivot that is among them: none before the result is greater, none from it on is less. The result
 * is at least 1 and below count, which is at least 2. */
static inline size_t sort_part(uint32_t *numbers, size_t count)
{
    uint32_t pivot = sort_middle(numbers[0], numbers[count / 2], numbers[count - 1]);
    size_t low = 0, high = count - 1;
    for (;;) {
        while (numbers[low] < pivot)
            low++;
        while (numbers[high] > pivot)
            high--;
        if (low >= high)
            return low > 0 ? low : 1;
        uint32_t number = numbers[low];
        numbers[low++] = numbers[high];
        numbers[high--] = number;
    }
}

/* Sorts; `levels` more levels are parted before the heap takes over. */
static inline void sort_levels(uint32_t *numbers, size_t count, int levels)
{
    while (count > SORT_SHORT) {
        if (levels-- == 0) {
            sort_heap(numbers, count);
            return;
        }
        size_t parted = sort_part(numbers, count);
        /* The shorter side by recursion, so that the stack stays small. */
        if (parted < count - parted) {
            sort_levels(numbers, parted, levels);
            numbers += parted, count -= parted;
        } else {
            sort_levels(numbers + parted, count - parted, levels);
            count = parted;
        }
    }
    sort_insert(numbers, count);
}

/* Sorts numbers[0, count), least first. */
static inline void sort_numbers(uint32_t *numbers, size_t count)
{
    int levels = 0;
    for (size_t left = count; left > 0; left /= 2)
        levels += 2;
    sort_levels(numbers, count, levels);
}

/* ---- By several ------------------------------------------------------------------------------------------------- */

enum { SORT_RANKS_MAX = 64, SORT_SAMPLE_COUNT = 1024 };

/* What a rank tells the others; on pages of its own. */
typedef struct notice {
    uint32_t sample[SORT_SAMPLE_COUNT];
    uint64_t firsts[SORT_RANKS_MAX + 1]; /* in its part: where the numbers for each rank begin, and where the last end */
    char rest[8192 - SORT_SAMPLE_COUNT * 4 - (SORT_RANKS_MAX + 1) * 8];
} notice;

/* The first number of a rank's part. */
static inline size_t sort_first(size_t count, size_t rank, size_t ranks) { return rank * (count / ranks) + (rank < count % ranks ? rank : count % ranks); }

/* Takes a sample of a part, spread over it; zeros where the part is empty. */
static inline void sort_sample(notice *mine, const uint32_t *part, size_t count)
{
    for (size_t k = 0; k < SORT_SAMPLE_COUNT; k++)
        mine->sample[k] = count > 0 ? part[k * count / SORT_SAMPLE_COUNT] : 0;
}

/* The ranks - 1 bounds that all agree on, from all samples. */
static inline void sort_bounds(const notice *notices, size_t ranks, uint32_t *bounds)
{
    uint32_t *all = (uint32_t *)malloc(ranks * SORT_SAMPLE_COUNT * sizeof *all);
    if (all == NULL)
        abort();
    for (size_t rank = 0; rank < ranks; rank++)
        memcpy(all + rank * SORT_SAMPLE_COUNT, notices[rank].sample, sizeof notices[rank].sample);
    sort_numbers(all, ranks * SORT_SAMPLE_COUNT);
    for (size_t rank = 1; rank < ranks; rank++)
        bounds[rank - 1] = all[rank * SORT_SAMPLE_COUNT];
    free(all);
}

/* Brings the numbers below `bound` to the front and gives their count. */
static inline size_t sort_below(uint32_t *numbers, size_t count, uint32_t bound)
{
    size_t low = 0, high = count;
    for (;;) {
        while (low < high && numbers[low] < bound)
            low++;
        while (low < high && numbers[high - 1] >= bound)
            high--;
        if (low == high)
            return low;
        uint32_t number = numbers[low];
        numbers[low++] = numbers[--high];
        numbers[high] = number;
    }
}

/* Splits a part for ranks [from, to): by the middle bound first, as quicksort would. firsts[from] and firsts[to] are set. */
static inline void sort_split(uint32_t *part, uint64_t *firsts, const uint32_t *bounds, size_t from, size_t to)
{
    if (to - from < 2)
        return;
    size_t middle = (from + to) / 2, count = (size_t)(firsts[to] - firsts[from]);
    firsts[middle] = firsts[from] + sort_below(part + firsts[from], count, bounds[middle - 1]);
    sort_split(part, firsts, bounds, from, middle);
    sort_split(part, firsts, bounds, middle, to);
}

static inline void sort_deal(notice *mine, uint32_t *part, size_t count, const uint32_t *bounds, size_t ranks)
{
    mine->firsts[0] = 0;
    mine->firsts[ranks] = count;
    sort_split(part, mine->firsts, bounds, 0, ranks);
}

/* How many numbers of a part are for a rank. */
static inline size_t sort_share(const notice *of, size_t rank) { return (size_t)(of->firsts[rank + 1] - of->firsts[rank]); }

/* Where a rank's sorted numbers begin. */
static inline size_t sort_place(const notice *notices, size_t rank, size_t ranks)
{
    size_t place = 0;
    for (size_t of = 0; of < ranks; of++)
        place += (size_t)notices[of].firsts[rank];
    return place;
}

/* ---- Whether it is right ---------------------------------------------------------------------------------------- */

/* How many neighbours are out of order, plus one where the numbers are not those of the input, by sum and exclusive or. */
static inline size_t sort_wrong(const uint32_t *sorted, size_t count)
{
    uint64_t sum = 0, right_sum = 0;
    uint32_t bits = 0, right_bits = 0;
    size_t wrong = 0;
    for (size_t k = 0; k < count; k++) {
        uint32_t number = sort_number(k);
        wrong += k > 0 && sorted[k - 1] > sorted[k];
        sum += sorted[k], right_sum += number;
        bits ^= sorted[k], right_bits ^= number;
    }
    return wrong + (sum != right_sum || bits != right_bits);
}

#endif
