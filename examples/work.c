/* Work for one reader: every rank but 0 sends numbers into a queue, rank 0 receives them in the order of each writer.
 *
 *     hanare run --nodes 2 -n 4 ./work
 */
#include <hanare.h>
#include <stdio.h>

enum { EACH = 100 };

static int failed(void)
{
    fprintf(stderr, "%s\n", hanare_last_error());
    return 1;
}

static int read_all(hanare_queue *queue, int writers)
{
    hanare_queue_reader *reader;
    uint64_t number, sum = 0;
    size_t len;

    if (hanare_queue_reader_open(queue, &reader) < 0)
        return failed();
    for (int count = 0; count < writers * EACH; count++) {
        if (hanare_queue_receive(reader, &number, sizeof number, &len, HANARE_FOREVER) < 0)
            return failed();
        sum += number;
    }
    printf("%d numbers, sum %llu\n", writers * EACH, (unsigned long long)sum);
    return hanare_queue_reader_close(reader) < 0 ? failed() : 0;
}

static int send_all(hanare_queue *queue)
{
    hanare_queue_writer *writer;

    if (hanare_queue_writer_open(queue, &writer) < 0)
        return failed();
    for (uint64_t number = 1; number <= EACH; number++)
        if (hanare_queue_send(writer, &number, sizeof number, HANARE_FOREVER) < 0)
            return failed();
    return hanare_queue_writer_close(writer) < 0 ? failed() : 0;
}

int main(void)
{
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    hanare_pool *pool;
    hanare_queue *queue;
    int status;

    options.block = 0;
    options.record = sizeof(uint64_t);
    options.ports = 16;
    if (hanare_attach(&pool) < 0)
        return failed();
    if (hanare_rank(pool) == 0 && hanare_queue_create(pool, "example-work", &options, &queue) < 0)
        return failed();
    if (hanare_barrier(pool) < 0)
        return failed();
    if (hanare_rank(pool) > 0 && hanare_queue_open(pool, "example-work", 0, 0, &queue) < 0)
        return failed();
    status = hanare_rank(pool) == 0 ? read_all(queue, hanare_ranks(pool) - 1) : send_all(queue);
    if (status == 0 && hanare_rank(pool) == 0 && hanare_remove(pool, "example-work") < 0)
        return failed();
    if (hanare_detach(pool) < 0)
        return failed();
    return status;
}
