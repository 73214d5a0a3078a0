/* expect.h: a condition that ends the job, and says where, if it does not hold. */
#ifndef EXPECT_H
#define EXPECT_H

#include <shmem.h>
#include <stdio.h>

#define EXPECT(condition)                                                                                                           \
    do {                                                                                                                            \
        if (!(condition)) {                                                                                                         \
            fprintf(stderr, "PE %d of %d: %s:%d: %s\n", shmem_my_pe(), shmem_n_pes(), __FILE__, __LINE__, #condition);              \
            shmem_global_exit(1);                                                                                                   \
        }                                                                                                                           \
    } while (0)

#endif
