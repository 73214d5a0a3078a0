/* VL, VS, VLS, VSS, RVL, RVS. Vector memory is 4 MiB here (HANARE_SODIMM=4M). */
/* FEATURE: D2-F11 D2-F12 */
#include "expect.h"
#include <dimmnet.h>

enum { LEN = 4 << 20 };

static void contiguous(void)
{
    unsigned char *from = noise(LEN, 1), *into = noise(LEN, 2);
    EXPECT_OK(VL(into, 0, LEN));
    for (size_t at = 0; at < LEN; at++)
        EXPECT(into[at] == 0);
    EXPECT_OK(VS(from, 0, LEN));
    EXPECT_OK(VL(into, 3, LEN - 3));
    EXPECT(memcmp(from + 3, into, LEN - 3) == 0);
    EXPECT_OK(VL(NULL, LEN, 0));
    free(from);
    free(into);
}

/* Every element size, against elements picked one by one. */
static void strided(void)
{
    unsigned char *table = noise(LEN, 3), into[100 * 64], from[100 * 64];
    for (int code = 0; code <= 6; code++) {
        size_t element = (size_t)1 << code, stride = 1000 + element, offset = 77;
        EXPECT_OK(VS(table, 0, LEN));
        EXPECT_OK(VLS(into, offset, code, 100, stride));
        for (size_t k = 0; k < 100; k++)
            EXPECT(memcmp(into + k * element, table + offset + k * stride, element) == 0);
        for (size_t at = 0; at < sizeof from; at++)
            from[at] = (unsigned char)(at * 7 + (size_t)code);
        EXPECT_OK(VSS(from, offset, code, 100, stride));
        EXPECT_OK(VL(into, offset, element));
        EXPECT(memcmp(into, from, element) == 0);
        EXPECT_OK(VL(into, offset + element, 1000));
        EXPECT(memcmp(into, table + offset + element, 1000) == 0);
        EXPECT_OK(VL(into, offset + 99 * stride, element));
        EXPECT(memcmp(into, from + 99 * element, element) == 0);
    }
    free(table);
}

static void refusals(int ranks)
{
    char bytes[8];
    EXPECT_ERROR(VL(bytes, LEN - 7, 8), HANARE_ERR_OUT_OF_RANGE, "8 bytes at offset 4194297");
    EXPECT_ERROR(VS(bytes, SIZE_MAX, 8), HANARE_ERR_OUT_OF_RANGE, "4194304 bytes");
    EXPECT_ERROR(VLS(bytes, 0, 7, 1, 128), HANARE_ERR_BAD_ARGUMENT, "code 7");
    EXPECT_ERROR(VLS(bytes, 0, -1, 1, 128), HANARE_ERR_BAD_ARGUMENT, "code -1");
    EXPECT_ERROR(VSS(bytes, 0, 3, 2, 7), HANARE_ERR_BAD_SHAPE, "overlap");
    EXPECT_ERROR(VLS(bytes, LEN - 8, 3, 2, 8), HANARE_ERR_OUT_OF_RANGE, "offset 4194296");
    EXPECT_ERROR(VL(NULL, 0, 8), HANARE_ERR_BAD_ARGUMENT, "host is NULL");
    EXPECT_ERROR(RVL(ranks, bytes, 0, 8), HANARE_ERR_BAD_ARGUMENT, "does not exist");
    EXPECT_ERROR(RVS(-1, bytes, 0, 8), HANARE_ERR_BAD_ARGUMENT, "rank -1");
    EXPECT_ERROR(RVL(ranks - 1, bytes, LEN, 1), HANARE_ERR_OUT_OF_RANGE, "offset 4194304");
}

/* Each rank stores to every rank's memory, itself included, and finds what every rank stored to its own. */
static void remote(int rank, int ranks)
{
    enum { PART = 5000 };
    unsigned char into[PART];
    for (int to = 0; to < ranks; to++) {
        unsigned char *from = noise(PART, (unsigned)(rank * 16 + to));
        EXPECT_OK(RVS(to, from, (size_t)rank * PART, PART));
        EXPECT_OK(RVL(to, into, (size_t)rank * PART, PART));
        EXPECT(memcmp(into, from, PART) == 0);
        free(from);
    }
    EXPECT_OK(dn_barrier());
    for (int by = 0; by < ranks; by++) {
        unsigned char *wanted = noise(PART, (unsigned)(by * 16 + rank));
        EXPECT_OK(VL(into, (size_t)by * PART, PART));
        EXPECT(memcmp(into, wanted, PART) == 0);
        free(wanted);
    }
    EXPECT_OK(dn_barrier());
}

int main(int argc, char **argv)
{
    if (argc == 1) { /* several ranks */
        EXPECT_OK(dn_init(argc, argv));
        EXPECT_OK(dn_barrier());
        remote(dn_getrank(), dn_getnodesum());
        refusals(dn_getnodesum());
        EXPECT_OK(dn_barrier());
        return 0; /* without dn_finalize: the library tidies up at exit */
    }
    contiguous(); /* alone, and without dn_init */
    strided();
    refusals(1);
    EXPECT_OK(dn_finalize());
    return 0;
}
