/* Queues among ranks: rank 0 reads, the others write blocks and records; each in its own order. */
#include "expect.h"

#include <poll.h>

enum { COUNT = 500, LONGEST = 3000 };

/* Queues at an offset of a region, whose reader waits for a descriptor. */
static void made_in_a_region(hanare_pool *pool)
{
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    hanare_region *region;
    hanare_queue *queue;
    hanare_queue_writer *writer;
    hanare_queue_reader *reader;
    char unit[64];
    size_t len;
    struct pollfd watched = {-1, POLLIN, 0};
    options.count = 3, options.depth = 2;
    EXPECT_OK(hanare_create(pool, "made", 1 << 20, NULL, &region));
    EXPECT_ERROR(hanare_queue_make(region, 4, &options), HANARE_ERR_BAD_USE, "multiple of 64");
    EXPECT_ERROR(hanare_queue_make(region, 1 << 20, &options), HANARE_ERR_OUT_OF_RANGE, "made");
    EXPECT_ERROR(hanare_queue_make(region, 0, NULL), HANARE_ERR_BAD_ARGUMENT, "options is NULL");
    EXPECT_OK(hanare_queue_make(region, 4096, &options));
    EXPECT_OK(hanare_queue_open(pool, "made", 4096, 2, &queue));
    EXPECT_OK(hanare_queue_reader_open(queue, &reader));
    EXPECT_OK(hanare_queue_writer_open(queue, &writer));
    EXPECT_ERROR(hanare_queue_fd(reader, NULL), HANARE_ERR_BAD_ARGUMENT, "fd is NULL");
    for (int k = 0; k < 20; k++) {
        EXPECT_OK(hanare_queue_fd(reader, &watched.fd));
        EXPECT(poll(&watched, 1, 0) == 0);
        memset(unit, k, sizeof unit);
        EXPECT_OK(hanare_queue_send(writer, unit, sizeof unit, 0));
        EXPECT(poll(&watched, 1, 20000) == 1);
        EXPECT_OK(hanare_queue_receive(reader, unit, sizeof unit, &len, 0));
        EXPECT(len == sizeof unit && unit[63] == k);
    }
    EXPECT_OK(hanare_queue_send(writer, unit, sizeof unit, 0));
    EXPECT_OK(hanare_queue_fd(reader, &watched.fd));
    EXPECT(poll(&watched, 1, 0) == 1);
    EXPECT_OK(hanare_queue_writer_close(writer));
    EXPECT_OK(hanare_queue_reader_close(reader));
    EXPECT_OK(hanare_queue_close(queue));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_remove(pool, "made"));
}

static void refusals(hanare_pool *pool)
{
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    hanare_queue *queue = NULL, *none = NULL;
    hanare_queue_writer *writer = NULL;
    hanare_queue_reader *reader = NULL, *second = NULL;
    char unit[64] = {0}, small[8];
    uint64_t waiting = 7;
    size_t len = 0;
    void *place = NULL;
    options.record = 10;
    EXPECT_ERROR(hanare_queue_create(pool, "bad", &options, &none), HANARE_ERR_BAD_ARGUMENT, "both set");
    options.record = 0, options.block = 15;
    EXPECT_ERROR(hanare_queue_create(pool, "bad", &options, &none), HANARE_ERR_BAD_SETTING, "block");
    options.block = 64, options.overflow = 9;
    EXPECT_ERROR(hanare_queue_create(pool, "bad", &options, &none), HANARE_ERR_BAD_ARGUMENT, "overflow 9");
    options.overflow = HANARE_OVERFLOW_REFUSE, options.depth = 2, options.ports = 1;
    EXPECT_OK(hanare_queue_create(pool, "refusals", &options, &queue));
    EXPECT_ERROR(hanare_queue_open(pool, "refusals", 0, 1, &none), HANARE_ERR_NO_QUEUE, "number 1");
    EXPECT_ERROR(hanare_queue_open(pool, "refusals", 64, 0, &none), HANARE_ERR_NO_QUEUE, "offset 64");
    EXPECT(none == NULL);
    EXPECT_OK(hanare_queue_writer_open(queue, &writer));
    EXPECT_OK(hanare_queue_reader_open(queue, &reader));
    EXPECT_ERROR(hanare_queue_reader_open(queue, &second), HANARE_ERR_SECOND_READER, "'refusals'");
    EXPECT_ERROR(hanare_queue_send(writer, unit, 63, 0), HANARE_ERR_BAD_BLOCK, "63 bytes");
    EXPECT_ERROR(hanare_queue_receive(reader, unit, sizeof unit, &len, 3), HANARE_ERR_NOT_IN_TIME, "3 ms");
    EXPECT_OK(hanare_queue_claim(writer, 64, 0, &place));
    EXPECT_OK(hanare_queue_abandon(writer));
    EXPECT_OK(hanare_queue_send(writer, unit, 64, 0));
    EXPECT_OK(hanare_queue_send(writer, unit, 64, 0));
    EXPECT_ERROR(hanare_queue_send(writer, unit, 64, HANARE_FOREVER), HANARE_ERR_QUEUE_FULL, "'refusals'");
    EXPECT_OK(hanare_queue_waiting(queue, &waiting));
    EXPECT(waiting == 2);
    EXPECT_ERROR(hanare_queue_receive(reader, small, sizeof small, &len, 0), HANARE_ERR_BAD_ARGUMENT, "64 bytes");
    EXPECT(len == 64);
    EXPECT_OK(hanare_queue_receive(reader, unit, sizeof unit, &len, 0));
    EXPECT_OK(hanare_queue_receive(reader, unit, sizeof unit, &len, 0));
    EXPECT_ERROR(hanare_queue_see(NULL, 0, NULL, NULL), HANARE_ERR_BAD_ARGUMENT, "reader is NULL");
    EXPECT_OK(hanare_queue_writer_close(writer));
    EXPECT_OK(hanare_queue_reader_close(reader));
    EXPECT_OK(hanare_queue_close(queue));
    EXPECT_OK(hanare_remove(pool, "refusals"));
}

