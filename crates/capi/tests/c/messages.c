/* Messages with a head and a body among ranks. */
#include "expect.h"

enum { RECEIVE_LEN = 1 << 20, LONG = 100000 };

static void expect_body(hanare_message *message, const void *bytes, size_t len)
{
    void *body = malloc(len + 1);
    EXPECT(body != NULL);
    EXPECT_OK(hanare_message_read(message, 0, body, len));
    EXPECT(memcmp(body, bytes, len) == 0);
    EXPECT_ERROR(hanare_message_read(message, 1, body, len), HANARE_ERR_OUT_OF_RANGE, "message");
    free(body);
}

/* Rank 0 receives from all others, in whichever order. */
static void collect(hanare_pool *pool, hanare_mailbox *box, int ranks)
{
    hanare_region *apart;
    hanare_shape blocks = hanare_shape_strided(3, 100, LONG / 100, 128);
    unsigned char block[100];
    uint64_t receives[2];
    size_t index = 9;
    hanare_message *message;
    hanare_envelope envelope = {sizeof envelope, 0, 0, 0, 0, 0};
    const void *head;
    unsigned char *wanted = noise(LONG, 5);
    EXPECT_OK(hanare_post(box, 1, 0, 7, &receives[0]));
    EXPECT_OK(hanare_post(box, HANARE_ANY, 3, HANARE_ANY, &receives[1]));
    EXPECT_OK(hanare_wait_message(box, receives, 1, 20000, &index, &message));
    EXPECT_OK(hanare_message_envelope(message, &envelope, &head));
    EXPECT(index == 0 && envelope.from == 1 && envelope.tag == 7 && envelope.head_len == 4 && memcmp(head, "long", 4) == 0);
    EXPECT(envelope.body_len == LONG);
    expect_body(message, wanted, LONG);
    EXPECT_OK(hanare_create(pool, "apart", 128 * LONG / 100 + 3, NULL, &apart));
    EXPECT_OK(hanare_message_scatter(message, apart, &blocks));
    EXPECT_OK(hanare_get(apart, 3 + 128 * 77, block, sizeof block));
    EXPECT(memcmp(block, wanted + 7700, sizeof block) == 0);
    EXPECT_OK(hanare_close(apart));
    EXPECT_OK(hanare_message_close(message));
    EXPECT(hanare_cancel(box, receives[1]) == 1);
    EXPECT_ERROR(hanare_cancel(box, receives[1]), HANARE_ERR_BAD_GROUP, "over");
    for (int rank = 1; rank < ranks; rank++) {
        EXPECT_OK(hanare_receive(box, HANARE_ANY, 0, 8, 20000, &message));
        EXPECT_OK(hanare_message_envelope(message, &envelope, NULL));
        EXPECT(envelope.from >= 1 && envelope.from < (uint32_t)ranks && envelope.body_len == 30);
        expect_body(message, wanted, 30);
        EXPECT_OK(hanare_message_close(message));
    }
    EXPECT(hanare_probe(box, HANARE_ANY, 0, HANARE_ANY, &envelope) == 0);
    EXPECT_ERROR(hanare_receive(box, 1, 0, HANARE_ANY, 3, &message), HANARE_ERR_NOT_IN_TIME, "message");
    EXPECT_OK(hanare_send(box, 0, 2, 1, NULL, 0, "own", 3));
    EXPECT(hanare_probe(box, 0, 2, 1, &envelope) == 1 && envelope.body_len == 3);
    free(wanted);
}

static void refusals(hanare_mailbox *box)
{
    hanare_message *message = NULL;
    uint64_t receive;
    char head[49] = {0};
    EXPECT_ERROR(hanare_send(box, 99, 0, 0, NULL, 0, NULL, 0), HANARE_ERR_BAD_GROUP, "no party 99");
    EXPECT_ERROR(hanare_send(box, 0, 0, 0, head, sizeof head, NULL, 0), HANARE_ERR_LIMIT_REACHED, "49 bytes");
    EXPECT_ERROR(hanare_send(box, 0, 0, 0, NULL, 1, NULL, 0), HANARE_ERR_BAD_ARGUMENT, "head is NULL");
    EXPECT_ERROR(hanare_post(box, -2, 0, 0, &receive), HANARE_ERR_BAD_ARGUMENT, "from -2");
    EXPECT_ERROR(hanare_post(box, 0, 0, 0, NULL), HANARE_ERR_BAD_ARGUMENT, "receive is NULL");
    EXPECT_ERROR(hanare_wait_message(box, &receive, 0, 0, NULL, &message), HANARE_ERR_BAD_ARGUMENT, "count is 0");
    EXPECT_ERROR(hanare_message_close(NULL), HANARE_ERR_BAD_ARGUMENT, "message is NULL");
    EXPECT_ERROR(hanare_mailbox_close(NULL), HANARE_ERR_BAD_ARGUMENT, "mailbox is NULL");
    EXPECT(message == NULL);
}

