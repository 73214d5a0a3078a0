/* Main memory on pages of a kind, to measure mapped memory against. A source that includes this defines _DEFAULT_SOURCE
 * first. */
#ifndef KIT_PAGES_H
#define KIT_PAGES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* `len` zero bytes that are populated, on pages of 4 KiB ("4k") or larger ("huge") where the kernel has some. The program
 * ends without memory. They are freed when it ends. */
static inline void *take_pages(size_t len, const char *pages)
{
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(memory, len, strcmp(pages, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(memory, 0, len);
    return memory;
}

#endif