/* Creates the queue of blocks: with copies, where there are nodes for them. */
static hanare_queue *create_blocks(hanare_pool *pool, int nodes)
{
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    hanare_region_stat stat;
    hanare_queue *blocks = NULL;
    options.depth = 16, options.copies = 2;
    if (nodes > 1) {
        options.overflow = HANARE_OVERFLOW_SPILL;
        EXPECT_ERROR(hanare_queue_create(pool, "blocks", &options, &blocks), HANARE_ERR_BAD_USE, "copies");
        options.overflow = HANARE_OVERFLOW_WAIT;
    } else {
        EXPECT_ERROR(hanare_queue_create(pool, "blocks", &options, &blocks), HANARE_ERR_BAD_PLACEMENT, "copies");
        /* A program that was compiled before there were copies of queues. */
        options.struct_size = offsetof(hanare_queue_options, copies);
    }
    EXPECT_OK(hanare_queue_create(pool, "blocks", &options, &blocks));
    memset(&stat, 0, sizeof stat);
    stat.struct_size = sizeof stat;
    EXPECT_OK(hanare_stat(pool, "blocks", &stat));
    EXPECT(stat.copies == (nodes > 1 ? 2 : 1));
    return blocks;
}

static void write_blocks(hanare_queue *queue, uint64_t rank)
{
    hanare_queue_writer *writer;
    EXPECT_OK(hanare_queue_writer_open(queue, &writer));
    for (uint64_t number = 0; number < COUNT; number++) {
        uint64_t *block;
        void *place;
        EXPECT_OK(hanare_queue_claim(writer, 64, HANARE_FOREVER, &place));
        block = (uint64_t *)place;
        block[0] = rank;
        block[7] = number;
        EXPECT_OK(number % 8 == 3   ? hanare_queue_commit_nb(writer)
                  : number % 4 == 3 ? hanare_queue_commit(writer)
                                    : hanare_queue_keep(writer));
    }
    EXPECT_OK(hanare_queue_writer_close(writer));
}

static void read_blocks(hanare_queue *queue, int ranks)
{
    uint64_t next[64] = {0};
    hanare_queue_reader *reader;
    EXPECT_OK(hanare_queue_reader_open(queue, &reader));
    for (int k = 0; k < COUNT * (ranks - 1); k++) {
        const void *unit;
        const uint64_t *block;
        size_t len;
        EXPECT_OK(hanare_queue_see(reader, HANARE_FOREVER, &unit, &len));
        block = (const uint64_t *)unit;
        EXPECT(len == 64 && block[0] < 64 && block[7] == next[block[0]]++);
        if (k % 3 == 2)
            EXPECT_OK(hanare_queue_release(reader));
    }
    EXPECT_OK(hanare_queue_release(reader));
    EXPECT_OK(hanare_queue_reader_close(reader));
}

static void write_records(hanare_queue *queue, unsigned rank)
{
    hanare_queue_writer *writer;
    EXPECT_OK(hanare_queue_writer_open(queue, &writer));
    for (unsigned number = 0; number < COUNT; number++) {
        size_t len = 1 + (rank * 7919 + number * 104729) % LONGEST;
        unsigned char *record = noise(len, number);
        record[0] = (unsigned char)rank;
        EXPECT_OK(hanare_queue_send(writer, record, len, HANARE_FOREVER));
        free(record);
    }
    EXPECT_OK(hanare_queue_writer_close(writer));
}

static void read_records(hanare_queue *queue, int ranks)
{
    unsigned next[64] = {0};
    unsigned char record[LONGEST];
    hanare_queue_reader *reader;
    EXPECT_OK(hanare_queue_reader_open(queue, &reader));
    for (int k = 0; k < COUNT * (ranks - 1); k++) {
        size_t len;
        unsigned rank, number;
        unsigned char *wanted;
        EXPECT_OK(hanare_queue_receive(reader, record, sizeof record, &len, HANARE_FOREVER));
        rank = record[0], number = next[rank]++;
        EXPECT(len == 1 + (rank * 7919 + number * 104729) % LONGEST);
        wanted = noise(len, number);
        EXPECT(memcmp(record + 1, wanted + 1, len - 1) == 0);
        free(wanted);
    }
    EXPECT_OK(hanare_queue_reader_close(reader));
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_queue *blocks, *records;
    int rank, ranks, nodes = argc > 1 ? atoi(argv[1]) : 0;
    EXPECT(nodes > 0);
    EXPECT_OK(hanare_attach(&pool));
    rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    if (rank == 0) {
        hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
        refusals(pool);
        made_in_a_region(pool);
        blocks = create_blocks(pool, nodes);
        options.depth = 16, options.block = 0, options.record = LONGEST, options.overflow = HANARE_OVERFLOW_SPILL;
        EXPECT_OK(hanare_queue_create(pool, "records", &options, &records));
    }
    EXPECT_OK(hanare_barrier(pool));
    if (rank != 0) {
        EXPECT_OK(hanare_queue_open(pool, "blocks", 0, 0, &blocks));
        EXPECT_OK(hanare_queue_open(pool, "records", 0, 0, &records));
        write_blocks(blocks, (uint64_t)rank);
        write_records(records, (unsigned)rank);
    } else {
        read_blocks(blocks, ranks);
        read_records(records, ranks);
    }
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_OK(hanare_queue_close(blocks));
    EXPECT_OK(hanare_queue_close(records));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
