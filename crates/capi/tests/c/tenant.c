/* A tenant's program: names of its own, and refusals of another file. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "expect.h"

int main(int argc, char **argv)
{
    hanare_pool *pool, *user, *none;
    hanare_region *region;

    EXPECT(argc == 3);
    EXPECT_OK(hanare_attach_as(NULL, argv[1], &pool));
    EXPECT_OK(hanare_create(pool, "a", 4096, NULL, &region));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_attach(&user));
    EXPECT_ERROR(hanare_open(user, "a", HANARE_MOST, &region), HANARE_ERR_UNKNOWN_REGION, "'a'");
    EXPECT_OK(hanare_open(pool, "a", HANARE_MOST, &region));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_detach(user));

    setenv("HANARE_TENANT", argv[1], 1);
    EXPECT_OK(hanare_attach(&user));
    EXPECT_OK(hanare_open(user, "a", HANARE_MOST, &region));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_detach(user));
    EXPECT_ERROR(hanare_attach_as(NULL, argv[2], &none), HANARE_ERR_TENANT_REFUSED, "'none'");
    EXPECT_ERROR(hanare_attach_as(NULL, "/no/such", &none), HANARE_ERR_BAD_SETTING, "/no/such");
    EXPECT_ERROR(hanare_attach_as(NULL, NULL, &none), HANARE_ERR_BAD_ARGUMENT, "tenant_file is NULL");
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
