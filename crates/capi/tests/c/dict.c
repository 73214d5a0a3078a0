/* Dictionaries among ranks: all write, each reads the others' values, and no key is lost while the table grows. */
#include "expect.h"

enum { COUNT = 200, LONGEST = 5000 };

static hanare_key key_of(char *text, int rank, int number)
{
    sprintf(text, "%d/%d", rank, number);
    return hanare_key_text(text);
}

static hanare_key other_key(int type, const void *bytes, size_t len)
{
    hanare_key key;
    key.type = type, key.bytes = bytes, key.len = len;
    return key;
}

static void refusals(hanare_pool *pool)
{
    hanare_dict_options options = HANARE_DICT_OPTIONS_INIT;
    hanare_dict *dict = NULL, *none = NULL;
    hanare_dict_walk *walk = NULL;
    hanare_region *region;
    hanare_key key = hanare_key_text("key");
    char into[4] = "old";
    size_t len = 7;
    int kind = -1;
    EXPECT_OK(hanare_create(pool, "region", 64, NULL, &region));
    EXPECT_ERROR(hanare_dict_open(pool, "region", NULL, &none), HANARE_ERR_BAD_USE, "no dictionary");
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_remove(pool, "region"));
    options.buckets = 0;
    EXPECT_ERROR(hanare_dict_open(pool, "refusals", &options, &none), HANARE_ERR_BAD_SETTING, "bucket");
    options.buckets = 1, options.placement = "moon";
    EXPECT_ERROR(hanare_dict_open(pool, "refusals", &options, &none), HANARE_ERR_BAD_PLACEMENT, "moon");
    EXPECT_ERROR(hanare_dict_open(pool, "refusals", NULL, NULL), HANARE_ERR_BAD_ARGUMENT, "dict is NULL");
    EXPECT(none == NULL);
    EXPECT_OK(hanare_dict_open(pool, "refusals", NULL, &dict));
    EXPECT(hanare_dict_get(dict, key, into, sizeof into, &len, &kind) == 0 && len == 7 && kind == -1);
    EXPECT_OK(hanare_dict_set(dict, key, HANARE_VALUE_JSON, "12345", 5));
    EXPECT(hanare_dict_get(dict, key, into, sizeof into, &len, &kind) == 1 && len == 5 && kind == HANARE_VALUE_JSON);
    EXPECT(memcmp(into, "old", 4) == 0);
    EXPECT(hanare_dict_get(dict, key, NULL, 0, &len, NULL) == 1 && len == 5);
    EXPECT_ERROR(hanare_dict_get(dict, key, into, 4, NULL, NULL), HANARE_ERR_BAD_ARGUMENT, "len is NULL");
    EXPECT_ERROR(hanare_dict_set(dict, other_key('q', "a", 1), 0, "", 0), HANARE_ERR_BAD_SETTING, "'q'");
    EXPECT_ERROR(hanare_dict_set(dict, other_key('s', "\xff", 1), 0, "", 0), HANARE_ERR_BAD_SETTING, "UTF-8");
    EXPECT_ERROR(hanare_dict_set(dict, other_key(1000, "a", 1), 0, "", 0), HANARE_ERR_BAD_ARGUMENT, "1000");
    EXPECT_ERROR(hanare_dict_set(dict, key, 256, "", 0), HANARE_ERR_BAD_ARGUMENT, "256");
    EXPECT_ERROR(hanare_dict_set(dict, key, 0, NULL, 1), HANARE_ERR_BAD_ARGUMENT, "value is NULL");
    /* A number, a text and bytes are three keys. */
    EXPECT_OK(hanare_dict_set(dict, other_key(HANARE_KEY_NUMBER, "7", 1), HANARE_VALUE_PLAIN, NULL, 0));
    EXPECT(hanare_dict_remove(dict, hanare_key_text("7")) == 0);
    EXPECT(hanare_dict_remove(dict, other_key(HANARE_KEY_BYTES, "7", 1)) == 0);
    EXPECT(hanare_dict_next(dict, &walk, &key) == 1 && walk != NULL);
    EXPECT_OK(hanare_dict_walk_close(walk));
    EXPECT(hanare_dict_remove(dict, other_key(HANARE_KEY_NUMBER, "7", 1)) == 1);
    EXPECT_OK(hanare_dict_destroy(dict));
    EXPECT_OK(hanare_dict_close(dict));
    EXPECT_ERROR(hanare_dict_close(NULL), HANARE_ERR_BAD_ARGUMENT, "dict is NULL");
}

static void set_all(hanare_dict *dict, int rank)
{
    char text[32];
    for (int number = 0; number < COUNT; number++) {
        size_t len = (size_t)(number * 7919) % LONGEST;
        unsigned char *value = noise(len, (unsigned)(rank * COUNT + number));
        EXPECT_OK(hanare_dict_set(dict, key_of(text, rank, number), HANARE_VALUE_PLAIN, value, len));
        free(value);
    }
    for (int number = 0; number < COUNT; number += 3)
        EXPECT(hanare_dict_remove(dict, key_of(text, rank, number)) == 1);
}

static void look_at_all(hanare_dict *dict, int ranks)
{
    static unsigned char into[LONGEST];
    char text[32];
    for (int rank = 0; rank < ranks; rank++)
        for (int number = 0; number < COUNT; number++) {
            size_t len = 0, wanted = (size_t)(number * 7919) % LONGEST;
            unsigned char *value = noise(wanted, (unsigned)(rank * COUNT + number));
            int found = hanare_dict_get(dict, key_of(text, rank, number), into, sizeof into, &len, NULL);
            EXPECT(found == (number % 3 != 0));
            EXPECT(!found || (len == wanted && memcmp(into, value, len) == 0));
            free(value);
        }
}

static void walk_over_all(hanare_dict *dict, int ranks)
{
    hanare_dict_walk *walk = NULL;
    hanare_key key;
    int count = 0, more;
    while ((more = hanare_dict_next(dict, &walk, &key)) == 1) {
        size_t len;
        EXPECT(key.type == HANARE_KEY_TEXT && hanare_dict_get(dict, key, NULL, 0, &len, NULL) == 1);
        count++;
    }
    EXPECT(more == 0 && walk == NULL && count == ranks * (COUNT - (COUNT + 2) / 3));
}

int main(void)
{
    hanare_pool *pool;
    hanare_dict *dict;
    hanare_dict_options options = HANARE_DICT_OPTIONS_INIT;
    uint64_t unlinked;
    int rank, ranks;
    EXPECT_OK(hanare_attach(&pool));
    rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    if (rank == 0)
        refusals(pool);
    options.buckets = 2, options.memory = 1 << 20;
    EXPECT_OK(hanare_dict_open(pool, "shared", &options, &dict));
    set_all(dict, rank);
    EXPECT_OK(hanare_barrier(pool));
    look_at_all(dict, ranks);
    walk_over_all(dict, ranks);
    EXPECT_OK(hanare_barrier(pool));
    if (rank == 0) {
        EXPECT_OK(hanare_dict_sweep(dict, &unlinked));
        look_at_all(dict, ranks);
        EXPECT_OK(hanare_dict_sweep(dict, NULL));
    }
    EXPECT_OK(hanare_barrier(pool));
    look_at_all(dict, ranks);
    EXPECT_OK(hanare_dict_close(dict));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
