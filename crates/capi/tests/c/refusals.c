/* Bad input: each call is refused with its code, and a message that names what was wrong; nothing else is disturbed. */
#include "expect.h"

static void bad_arguments(hanare_pool *pool, hanare_region *region)
{
    hanare_region *none = NULL;
    hanare_request *request = NULL;
    hanare_region_stat stat;
    hanare_strided shape = {0, 8, 1, 8};
    char byte = 0;
    stat.struct_size = 0;
    EXPECT_ERROR(hanare_attach(NULL), HANARE_ERR_BAD_ARGUMENT, "pool is NULL");
    EXPECT_ERROR(hanare_detach(NULL), HANARE_ERR_BAD_ARGUMENT, "pool is NULL");
    EXPECT_ERROR(hanare_rank(NULL), HANARE_ERR_BAD_ARGUMENT, "pool is NULL");
    EXPECT_ERROR(hanare_open(NULL, "a", HANARE_MOST, &none), HANARE_ERR_BAD_ARGUMENT, "pool is NULL");
    EXPECT_ERROR(hanare_open(pool, NULL, HANARE_MOST, &none), HANARE_ERR_BAD_ARGUMENT, "name is NULL");
    EXPECT_ERROR(hanare_open(pool, "r", HANARE_MOST, NULL), HANARE_ERR_BAD_ARGUMENT, "region is NULL");
    EXPECT_ERROR(hanare_open(pool, "r", 7, &none), HANARE_ERR_BAD_ARGUMENT, "rights 7");
    EXPECT_ERROR(hanare_open(pool, "\xff\xfe", HANARE_MOST, &none), HANARE_ERR_BAD_ARGUMENT, "UTF-8");
    EXPECT_ERROR(hanare_put(NULL, 0, &byte, 1), HANARE_ERR_BAD_ARGUMENT, "region is NULL");
    EXPECT_ERROR(hanare_put(region, 0, NULL, 1), HANARE_ERR_BAD_ARGUMENT, "from is NULL");
    EXPECT_ERROR(hanare_get(region, 0, NULL, 1), HANARE_ERR_BAD_ARGUMENT, "into is NULL");
    EXPECT_ERROR(hanare_get(region, 0, &byte, SIZE_MAX), HANARE_ERR_BAD_ARGUMENT, "bytes");
    EXPECT_ERROR(hanare_get_strided(region, NULL, &byte, 1), HANARE_ERR_BAD_ARGUMENT, "shape is NULL");
    EXPECT_ERROR(hanare_copy(region, &shape, NULL, &shape), HANARE_ERR_BAD_ARGUMENT, "to is NULL");
    EXPECT_ERROR(hanare_get_nb(region, 0, &byte, 1, NULL), HANARE_ERR_BAD_ARGUMENT, "request is NULL");
    EXPECT_ERROR(hanare_wait(request), HANARE_ERR_BAD_ARGUMENT, "request is NULL");
    EXPECT_ERROR(hanare_test(request), HANARE_ERR_BAD_ARGUMENT, "request is NULL");
    EXPECT_ERROR(hanare_map(region, NULL, NULL), HANARE_ERR_BAD_ARGUMENT, "ptr is NULL");
    EXPECT_ERROR(hanare_list(pool, NULL, NULL), HANARE_ERR_BAD_ARGUMENT, "each is NULL");
    EXPECT_ERROR(hanare_stat(pool, "r", &stat), HANARE_ERR_BAD_ARGUMENT, "struct_size");
    EXPECT_ERROR(hanare_stat_nodes(pool, "r", NULL, 1), HANARE_ERR_BAD_ARGUMENT, "nodes is NULL");
    EXPECT(!strcmp(hanare_code_name(HANARE_ERR_TIMEOUT), "HANARE_ERR_TIMEOUT"));
    EXPECT(strstr(hanare_strerror(HANARE_ERR_TIMEOUT), "no answer within the bound") != NULL);
    EXPECT(!strcmp(hanare_code_name(0), "HANARE_OK") && !strcmp(hanare_code_name(-1000), "unknown"));
    EXPECT(hanare_len(NULL) == HANARE_ERR_BAD_ARGUMENT && none == NULL && request == NULL);
}

