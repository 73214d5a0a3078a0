/* Commands on shapes of every kind, and batches of them, on a region of the placement that the argument says. */
/* FEATURE: D3-F11 D3-F12 D3-F13 D3-F25 RF-F4 */
#include "expect.h"

enum { LEN = 1 << 18 };

/* A cube of doubles with a halo of one element around it. */
enum { SIDE = 20, WIDE = SIDE + 2, CUBE = WIDE * WIDE * WIDE };

static double cell(int x, int y, int z) { return x + 100.0 * y + 10000.0 * z; }

/* The cells of a cube's faces at x = first and x = first + (steps - 1) * away, as lines of single cells. */
static hanare_shape faces(uint64_t offset, int first, int64_t away)
{
    hanare_dim dims[3] = {{2, away * 8}, {SIDE, WIDE * WIDE * 8}, {SIDE, WIDE * 8}};
    return hanare_shape_subarray(offset + 8 * (uint64_t)(WIDE * WIDE + WIDE + first), 8, 3, dims);
}

/* A periodic halo in x: both faces leave in one command, and come back on the other sides in one command. */
static void halo(hanare_region *region)
{
    static double cube[WIDE][WIDE][WIDE];
    double *flat = &cube[0][0][0];
    hanare_dim dims[2] = {{SIDE, WIDE * WIDE * 8}, {SIDE, WIDE * 8}};
    hanare_shape inside = hanare_shape_subarray(8 * (WIDE * WIDE + WIDE + 1), SIDE * 8, 2, dims);
    hanare_shape edges = faces(0, 1, SIDE - 1), swapped = faces(4096, SIDE, 1 - SIDE), straight = faces(4096, 1, SIDE - 1);
    hanare_shape outside = faces(0, 0, SIDE + 1);
    for (int z = 1; z <= SIDE; z++)
        for (int y = 1; y <= SIDE; y++)
            for (int x = 1; x <= SIDE; x++)
                cube[z][y][x] = cell(x, y, z);
    EXPECT_OK(hanare_put_shape(region, &straight, flat, sizeof cube, &edges));
    EXPECT_OK(hanare_get_shape(region, &swapped, flat, sizeof cube, &outside));
    for (int z = 0; z < WIDE; z++)
        for (int y = 0; y < WIDE; y++) {
            int is_inside = z > 0 && z <= SIDE && y > 0 && y <= SIDE;
            EXPECT(cube[z][y][0] == (is_inside ? cell(SIDE, y, z) : 0));
            EXPECT(cube[z][y][WIDE - 1] == (is_inside ? cell(1, y, z) : 0));
        }
    /* The inside goes out packed, and comes back to the same places of an empty cube. */
    hanare_shape packed = hanare_shape_contiguous(8, SIDE * SIDE * SIDE * 8);
    EXPECT_OK(hanare_put_shape(region, &packed, flat, sizeof cube, &inside));
    memset(cube, 0, sizeof cube);
    EXPECT_OK(hanare_get_shape(region, &packed, flat, sizeof cube, &inside));
    for (int at = 0; at < CUBE; at++) {
        int x = at % WIDE, y = at / WIDE % WIDE, z = at / WIDE / WIDE;
        int is_inside = x > 0 && x <= SIDE && y > 0 && y <= SIDE && z > 0 && z <= SIDE;
        EXPECT(flat[at] == (is_inside ? cell(x, y, z) : 0));
    }
}

/* Scatter in order, the last of several writes to an element stays; gather what was named, as often as it was. */
static void gather_and_scatter(hanare_region *region)
{
    enum { COUNT = 3000, TABLE = LEN / 16 };
    static uint32_t narrow[COUNT];
    static uint64_t wide[COUNT];
    unsigned char *table = noise(LEN, 1), *from = noise(COUNT * 16, 2), *into = noise(COUNT * 16, 3);
    for (int k = 0; k < COUNT; k++) {
        narrow[k] = (uint32_t)(k * 7919 % (TABLE - 1) / 3);
        wide[COUNT - 1 - k] = narrow[k] + 1;
    }
    hanare_shape scatter = hanare_shape_indexed32(0, 16, COUNT, narrow);
    hanare_shape gather = hanare_shape_indexed64(5, 16, COUNT, wide);
    EXPECT_OK(hanare_put(region, 0, table, LEN));
    EXPECT_OK(hanare_put_shape(region, &scatter, from, COUNT * 16, NULL));
    for (int k = 0; k < COUNT; k++)
        memcpy(table + narrow[k] * 16, from + k * 16, 16);
    EXPECT_OK(hanare_get_shape(region, &gather, into, COUNT * 16, NULL));
    for (int k = 0; k < COUNT; k++)
        EXPECT(memcmp(into + k * 16, table + 5 + wide[k] * 16, 16) == 0);
    EXPECT_OK(hanare_get(region, 0, from, COUNT * 16));
    EXPECT(memcmp(from, table, COUNT * 16) == 0);
    free(table);
    free(from);
    free(into);
}

