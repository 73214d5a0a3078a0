/* Quicksort in main memory by one thread: what all other versions are measured against. Run `quicksort-plain 16777216`. */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    uint32_t *numbers = (uint32_t *)take_pages(o.count * sizeof *numbers, o.pages);
    for (size_t k = 0; k < o.count; k++)
        numbers[k] = sort_number(k);

    double start = seconds();
    sort_numbers(numbers, o.count);
    double end = seconds();

    line to = begin_line(&o, "plain", 1);
    line_number(to, "seconds", end - start);
    return end_line(&o, to, numbers);
}