static void bad_names_and_lengths(hanare_pool *pool)
{
    hanare_region *none = NULL;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    char long_name[300];
    memset(long_name, 'n', 299);
    long_name[299] = 0;
    EXPECT_ERROR(hanare_open(pool, "nowhere", HANARE_MOST, &none), HANARE_ERR_UNKNOWN_REGION, "'nowhere'");
    EXPECT_ERROR(hanare_remove(pool, "nowhere"), HANARE_ERR_UNKNOWN_REGION, "'nowhere'");
    EXPECT_ERROR(hanare_create(pool, "r", 4096, NULL, &none), HANARE_ERR_NAME_TAKEN, "'r' exists");
    EXPECT_ERROR(hanare_create_or_attach(pool, "r", 4096, NULL, &none), HANARE_ERR_BAD_LENGTH, "'r'");
    EXPECT_ERROR(hanare_create(pool, "", 1, NULL, &none), HANARE_ERR_BAD_NAME, "");
    EXPECT_ERROR(hanare_create(pool, "a/b", 1, NULL, &none), HANARE_ERR_BAD_NAME, "'a/b'");
    EXPECT_ERROR(hanare_create(pool, long_name, 1, NULL, &none), HANARE_ERR_BAD_NAME, "nnn");
    EXPECT_ERROR(hanare_create(pool, "zero", 0, NULL, &none), HANARE_ERR_BAD_LENGTH, "'zero' cannot have a length of 0 B");
    EXPECT_ERROR(hanare_create(pool, "huge", UINT64_C(1) << 50, NULL, &none), HANARE_ERR_POOL_FULL, "cannot take 1 PiB");
    EXPECT_ERROR(hanare_resize(pool, "r", 10, NULL), HANARE_ERR_BAD_LENGTH, "'r' cannot have a length of 10 B");
    options.placement = "node=77";
    EXPECT_ERROR(hanare_create(pool, "p", 1, &options, &none), HANARE_ERR_BAD_PLACEMENT, "node=77");
    options.placement = "interleave=1000";
    EXPECT_ERROR(hanare_create(pool, "p", 1, &options, &none), HANARE_ERR_BAD_PLACEMENT, "interleave=1000");
    options.placement = "nearby";
    EXPECT_ERROR(hanare_create(pool, "p", 1, &options, &none), HANARE_ERR_BAD_PLACEMENT, "nearby");
    options.placement = NULL;
    options.mode = 01000;
    EXPECT_ERROR(hanare_create(pool, "p", 1, &options, &none), HANARE_ERR_BAD_ARGUMENT, "mode");
    EXPECT(none == NULL);
}

static void bad_ranges(hanare_region *region)
{
    char bytes[64];
    hanare_request *request = NULL;
    hanare_strided far = {60000, 8, 1000, 16}, overlapping = {0, 8, 4, 4}, endless = {0, 8, UINT64_MAX, UINT64_MAX};
    hanare_strided four = {0, 8, 4, 16};
    EXPECT_ERROR(hanare_put(region, 65530, bytes, 7), HANARE_ERR_OUT_OF_RANGE,
                 "7 bytes at offset 65530 leave region 'r' of 65536 bytes");
    EXPECT_ERROR(hanare_get(region, UINT64_MAX, bytes, 8), HANARE_ERR_OUT_OF_RANGE, "region 'r' of 65536 bytes");
    EXPECT_ERROR(hanare_get_nb(region, 65536, bytes, 1, &request), HANARE_ERR_OUT_OF_RANGE, "offset 65536");
    EXPECT_ERROR(hanare_get_strided(region, &far, bytes, 64), HANARE_ERR_OUT_OF_RANGE, "offset 60000");
    EXPECT_ERROR(hanare_put_strided(region, &overlapping, bytes, 32), HANARE_ERR_BAD_SHAPE, "overlap");
    EXPECT_ERROR(hanare_put_strided(region, &endless, bytes, 64), HANARE_ERR_BAD_SHAPE, "64 bits");
    EXPECT_ERROR(hanare_get_strided(region, &four, bytes, 31), HANARE_ERR_BAD_SHAPE, "region 'r'");
    EXPECT(request == NULL);
}

