/* The macros of kit.h: what is handed over, what is shared, and what wrong use gets. */
#define _DEFAULT_SOURCE
#include "../../../../apps/kit/kit.h"
#include "expect.h"

MAIN_ENV

typedef struct list {
    uint64_t next; /* offset of the next one, or of itself in the last */
    long number;
} list;

typedef struct all {
    LOCKDEC(lock)
    ALOCKDEC(locks, 3)
    BARDEC(barrier)
    long count, counts[3];
    uint64_t head;
} all;

static all *state;
static const char *none = "set in this process alone";
static long plain, untold = 1;
static struct pair {
    double x;
    char text[8];
} pair;

/* Adds one to each counter a hundred times, and finds what rank 0 handed over. */
static void add(void)
{
    EXPECT(plain == 42 && pair.x == 2.5 && strcmp(pair.text, "pair") == 0);
    EXPECT(none == NULL && (untold == 1 || kit.j.rank == 0));
    for (int k = 0; k < 100; k++) {
        LOCK(state->lock);
        state->count++;
        UNLOCK(state->lock);
        ALOCK(state->locks, k % 3);
        state->counts[k % 3]++;
        AULOCK(state->locks, k % 3);
    }
    BARRIER(state->barrier, PROCESS_COUNT);
    EXPECT(state->count == 100 * PROCESS_COUNT);
    list *at = KIT_POINTER(list, state->head);
    EXPECT(at->number == 7 && KIT_POINTER(list, at->next)->number == 8);
}

/* Subtracts what add added. */
static void subtract(void)
{
    EXPECT(plain == 43);
    LOCK(state->lock);
    state->count -= 100;
    UNLOCK(state->lock);
}

static void works(void)
{
    unsigned long before, after;
    CLOCK(before);
    list *first = (list *)G_MALLOC(sizeof *first), *second = (list *)G_MALLOC(sizeof *second);
    first->number = 7, first->next = KIT_OFFSET(second);
    second->number = 8, second->next = KIT_OFFSET(second);
    state->head = KIT_OFFSET(first);
    LOCKINIT(state->lock);
    ALOCKINIT(state->locks, 3);
    BARINIT(state->barrier, PROCESS_COUNT);
    plain = 42, none = NULL, untold = 2, pair.x = 2.5;
    memcpy(pair.text, "pair", 5);
    GLOBAL_POINTER(state);
    GLOBAL_POINTER(none);
    GLOBAL(plain);
    GLOBAL(pair);
    CREATE(add, PROCESS_COUNT);
    WAIT_FOR_END(PROCESS_COUNT);
    EXPECT(state->counts[0] + state->counts[1] + state->counts[2] == 100 * PROCESS_COUNT);
    plain = 43;
    CREATE(subtract, PROCESS_COUNT);
    WAIT_FOR_END(PROCESS_COUNT);
    EXPECT(state->count == 0);
    CLOCK(after);
    EXPECT(after >= before);
    G_FREE(first);
    G_FREE(second);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MAIN_INITENV(1 << 16);
    state = (all *)G_MALLOC(sizeof *state);
    memset(state, 0, sizeof *state);
    if (strcmp(what, "works") == 0)
        works();
    else if (strcmp(what, "too-many") == 0)
        CREATE(add, PROCESS_COUNT + 1);
    else if (strcmp(what, "not-initialised") == 0)
        LOCK(state->lock);
    else if (strcmp(what, "not-held") == 0) {
        LOCKINIT(state->lock);
        UNLOCK(state->lock);
    } else if (strcmp(what, "held-twice") == 0) {
        LOCKINIT(state->lock);
        LOCK(state->lock);
        LOCK(state->lock);
    }
    G_FREE(state);
    MAIN_END;
    return 0;
}
