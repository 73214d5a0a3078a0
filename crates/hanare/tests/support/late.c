/* A library that is loaded while regions are mapped, or before: it knows nothing of them, and uses pointers that it is given. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t found;

/* In the dynamic linker: the place is written in a file, since nobody can call anything here before. */
__attribute__((constructor)) static void begin(void)
{
    FILE *file = fopen(PLACE, "r");
    void *place = NULL;
    if (!file)
        return;
    if (fscanf(file, "%p", &place) == 1 && place) {
        volatile uint64_t *at = place;
        found = at[0];
        at[1] = found + 1;
    }
    fclose(file);
}

uint64_t late_found(void)
{
    return found;
}

uint64_t late_swap(volatile uint64_t *at, uint64_t value)
{
    uint64_t before = *at;
    *at = value;
    return before;
}

/* A thread that is there before it is known what it will touch. */
static pthread_t thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static uint64_t *place;
static __thread uint64_t own;

static void *swap_once(void *value)
{
    pthread_mutex_lock(&mutex);
    while (!place)
        pthread_cond_wait(&given, &mutex);
    own = late_swap(place, (uintptr_t)value);
    place = NULL;
    pthread_mutex_unlock(&mutex);
    return (void *)(uintptr_t)own;
}

int late_begin(uint64_t value)
{
    return pthread_create(&thread, NULL, swap_once, (void *)(uintptr_t)value);
}

uint64_t late_end(uint64_t *at)
{
    void *before;
    pthread_mutex_lock(&mutex);
    place = at;
    pthread_cond_signal(&given);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, &before);
    return (uintptr_t)before;
}

void late_copy(void *to, const void *from, uint64_t len)
{
    memcpy(to, from, len);
}

uint64_t late_strlen(const char *text)
{
    return strlen(text);
}

static const uint64_t *values;

static int by_value(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static int by_place(const void *one, const void *other)
{
    return by_value(values + *(const uint32_t *)one, values + *(const uint32_t *)other);
}

/* Sorts the words themselves. */
void late_sort(uint64_t *words, uint64_t count)
{
    qsort(words, count, sizeof *words, by_value);
}

/* Sorts their numbers, in memory of the C library, by the words. */
void late_order(const uint64_t *words, uint32_t *numbers, uint64_t count)
{
    values = words;
    qsort(numbers, count, sizeof *numbers, by_place);
}
