/* Message passing by the calls of dimmnet.h alone: each rank sends to the next through a ring of slots in that rank's vector
 * memory. RVS stores a message there and then its number; the receiver polls its own memory by VL, without a system call, and tells the
 * sender by RVS how far it is.
 */
/* FEATURE: D2-F23 */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <dimmnet.h>
#include <sched.h>
#include <stdint.h>

enum { MESSAGES = 200, SLOTS = 8, LEN_MAX = 3000 };

/* A slot as it lies in the receiver's vector memory. */
typedef struct {
    uint64_t number; /* of the message, from 1 on: stored last */
    uint64_t len;
    unsigned char bytes[LEN_MAX];
} message;

/* Behind the slots: how many messages the next rank has taken out of its own. */
enum { TAKEN_AT = (SLOTS * sizeof(message) + 63) / 64 * 64 };

static size_t slot_at(uint64_t number)
{
    return number % SLOTS * sizeof(message);
}

static size_t len_of(uint64_t number)
{
    return number * 37 % (LEN_MAX + 1);
}

static uint64_t word_at(size_t offset)
{
    uint64_t word;
    EXPECT_OK(VL(&word, offset, sizeof word));
    return word;
}

/* Sends a message to a rank whose ring has room for it. */
static void send_to(int rank, uint64_t number, const unsigned char *bytes)
{
    message next = {number, len_of(number), {0}};
    memcpy(next.bytes, bytes + number, next.len);
    EXPECT_OK(RVS(rank, &next.len, slot_at(number) + offsetof(message, len), sizeof next.len + next.len));
    EXPECT_OK(RVS(rank, &next.number, slot_at(number), sizeof next.number));
}

/* Takes the message that came from a rank. */
static void take_from(int rank, uint64_t number, const unsigned char *bytes)
{
    message came;
    EXPECT_OK(VL(&came, slot_at(number), sizeof came));
    EXPECT(came.len == len_of(number) && memcmp(came.bytes, bytes + number, came.len) == 0);
    EXPECT_OK(RVS(rank, &number, TAKEN_AT, sizeof number));
}

int main(int argc, char **argv)
{
    EXPECT_OK(dn_init(argc, argv));
    EXPECT_OK(dn_barrier());
    int rank = dn_getrank(), ranks = dn_getnodesum(), next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *sent = noise(MESSAGES + 1 + LEN_MAX, (unsigned)rank), *wanted = noise(MESSAGES + 1 + LEN_MAX, (unsigned)before);
    uint64_t to_send = 1, to_take = 1;
    while (to_send <= MESSAGES || to_take <= MESSAGES) {
        if (to_send <= MESSAGES && to_send - word_at(TAKEN_AT) <= SLOTS)
            send_to(next, to_send++, sent);
        else if (to_take <= MESSAGES && word_at(slot_at(to_take)) == to_take)
            take_from(before, to_take++, wanted);
        else
            sched_yield();
    }
    EXPECT_OK(dn_barrier());
    free(sent);
    free(wanted);
    return 0;
}
