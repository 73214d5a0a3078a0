/* Stores among ranks: a value is its key's, whole, while keys leave; ends, pins, batches, a full store, and what is refused. */
#include "expect.h"

enum { COUNT = 600, LEN = 5000, PINNED = 20, BOUND_MS = 60000 };

static hanare_key key_of(char *text, const char *what, int number)
{
    sprintf(text, "%s/%d", what, number);
    return hanare_key_text(text);
}

static void put_noise(hanare_store *store, hanare_key key, int number)
{
    unsigned char *value = noise(LEN, (unsigned)number);
    EXPECT_OK(hanare_store_put(store, key, value, LEN, HANARE_FOREVER, HANARE_FOREVER));
    free(value);
}

/* 1 where the key is there; its value then is the right one. */
static int has_noise(hanare_store *store, hanare_key key, int number, uint64_t bound_ms)
{
    static unsigned char into[LEN];
    size_t len = 0;
    int found = hanare_store_get(store, key, into, LEN, &len, bound_ms);
    EXPECT(found == 0 || found == 1);
    if (found == 1) {
        unsigned char *value = noise(LEN, (unsigned)number);
        EXPECT(len == LEN && memcmp(into, value, LEN) == 0);
        free(value);
    }
    return found;
}

static void refusals(hanare_pool *pool)
{
    hanare_store_options options = HANARE_STORE_OPTIONS_INIT;
    hanare_store_memory memory;
    hanare_store *store = NULL, *none = NULL;
    hanare_dict *dict;
    hanare_key key = hanare_key_text("key");
    char into[4] = "old";
    size_t len = 7;
    EXPECT_OK(hanare_dict_open(pool, "no store", NULL, &dict));
    EXPECT_ERROR(hanare_store_open(pool, "no store", NULL, &none), HANARE_ERR_BAD_USE, "no store");
    EXPECT_OK(hanare_dict_destroy(dict));
    EXPECT_OK(hanare_dict_close(dict));
    options.evict = "fifo";
    EXPECT_ERROR(hanare_store_open(pool, "refusals", &options, &none), HANARE_ERR_BAD_SETTING, "fifo");
    options.evict = "ttl", options.bytes = 10;
    EXPECT_ERROR(hanare_store_open(pool, "refusals", &options, &none), HANARE_ERR_BAD_SETTING, "64 KiB");
    options.bytes = 1 << 20, options.placement = "moon";
    EXPECT_ERROR(hanare_store_open(pool, "refusals", &options, &none), HANARE_ERR_BAD_PLACEMENT, "moon");
    EXPECT_ERROR(hanare_store_open(pool, "refusals", NULL, NULL), HANARE_ERR_BAD_ARGUMENT, "store is NULL");
    EXPECT(none == NULL);
    options.placement = NULL;
    EXPECT_OK(hanare_store_open(pool, "refusals", &options, &store));
    EXPECT(hanare_store_get(store, key, into, sizeof into, &len, HANARE_FOREVER) == 0 && len == 7);
    EXPECT_OK(hanare_store_put(store, key, "12345", 5, HANARE_FOREVER, HANARE_FOREVER));
    EXPECT(hanare_store_get(store, key, into, sizeof into, &len, BOUND_MS) == 1 && len == 5 && memcmp(into, "old", 4) == 0);
    EXPECT_ERROR(hanare_store_get(store, key, into, 4, NULL, 0), HANARE_ERR_BAD_ARGUMENT, "len is NULL");
    EXPECT_ERROR(hanare_store_put(store, key, NULL, 1, 0, 0), HANARE_ERR_BAD_ARGUMENT, "value is NULL");
    EXPECT_ERROR(hanare_store_exists(store, NULL, 1, NULL, NULL, 0), HANARE_ERR_BAD_ARGUMENT, "keys is NULL");
    EXPECT_ERROR(hanare_store_get_many(store, &key, NULL, 1, 0), HANARE_ERR_BAD_ARGUMENT, "buffers is NULL");
    EXPECT_ERROR(hanare_store_put_many(store, &key, NULL, 1, 0, NULL), HANARE_ERR_BAD_ARGUMENT, "values is NULL");
    EXPECT_ERROR(hanare_store_ttl(store, key, NULL), HANARE_ERR_BAD_ARGUMENT, "ttl_ms is NULL");
    memory.struct_size = 0;
    EXPECT_ERROR(hanare_store_stat(store, &memory), HANARE_ERR_BAD_ARGUMENT, "struct_size");
    EXPECT_OK(hanare_store_destroy(store));
    EXPECT_OK(hanare_store_close(store));
    EXPECT_ERROR(hanare_store_close(NULL), HANARE_ERR_BAD_ARGUMENT, "store is NULL");
}

