/* The program's global and static variables in shared memory.
 *
 * shmem_init copies the program's writable segment into this PE's region and maps that over the segment. So its variables keep their
 * addresses and values, and other PEs and the node reach them in the region. shmem_finalize gives the program memory of its own back.
 *
 * Threads of the program must not store to its variables during the two. Variables of shared libraries stay private. */
#define _GNU_SOURCE 1
#include "pe.h"

#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_LEN ((uintptr_t)4096)

struct span {
    uintptr_t start, end;
};

static int look(struct dl_phdr_info *object, size_t size, void *found)
{
    (void)size;
    struct span relro = {0, 0}, *statics = found;
    for (int at = 0; at < object->dlpi_phnum; at++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[at];
        if (header->p_type == PT_GNU_RELRO)
            relro = (struct span){object->dlpi_addr + header->p_vaddr, object->dlpi_addr + header->p_vaddr + header->p_memsz};
    }
    for (int at = 0; at < object->dlpi_phnum; at++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[at];
        if (header->p_type != PT_LOAD || (header->p_flags & PF_W) == 0)
            continue;
        struct span segment = {object->dlpi_addr + header->p_vaddr, object->dlpi_addr + header->p_vaddr + header->p_memsz};
        /* The loader makes whole pages of this part read-only: the program has no variables there. */
        if (relro.start >= segment.start && relro.start < segment.end)
            segment.start = relro.end & ~(PAGE_LEN - 1);
        segment.start &= ~(PAGE_LEN - 1);
        segment.end = (segment.end + PAGE_LEN - 1) & ~(PAGE_LEN - 1);
        if (segment.start < segment.end)
            *statics = segment;
    }
    /* The first object is the program itself. */
    return 1;
}

void statics_find(char **start, uint64_t *len)
{
    struct span statics = {0, 0};
    dl_iterate_phdr(look, &statics);
    *start = (char *)statics.start;
    *len = statics.end - statics.start;
}

/* The mappings that make up a range: memory is mapped a second time mapping by mapping. */
struct pieces {
    struct span *spans;
    int count;
};

static struct pieces pieces_of(uintptr_t start, uintptr_t end)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    struct pieces pieces = {NULL, 0};
    if (maps == NULL)
        die("/proc/self/maps cannot be read");
    while (fgets(line, sizeof line, maps) != NULL) {
        struct span piece;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &piece.start, &piece.end) != 2 || piece.end <= start || piece.start >= end)
            continue;
        pieces.spans = realloc(pieces.spans, (size_t)(pieces.count + 1) * sizeof *pieces.spans);
        if (pieces.spans == NULL)
            die("no memory");
        pieces.spans[pieces.count].start = piece.start < start ? start : piece.start;
        pieces.spans[pieces.count++].end = piece.end > end ? end : piece.end;
    }
    fclose(maps);
    return pieces;
}

/* Maps pieces again, the first at `to`. An old length of 0 leaves a shared mapping where it is and makes another of its pages. */
static void map_pieces(struct pieces pieces, char *to)
{
    for (int at = 0; at < pieces.count; at++) {
        struct span piece = pieces.spans[at];
        size_t len = piece.end - piece.start;
        void *place = to + (piece.start - pieces.spans[0].start);
        if (mremap((void *)piece.start, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place)
            die("%zu bytes of symmetric memory cannot be mapped at %p", len, place);
    }
}

void map_twice(char *from, uint64_t len, char *to)
{
    struct pieces pieces = pieces_of((uintptr_t)from, (uintptr_t)from + len);
    map_pieces(pieces, to);
    free(pieces.spans);
}

/* Copies words into memory that is all zero; words of zeros stay away, and with them whole pages. Calls of the C library would not do:
 * a sanitizer that replaces them takes the space between variables for an overflow. */
static void copy_words(char *into, const char *from, size_t len)
{
    volatile uint64_t *to = (volatile uint64_t *)into;
    const volatile uint64_t *words = (const volatile uint64_t *)from;
    for (size_t at = 0; at < len / sizeof *words; at++) {
        uint64_t word = words[at];
        if (word != 0)
            to[at] = word;
    }
}

static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

void statics_share(char *shared)
{
    /* The pieces are found first, by calls that allocate: a program may have an allocator of its own, which stores to its variables.
     * Signals wait, because their handlers store to variables, too. */
    struct pieces pieces = pieces_of((uintptr_t)shared, (uintptr_t)shared + job.statics_len);
    sigset_t before;
    hold_signals(&before);
    copy_words(shared, job.statics, job.statics_len);
    map_pieces(pieces, job.statics);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(pieces.spans);
}

void statics_unshare(void)
{
    char *own = mmap(NULL, job.statics_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        die("no memory for the program's variables");
    sigset_t before;
    hold_signals(&before);
    copy_words(own, job.statics, job.statics_len);
    if (mremap(own, job.statics_len, job.statics_len, MREMAP_MAYMOVE | MREMAP_FIXED, job.statics) != job.statics)
        die("the program's variables cannot be taken back");
    sigprocmask(SIG_SETMASK, &before, NULL);
}
