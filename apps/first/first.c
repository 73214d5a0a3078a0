/* A first put and get: `hanare run -- ./first`. */
#include <hanare.h>
#include <stdio.h>

int main(void)
{
    hanare_pool *pool;
    hanare_region *region;
    char text[13];

    if (hanare_attach(&pool) == 0 && hanare_create_or_attach(pool, "greeting", 4096, NULL, &region) == 0
        && hanare_put(region, 100, "good morning", 13) == 0 && hanare_get(region, 100, text, 13) == 0)
        return puts(text) == EOF;
    fprintf(stderr, "%s\n", hanare_last_error());
    return 1;
}
