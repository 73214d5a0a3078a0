/* A program that knows nothing of Hanare, with more memory than it may keep: each step checks every byte that it wrote.
 * program [STEP...]: without a step all of them. Prints "ok" and the step, or says what is wrong and fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

#define CHECK(is_right)                                                      \
    do {                                                                     \
        if (!(is_right)) {                                                   \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #is_right);   \
            _exit(1);                                                        \
        }                                                                    \
    } while (0)

static uint64_t mix(uint64_t x, uint64_t seed)
{
    x = (x + seed + 1) * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

static void fill(uint64_t *at, size_t bytes, uint64_t seed)
{
    for (size_t k = 0; k < bytes / 8; k++)
        at[k] = mix(k, seed);
}

static void check(const uint64_t *at, size_t bytes, uint64_t seed)
{
    for (size_t k = 0; k < bytes / 8; k++)
        CHECK(at[k] == mix(k, seed));
}

/* Large allocations of every kind, which grow, shrink and come back as zeros. */
static void allocations(void)
{
    size_t len = 48 * MIB;
    uint64_t *a = malloc(len), *b = calloc(len / 8, 8);
    CHECK(a && b);
    fill(a, len, 1);
    for (size_t k = 0; k < len / 8; k++)
        CHECK(b[k] == 0);
    fill(b, len, 2);
    check(a, len, 1);
    a = realloc(a, 2 * len);
    check(a, len, 1);
    fill(a, 2 * len, 3);
    a = realloc(a, len);
    check(a, len, 3);
    check(b, len, 2);
    b = realloc(b, 1000);
    check(b, 1000, 2);
    free(a);
    uint64_t *c = calloc(2 * len, 1);
    for (size_t k = 0; k < 2 * len / 8; k++)
        CHECK(c[k] == 0);
    free(c);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 2 * MIB, len) == 0 && (uintptr_t)aligned % (2 * MIB) == 0);
    fill(aligned, len, 4);
    check(aligned, len, 4);
    free(aligned);
    free(b);
}