static void copy(hanare_pool *pool, hanare_region *region, const hanare_create_options *options)
{
    enum { COUNT = 500 };
    hanare_region *other;
    uint32_t indices[COUNT];
    hanare_dim backwards[1] = {{COUNT, -40}};
    unsigned char *from = noise(LEN, 4), into[COUNT * 8];
    for (uint32_t k = 0; k < COUNT; k++)
        indices[k] = k * k % 30000;
    hanare_shape source = hanare_shape_indexed32(0, 8, COUNT, indices);
    hanare_shape target = hanare_shape_subarray((COUNT - 1) * 40, 8, 1, backwards);
    hanare_shape forwards = hanare_shape_strided(0, 8, COUNT, 40);
    EXPECT_OK(hanare_create(pool, "other", COUNT * 40, options, &other));
    EXPECT_OK(hanare_put(region, 0, from, LEN));
    EXPECT_OK(hanare_copy_shape(region, &source, other, &target));
    EXPECT_OK(hanare_get_shape(other, &forwards, into, sizeof into, NULL));
    for (int k = 0; k < COUNT; k++)
        EXPECT(memcmp(into + (COUNT - 1 - k) * 8, from + indices[k] * 8, 8) == 0);
    EXPECT_OK(hanare_close(other));
    EXPECT_OK(hanare_remove(pool, "other"));
    free(from);
}

static void fill_and_compare(hanare_region *region)
{
    enum { COUNT = 999 };
    hanare_shape all = hanare_shape_contiguous(0, LEN), holes = hanare_shape_strided(7, 5, COUNT, 250);
    unsigned char zero = 0, *wanted = (unsigned char *)calloc(LEN, 1);
    uint64_t position = 0;
    EXPECT(wanted != NULL);
    EXPECT_OK(hanare_fill(region, &all, &zero, 1));
    EXPECT_OK(hanare_fill(region, &holes, "abc", 3));
    for (int k = 0; k < COUNT; k++)
        for (int at = 0; at < 5; at++)
            wanted[7 + k * 250 + at] = (unsigned char)("abc"[(k * 5 + at) % 3]);
    EXPECT_OK(hanare_compare(region, &all, wanted, LEN, &position));
    EXPECT(position == HANARE_EQUAL);
    wanted[LEN - 1]++;
    wanted[7 + 700 * 250 + 3]++;
    EXPECT_OK(hanare_compare(region, &all, wanted, LEN, &position));
    EXPECT(position == 7 + 700 * 250 + 3);
    for (int at = 0; at < COUNT * 5; at++)
        wanted[at] = (unsigned char)("abc"[at % 3]);
    wanted[COUNT * 5 - 1] = '-';
    EXPECT_OK(hanare_compare(region, &holes, wanted, COUNT * 5, &position));
    EXPECT(position == COUNT * 5 - 1);
    free(wanted);
}

