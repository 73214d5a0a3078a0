/* A part of hanare_parmacs.h: how the variables of rank 0's program come to the other ranks. Programs include that header.
 *
 * CREATE gives a rank the variables that rank 0 has, as fork gives them to a child. All ranks have run the same program up to
 * MAIN_INITENV, so only words that rank 0 has changed since then travel. This is an *image*:
 *
 *   hpm_image, hpm_span ..., then for each run of changed words an hpm_run and its bytes
 *
 * Each rank keeps what the variables were in MAIN_INITENV (the *twin*), puts them back, and then the image's runs in place.
 *
 * Covered    the writable bytes of the program itself (.data, .bss), static variables in functions too.
 * Left out   variables of libraries, those that a program has of a library by a copy relocation (stdout, environ, optarg), slots of the
 *            procedure linkage table, thread-local variables, and the kit's own.
 * Pointers   the kernel loads the program and its libraries at another address in each rank. A word that holds an address in one of them
 *            is moved by the difference. One to shared memory holds in all ranks. One to rank 0's own memory (malloc, the stack) holds
 *            in no other: it travels as it is, and rank 0 says so.
 */
#ifndef HANARE_PARMACS_GLOBALS_H
#define HANARE_PARMACS_GLOBALS_H

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#if defined __has_feature
#define HPM_HAS_FEATURE(feature) __has_feature(feature)
#else
#define HPM_HAS_FEATURE(feature) 0
#endif
#if defined __SANITIZE_ADDRESS__ || HPM_HAS_FEATURE(address_sanitizer)
#error "AddressSanitizer forbids to read between variables, as copies of them are taken: use it with HANARE_PARMACS_THREADS"
#endif

#if defined __x86_64__
enum { HPM_COPY_RELOCATION = 5 };
#elif defined __aarch64__
enum { HPM_COPY_RELOCATION = 1024 };
#else
#error "hanare_parmacs.h knows the relocations of x86-64 and aarch64 alone"
#endif

enum { HPM_WORD_LEN = 8, HPM_BLOCK_LEN = 4096, HPM_LINE_LEN = 1024 };

/* Ends this rank with a line that says why; the launcher then ends the job. */
__attribute__((noreturn)) static inline void hpm_stop(const char *what)
{
    fprintf(stderr, "hanare_parmacs: %s\n", what);
    fflush(NULL);
    _Exit(1);
}

static inline void *hpm_grow(void *at, size_t len)
{
    void *grown = realloc(at, len);
    if (grown == NULL)
        hpm_stop("no memory");
    return grown;
}

/* ---- Where the variables are ------------------------------------------------------------------------------------ */

typedef struct hpm_range {
    uintptr_t from, to;
} hpm_range;

typedef struct hpm_globals {
    uintptr_t base;    /* what was added to the program's addresses when it was loaded */
    hpm_range *ranges; /* the variables, in order */
    size_t range_count;
    char *twin; /* their bytes in MAIN_INITENV, one range after another */
    uint64_t build; /* tells programs apart */
} hpm_globals;

/* Takes [from, to) out of the ranges. */
static inline void hpm_cut(hpm_globals *g, uintptr_t from, uintptr_t to)
{
    for (size_t k = 0; k < g->range_count; k++) {
        hpm_range was = g->ranges[k];
        if (to <= was.from || was.to <= from)
            continue;
        g->ranges = (hpm_range *)hpm_grow(g->ranges, (g->range_count + 1) * sizeof was);
        memmove(&g->ranges[k + 1], &g->ranges[k], (g->range_count - k) * sizeof was);
        g->ranges[k].to = from > was.from ? from : was.from;
        g->ranges[k + 1].from = to < was.to ? to : was.to;
        g->range_count++, k++;
    }
}

/* An address from the dynamic section, which some C libraries have moved already. */
static inline uintptr_t hpm_moved(const hpm_globals *g, uintptr_t address)
{
    return address < g->base ? g->base + address : address;
}

