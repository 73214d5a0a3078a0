/* Ranks that call one operation some times, detach with the group and a mailbox open, and end. With a third word that rank kills itself before its
 * last call: who waits for it fails, and names it. */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <signal.h>
#include <unistd.h>

enum { COUNT = 1000, MOST = 16 };

static int call(hanare_group *group, const char *what, int round)
{
    static int32_t own[COUNT], all[MOST * COUNT];
    uint32_t me = (uint32_t)hanare_group_number(group), parties = (uint32_t)hanare_group_parties(group);
    for (int i = 0; i < COUNT; i++)
        own[i] = (int32_t)me + round;
    for (uint32_t i = 0; i < parties * COUNT; i++)
        all[i] = (int32_t)(i / COUNT) + round;
    int32_t wanted = (int32_t)me + round;
    int code;
    if (strcmp(what, "broadcast") == 0) {
        code = hanare_broadcast(group, own, sizeof own, 0);
        wanted = round;
    } else if (strcmp(what, "scatter") == 0) {
        code = hanare_scatter(group, me == 0 ? all : NULL, own, sizeof own, 0);
    } else if (strcmp(what, "gather") == 0) {
        memset(all, 0, sizeof all);
        code = hanare_gather(group, own, sizeof own, me == 0 ? all : NULL, 0);
        for (uint32_t i = 0; code == 0 && me == 0 && i < parties * COUNT; i++)
            EXPECT(all[i] == (int32_t)(i / COUNT) + round);
    } else {
        code = hanare_all_reduce(group, own, COUNT, HANARE_I32, HANARE_ADD);
        wanted = (int32_t)(parties * (parties - 1) / 2) + (int32_t)parties * round;
    }
    EXPECT(code != 0 || own[COUNT - 1] == wanted);
    return code;
}

int main(int argc, char **argv)
{
    EXPECT(argc >= 3);
    int rounds = atoi(argv[2]), victim = argc > 3 ? atoi(argv[3]) : -1;
    hanare_pool *pool;
    hanare_group *group;
    hanare_mailbox *mailbox;
    EXPECT_OK(hanare_attach(&pool));
    int me = hanare_rank(pool), last = hanare_ranks(pool) - 1;
    EXPECT_OK(hanare_group_open(pool, NULL, 0, &group));
    EXPECT_OK(hanare_mailbox_open(group, 1 << 16, &mailbox));
    for (int round = 0; round < rounds; round++) {
        if (me == victim && round == rounds - 1)
            kill(getpid(), SIGKILL);
        int code = call(group, argv[1], round);
        /* A killed rank may take what it sent last with it. */
        if (victim < 0 || (code == 0 && round < rounds - 1)) {
            EXPECT(code == 0);
        } else {
            char name[16];
            snprintf(name, sizeof name, "rank %d", victim);
            EXPECT(code == HANARE_ERR_RANK_GONE && strstr(hanare_last_error(), name) != NULL);
            return 3;
        }
    }
    /* The last message of a program that detaches arrives, too. */
    char word[6] = "";
    if (me == 0 && last > 0)
        EXPECT_OK(hanare_send(mailbox, (uint32_t)last, 0, 0, "h", 1, "hello", 6));
    if (me == last && last > 0) {
        hanare_message *message;
        EXPECT_OK(hanare_receive(mailbox, 0, 0, 0, 30000, &message));
        EXPECT_OK(hanare_message_read(message, 0, word, sizeof word));
        EXPECT(strcmp(word, "hello") == 0);
        EXPECT_OK(hanare_message_close(message));
    }
    EXPECT_OK(hanare_detach(pool));
    EXPECT_ERROR(hanare_broadcast(group, word, sizeof word, 0), HANARE_ERR_BAD_USE, "detached");
    EXPECT_ERROR(hanare_mailbox_settle(mailbox), HANARE_ERR_BAD_USE, "detached");
    return 0;
}