static void reduce(hanare_region *region)
{
    enum { COUNT = LEN / 8 };
    static int64_t whole[COUNT];
    static double real[COUNT];
    hanare_shape all = hanare_shape_contiguous(0, LEN), even = hanare_shape_strided(0, 8, COUNT / 2, 16);
    hanare_range range = hanare_range_signed(-10, 20);
    hanare_summary summary;
    uint64_t count = 0;
    int64_t sum = 0;
    summary.struct_size = sizeof summary;
    for (int k = 0; k < COUNT; k++) {
        whole[k] = k * 7919 % 101 - 50;
        real[k] = k % 3 == 0 ? 1e300 : k % 3 == 1 ? -1e300 : 0.5;
        if (k % 2 == 0 && whole[k] >= -10 && whole[k] <= 20)
            count++, sum += whole[k];
    }
    EXPECT_OK(hanare_put(region, 0, whole, LEN));
    EXPECT_OK(hanare_reduce(region, &even, HANARE_I64, &range, &summary));
    EXPECT(summary.count == count && summary.sum == (double)sum && summary.sum_low == (uint64_t)sum);
    EXPECT(summary.sum_high == (sum < 0 ? -1 : 0) && summary.signed_min == -10 && summary.signed_max == 20);
    /* Taken for unsigned numbers, negative ones are huge: their sum needs more than 64 bits. */
    range = hanare_range_unsigned(UINT64_C(1) << 63, UINT64_MAX);
    EXPECT_OK(hanare_reduce(region, &all, HANARE_U64, &range, &summary));
    EXPECT(summary.sum_high == (int64_t)summary.count - 1 && summary.unsigned_max == UINT64_MAX);
    EXPECT(summary.unsigned_min == UINT64_MAX - 49 && summary.signed_min == 0);
    /* Sums of doubles are exact: what cancels leaves nothing behind. */
    EXPECT_OK(hanare_put(region, 0, real, LEN));
    all = hanare_shape_contiguous(0, 8 * (COUNT / 3 * 3));
    EXPECT_OK(hanare_reduce(region, &all, HANARE_F64, NULL, &summary));
    EXPECT(summary.count == COUNT / 3 * 3 && summary.sum == COUNT / 3 * 0.5);
    EXPECT(summary.float_min == -1e300 && summary.float_max == 1e300 && summary.sum_low == 0);
    range = hanare_range_float(1.0, 2.0);
    EXPECT_OK(hanare_reduce(region, &all, HANARE_F64, &range, &summary));
    EXPECT(summary.count == 0 && summary.sum == 0 && summary.float_min == 0);
}

static void updates(hanare_region *region)
{
    enum { COUNT = 2000, WORDS = 700 };
    static uint32_t indices[COUNT];
    static double reals[WORDS], one = 1.0, olds[COUNT];
    static uint64_t words[WORDS], expected[WORDS], desired[WORDS], before[WORDS], seen[WORDS];
    hanare_shape list = hanare_shape_indexed32(0, 8, COUNT, indices);
    hanare_shape spread = hanare_shape_strided(8, 8, WORDS, 64), front = hanare_shape_contiguous(0, WORDS * 8);
    for (uint32_t k = 0; k < COUNT; k++)
        indices[k] = k * k % WORDS;
    for (int k = 0; k < WORDS; k++)
        reals[k] = k;
    EXPECT_OK(hanare_put(region, 0, reals, sizeof reals));
    EXPECT_OK(hanare_update(region, &list, HANARE_F64, HANARE_ADD, &one, 8));
    EXPECT_OK(hanare_fetch(region, &list, HANARE_F64, HANARE_MAX, &one, 8, olds, sizeof olds));
    for (int k = 0; k < COUNT; k++)
        reals[indices[k]] += 1.0;
    for (int k = 0; k < COUNT; k++)
        EXPECT(olds[k] == reals[indices[k]]);
    /* Operands of their own for each, on words far apart. */
    for (int k = 0; k < WORDS; k++) {
        words[k] = (uint64_t)k << 40;
        expected[k] = k % 2 ? words[k] | 5 : 0;
        desired[k] = ~(uint64_t)k;
    }
    EXPECT_OK(hanare_put_shape(region, &spread, words, sizeof words, NULL));
    for (int k = 0; k < WORDS; k++)
        seen[k] = 5;
    EXPECT_OK(hanare_fetch(region, &spread, HANARE_U64, HANARE_OR, seen, sizeof seen, before, sizeof before));
    EXPECT(memcmp(before, words, sizeof words) == 0);
    EXPECT_OK(hanare_compare_and_swap(region, &spread, HANARE_U64, expected, desired, before, sizeof before));
    EXPECT_OK(hanare_get_shape(region, &spread, seen, sizeof seen, NULL));
    for (int k = 0; k < WORDS; k++)
        EXPECT(before[k] == (words[k] | 5) && seen[k] == (k % 2 ? desired[k] : (words[k] | 5)));
    EXPECT_OK(hanare_fill(region, &front, "\0", 1));
}