/* Each rank begins to send to the next, long before short, and finds what the one before sent in the order in which it was begun. */
static void ring(hanare_pool *pool, hanare_mailbox *box, int rank, int ranks, const unsigned char *bytes)
{
    hanare_region *region;
    hanare_message *message;
    hanare_envelope envelope = {sizeof envelope, 0, 0, 0, 0, 0};
    hanare_shape part = hanare_shape_strided(0, 8, 3000, 16);
    uint64_t sends[3];
    size_t index;
    uint32_t next = (uint32_t)((rank + 1) % ranks);
    char name[32], told[3] = {0};
    snprintf(name, sizeof name, "part-%d", rank);
    EXPECT_OK(hanare_create(pool, name, 48000, NULL, &region));
    EXPECT_OK(hanare_put(region, 0, bytes, 48000));
    EXPECT_OK(hanare_send_nb(box, next, 5, 0, "long", 4, bytes, LONG, &sends[0]));
    EXPECT_OK(hanare_send_part_nb(box, next, 5, 1, NULL, 0, region, &part, &sends[1]));
    EXPECT_OK(hanare_send_nb(box, next, 5, 2, NULL, 0, bytes, 30, &sends[2]));
    EXPECT_OK(hanare_close(region));
    for (uint32_t tag = 0; tag < 3; tag++) {
        EXPECT_OK(hanare_receive(box, (rank + ranks - 1) % ranks, 5, HANARE_ANY, 20000, &message));
        EXPECT_OK(hanare_message_envelope(message, &envelope, NULL));
        EXPECT(envelope.tag == tag && envelope.body_len == (tag == 0 ? LONG : tag == 1 ? 24000 : 30));
        unsigned char last[8];
        EXPECT_OK(hanare_message_read(message, envelope.body_len - 8, last, 8));
        EXPECT(memcmp(last, bytes + (tag == 0 ? LONG - 8 : tag == 1 ? 16 * 2999 : 22), 8) == 0);
        EXPECT_OK(hanare_message_close(message));
    }
    for (size_t left = 3; left > 0; left--) {
        index = 9;
        EXPECT_OK(hanare_wait_sent(box, sends, left, 20000, &index));
        EXPECT(index < left && !told[sends[index] % 3]);
        told[sends[index] % 3] = 1;
        uint64_t done = sends[index];
        sends[index] = sends[left - 1];
        EXPECT_ERROR(hanare_wait_sent(box, &done, 1, 0, &index), HANARE_ERR_BAD_GROUP, "told");
    }
    EXPECT_ERROR(hanare_send_nb(box, 99, 0, 0, NULL, 0, NULL, 0, &sends[0]), HANARE_ERR_BAD_GROUP, "no party 99");
    EXPECT_ERROR(hanare_send_nb(box, next, 0, 0, NULL, 0, NULL, 0, NULL), HANARE_ERR_BAD_ARGUMENT, "send is NULL");
    EXPECT_ERROR(hanare_wait_sent(box, sends, 0, 0, NULL), HANARE_ERR_BAD_ARGUMENT, "count is 0");
    EXPECT_ERROR(hanare_post(box, HANARE_ANY, 0, (int64_t)1 << 32, sends), HANARE_ERR_BAD_ARGUMENT, "tag 4294967296");
}

int main(void)
{
    hanare_pool *pool;
    hanare_group *job;
    hanare_mailbox *box, *fetching;
    hanare_mailbox_options options = HANARE_MAILBOX_OPTIONS_INIT;
    hanare_region *region;
    char name[32];
    EXPECT_OK(hanare_attach(&pool));
    int rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    EXPECT_OK(hanare_group_open(pool, NULL, 0, &job));
    EXPECT_OK(hanare_mailbox_open(job, RECEIVE_LEN, &box));
    refusals(box);
    unsigned char *bytes = noise(LONG, 5);
    if (rank == 1) {
        hanare_shape part = hanare_shape_strided(0, LONG, 1, LONG);
        EXPECT_OK(hanare_create(pool, "body", LONG, NULL, &region));
        EXPECT_OK(hanare_put(region, 0, bytes, LONG));
        EXPECT_OK(hanare_send_part(box, 0, 0, 7, "long", 4, region, &part));
        EXPECT_OK(hanare_close(region));
    }
    if (rank > 0) {
        EXPECT_OK(hanare_send(box, 0, 0, 8, "short", 5, bytes, 30));
        EXPECT_OK(hanare_mailbox_settle(box));
    } else
        collect(pool, box, ranks);
    ring(pool, box, rank, ranks, bytes);
    EXPECT_OK(hanare_barrier(pool));
    snprintf(name, sizeof name, "part-%d", rank);
    EXPECT_OK(hanare_remove(pool, name));
    options.purpose = "fetching";
    options.fetch_parts = 1;
    EXPECT_OK(hanare_mailbox_open_with(job, &options, &fetching));
    EXPECT_ERROR(hanare_mailbox_open_with(job, NULL, &fetching), HANARE_ERR_BAD_ARGUMENT, "options is NULL");
    ring(pool, fetching, rank, ranks, bytes);
    free(bytes);
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_OK(hanare_mailbox_close(fetching));
    EXPECT_OK(hanare_mailbox_close(box));
    EXPECT_OK(hanare_group_close(job));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
