/* main_memory MIB UPDATES: random updates, a sweep, a reading sweep and a quicksort of numbers that no compressor makes smaller; then
 * k-means of points, which reads all of them in each step. Prints a name and ns a line, by update and by page of 4 KiB; fails where a
 * number is not what it was. */
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

enum { DIMENSIONS = 8, CENTRES = 8, STEPS = 3 };

/* A number of a point, with as many random bits as there is room for. */
static double coordinate(size_t k)
{
    return (double)(mix(k ^ 0xc0ffee) >> 11) * 0x1p-53;
}

/* One step of k-means: new centres, as means of the points that are nearest to the old ones. */
static void step(const double *points, size_t n, double centres[CENTRES][DIMENSIONS])
{
    double sums[CENTRES][DIMENSIONS] = {{0}};
    size_t counts[CENTRES] = {0};
    for (size_t k = 0; k < n; k++) {
        const double *point = points + k * DIMENSIONS;
        int nearest = 0;
        double least = 1e300;
        for (int c = 0; c < CENTRES; c++) {
            double distance = 0;
            for (int d = 0; d < DIMENSIONS; d++)
                distance += (point[d] - centres[c][d]) * (point[d] - centres[c][d]);
            if (distance < least) {
                least = distance;
                nearest = c;
            }
        }
        counts[nearest]++;
        for (int d = 0; d < DIMENSIONS; d++)
            sums[nearest][d] += point[d];
    }
    for (int c = 0; c < CENTRES; c++)
        for (int d = 0; counts[c] && d < DIMENSIONS; d++)
            centres[c][d] = sums[c][d] / counts[c];
}

/* k-means of points in the same memory. 0 where a number changed. */
static int cluster(double *points, size_t n)
{
    double centres[CENTRES][DIMENSIONS];
    for (size_t k = 0; k < n * DIMENSIONS; k++)
        points[k] = coordinate(k);
    for (size_t k = 0; k < CENTRES * DIMENSIONS; k++)
        centres[k / DIMENSIONS][k % DIMENSIONS] = coordinate(~k);
    double begun = now();
    for (int k = 0; k < STEPS; k++)
        step(points, n, centres);
    printf("kmeans %f\n", (now() - begun) / (n * DIMENSIONS / 512) / STEPS);
    for (size_t k = 0; k < n * DIMENSIONS; k++)
        if (points[k] != coordinate(k))
            return 0;
    return 1;
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
    uint64_t read = 0;
    for (size_t k = 0; k < n; k++)
        read += a[k];
    printf("read %f\n", (now() - begun) / (n / 512));
    if (read != sum)
        return 1;

    begun = now();
    sort(a, n);
    printf("sort %f\n", (now() - begun) / (n / 512));
    for (size_t k = 0; k < n; k++) {
        if (k && a[k - 1] > a[k])
            return 1;
        sum -= a[k];
    }
    return sum != 0 || !cluster((double *)a, n / DIMENSIONS);
}