static void words(hanare_region *region)
{
    uint64_t old = 77, zero = 0;
    EXPECT_OK(hanare_put(region, 4096, &zero, 8));
    EXPECT_OK(hanare_fetch_add(region, 4096, 40, &old));
    EXPECT(old == 0);
    EXPECT_OK(hanare_fetch_add(region, 4096, 2, NULL));
    EXPECT_OK(hanare_fetch_and(region, 4096, 0x2b, &old));
    EXPECT(old == 42);
    EXPECT_OK(hanare_fetch_or(region, 4096, 1, &old));
    EXPECT(old == 42);
    EXPECT_OK(hanare_fetch_xor(region, 4096, UINT64_MAX, &old));
    EXPECT(old == 43);
    EXPECT_OK(hanare_swap(region, 4096, 7, &old));
    EXPECT(old == ~UINT64_C(43));
    EXPECT_OK(hanare_compare_and_swap_word(region, 4096, 8, 9, &old));
    EXPECT(old == 7);
    EXPECT_OK(hanare_compare_and_swap_word(region, 4096, 7, 9, &old));
    EXPECT_OK(hanare_get(region, 4096, &old, 8));
    EXPECT(old == 9);
}

/* Every command in one batch, on bytes of their own, run twice and then without waiting. */
/* Every command, begun and waited for: all at once on bytes of their own, then those that look at what is there. */
static void begun(hanare_region *region)
{
    enum { PART = 4000, COMMANDS = 5 };
    hanare_request *requests[COMMANDS], *looks[4];
    unsigned char *from = noise(PART, 9), *into = noise(PART, 10), *filled = noise(16000, 11);
    uint64_t position = 7, one = 1, old = 7, count, zeros[8] = {0}, nines[8], seen[8];
    hanare_summary summary;
    hanare_shape put = hanare_shape_strided(0, 4, PART / 4, 16), copied = hanare_shape_contiguous(20000, PART);
    hanare_shape fill = hanare_shape_contiguous(40000, 16000), word = hanare_shape_contiguous(60000, 8);
    hanare_shape swap = hanare_shape_strided(70000, 8, 8, 4096), far = hanare_shape_contiguous(LEN, 1);
    summary.struct_size = sizeof summary;
    for (int k = 0; k < 8; k++)
        nines[k] = 9;
    EXPECT_OK(hanare_put(region, 60000, zeros, 8));
    EXPECT_OK(hanare_put_shape(region, &swap, zeros, 64, NULL));
    EXPECT_OK(hanare_put_shape_nb(region, &put, from, PART, NULL, &requests[0]));
    EXPECT_OK(hanare_fill_nb(region, &fill, "0123456789", 10, &requests[1]));
    EXPECT_OK(hanare_update_nb(region, &word, HANARE_I64, HANARE_ADD, &one, 8, &requests[2]));
    EXPECT_OK(hanare_compare_and_swap_nb(region, &swap, HANARE_U64, zeros, nines, seen, 64, &requests[3]));
    EXPECT_ERROR(hanare_fill_nb(region, &far, "x", 1, &requests[4]), HANARE_ERR_OUT_OF_RANGE, "offset 262144");
    requests[4] = NULL;
    EXPECT_OK(hanare_wait_all(requests, COMMANDS));
    EXPECT(memcmp(seen, zeros, 64) == 0);
    EXPECT_OK(hanare_copy_shape_nb(region, &put, region, &copied, &looks[0]));
    EXPECT_OK(hanare_compare_nb(region, &put, from, PART, &position, &looks[1]));
    EXPECT_OK(hanare_reduce_nb(region, &swap, HANARE_U64, NULL, &summary, &looks[2]));
    EXPECT_OK(hanare_fetch_nb(region, &word, HANARE_U64, HANARE_ADD, &one, 8, &old, 8, &looks[3]));
    EXPECT_OK(hanare_wait_all(looks, 4));
    EXPECT(position == HANARE_EQUAL && summary.count == 8 && summary.sum == 72 && old == 1);
    EXPECT_OK(hanare_get_shape_nb(region, &copied, into, PART, NULL, &looks[0]));
    EXPECT_OK(hanare_get_shape_nb(region, &fill, filled, 16000, NULL, &looks[1]));
    EXPECT_OK(hanare_get_shape_nb(region, &word, &count, 8, NULL, &looks[2]));
    EXPECT_OK(hanare_wait_all(looks, 3));
    EXPECT(memcmp(from, into, PART) == 0 && memcmp(filled, "0123456789", 10) == 0 && filled[15999] == '9' && count == 2);
    free(from);
    free(into);
    free(filled);
}

