/* Tuned loops in one process over a memory file of the pages that a pool lends: what no message can beat.
 * `local_loop strided PAGES RANGE/STRIDE...`, `local_loop gather PAGES TABLE_BYTES COUNT...`, `local_loop scan PAGES BYTES`;
 * PAGES is `4k` or `huge`. Of several ways to write a loop the best one counts.
 */
#define _GNU_SOURCE
#include "figures.h"
#include <sys/mman.h>
#include <unistd.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { AHEAD = 32 };
static const double BUDGET_NS = 60e6;

typedef struct loop {
    const uint64_t *table;
    uint64_t *into;
    size_t count, step; /* elements, and words from one to the next */
    uint32_t *lists[LIST_COUNT_MAX];
    int next;
    int64_t low, high;
    int64_t sums[2]; /* how many were in the range, and their sum */
} loop;

static uint64_t *map_table(const char *pages, size_t len)
{
    int file = memfd_create("local_loop", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)len) < 0)
        die("local_loop: memfd");
    void *table = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (table == MAP_FAILED)
        die("local_loop: mmap");
    close(file);
    if (strcmp(pages, "huge") == 0)
        madvise(table, len, MADV_HUGEPAGE);
    uint64_t random = 88172645463325252, *words = table;
    for (size_t k = 0; k < len / 8; k++)
        words[k] = next_random(&random);
    return words;
}

static void strided_plain(void *state)
{
    const loop *l = state;
    const uint64_t *restrict from = l->table;
    uint64_t *restrict to = l->into;
    for (size_t k = 0; k < l->count; k++)
        to[k] = from[k * l->step];
}

static void strided_ahead(void *state)
{
    const loop *l = state;
    const uint64_t *restrict from = l->table;
    uint64_t *restrict to = l->into;
    for (size_t k = 0; k < l->count; k++) {
        __builtin_prefetch(&from[(k + AHEAD) * l->step]);
        to[k] = from[k * l->step];
    }
}

static void gather_plain(void *state)
{
    loop *l = state;
    const uint32_t *restrict list = l->lists[l->next++ % list_count_of(l->count)];
    const uint64_t *restrict from = l->table;
    uint64_t *restrict to = l->into;
    for (size_t k = 0; k < l->count; k++)
        to[k] = from[list[k]];
}

static void gather_ahead(void *state)
{
    loop *l = state;
    const uint32_t *restrict list = l->lists[l->next++ % list_count_of(l->count)];
    const uint64_t *restrict from = l->table;
    uint64_t *restrict to = l->into;
    size_t k = 0;
    for (; k + AHEAD < l->count; k++) {
        __builtin_prefetch(&from[list[k + AHEAD]]);
        to[k] = from[list[k]];
    }
    for (; k < l->count; k++)
        to[k] = from[list[k]];
}

#ifdef __AVX512F__
static void strided_vector(void *state)
{
    const loop *l = state;
    const __m512i at = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64((long long)l->step));
    size_t k = 0;
    for (; k + 8 <= l->count; k += 8)
        _mm512_storeu_si512(&l->into[k], _mm512_i64gather_epi64(at, &l->table[k * l->step], 8));
    for (; k < l->count; k++)
        l->into[k] = l->table[k * l->step];
}

static void gather_vector(void *state)
{
    loop *l = state;
    const uint32_t *list = l->lists[l->next++ % list_count_of(l->count)];
    size_t k = 0;
    for (; k + 8 <= l->count; k += 8) {
        __m512i at = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)&list[k]));
        _mm512_storeu_si512(&l->into[k], _mm512_i64gather_epi64(at, l->table, 8));
    }
    for (; k < l->count; k++)
        l->into[k] = l->table[list[k]];
}
#else
#define strided_vector strided_plain
#define gather_vector gather_plain
#endif

/* Compiled for this processor it is a loop of vector instructions. */
static void scan_range(void *state)
{
    loop *l = state;
    const int64_t *restrict from = (const int64_t *)l->table;
    int64_t low = l->low, high = l->high, count = 0, sum = 0;
    for (size_t k = 0; k < l->count; k++) {
        int is_in = from[k] >= low && from[k] <= high;
        count += is_in;
        sum += is_in ? from[k] : 0;
    }
    l->sums[0] = count, l->sums[1] = sum;
}

static double best(void (*const ways[3])(void *), loop *l)
{
    double least = time_step(ways[0], l, BUDGET_NS);
    for (int k = 1; k < 3; k++) {
        double ns = time_step(ways[k], l, BUDGET_NS);
        least = ns < least ? ns : least;
    }
    return least;
}

static void turn_strided(loop *l, int count, char **cases)
{
    static void (*const ways[3])(void *) = {strided_plain, strided_ahead, strided_vector};
    for (int k = 0; k < count; k++) {
        char *slash;
        size_t range = strtoull(cases[k], &slash, 10), stride = strtoull(slash + 1, NULL, 10);
        l->count = range / stride, l->step = stride / 8;
        l->into = calloc(l->count, sizeof *l->into);
        printf("get_%zu_%zu %.1f\n", range, stride, best(ways, l));
        free(l->into);
    }
}

static void turn_gather(loop *l, size_t len, int count, char **counts)
{
    static void (*const ways[3])(void *) = {gather_plain, gather_ahead, gather_vector};
    uint64_t random = 1234567;
    for (int k = 0; k < count; k++) {
        l->count = strtoull(counts[k], NULL, 10);
        l->into = calloc(l->count, sizeof *l->into);
        for (int list = 0; list < list_count_of(l->count); list++) {
            l->lists[list] = malloc(l->count * sizeof *l->lists[list]);
            for (size_t at = 0; at < l->count; at++)
                l->lists[list][at] = (uint32_t)(next_random(&random) % (len / 8));
        }
        print_figure("indexed", l->count, best(ways, l) / (double)l->count);
        for (int list = 0; list < list_count_of(l->count); list++)
            free(l->lists[list]);
        free(l->into);
    }
}

static void turn_scan(loop *l, size_t len)
{
    l->count = len / 8, l->low = -(1LL << 61), l->high = 1LL << 61;
    print_figure("scan", len, time_step(scan_range, l, 5 * BUDGET_NS));
    if (l->sums[0] == 0)
        exit(1);
}

/* The longest of the ranges, of which `strtoull` reads the number before the stride. */
static size_t longest(int count, char **cases)
{
    size_t most = 0;
    for (int k = 0; k < count; k++) {
        size_t len = strtoull(cases[k], NULL, 10);
        most = len > most ? len : most;
    }
    return most;
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc < 4)
        return 2;
    int is_strided = strcmp(argv[1], "strided") == 0, is_gather = strcmp(argv[1], "gather") == 0;
    size_t len = is_strided ? longest(argc - 3, argv + 3) : strtoull(argv[3], NULL, 10);
    loop l = {.table = map_table(argv[2], len)};
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (is_strided)
            turn_strided(&l, argc - 3, argv + 3);
        else if (is_gather)
            turn_gather(&l, len, argc - 4, argv + 4);
        else
            turn_scan(&l, len);
        end_turn();
    }
    return 0;
}