/* Leaves out what the dynamic linker changes: slots of the procedure linkage table, and copies of libraries' variables. */
static inline void hpm_cut_relocations(hpm_globals *g, const ElfW(Dyn) * dynamic)
{
    uintptr_t at[2] = {0, 0}, symbols = 0;
    size_t len[2] = {0, 0};
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t address = hpm_moved(g, (uintptr_t)dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_JMPREL: at[0] = address; break;
        case DT_PLTRELSZ: len[0] = (size_t)dynamic->d_un.d_val; break;
        case DT_RELA: at[1] = address; break;
        case DT_RELASZ: len[1] = (size_t)dynamic->d_un.d_val; break;
        case DT_SYMTAB: symbols = address; break;
        default: break;
        }
    }
    for (int table = 0; table < 2; table++)
        for (size_t k = 0; k < len[table] / sizeof(ElfW(Rela)); k++) {
            const ElfW(Rela) *one = (const ElfW(Rela) *)at[table] + k;
            const ElfW(Sym) *symbol = (const ElfW(Sym) *)symbols + ELF64_R_SYM(one->r_info);
            uintptr_t slot = g->base + (uintptr_t)one->r_offset;
            if (table == 0)
                hpm_cut(g, slot, slot + sizeof(uintptr_t));
            else if (ELF64_R_TYPE(one->r_info) == HPM_COPY_RELOCATION)
                hpm_cut(g, slot, slot + (uintptr_t)symbol->st_size);
        }
}

/* Bytes from `at` up to the next multiple of `unit`, or to the range's end. */
static inline size_t hpm_step(uintptr_t at, uintptr_t to, size_t unit)
{
    size_t step = unit - at % unit;
    return step < to - at ? step : to - at;
}

/* Whether a shared library of that name is loaded. */
static inline int hpm_is_loaded(const ElfW(Dyn) * dynamic, const char *name)
{
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr != 0)
            for (const struct link_map *one = ((const struct r_debug *)dynamic->d_un.d_ptr)->r_map; one != NULL; one = one->l_next)
                if (strstr(one->l_name, name) != NULL)
                    return 1;
    return 0;
}

/* FNV-1a. */
static inline uint64_t hpm_hash(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t k = 0; k < len; k++)
        hash = (hash ^ ((const unsigned char *)bytes)[k]) * UINT64_C(0x100000001b3);
    return hash;
}

#define HPM_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Finds the program's variables by its program headers. */
static inline void hpm_find(hpm_globals *g)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR), *end = headers + getauxval(AT_PHNUM);
    const ElfW(Dyn) *dynamic = NULL;
    int is_static = 1;
    for (const ElfW(Phdr) *one = headers; one < end; one++)
        if (one->p_type == PT_PHDR)
            g->base = (uintptr_t)headers - (uintptr_t)one->p_vaddr;
    g->build = hpm_hash(HPM_HASH_BEGIN, headers, (size_t)((const char *)end - (const char *)headers));
    for (const ElfW(Phdr) *one = headers; one < end; one++) {
        uintptr_t from = g->base + (uintptr_t)one->p_vaddr;
        if (one->p_type == PT_LOAD && (one->p_flags & PF_W) != 0) {
            g->ranges = (hpm_range *)hpm_grow(g->ranges, (g->range_count + 1) * sizeof *g->ranges);
            g->ranges[g->range_count].from = from;
            g->ranges[g->range_count++].to = from + (uintptr_t)one->p_memsz;
        } else if (one->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)from;
        else if (one->p_type == PT_INTERP)
            is_static = 0;
        else if (one->p_type == PT_NOTE) /* the build's id is there */
            g->build = hpm_hash(g->build, (const void *)from, (size_t)one->p_memsz);
    }
    if (is_static || dynamic == NULL || !hpm_is_loaded(dynamic, "libhanare"))
        hpm_stop("variables of libraries that are linked statically would travel with the program's own: link it with libhanare.so");
    for (const ElfW(Phdr) *one = headers; one < end; one++)
        if (one->p_type == PT_GNU_RELRO)
            hpm_cut(g, g->base + (uintptr_t)one->p_vaddr, g->base + (uintptr_t)(one->p_vaddr + one->p_memsz));
    hpm_cut_relocations(g, dynamic);
}

static inline int hpm_is_zero(const char *at, size_t len) { return at[0] == 0 && memcmp(at, at + 1, len - 1) == 0; }

/* Remembers what the variables are. Blocks of zeros take no memory. */
static inline void hpm_keep_twin(hpm_globals *g)
{
    size_t len = 0;
    for (size_t k = 0; k < g->range_count; k++)
        len += g->ranges[k].to - g->ranges[k].from;
    char *twin = g->twin = (char *)calloc(len + 1, 1);
    if (twin == NULL)
        hpm_stop("no memory for a copy of the program's variables");
    for (size_t k = 0; k < g->range_count; k++)
        for (uintptr_t at = g->ranges[k].from, step; at < g->ranges[k].to; at += step, twin += step) {
            step = hpm_step(at, g->ranges[k].to, HPM_BLOCK_LEN);
            if (!hpm_is_zero((const char *)at, step))
                memcpy(twin, (const char *)at, step);
        }
}

