/* What ends the job: one case a run, by its name. */
#include "expect.h"

#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    const char *wanted = count > 1 ? words[1] : "";
    static int symmetric;
    int automatic = 0;
    if (strcmp(wanted, "early") == 0)
        shmem_int_p(&symmetric, 1, 0);
    shmem_init();
    if (strcmp(wanted, "automatic") == 0)
        shmem_int_p(&automatic, 1, 0);
    if (strcmp(wanted, "no-pe") == 0)
        shmem_int_p(&symmetric, 1, shmem_n_pes());
    if (strcmp(wanted, "global-exit") == 0) {
        if (shmem_my_pe() == shmem_n_pes() - 1) {
            printf("before the end\n");
            shmem_global_exit(42);
        }
        shmem_barrier_all();
    }
    if (strcmp(wanted, "twice") == 0) {
        void *block = shmem_malloc(100);
        shmem_free(block);
        shmem_free(block);
    }
    shmem_finalize();
    return 0;
}