/* Mappings: parts given back, zeros again, reserved, protected, moved, replaced. */
static void mappings(void)
{
    size_t len = 64 * MIB;
    char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    fill((uint64_t *)at, len, 5);
    CHECK(madvise(at + 8 * MIB, 8 * MIB, MADV_DONTNEED) == 0);
    for (size_t k = 8 * MIB; k < 16 * MIB; k++)
        CHECK(at[k] == 0);
    uint64_t *all = (uint64_t *)at;
    for (size_t k = 16 * MIB / 8; k < len / 8; k++)
        CHECK(all[k] == mix(k, 5));
    /* A file over pages of it stays the program's own, whatever leaves around it: here pages that were read and not written. */
    FILE *file = tmpfile();
    CHECK(file && ftruncate(fileno(file), 4 * PAGE) == 0);
    char *over = mmap(at + 6 * MIB + 8 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(file), 0);
    CHECK(over == at + 6 * MIB + 8 * PAGE);
    memset(over, 7, 4 * PAGE);
    CHECK(all[6 * MIB / 8] == mix(6 * MIB / 8, 5) && all[(6 * MIB + 63 * PAGE) / 8] == mix((6 * MIB + 63 * PAGE) / 8, 5));
    uint64_t *other = malloc(48 * MIB);
    fill(other, 48 * MIB, 17);
    for (size_t k = 0; k < 4 * PAGE; k++)
        CHECK(over[k] == 7);
    check(other, 48 * MIB, 17);
    free(other);
    fclose(file);
    CHECK(munmap(at + len / 2 + PAGE, len / 2 - PAGE) == 0);
    for (size_t k = 16 * MIB / 8; k < len / 2 / 8; k++)
        CHECK(all[k] == mix(k, 5));
    CHECK(mprotect(at, MIB, PROT_READ) == 0);
    check((uint64_t *)at, MIB, 5);
    char *fresh = mmap(at + 4 * MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(fresh == at + 4 * MIB && fresh[0] == 0 && fresh[MIB - 1] == 0);
    char *moved = mremap(at + 16 * MIB, 16 * MIB, 48 * MIB, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    for (size_t k = 0; k < 16 * MIB / 8; k++)
        CHECK(((uint64_t *)moved)[k] == mix(k + 16 * MIB / 8, 5));
    fill((uint64_t *)moved, 48 * MIB, 14);
    check((uint64_t *)moved, 48 * MIB, 14);
    CHECK(munmap(moved, 48 * MIB) == 0);

    char *reserved = mmap(NULL, 1024l * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(reserved != MAP_FAILED);
    CHECK(mprotect(reserved + 512l * MIB, 40 * MIB, PROT_READ | PROT_WRITE) == 0);
    fill((uint64_t *)(reserved + 512l * MIB), 40 * MIB, 6);
    check((uint64_t *)(reserved + 512l * MIB), 40 * MIB, 6);
    CHECK(munmap(reserved, 1024l * MIB) == 0);
}

/* Sweeps that read and write each word, while first pages of blocks that come next are given back, and a child sweeps, too. */
static void streams(void)
{
    enum { LEN = 72 * MIB, WORDS_A_PAGE = PAGE / 8, BLOCK_PAGES = 64, SWEEPS = 3 };
    static unsigned char is_filled[LEN / PAGE], added[LEN / PAGE];
    uint64_t *at = malloc(LEN);
    CHECK(at);
    fill(at, LEN, 16);
    memset(is_filled, 1, sizeof is_filled);
    pid_t child = 0;
    for (size_t page = 0, sweep = 0; sweep < SWEEPS; page = 0, sweep++)
        for (; page < LEN / PAGE; page++) {
            size_t ahead = (page / BLOCK_PAGES + 1 + page / BLOCK_PAGES % 9) * BLOCK_PAGES;
            if (page % (5 * BLOCK_PAGES) == 40 && ahead < LEN / PAGE) {
                CHECK(madvise(at + ahead * WORDS_A_PAGE, PAGE, MADV_DONTNEED) == 0);
                is_filled[ahead] = added[ahead] = 0;
            }
            if (sweep == 1 && page == LEN / PAGE / 2)
                CHECK((child = fork()) >= 0);
            for (size_t k = page * WORDS_A_PAGE; k < (page + 1) * WORDS_A_PAGE; k++) {
                CHECK(at[k] == (is_filled[page] ? mix(k, 16) : 0) + added[page]);
                at[k]++;
            }
            added[page]++;
        }
    free(at);
    if (child == 0)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static uint64_t *shared_words;
enum { WORDS = 40 * MIB / 8, THREADS = 4, STEPS = 1000 };

static void *add(void *seed)
{
    uint64_t x = (uintptr_t)seed;
    for (int k = 0; k < STEPS; k++) {
        x = mix(x, 7);
        __atomic_fetch_add(&shared_words[x % WORDS], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Threads that add to words of one another's pages: none is lost. */
static void threads(void)
{
    pthread_t thread[THREADS];
    shared_words = calloc(WORDS, 8);
    CHECK(shared_words);
    /* In order, and all of it: from here on a fifth of it is elsewhere, whichever word is next. */
    for (size_t k = 0; k < WORDS; k += PAGE / 8)
        shared_words[k] = 0;
    for (uintptr_t k = 0; k < THREADS; k++)
        CHECK(pthread_create(&thread[k], NULL, add, (void *)(k + 1)) == 0);
    for (int k = 0; k < THREADS; k++)
        pthread_join(thread[k], NULL);
    uint64_t sum = 0;
    for (size_t k = 0; k < WORDS; k++)
        sum += shared_words[k];
    CHECK(sum == (uint64_t)THREADS * STEPS);
    free(shared_words);
}

/* System calls that read and write such memory, the C library's own among them. */
static void calls(void)
{
    size_t len = 40 * MIB;
    uint64_t *from = malloc(len), *into = malloc(len);
    fill(from, len, 8);
    FILE *file = tmpfile();
    CHECK(file && fwrite(from, 1, len, file) == len && fflush(file) == 0);
    rewind(file);
    CHECK(fread(into, 1, len, file) == len);
    check(into, len, 8);
    CHECK(pwrite(fileno(file), into, len, 0) == (ssize_t)len);
    memset(into, 0, len);
    CHECK(pread(fileno(file), into, len, 0) == (ssize_t)len);
    check(into, len, 8);
    check(from, len, 8);
    fclose(file);
    free(from);
    free(into);
}

/* A child sees the memory as it was, whatever its parent writes meanwhile, and its own stores stay its own. */
static void forks(void)
{
    size_t len = 48 * MIB;
    uint64_t *at = malloc(len);
    fill(at, len, 9);
    int tell[2];
    CHECK(pipe(tell) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        check(at, len / 2, 9);
        CHECK(read(tell[0], &byte, 1) == 1);
        check(at, len, 9);
        fill(at, len, 11);
        check(at, len, 11);
        _exit(0);
    }
    fill(at, len, 10);
    CHECK(write(tell[1], "x", 1) == 1);
    check(at, len, 10);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check(at, len, 10);
    free(at);
}

/* An allocator of the program's own: its lock is held while memory comes and goes, and over each fork, by handlers that it registers
 * before any library is initialised. Threads work with it while the first thread forks. */
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *own_words;
static int is_over;
enum { OWN_LEN = 48 * MIB, FORKS = 6 };

static void before_fork(void)
{
    pthread_mutex_lock(&own_lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&own_lock);
}

/* Pages that are not on this host at the fork are read here, too. */
static void in_child(void)
{
    pthread_mutex_unlock(&own_lock);
    for (size_t k = 0; own_words && k < OWN_LEN / 8; k += PAGE / 8)
        CHECK(own_words[k] == mix(k, 15));
}

static void own_begin(int count, char **words, char **variables)
{
    (void)count, (void)words, (void)variables;
    pthread_atfork(before_fork, in_parent, in_child);
}

__attribute__((section(".preinit_array"), used)) static void (*const own_first)(int, char **, char **) = own_begin;

static void *allocate(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&own_lock);
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED && at[MIB / 2] == 0);
        at[MIB / 2] = 1;
        CHECK(madvise(at, MIB, MADV_DONTNEED) == 0 && at[MIB / 2] == 0);
        CHECK(munmap(at, MIB) == 0);
        pthread_mutex_unlock(&own_lock);
        /* The lock is not fair, and who forks wants it, too. */
        usleep(50);
    }
    return NULL;
}

static void allocators(void)
{
    pthread_t thread[2];
    own_words = malloc(OWN_LEN);
    fill(own_words, OWN_LEN, 15);
    for (int k = 0; k < 2; k++)
        CHECK(pthread_create(&thread[k], NULL, allocate, NULL) == 0);
    for (int k = 0; k < FORKS; k++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    for (int k = 0; k < 2; k++)
        pthread_join(thread[k], NULL);
    check(own_words, OWN_LEN, 15);
    free(own_words);
    own_words = NULL;
}

/* The same program again, by exec and by a shell: each has memory of its own. */
static void execs(void)
{
    uint64_t *at = malloc(40 * MIB);
    fill(at, 40 * MIB, 12);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "program", "threads", (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(system("exit 3") >> 8 == 3);
    check(at, 40 * MIB, 12);
    free(at);
}

/* A pool of 64 MiB, of which the run may keep 16 MiB here: what has no room is refused by the call that asks for it. */
static void full(void)
{
    size_t len = 48 * MIB;
    uint64_t *at = malloc(len);
    CHECK(at);
    fill(at, len, 18);
    /* The compiler takes no call away whose result it has to store. */
    static void *volatile none;
    errno = 0;
    none = malloc(len);
    CHECK(!none && errno == ENOMEM);
    none = calloc(len, 1);
    CHECK(!none);
    void *volatile same = at;
    none = realloc(same, 2 * len);
    CHECK(!none);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 2 * MIB, len) == ENOMEM);
    errno = 0;
    CHECK(mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    /* What cannot be written needs no room, until it can. */
    char *reserved = mmap(NULL, 1024l * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(reserved != MAP_FAILED);
    errno = 0;
    CHECK(mprotect(reserved, len, PROT_READ | PROT_WRITE) == -1 && errno == ENOMEM);
    CHECK(mprotect(reserved, MIB, PROT_READ | PROT_WRITE) == 0);
    fill((uint64_t *)reserved, MIB, 19);
    CHECK(mremap(reserved, MIB, len, MREMAP_MAYMOVE) == MAP_FAILED);
    /* A child may write all that its parent has, and so may the parent. */
    errno = 0;
    CHECK(fork() == -1 && errno == ENOMEM);
    check(at, len, 18);
    check((uint64_t *)reserved, MIB, 19);
    CHECK(munmap(reserved, 1024l * MIB) == 0);
    /* What was given back is room. */
    at = realloc(at, len / 2);
    CHECK(at);
    for (int k = 0; k < 3; k++) {
        /* The keeper hears of a child's end a moment after its parent. */
        pid_t child;
        for (int tries = 0; (child = fork()) < 0; tries++) {
            CHECK(errno == ENOMEM && tries < 1000);
            usleep(10000);
        }
        if (child == 0) {
            check(at, len / 2, 18);
            fill(at, len / 2, 20);
            check(at, len / 2, 20);
            _exit(0);
        }
        none = malloc(len);
        CHECK(!none);
        fill(at, len / 2, 21);
        check(at, len / 2, 21);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        check(at, len / 2, 21);
        fill(at, len / 2, 18);
    }
    free(at);
    for (int tries = 0; (at = malloc(len)) == NULL; tries++) {
        CHECK(tries < 1000);
        usleep(10000);
    }
    fill(at, len, 22);
    check(at, len, 22);
    free(at);
}

/* Fills memory, says so, waits for a line, and reads all of it. */
static void lost(void)
{
    uint64_t *at = malloc(40 * MIB);
    fill(at, 40 * MIB, 13);
    puts("filled");
    fflush(stdout);
    CHECK(getchar() != EOF);
    check(at, 40 * MIB, 13);
}

static const struct {
    const char *name;
    void (*run)(void);
    int only_by_name;
} STEPS_BY_NAME[] = {{"allocations", allocations, 0}, {"mappings", mappings, 0}, {"streams", streams, 0}, {"threads", threads, 0}, {"calls", calls, 0},
                     {"forks", forks, 0},             {"execs", execs, 0},       {"allocators", allocators, 0}, {"lost", lost, 1},
                     {"full", full, 1}};

int main(int count, char **words)
{
    for (size_t k = 0; k < sizeof STEPS_BY_NAME / sizeof *STEPS_BY_NAME; k++) {
        int wanted = count == 1 && !STEPS_BY_NAME[k].only_by_name;
        for (int word = 1; word < count; word++)
            wanted |= strcmp(words[word], STEPS_BY_NAME[k].name) == 0;
        if (!wanted)
            continue;
        STEPS_BY_NAME[k].run();
        printf("ok %s\n", STEPS_BY_NAME[k].name);
        fflush(stdout);
    }
    return 0;
}