static void batches(hanare_pool *pool, hanare_region *region)
{
    enum { PART = 8000 };
    hanare_batch *batch;
    hanare_request *request;
    unsigned char *from = noise(PART, 5), *into = noise(PART, 6);
    uint64_t position, one = 1, old, zeros[8] = {0}, seen[8], nines[8], swapped[8];
    hanare_summary summary;
    hanare_shape put = hanare_shape_contiguous(0, PART), get = hanare_shape_contiguous(10000, PART);
    hanare_shape some = hanare_shape_strided(10000, 4, PART / 16, 16), places = hanare_shape_strided(8, 4, PART / 16, 16);
    hanare_shape copied = hanare_shape_strided(20000, 4, PART / 16, 8), fill = hanare_shape_contiguous(40000, 16000);
    hanare_shape count = hanare_shape_contiguous(60000, 8), next = hanare_shape_contiguous(60008, 8);
    hanare_shape swap = hanare_shape_strided(70000, 8, 8, 4096), far = hanare_shape_contiguous(LEN, 1);
    hanare_shape end = hanare_shape_contiguous(55990, 10);
    summary.struct_size = sizeof summary;
    for (int k = 0; k < 8; k++)
        nines[k] = 9;
    EXPECT_OK(hanare_fill(region, &get, "get ", 4));
    EXPECT_OK(hanare_put(region, 60000, zeros, 16));
    EXPECT_OK(hanare_put_shape(region, &swap, zeros, 64, NULL));
    EXPECT_OK(hanare_batch_begin(pool, &batch));
    EXPECT_OK(hanare_batch_run(batch)); /* of nothing */
    EXPECT_OK(hanare_batch_put(batch, region, &put, from, PART, NULL));
    EXPECT_OK(hanare_batch_get(batch, region, &some, into, PART, &places));
    EXPECT_ERROR(hanare_batch_get(batch, region, &far, into, 1, NULL), HANARE_ERR_OUT_OF_RANGE, "offset 262144");
    EXPECT_OK(hanare_batch_copy(batch, region, &some, region, &copied));
    EXPECT_OK(hanare_batch_fill(batch, region, &fill, "0123456789", 10));
    EXPECT_OK(hanare_batch_compare(batch, region, &some, from, PART / 4, &position));
    EXPECT_OK(hanare_batch_reduce(batch, region, &some, HANARE_U8, NULL, &summary));
    EXPECT_OK(hanare_batch_update(batch, region, &count, HANARE_I64, HANARE_ADD, &one, 8));
    EXPECT_OK(hanare_batch_fetch(batch, region, &next, HANARE_U64, HANARE_ADD, &one, 8, &old, 8));
    EXPECT_OK(hanare_batch_compare_and_swap(batch, region, &swap, HANARE_U64, zeros, nines, swapped, 64));
    for (int round = 0; round < 3; round++) {
        position = old = 1000;
        memset(into, 0, PART);
        memset(swapped, 0xff, sizeof swapped);
        summary.count = 0;
        if (round < 2) {
            EXPECT_OK(hanare_batch_run(batch));
        } else {
            int done;
            EXPECT_OK(hanare_batch_start(batch, &request));
            EXPECT_OK(hanare_batch_drop(batch));
            while ((done = hanare_test(request)) == 0)
                continue;
            EXPECT(done == 1);
            EXPECT_OK(hanare_wait(request));
        }
        EXPECT(summary.count == PART / 4 && summary.unsigned_max == 't' && summary.sum == PART / 16 * ('g' + 'e' + 't' + ' '));
        EXPECT(old == (uint64_t)round && position < PART / 4);
        for (int k = 0; k < 8; k++)
            EXPECT(swapped[k] == (round ? 9 : 0));
        for (int k = 0; k < PART / 16; k++)
            EXPECT(memcmp(into + k * 16 + 8, "get ", 4) == 0 && memcmp(into + k * 16, "\0\0\0\0\0\0\0", 8) == 0);
        EXPECT_OK(hanare_get(region, 60000, seen, 16));
        EXPECT(seen[0] == (uint64_t)round + 1 && seen[1] == seen[0]);
    }
    EXPECT_OK(hanare_get(region, 0, into, PART));
    EXPECT(memcmp(into, from, PART) == 0);
    EXPECT_OK(hanare_get(region, 20000, into, 4));
    EXPECT(memcmp(into, "get ", 4) == 0);
    EXPECT_OK(hanare_compare(region, &end, "0123456789", 10, &position));
    EXPECT(position == HANARE_EQUAL);
    free(from);
    free(into);
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_region *region;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    EXPECT(argc == 2);
    options.placement = argv[1];
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_create(pool, "shapes", LEN, &options, &region));
    halo(region);
    gather_and_scatter(region);
    copy(pool, region, &options);
    fill_and_compare(region);
    reduce(region);
    updates(region);
    words(region);
    begun(region);
    batches(pool, region);
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_remove(pool, "shapes"));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
