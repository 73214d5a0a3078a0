/* A hash table under locks, written for threads: keys of a long stream are counted, then looked up.
 *
 *     hashtable [COUNT] [--keys K] [--parts S] [--batch B] [--processes P] [--check] [--json]
 *
 * The table is cut into parts by the hash, each with a lock beside its slots. A process gathers keys until it has a batch for a part, takes
 * the part's lock and counts them all: who has the lock finds the part in its cache, or on its host. What is left at the end each process
 * counts from another part on, so that they do not wait for each other.
 */
#include "../kit/ported.h"

MAIN_ENV

enum { PART_COUNT_MAX = 1024 };

typedef struct slot {
    uint64_t key, count; /* a count of 0 is a free slot */
} slot;

/* A part begins with this, on a page of its own; its slots follow. */
typedef struct part {
    LOCKDEC(lock)
} part;

/* Keys that a process has gathered for the parts. */
typedef struct batches {
    uint64_t *keys; /* batch_len for each part */
    size_t *counts;
} batches;

static size_t key_count = 1 << 24, distinct_count = 1 << 18, part_count = 64, batch_len = 1 << 17, process_count;
static size_t slot_count; /* of a part: a power of two, more than its keys */
static char *table;
static uint64_t *sums; /* of each process's look-ups, on pages of their own */
static ported_share *shares;
BARDEC(all_here)

/* Key number k of the stream. */
static uint64_t key_of(size_t k) { return ported_number(ported_number(k) % distinct_count); }

static size_t part_of(uint64_t hash) { return (size_t)((hash >> 32) % part_count); }

enum { LINE_LEN = 64 };

static size_t part_len(void) { return ported_pages((sizeof(part) + LINE_LEN - 1) / LINE_LEN * LINE_LEN + slot_count * sizeof(slot)); }

static part *part_in(char *of, size_t number) { return (part *)(void *)(of + number * part_len()); }

static slot *slots_in(char *of, size_t number)
{
    return (slot *)(void *)(of + number * part_len() + (sizeof(part) + LINE_LEN - 1) / LINE_LEN * LINE_LEN);
}

/* The slot of a key among a part's, or the free one where it belongs. */
static slot *find(slot *slots, uint64_t key, uint64_t hash)
{
    size_t at = (size_t)hash & (slot_count - 1);
    while (slots[at].count != 0 && slots[at].key != key)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static void add(slot *slots, uint64_t key)
{
    slot *to = find(slots, key, ported_number(key));
    to->key = key;
    to->count++;
}

/* Counts what has been gathered for a part. */
static void count_batch(batches *mine, size_t number)
{
    part *to = part_in(table, number);
    if (mine->counts[number] == 0)
        return;
    LOCK(to->lock)
    G_TOUCH(to, part_len())
    for (size_t k = 0; k < mine->counts[number]; k++)
        add(slots_in(table, number), mine->keys[number * batch_len + k]);
    UNLOCK(to->lock)
    mine->counts[number] = 0;
}

/* What a look-up of a key adds to the sum. */
static uint64_t looked_up(char *of, uint64_t key)
{
    uint64_t hash = ported_number(key);
    return ported_number(key ^ find(slots_in(of, part_of(hash)), key, hash)->count);
}

static void work(void)
{
    size_t p;
    GET_PID(p);
    ported_note(&shares[p], 0);
    batches mine = {(uint64_t *)ported_own(part_count * batch_len * sizeof(uint64_t)), (size_t *)ported_own(part_count * sizeof(size_t))};
    for (size_t k = ported_first(key_count, p, process_count); k < ported_first(key_count, p + 1, process_count); k++) {
        uint64_t key = key_of(k);
        size_t number = part_of(ported_number(key));
        mine.keys[number * batch_len + mine.counts[number]] = key;
        if (++mine.counts[number] == batch_len)
            count_batch(&mine, number);
    }
    for (size_t k = 0; k < part_count; k++)
        count_batch(&mine, (ported_first(part_count, p, process_count) + k) % part_count);
    BARRIER(all_here, process_count)
    G_BRING(table, part_count * part_len())
    uint64_t sum = 0;
    for (size_t k = ported_first(distinct_count, p, process_count); k < ported_first(distinct_count, p + 1, process_count); k++)
        sum += looked_up(table, ported_number(k));
    sums[p * (PORTED_PAGE_LEN / sizeof sum)] = sum;
    free(mine.keys), free(mine.counts);
    ported_note(&shares[p], 1);
}

/* The result of one process with a table of its own. */
static uint64_t right_result(void)
{
    char *own = (char *)ported_own(part_count * part_len());
    uint64_t sum = 0;
    for (size_t k = 0; k < key_count; k++)
        add(slots_in(own, part_of(ported_number(key_of(k)))), key_of(k));
    for (size_t k = 0; k < distinct_count; k++)
        sum += looked_up(own, ported_number(k));
    free(own);
    return sum;
}

static void read_options(int argc, char **argv, int *check, int *json)
{
    const word words[] = {
        {"", NULL, &key_count, NULL, NULL},        {"--keys", NULL, &distinct_count, NULL, NULL},
        {"--parts", NULL, &part_count, NULL, NULL}, {"--batch", NULL, &batch_len, NULL, NULL},
        {"--processes", NULL, &process_count, NULL, NULL}, {"--check", check, NULL, NULL, NULL},
        {"--json", json, NULL, NULL, NULL},        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    if (part_count > PART_COUNT_MAX) {
        fprintf(stderr, "hashtable: %lu parts are more than %d\n", (unsigned long)part_count, PART_COUNT_MAX);
        exit(2);
    }
    /* Parts have different numbers of keys: a half more, and some, is beyond what chance makes. */
    slot_count = PORTED_PAGE_LEN / sizeof(slot);
    while (slot_count < distinct_count / part_count * 3 / 2 + 64)
        slot_count *= 2;
}

int main(int argc, char **argv)
{
    unsigned long start, end;
    int check = 0, json = 0;
    read_options(argc, argv, &check, &json);
    size_t table_len = part_count * part_len();
    MAIN_INITENV(table_len + PORTED_PROCESS_COUNT_MAX * (PORTED_PAGE_LEN + sizeof(ported_share)) + ((size_t)1 << 20))
    process_count = ported_processes(argv[0], process_count);
    table = (char *)G_MALLOC(table_len);
    sums = (uint64_t *)G_MALLOC(process_count * PORTED_PAGE_LEN);
    shares = (ported_share *)G_MALLOC(process_count * sizeof *shares);
    for (size_t number = 0; number < part_count; number++)
        LOCKINIT(part_in(table, number)->lock)
    BARINIT(all_here)

    CLOCK(start)
    CREATE(work, process_count)
    WAIT_FOR_END(process_count)
    CLOCK(end)

    uint64_t sum = 0;
    for (size_t p = 0; p < process_count; p++)
        sum += sums[p * (PORTED_PAGE_LEN / sizeof sum)];
    line to = ported_line(json, "hashtable", process_count, (double)(end - start) / 1e6, shares);
    line_count(to, "count", key_count);
    int status = ported_end(to, sum, check, check ? right_result() : 0);
    MAIN_END
    return status;
}