/* ---- What addresses mean ---------------------------------------------------------------------------------------- */

/* Addresses that one file has been loaded at, or that are the process's own. */
typedef struct hpm_span {
    uint64_t from, to, name; /* the hash of the file's path; 0 for the process's own memory */
} hpm_span;

typedef struct hpm_spans {
    hpm_span *all;
    size_t count;
} hpm_spans;

/* Reads /proc/self/maps. Memory without a name right behind a file's is that file's .bss. */
static inline hpm_spans hpm_read_spans(void)
{
    hpm_spans spans = {NULL, 0};
    char line[HPM_LINE_LEN];
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL)
        hpm_stop("/proc/self/maps cannot be read: is /proc mounted?");
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        int at = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &from, &to, &at) < 2 || at == 0)
            continue;
        const char *path = line + at;
        int is_file = path[0] == '/' && strncmp(path, "/memfd:", 7) != 0 && strncmp(path, "/dev/", 5) != 0;
        uint64_t name = is_file ? hpm_hash(HPM_HASH_BEGIN, path, strcspn(path, "\n")) : 0;
        hpm_span *last = spans.count > 0 ? &spans.all[spans.count - 1] : NULL;
        if (last != NULL && last->name != 0 && (name == last->name || (path[0] == 0 && last->to == from))) {
            last->to = to;
            continue;
        }
        spans.all = (hpm_span *)hpm_grow(spans.all, (spans.count + 1) * sizeof *last);
        spans.all[spans.count].from = from, spans.all[spans.count].to = to, spans.all[spans.count++].name = name;
    }
    fclose(maps);
    return spans;
}

static inline const hpm_span *hpm_span_of(const hpm_span *spans, size_t count, uint64_t address)
{
    for (size_t k = 0; k < count; k++)
        if (spans[k].from <= address && address < spans[k].to)
            return &spans[k];
    return NULL;
}

/* ---- Images ----------------------------------------------------------------------------------------------------- */

typedef struct hpm_image {
    uint64_t len, span_count;
    uint64_t own_count, own_first; /* variables that point to rank 0's own memory; the first one's address in the program */
} hpm_image;

typedef struct hpm_run {
    uint64_t at, len; /* the first byte's address in the program; bytes, which follow, up to a multiple of 8 */
} hpm_run;

static inline size_t hpm_padded(size_t len) { return (len + HPM_WORD_LEN - 1) / HPM_WORD_LEN * HPM_WORD_LEN; }

/* Appends to an image, which may move. */
static inline hpm_image *hpm_append(hpm_image *image, const void *bytes, size_t len)
{
    image = (hpm_image *)hpm_grow(image, (size_t)image->len + hpm_padded(len));
    memset((char *)image + image->len + len, 0, hpm_padded(len) - len);
    if (len > 0)
        memcpy((char *)image + image->len, bytes, len);
    image->len += hpm_padded(len);
    return image;
}

/* Counts the run's words that point to this process's own memory outside [shared, shared + shared_len). */
static inline void hpm_count_own(hpm_image *image, const hpm_spans *spans, uintptr_t base, hpm_run run, uintptr_t shared, size_t shared_len)
{
    for (uintptr_t at = base + (uintptr_t)run.at, to = at + (uintptr_t)run.len; at < to; at += hpm_step(at, to, HPM_WORD_LEN)) {
        uintptr_t word;
        if (at % sizeof word != 0 || to - at < sizeof word)
            continue;
        memcpy(&word, (const void *)at, sizeof word);
        const hpm_span *span = word - shared < shared_len ? NULL : hpm_span_of(spans->all, spans->count, word);
        if (span != NULL && span->name == 0 && image->own_count++ == 0)
            image->own_first = at - base;
    }
}