static void full(hanare_pool *pool)
{
    hanare_store_options options = HANARE_STORE_OPTIONS_INIT;
    hanare_store *store;
    hanare_key keys[2];
    hanare_value values[2];
    unsigned char *long_value = noise(2 << 20, 1);
    char text[32];
    int number, code = 0, done[2] = {7, 7};
    /* Keys without an end stay. */
    options.evict = "ttl", options.bytes = 1 << 20;
    EXPECT_OK(hanare_store_open(pool, "full", &options, &store));
    for (number = 0; number < 1000 && code == 0; number++)
        code = hanare_store_put(store, key_of(text, "full", number), long_value, LEN, HANARE_FOREVER, HANARE_FOREVER);
    EXPECT(code == HANARE_ERR_HEAP_FULL && number > 100 && number < 220);
    keys[0] = hanare_key_text("a"), keys[1] = hanare_key_text("b");
    values[0].bytes = long_value, values[0].len = LEN, values[1].bytes = NULL, values[1].len = 0;
    EXPECT(hanare_store_put_many(store, keys, values, 2, HANARE_FOREVER, done) == 1 && done[0] == 0 && done[1] == 1);
    EXPECT_ERROR(hanare_store_put(store, keys[0], long_value, 2 << 20, HANARE_FOREVER, HANARE_FOREVER), HANARE_ERR_LIMIT_REACHED, "");
    EXPECT_OK(hanare_store_destroy(store));
    EXPECT_OK(hanare_store_close(store));
    free(long_value);
}

static void ends(hanare_store *store)
{
    hanare_key key = hanare_key_text("ends");
    uint64_t left = 0;
    EXPECT_OK(hanare_store_put(store, key, "1", 1, 600000, BOUND_MS));
    EXPECT(hanare_store_ttl(store, key, &left) == 1 && left > 0 && left <= 600000);
    EXPECT(hanare_store_expire(store, key, HANARE_FOREVER) == 1);
    EXPECT(hanare_store_ttl(store, key, &left) == 1 && left == HANARE_FOREVER);
    EXPECT(hanare_store_expire(store, key, 0) == 1 && hanare_store_ttl(store, key, &left) == 0);
    EXPECT(hanare_store_expire(store, key, 1) == 0 && hanare_store_pin(store, key, 1) == 0 && hanare_store_unpin(store, key) == 0);
    EXPECT_OK(hanare_store_put(store, key, "2", 1, HANARE_FOREVER, HANARE_FOREVER));
    EXPECT(hanare_store_unpin(store, key) == 1 && hanare_store_remove(store, key) == 1 && hanare_store_remove(store, key) == 0);
}

static void batches(hanare_store *store, uint64_t bound_ms)
{
    static unsigned char memory[4][LEN];
    const char *names[4] = {"many/0", "many/1", "none", "many/2"};
    hanare_key keys[4];
    hanare_buffer buffers[4];
    hanare_value values[4];
    size_t prefix = 9;
    int there[4] = {7, 7, 7, 7}, done[4];
    for (int at = 0; at < 4; at++) {
        keys[at] = hanare_key_text(names[at]);
        values[at].bytes = names[at], values[at].len = strlen(names[at]) + 1;
        memset(memory[at], '?', LEN);
        buffers[at].into = memory[at], buffers[at].room = at == 3 ? 3 : LEN, buffers[at].len = 99, buffers[at].is_there = 99;
    }
    EXPECT(hanare_store_put_many(store, keys, values, 4, HANARE_FOREVER, done) == 4 && done[0] && done[1] && done[2] && done[3]);
    EXPECT(hanare_store_remove(store, keys[2]) == 1);
    EXPECT_OK(hanare_store_get_many(store, keys, buffers, 4, bound_ms));
    for (int at = 0; at < 2; at++)
        EXPECT(buffers[at].is_there == 1 && buffers[at].len == 7 && strcmp((char *)memory[at], names[at]) == 0 && memory[at][7] == '?');
    EXPECT(buffers[2].is_there == 0 && buffers[2].len == 0 && memory[2][0] == '?');
    EXPECT(buffers[3].is_there == 1 && buffers[3].len == 7 && memory[3][0] == '?');
    EXPECT_OK(hanare_store_exists(store, keys, 4, there, &prefix, bound_ms));
    EXPECT(there[0] == 1 && there[1] == 1 && there[2] == 0 && there[3] == 1 && prefix == 2);
    prefix = 9;
    EXPECT_OK(hanare_store_exists(store, keys, 4, NULL, &prefix, bound_ms));
    EXPECT(prefix == 2);
    EXPECT_OK(hanare_store_exists(store, keys, 2, NULL, NULL, bound_ms));
    EXPECT_OK(hanare_store_get_many(store, NULL, NULL, 0, bound_ms));
    EXPECT(hanare_store_remove_many(store, keys, 4, done) == 3 && done[0] == 1 && done[1] == 1 && done[2] == 0 && done[3] == 1);
    EXPECT(hanare_store_remove_many(store, keys, 4, NULL) == 0 && hanare_store_remove_many(store, NULL, 0, NULL) == 0);
    EXPECT_ERROR(hanare_store_remove_many(store, NULL, 1, NULL), HANARE_ERR_BAD_ARGUMENT, "keys is NULL");
}