/* A region opened for reading gives no way to write. */
static void bad_rights(hanare_pool *pool)
{
    hanare_region *region;
    char byte = 1;
    hanare_strided one = {0, 1, 1, 1};
    EXPECT_OK(hanare_open(pool, "r", HANARE_READ, &region));
    EXPECT_OK(hanare_get(region, 0, &byte, 1));
    EXPECT_ERROR(hanare_put(region, 0, &byte, 1), HANARE_ERR_BAD_USE, "'r'");
    EXPECT_ERROR(hanare_put_strided(region, &one, &byte, 1), HANARE_ERR_BAD_USE, "'r'");
    EXPECT_ERROR(hanare_copy(region, &one, region, &one), HANARE_ERR_BAD_USE, "'r'");
    EXPECT_OK(hanare_close(region));
}

/* Shapes, elements and operations that make no sense are refused, with the dimension or index named. */
static void bad_shapes(hanare_pool *pool, hanare_region *region)
{
    unsigned char bytes[64] = {0};
    uint64_t old = 5, position = 5;
    uint32_t indices[4] = {0, 1, 8192, 9000};
    hanare_dim dims[9] = {{4, -32}, {4, 8}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}};
    hanare_shape below = hanare_shape_subarray(64, 8, 2, dims), deep = hanare_shape_subarray(96, 8, 9, dims);
    hanare_shape list = hanare_shape_indexed32(0, 8, 4, indices), none = hanare_shape_indexed64(0, 8, 4, NULL);
    hanare_shape whole = hanare_shape_contiguous(0, 64), odd = hanare_shape_contiguous(4, 8), nothing = whole;
    hanare_shape wide = hanare_shape_strided(0, 8, 8, 16);
    hanare_summary summary;
    hanare_batch *batch;
    hanare_region *reader, *foreign;
    hanare_pool *other;
    const char *why = "region 'r'";
    nothing.kind = 0;
    summary.struct_size = 0;
    EXPECT_ERROR(hanare_get_shape(region, &below, bytes, 64, NULL), HANARE_ERR_BAD_DIMENSION, "dimension 0 (4 steps of -32 bytes)");
    EXPECT_ERROR(hanare_get_shape(region, &deep, bytes, 64, NULL), HANARE_ERR_LIMIT_REACHED, "9 dimensions");
    EXPECT_ERROR(hanare_put_shape(region, &list, bytes, 32, NULL), HANARE_ERR_BAD_INDEX, "index 8192 (number 2 of the list)");
    EXPECT_ERROR(hanare_put_shape(region, &none, bytes, 32, NULL), HANARE_ERR_BAD_ARGUMENT, "shape->indices is NULL");
    EXPECT_ERROR(hanare_put_shape(region, &nothing, bytes, 64, NULL), HANARE_ERR_BAD_ARGUMENT, "shape->kind is 0");
    EXPECT_ERROR(hanare_put_shape(region, NULL, bytes, 64, NULL), HANARE_ERR_BAD_ARGUMENT, "shape is NULL");
    EXPECT_ERROR(hanare_put_shape(region, &whole, bytes, 63, NULL), HANARE_ERR_BAD_SHAPE, "64 bytes, not 63");
    EXPECT_ERROR(hanare_put_shape(region, &whole, bytes, 64, &odd), HANARE_ERR_BAD_SHAPE, why);
    EXPECT_ERROR(hanare_get_shape(region, &whole, bytes, 64, &wide), HANARE_ERR_OUT_OF_RANGE, "64 bytes");
    EXPECT_ERROR(hanare_copy_shape(region, &whole, region, &odd), HANARE_ERR_BAD_SHAPE, why);
    EXPECT_ERROR(hanare_fill(region, &whole, "abc", 3), HANARE_ERR_BAD_SHAPE, why);
    EXPECT_ERROR(hanare_fill(region, &whole, NULL, 0), HANARE_ERR_BAD_SHAPE, why);
    EXPECT_ERROR(hanare_compare(region, &whole, bytes, 8, &position), HANARE_ERR_BAD_SHAPE, "64 bytes, not 8");
    EXPECT_ERROR(hanare_compare(region, &whole, bytes, 64, NULL), HANARE_ERR_BAD_ARGUMENT, "position is NULL");
    EXPECT_ERROR(hanare_reduce(region, &whole, 12, NULL, &summary), HANARE_ERR_BAD_ARGUMENT, "element 12");
    EXPECT_ERROR(hanare_reduce(region, &whole, HANARE_U8, NULL, &summary), HANARE_ERR_BAD_ARGUMENT, "struct_size");
    EXPECT_ERROR(hanare_update(region, &whole, HANARE_U64, 9, bytes, 8), HANARE_ERR_BAD_ARGUMENT, "operator 9");
    EXPECT_ERROR(hanare_update(region, &whole, HANARE_F64, HANARE_XOR, bytes, 8), HANARE_ERR_BAD_ELEMENT, "xor on elements of f64");
    EXPECT_ERROR(hanare_update(region, &whole, HANARE_U16, HANARE_ADD, bytes, 2), HANARE_ERR_BAD_ELEMENT, "u16");
    EXPECT_ERROR(hanare_update(region, &whole, HANARE_U64, HANARE_ADD, bytes, 16), HANARE_ERR_BAD_SHAPE, "64 bytes, not 16");
    EXPECT_ERROR(hanare_fetch(region, &odd, HANARE_U64, HANARE_ADD, bytes, 8, bytes + 8, 8), HANARE_ERR_BAD_ELEMENT, "offset 4");
    EXPECT_ERROR(hanare_compare_and_swap(region, &odd, HANARE_U8, bytes, bytes, bytes + 8, 8), HANARE_ERR_BAD_ELEMENT, "u8");
    EXPECT_ERROR(hanare_fetch_add(region, 4, 1, &old), HANARE_ERR_BAD_ELEMENT, "offset 4");
    EXPECT_ERROR(hanare_swap(region, 65536, 1, &old), HANARE_ERR_OUT_OF_RANGE, "offset 65536");
    EXPECT_ERROR(hanare_compare_and_swap_word(NULL, 0, 1, 2, &old), HANARE_ERR_BAD_ARGUMENT, "region is NULL");
    /* A batch refuses the same when a command is added. */
    EXPECT_ERROR(hanare_batch_begin(NULL, &batch), HANARE_ERR_BAD_ARGUMENT, "pool is NULL");
    EXPECT_ERROR(hanare_batch_run(NULL), HANARE_ERR_BAD_ARGUMENT, "batch is NULL");
    EXPECT_OK(hanare_batch_begin(pool, &batch));
    EXPECT_OK(hanare_open(pool, "r", HANARE_READ, &reader));
    EXPECT_OK(hanare_attach(&other));
    EXPECT_OK(hanare_open(other, "r", HANARE_MOST, &foreign));
    EXPECT_ERROR(hanare_batch_get(batch, region, &below, bytes, 64, NULL), HANARE_ERR_BAD_DIMENSION, "dimension 0");
    EXPECT_ERROR(hanare_batch_put(batch, region, &list, bytes, 32, NULL), HANARE_ERR_BAD_INDEX, "number 2");
    EXPECT_ERROR(hanare_batch_put(batch, region, &whole, bytes, 64, &odd), HANARE_ERR_BAD_SHAPE, "64 bytes, not 8");
    EXPECT_ERROR(hanare_batch_put(batch, reader, &whole, bytes, 64, NULL), HANARE_ERR_BAD_USE, "for reading");
    EXPECT_ERROR(hanare_batch_copy(batch, region, &whole, region, &odd), HANARE_ERR_BAD_SHAPE, "8 bytes, not 64");
    EXPECT_ERROR(hanare_batch_copy(batch, region, &whole, foreign, &whole), HANARE_ERR_BAD_USE, "different attachments");
    EXPECT_ERROR(hanare_batch_get(batch, foreign, &whole, bytes, 64, NULL), HANARE_ERR_BAD_USE, "another attachment");
    EXPECT_ERROR(hanare_batch_fill(batch, region, &whole, "abc", 3), HANARE_ERR_BAD_SHAPE, "pattern");
    EXPECT_ERROR(hanare_batch_compare(batch, region, &whole, bytes, 8, &position), HANARE_ERR_BAD_SHAPE, "not 8");
    EXPECT_ERROR(hanare_batch_reduce(batch, region, &odd, HANARE_U8, NULL, &summary), HANARE_ERR_BAD_ARGUMENT, "struct_size");
    EXPECT_ERROR(hanare_batch_update(batch, region, &whole, HANARE_F32, HANARE_AND, bytes, 4), HANARE_ERR_BAD_ELEMENT, "f32");
    EXPECT_ERROR(hanare_batch_fetch(batch, region, &whole, HANARE_U64, HANARE_ADD, bytes, 8, bytes, 8), HANARE_ERR_BAD_SHAPE, "old values");
    EXPECT_ERROR(hanare_batch_compare_and_swap(batch, region, &odd, HANARE_U64, bytes, bytes, bytes + 8, 8), HANARE_ERR_BAD_ELEMENT, "offset 4");
    EXPECT_ERROR(hanare_batch_start(batch, NULL), HANARE_ERR_BAD_ARGUMENT, "request is NULL");
    EXPECT_OK(hanare_batch_run(batch)); /* nothing was added */
    EXPECT_OK(hanare_batch_drop(batch));
    EXPECT_OK(hanare_close(foreign));
    EXPECT_OK(hanare_detach(other));
    EXPECT_OK(hanare_close(reader));
    EXPECT(old == 5 && position == 5);
}

