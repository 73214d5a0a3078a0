/* A pipeline of processes, any of which may be killed and started again: no committed block is lost.
 *
 *     pipeline make QUEUE          makes a queue on this host
 *     pipeline source OUT COUNT    sends numbered blocks
 *     pipeline stage IN OUT        works on each: sees it, sends what it made of it, and frees it only then
 *     pipeline sink IN COUNT       takes each number once, and checks all
 *
 * A stage that dies leaves what it has not freed to its successor. What it had sent by then, and not freed, is sent twice: so blocks are
 * numbered, and the sink takes a number once. The blocks of a stage and of its successor are in no order, because each has a lane
 * of its own.
 */
/* FEATURE: VQ-F29 */
#define _DEFAULT_SOURCE
#include "../kit/words.h"
#include <hanare.h>
#include <stdint.h>
#include <unistd.h>

enum { DEPTH = 64, PORTS = 16, PAUSE_US = 10000 };
#define END UINT64_MAX

typedef struct block {
    uint64_t number, value;
    uint64_t unused[6];
} block;

static void must(int code)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s\n", hanare_last_error());
    exit(1);
}

static uint64_t mixed(uint64_t value) { return (value ^ value >> 31) * 0x9E3779B97F4A7C15u; }

static hanare_queue *queue_of(hanare_pool *pool, const char *name)
{
    hanare_queue *queue;
    must(hanare_queue_open(pool, name, 0, 0, &queue));
    return queue;
}

static hanare_queue_writer *writer_of(hanare_pool *pool, const char *name)
{
    hanare_queue *queue = queue_of(pool, name);
    hanare_queue_writer *writer;
    must(hanare_queue_writer_open(queue, &writer));
    must(hanare_queue_close(queue));
    return writer;
}

/* A reader's place is free as soon as the queue's node knows that the one before has died. */
static hanare_queue_reader *reader_of(hanare_pool *pool, const char *name)
{
    hanare_queue *queue = queue_of(pool, name);
    hanare_queue_reader *reader;
    int code;
    while ((code = hanare_queue_reader_open(queue, &reader)) == HANARE_ERR_SECOND_READER)
        usleep(PAUSE_US);
    must(code);
    must(hanare_queue_close(queue));
    return reader;
}

/* Sends a block; where the reader has died, to its successor. */
static void send(hanare_queue_writer *writer, const block *b)
{
    int code;
    while ((code = hanare_queue_send(writer, b, sizeof *b, HANARE_FOREVER)) == HANARE_ERR_READER_GONE)
        usleep(PAUSE_US);
    must(code);
}

/* Sees the next block; that a writer has died is nothing to a reader whose writers have successors. */
static block see(hanare_queue_reader *reader)
{
    const void *unit;
    size_t len;
    block b;
    int code;
    while ((code = hanare_queue_see(reader, HANARE_FOREVER, &unit, &len)) == HANARE_ERR_WRITER_GONE)
        continue;
    must(code);
    memcpy(&b, unit, sizeof b);
    return b;
}

static void source(hanare_pool *pool, const char *out, uint64_t count)
{
    hanare_queue_writer *writer = writer_of(pool, out);
    block b;
    memset(&b, 0, sizeof b);
    for (b.number = 0; b.number < count; b.number++) {
        b.value = b.number;
        send(writer, &b);
    }
    b.number = END;
    send(writer, &b);
    must(hanare_queue_writer_close(writer));
}

static void stage(hanare_pool *pool, const char *in, const char *out)
{
    hanare_queue_reader *reader = reader_of(pool, in);
    hanare_queue_writer *writer = writer_of(pool, out);
    for (;;) {
        block b = see(reader);
        b.value = mixed(b.value);
        send(writer, &b);
        must(hanare_queue_release(reader));
        if (b.number == END)
            break;
    }
    must(hanare_queue_writer_close(writer));
    must(hanare_queue_reader_close(reader));
}

static int sink(hanare_pool *pool, const char *in, uint64_t count)
{
    hanare_queue_reader *reader = reader_of(pool, in);
    unsigned char *has = (unsigned char *)calloc(count, 1);
    uint64_t wrong = 0, twice = 0;
    if (has == NULL)
        exit(1);
    for (uint64_t left = count; left > 0;) {
        block b = see(reader);
        must(hanare_queue_release(reader));
        if (b.number == END)
            continue;
        if (b.number >= count || b.value != mixed(b.number)) {
            wrong++;
            break;
        }
        twice += has[b.number];
        left -= !has[b.number];
        has[b.number] = 1;
    }
    free(has);
    printf("pipeline count=%llu twice=%llu wrong=%llu\n", (unsigned long long)count, (unsigned long long)twice,
           (unsigned long long)wrong);
    must(hanare_queue_reader_close(reader));
    return wrong != 0;
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_queue *queue;
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    int status = 0;
    uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    must(hanare_attach(&pool));
    if (argc == 3 && strcmp(argv[1], "make") == 0) {
        options.block = sizeof(block), options.depth = DEPTH, options.ports = PORTS;
        must(hanare_queue_create(pool, argv[2], &options, &queue));
        must(hanare_queue_close(queue));
    } else if (argc == 4 && strcmp(argv[1], "source") == 0 && count > 0) {
        source(pool, argv[2], count);
    } else if (argc == 4 && strcmp(argv[1], "stage") == 0) {
        stage(pool, argv[2], argv[3]);
    } else if (argc == 4 && strcmp(argv[1], "sink") == 0 && count > 0) {
        status = sink(pool, argv[2], count);
    } else {
        fprintf(stderr, "usage: %s make QUEUE | source OUT COUNT | stage IN OUT | sink IN COUNT\n", argv[0]);
        status = 2;
    }
    must(hanare_detach(pool));
    return status;
}