/* The image of what this program has changed since MAIN_INITENV. The caller frees it. */
static inline hpm_image *hpm_take_image(const hpm_globals *g, const void *shared, size_t shared_len)
{
    hpm_spans spans = hpm_read_spans();
    hpm_image *image = (hpm_image *)hpm_grow(NULL, sizeof *image);
    const char *twin = g->twin;
    memset(image, 0, sizeof *image);
    image->len = sizeof *image, image->span_count = spans.count;
    image = hpm_append(image, spans.all, spans.count * sizeof *spans.all);
    for (size_t k = 0; k < g->range_count; k++) {
        uintptr_t from = g->ranges[k].from, to = g->ranges[k].to, at = from;
        while (at < to) {
            size_t block = hpm_step(at, to, HPM_BLOCK_LEN);
            if (memcmp((const void *)at, twin + (at - from), block) == 0) {
                at += block;
                continue;
            }
            while (memcmp((const void *)at, twin + (at - from), hpm_step(at, to, HPM_WORD_LEN)) == 0)
                at += hpm_step(at, to, HPM_WORD_LEN);
            hpm_run run = {at - g->base, 0};
            while (at < to && memcmp((const void *)at, twin + (at - from), hpm_step(at, to, HPM_WORD_LEN)) != 0)
                at += hpm_step(at, to, HPM_WORD_LEN);
            run.len = at - g->base - run.at;
            image = hpm_append(image, &run, sizeof run);
            image = hpm_append(image, (const void *)(g->base + (uintptr_t)run.at), (size_t)run.len);
            hpm_count_own(image, &spans, g->base, run, (uintptr_t)shared, shared_len);
        }
        twin += to - from;
    }
    free(spans.all);
    return image;
}

/* Moves an address of rank 0 in a file that is loaded here, too, with the same length; any other word stays. */
static inline uint64_t hpm_move_word(uint64_t word, const hpm_span *theirs, size_t count, const hpm_spans *ours)
{
    const hpm_span *from = hpm_span_of(theirs, count, word);
    for (size_t k = 0; from != NULL && from->name != 0 && k < ours->count; k++) {
        const hpm_span *to = &ours->all[k];
        if (to->name == from->name && to->to - to->from == from->to - from->from)
            return word - from->from + to->from;
    }
    return word;
}

static inline int hpm_is_variable(const hpm_globals *g, uintptr_t from, uintptr_t to)
{
    for (size_t k = 0; k < g->range_count; k++)
        if (g->ranges[k].from <= from && from <= to && to <= g->ranges[k].to)
            return 1;
    return 0;
}

/* Makes this program's variables those of an image of `len` bytes. */
static inline void hpm_put_image(hpm_globals *g, const hpm_image *image, uint64_t len)
{
    const char *at = (const char *)(image + 1), *end = (const char *)image + len, *twin = g->twin;
    const hpm_span *theirs = (const hpm_span *)(const void *)at;
    hpm_spans ours = hpm_read_spans();
    if (len < sizeof *image || image->len != len || image->span_count > (len - sizeof *image) / sizeof *theirs)
        hpm_stop("rank 0's variables came in pieces");
    for (size_t k = 0; k < g->range_count; twin += g->ranges[k].to - g->ranges[k].from, k++)
        for (uintptr_t to = g->ranges[k].from, step; to < g->ranges[k].to; to += step) {
            step = hpm_step(to, g->ranges[k].to, HPM_BLOCK_LEN);
            if (memcmp((const void *)to, twin + (to - g->ranges[k].from), step) != 0)
                memcpy((void *)to, twin + (to - g->ranges[k].from), step);
        }
    at += (size_t)image->span_count * sizeof *theirs;
    while (at < end) {
        hpm_run run = {0, 0};
        if ((size_t)(end - at) >= sizeof run)
            memcpy(&run, at, sizeof run);
        uintptr_t to = g->base + (uintptr_t)run.at, behind = to + (uintptr_t)run.len;
        at += sizeof run;
        if (run.len == 0 || at > end || run.len > (uint64_t)(end - at) || !hpm_is_variable(g, to, behind))
            hpm_stop("rank 0's variables do not fit this program's");
        memcpy((void *)to, at, (size_t)run.len);
        for (uintptr_t word_at = (to + 7) / 8 * 8; word_at + sizeof(uint64_t) <= behind; word_at += sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, (const void *)word_at, sizeof word);
            word = hpm_move_word(word, theirs, (size_t)image->span_count, &ours);
            memcpy((void *)word_at, &word, sizeof word);
        }
        at += hpm_padded((size_t)run.len);
    }
    free(ours.all);
}

#endif
