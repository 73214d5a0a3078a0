/* The macros of hanare_parmacs.h: what is handed over, what is shared, and what wrong use gets. */
#include <hanare_parmacs.h>

#include "expect.h"

MAIN_ENV

typedef struct list {
    struct list *next;
    long number;
} list;

typedef struct all {
    LOCKDEC(lock)
    ALOCKDEC(locks, 3)
    BARDEC(barrier)
    CONDVARDEC(changed)
    PAUSEDEC(open)
    long count, counts[3], turn;
    list *head;
} all;

/* Not in shared memory. */
LOCKDEC(own_lock)
ALOCKDEC(own_locks, 2)
BARDEC(pair)

static all *state;
static long plain = 1, *to_plain, many[5000], rounds;
static const char *text = "before";
static void (*function)(void);
static int (*compare)(const char *, const char *);
static FILE *out;
static char *own;
static struct numbers {
    double x;
    char text[8];
} numbers = {1.5, "before"};

/* A variable of a function: how often this process has called it. */
static long calls(void)
{
    static long count = 0;
    return ++count;
}

static size_t me(void)
{
    size_t pid;
    GET_PID(pid)
    return pid;
}

/* Adds one to each counter a hundred times, and finds what rank 0 handed over. */
static void add(void)
{
    EXPECT(plain == 42 && numbers.x == 2.5 && strcmp(numbers.text, "after") == 0 && many[4999] == 7);
    EXPECT(to_plain == &plain && function == add && strcmp(text, "after") == 0);
    EXPECT(compare("same", "same") == 0 && out == stdout);
    EXPECT(calls() == 2);
    for (int k = 0; k < 100; k++) {
        LOCK(state->lock)
        state->count++;
        UNLOCK(state->lock)
        ALOCK(own_locks, k % 2)
        state->counts[k % 2]++;
        AULOCK(own_locks, k % 2)
        LOCK(own_lock)
        state->counts[2]++;
        UNLOCK(own_lock)
    }
    BARRIER(state->barrier, PROCESS_COUNT)
    EXPECT(state->count == 100 * (long)PROCESS_COUNT && state->counts[2] == state->count);
    EXPECT(state->head->number == 7 && state->head->next->number == 8);
    plain = 1000 + (long)me();
    text = "of this process";
}

/* Processes have their turns in order, each woken by the one before; two of them meet by themselves. */
static void take_turns(void)
{
    EXPECT((plain == 43 || me() == 0) && strcmp(text, "again") == 0);
    WAITPAUSE(state->open)
    for (long round = 0; round < rounds; round++) {
        LOCK(state->lock)
        while (state->turn % (long)PROCESS_COUNT != (long)me())
            CONDVARWAIT(state->changed, state->lock)
        state->turn++;
        CONDVARBCAST(state->changed)
        UNLOCK(state->lock)
    }
    if (me() < 2 && PROCESS_COUNT > 1)
        BARRIER(pair, 2)
}

static void set_variables(void)
{
    list *first = (list *)G_MALLOC(sizeof *first), *second = (list *)G_MALLOC(sizeof *second);
    first->number = 7, first->next = second;
    second->number = 8, second->next = NULL;
    state->head = first;
    plain = 42, to_plain = &plain, many[4999] = 7, rounds = 20;
    numbers.x = 2.5, text = "after", function = add, compare = strcmp, out = stdout;
    memcpy(numbers.text, "after", 6);
    (void)calls();
}

static void works(void)
{
    unsigned long before, after;
    long processes = (long)PROCESS_COUNT;
    int home;
    CLOCK(before)
    LOCKINIT(state->lock)
    LOCKINIT(own_lock)
    ALOCKINIT(state->locks, 3)
    ALOCKINIT(own_locks, 2)
    BARINIT(state->barrier, processes)
    BARINIT(pair)
    CONDVARINIT(state->changed)
    PAUSEINIT(state->open)
    set_variables();
    CREATE(add, processes)
    WAIT_FOR_END(processes)
    EXPECT(state->counts[0] + state->counts[1] == 100 * processes);
    EXPECT(plain == 1000);
    plain = 43, text = "again";
    for (long one = 1; one < processes; one++)
        CREATE(take_turns)
    SETPAUSE(state->open)
    take_turns();
    WAIT_FOR_END(processes - 1)
    CLEARPAUSE(state->open)
    EXPECT(state->turn == rounds * processes);
    char *block = (char *)G_MALLOC(3 * 4096 + 1), *behind = (char *)G_MALLOC(64);
    EXPECT((uintptr_t)block % 4096 == 0 && (uintptr_t)block / 4096 + 3 != (uintptr_t)behind / 4096);
    FILE *zeros = fopen("/dev/zero", "r");
    EXPECT(zeros != NULL);
    setvbuf(zeros, NULL, _IONBF, 0);
    G_TOUCH(block, 3 * 4096)
    EXPECT(fread(block, 4096, 3, zeros) == 3);
    fclose(zeros);
    G_BRING(block, 3 * 4096)
    G_FREE(block)
    G_FREE(behind, 64)
    GET_HOME(home)
    EXPECT(home >= 0);
    CLOCK(after)
    EXPECT(after >= before);
}

static void nothing(void) {}

static void die(void)
{
    if (me() == 1)
        abort();
    BARRIER(state->barrier, PROCESS_COUNT)
}

/* Each ends the program with a line, but for the last ones. */
static void misuse(const char *what)
{
    if (strcmp(what, "too-many") == 0)
        CREATE(nothing, PROCESS_COUNT + 1)
    else if (strcmp(what, "not-initialised") == 0)
        LOCK(state->lock)
    else if (strcmp(what, "no-barrier") == 0)
        BARRIER(pair, PROCESS_COUNT)
    else if (strcmp(what, "foreign") == 0)
        G_FREE(&plain)
    else if (strcmp(what, "twice") == 0)
        MAIN_INITENV(0)
    LOCKINIT(state->lock)
    if (strcmp(what, "not-held") == 0)
        UNLOCK(state->lock)
    LOCK(state->lock)
    if (strcmp(what, "held-twice") == 0)
        LOCK(state->lock)
    if (strcmp(what, "no-memory") == 0)
        own = (char *)G_MALLOC(1u << 30);
    if (strcmp(what, "own-memory") == 0) {
        own = (char *)malloc(16);
        CREATE(nothing, PROCESS_COUNT)
        WAIT_FOR_END(PROCESS_COUNT)
    }
    BARINIT(state->barrier)
    if (strcmp(what, "dies") == 0)
        CREATE(die, PROCESS_COUNT)
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MAIN_INITENV(, 1 << 20)
    state = (all *)G_MALLOC(sizeof *state);
    if (strcmp(what, "works") == 0)
        works();
    else if (strcmp(what, "creates-nothing") != 0)
        misuse(what);
    /* To return is as good as MAIN_END. */
    if (strcmp(what, "creates-nothing") == 0)
        return 0;
    G_FREE(state)
    free(own);
    MAIN_END
    return 0;
}
