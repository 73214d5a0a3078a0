/* What is kept with a region: attributes, mode and name; and regions by number. */
#include "expect.h"
#include <unistd.h>

int main(void)
{
    hanare_pool *pool;
    hanare_region *region, *other, *by_gid;
    char text[16] = "";
    const hanare_attribute terms[] = {{"descr", "<f8", 3}, {"fortran_order", "False", 5}, {"shape", "(16, 4)", 7}};
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    const hanare_changes fresh = HANARE_CHANGES_INIT;
    hanare_changes changes = fresh;
    hanare_region_stat stat;

    stat.struct_size = sizeof stat;
    options.attributes = terms;
    options.attribute_count = 3;
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_create(pool, "array", 512, &options, &region));
    EXPECT(hanare_was_created(region) == HANARE_CREATED && hanare_gid(region) != 0);
    EXPECT(hanare_get_attribute(region, "descr", text, sizeof text) == 3 && memcmp(text, "<f8", 3) == 0);
    EXPECT(hanare_get_attribute(region, "shape", text, 2) == 7 && memcmp(text, "(1", 2) == 0);
    EXPECT(hanare_get_attribute(region, "shape", NULL, 0) == 7);
    EXPECT_ERROR(hanare_get_attribute(region, "unit", text, 1), HANARE_ERR_NO_ATTRIBUTE, "'unit'");

    const hanare_attribute set[] = {{"unit", "K", 1}, {"fortran_order", NULL, 0}};
    changes.name = "temperature";
    changes.mode = 0644;
    changes.attributes = set;
    changes.attribute_count = 2;
    EXPECT_OK(hanare_alter(pool, "array", &changes));
    EXPECT_ERROR(hanare_open(pool, "array", HANARE_MOST, &other), HANARE_ERR_UNKNOWN_REGION, "'array'");
    EXPECT_OK(hanare_stat(pool, "temperature", &stat));
    EXPECT(stat.mode == 0644 && stat.gid == hanare_gid(region));
    EXPECT_OK(hanare_open_gid(pool, stat.gid, HANARE_READ, &by_gid));
    EXPECT(hanare_was_created(by_gid) == HANARE_FOUND);
    EXPECT(hanare_get_attribute(by_gid, "unit", text, sizeof text) == 1 && text[0] == 'K');
    EXPECT_ERROR(hanare_get_attribute(by_gid, "fortran_order", NULL, 0), HANARE_ERR_NO_ATTRIBUTE, "'temperature'");
    EXPECT_ERROR(hanare_open_gid(pool, stat.gid + 1000, HANARE_MOST, &other), HANARE_ERR_UNKNOWN_REGION, "does not exist");
    EXPECT_OK(hanare_put(region, 8, "later", 5)); /* the handle from before the change */
    EXPECT_OK(hanare_get(by_gid, 8, text, 5));
    EXPECT(memcmp(text, "later", 5) == 0);
    hanare_request *requests[3] = {NULL, NULL, NULL};
    EXPECT_OK(hanare_put_nb(region, 16, "one", 3, &requests[0]));
    EXPECT_OK(hanare_put_nb(region, 19, "two", 3, &requests[2]));
    EXPECT_OK(hanare_wait_all(requests, 3));
    EXPECT(requests[0] == NULL && requests[2] == NULL);
    EXPECT_OK(hanare_get(by_gid, 16, text, 6));
    EXPECT(memcmp(text, "onetwo", 6) == 0);
    EXPECT_OK(hanare_wait_all(NULL, 0));
    EXPECT_ERROR(hanare_wait_all(NULL, 1), HANARE_ERR_BAD_ARGUMENT, "requests is NULL");

    changes = fresh;
    EXPECT_OK(hanare_alter(pool, "temperature", &changes));
    changes.uid = 7;
    EXPECT_ERROR(hanare_alter(pool, "temperature", &changes), HANARE_ERR_BAD_ARGUMENT, "changes->gid");
    changes = fresh;
    changes.copies = 4;
    EXPECT_ERROR(hanare_alter(pool, "temperature", &changes), HANARE_ERR_BAD_PLACEMENT, "1 to 3");
    changes = fresh;
    changes.mode = 01000;
    EXPECT_ERROR(hanare_alter(pool, "temperature", &changes), HANARE_ERR_BAD_SETTING, "mode");
    EXPECT_ERROR(hanare_alter(pool, "none", &changes), HANARE_ERR_UNKNOWN_REGION, "'none'");
    EXPECT_OK(hanare_close(by_gid));
    EXPECT_OK(hanare_close(region));
    if (geteuid() == 0) { /* root may give a region away: then its name is another user's */
        hanare_pool *trusting;
        const uint32_t users[2] = {7, HANARE_ANYONE};
        changes = fresh;
        changes.uid = changes.gid = 7;
        EXPECT_OK(hanare_alter(pool, "temperature", &changes));
        EXPECT_ERROR(hanare_create_or_attach(pool, "temperature", 512, NULL, &other), HANARE_ERR_NOT_TRUSTED, "user 7");
        EXPECT_ERROR(hanare_trusting(pool, NULL, 1, &trusting), HANARE_ERR_BAD_ARGUMENT, "users is NULL");
        for (int at = 0; at < 2; at++) {
            EXPECT_OK(hanare_trusting(pool, &users[at], 1, &trusting));
            EXPECT_OK(hanare_create_or_attach(trusting, "temperature", 512, NULL, &other));
            EXPECT_OK(hanare_close(other));
            EXPECT_OK(hanare_detach(trusting));
        }
    }
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
