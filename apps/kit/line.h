/* The line that a program prints when it is done: key=value words, or with --json one JSON object. */
#ifndef KIT_LINE_H
#define KIT_LINE_H

#include <stdio.h>

typedef struct line {
    int is_json;
} line;

static inline line line_begin(int is_json, const char *program, const char *variant)
{
    line to = {is_json};
    printf(is_json ? "{\"program\": \"%s\", \"variant\": \"%s\"" : "%s variant=%s", program, variant);
    return to;
}

static inline void line_text(line to, const char *key, const char *text)
{
    printf(to.is_json ? ", \"%s\": \"%s\"" : " %s=%s", key, text);
}

static inline void line_count(line to, const char *key, unsigned long long count)
{
    printf(to.is_json ? ", \"%s\": %llu" : " %s=%llu", key, count);
}

/* A time, rate or difference; all digits that a double has where it is small. */
static inline void line_number(line to, const char *key, double number)
{
    printf(to.is_json ? ", \"%s\": %.9g" : " %s=%.9g", key, number);
}

static inline void line_end(line to)
{
    printf(to.is_json ? "}\n" : "\n");
    fflush(stdout);
}

#endif
