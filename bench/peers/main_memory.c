/* main_memory MIB UPDATES: random updates, a sweep and a quicksort of numbers that no compressor makes smaller. Prints a name and ns a
 * line, by update and by page of 4 KiB; fails where a number is not what it was. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t mix(uint64_t x)
{
    x = (x + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

static void sort(uint64_t *a, size_t n)
{
    while (n > 1) {
        uint64_t pivot = a[(n - 1) / 2];
        size_t i = 0, j = n - 1;
        for (;; i++, j--) {
            while (a[i] < pivot)
                i++;
            while (a[j] > pivot)
                j--;
            if (i >= j)
                break;
            uint64_t other = a[i];
            a[i] = a[j];
            a[j] = other;
        }
        /* The shorter side first, so that the stack stays flat. */
        size_t left = j + 1, right = n - left;
        if (left < right) {
            sort(a, left);
            a += left;
            n = right;
        } else {
            sort(a + left, right);
            n = left;
        }
    }
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    size_t n = strtoull(words[1], NULL, 10) * ((1 << 20) / 8), updates = strtoull(words[2], NULL, 10);
    uint64_t *a = malloc(n * 8), sum = 0;
    if (!a)
        return 3;
    for (size_t k = 0; k < n; k++)
        sum += a[k] = mix(k);

    double begun = now();
    for (size_t k = 0; k < updates; k++) {
        size_t at = mix(k ^ 0x5bd1e995) % n;
        sum += a[at] ^ (uint64_t)k, sum -= a[at];
        a[at] ^= k;
    }
    printf("update %f\n", (now() - begun) / updates);

    begun = now();
    for (size_t k = 0; k < n; k++)
        a[k] += 1;
    printf("sweep %f\n", (now() - begun) / (n / 512));
    sum += n;

    begun = now();
    sort(a, n);
    printf("sort %f\n", (now() - begun) / (n / 512));
    for (size_t k = 0; k < n; k++) {
        if (k && a[k - 1] > a[k])
            return 1;
        sum -= a[k];
    }
    return sum != 0;
}