/* What is known of a failed call follows from its code. */
static void happened(void)
{
    EXPECT(hanare_happened(HANARE_OK) == HANARE_HAPPENED_YES && hanare_happened(42) == HANARE_HAPPENED_YES);
    EXPECT(hanare_happened(HANARE_ERR_BAD_INDEX) == HANARE_HAPPENED_NO);
    EXPECT(hanare_happened(HANARE_ERR_TIMEOUT) == HANARE_HAPPENED_UNKNOWN);
    EXPECT(hanare_happened(HANARE_ERR_BROKEN_NOT_DONE) == HANARE_HAPPENED_NO);
    EXPECT(hanare_happened(HANARE_ERR_BROKEN_DONE) == HANARE_HAPPENED_YES);
    EXPECT(hanare_happened(HANARE_ERR_BROKEN) == HANARE_HAPPENED_UNKNOWN);
    EXPECT(hanare_may_retry(HANARE_ERR_BROKEN_NOT_DONE) == 1 && hanare_may_retry(HANARE_ERR_BROKEN) == 0);
}

int main(void)
{
    hanare_pool *pool, *none = NULL;
    hanare_region *region;
    char zero[8] = {0}, into[8];
    EXPECT(hanare_last_error()[0] == 0 && hanare_version()[0] == '0');
    EXPECT_ERROR(hanare_attach_to("@hanare-nobody-here", &none), HANARE_ERR_NO_NODE, "@hanare-nobody-here");
    EXPECT(none == NULL && hanare_may_retry(HANARE_ERR_NO_NODE) == 1 && hanare_may_retry(HANARE_ERR_BAD_NAME) == 0);
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_create(pool, "r", 65536, NULL, &region));
    bad_arguments(pool, region);
    bad_names_and_lengths(pool);
    bad_ranges(region);
    bad_rights(pool);
    bad_shapes(pool, region);
    happened();
    EXPECT_OK(hanare_get(region, 65528, into, 8));
    EXPECT(memcmp(into, zero, 8) == 0);
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_remove(pool, "r"));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