/* Rank 0 changes a key, and the last rank, which may be the same, sees each change. Both stop at the barriers. */
static void watches(hanare_pool *pool, hanare_store *store, int changes, int watches)
{
    hanare_key key = hanare_key_text("watched");
    uint64_t stamp = 99, before;
    char into[8];
    size_t len;
    if (watches) {
        EXPECT(hanare_store_stamp(store, key, &stamp) == 0 && stamp == 0);
        EXPECT(hanare_store_watch(store, key, &stamp, 1) == 0 && stamp == 0);
        EXPECT_ERROR(hanare_store_watch(store, key, NULL, 1), HANARE_ERR_BAD_ARGUMENT, "stamp is NULL");
        EXPECT_ERROR(hanare_store_stamp(store, key, NULL), HANARE_ERR_BAD_ARGUMENT, "stamp is NULL");
    }
    EXPECT_OK(hanare_barrier(pool));
    if (changes)
        EXPECT_OK(hanare_store_put(store, key, "one", 3, HANARE_FOREVER, HANARE_FOREVER));
    if (watches) {
        EXPECT(hanare_store_watch(store, key, &stamp, BOUND_MS) == 1 && stamp != 0);
        EXPECT(hanare_store_get(store, key, into, sizeof into, &len, HANARE_FOREVER) == 1 && len == 3 && memcmp(into, "one", 3) == 0);
        before = stamp;
        EXPECT(hanare_store_stamp(store, key, &stamp) == 1 && stamp == before);
    }
    EXPECT_OK(hanare_barrier(pool));
    if (changes)
        EXPECT(hanare_store_remove(store, key) == 1);
    if (watches)
        EXPECT(hanare_store_watch(store, key, &stamp, HANARE_FOREVER) == 1 && stamp == 0);
    EXPECT_OK(hanare_barrier(pool));
}

int main(void)
{
    hanare_pool *pool;
    hanare_store *store;
    hanare_store_options options = HANARE_STORE_OPTIONS_INIT;
    hanare_store_memory memory;
    char text[32];
    int rank, left = 0;
    EXPECT_OK(hanare_attach(&pool));
    rank = hanare_rank(pool);
    options.bytes = 2 << 20, options.placement = "node=0";
    EXPECT_OK(hanare_store_open(pool, "team.shared", &options, &store));
    watches(pool, store, rank == 0, rank == hanare_ranks(pool) - 1);
    if (rank == 0) {
        refusals(pool);
        full(pool);
        ends(store);
        batches(store, HANARE_FOREVER);
        batches(store, BOUND_MS);
        for (int number = 0; number < PINNED; number++) {
            put_noise(store, key_of(text, "pinned", number), number);
            EXPECT(hanare_store_pin(store, key_of(text, "pinned", number), 600000) == 1);
        }
    }
    EXPECT_OK(hanare_barrier(pool));
    /* All ranks put the same keys, more than there is room for. */
    for (int number = 0; number < COUNT; number++) {
        put_noise(store, key_of(text, "all", number), number);
        has_noise(store, key_of(text, "all", (number * 7) % COUNT), (number * 7) % COUNT, HANARE_FOREVER);
    }
    EXPECT_OK(hanare_barrier(pool));
    for (int number = 0; number < PINNED; number++)
        EXPECT(has_noise(store, key_of(text, "pinned", number), number, BOUND_MS));
    for (int number = 0; number < COUNT; number++)
        left += has_noise(store, key_of(text, "all", number), number, BOUND_MS);
    EXPECT(left > 50 && left < COUNT);
    EXPECT_OK(hanare_barrier(pool));
    if (rank == 0) {
        memory.struct_size = sizeof memory;
        EXPECT_OK(hanare_store_sweep(store));
        EXPECT_OK(hanare_store_stat(store, &memory));
        EXPECT(memory.bytes == 2 << 20 && memory.linked > 1 << 20 && memory.linked <= memory.bytes && memory.keys >= (uint64_t)left);
        EXPECT_OK(hanare_store_clear(store));
        EXPECT_OK(hanare_store_stat(store, &memory));
        EXPECT(memory.keys == 0);
    }
    EXPECT_OK(hanare_barrier(pool));
    EXPECT(!has_noise(store, key_of(text, "pinned", 0), 0, HANARE_FOREVER));
    EXPECT_OK(hanare_barrier(pool));
    if (rank == 0)
        EXPECT_OK(hanare_store_destroy(store));
    EXPECT_OK(hanare_store_close(store));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
