/* What the test programs check with: the first thing that is not as expected ends the program with a line that says so. */
#ifndef EXPECT_H
#define EXPECT_H

#include <hanare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                     \
    do {                                                                                                      \
        if (!(condition)) {                                                                                   \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition,           \
                    hanare_last_error());                                                                     \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

/* The call returns 0. */
#define EXPECT_OK(call) EXPECT((call) == HANARE_OK)

/* The call returns the code, and its message begins with its name and holds the words. */
#define EXPECT_ERROR(call, code, words) expect_error((call), (code), #call, (words), __FILE__, __LINE__)

static inline void expect_error(int was, int code, const char *call, const char *words, const char *file, int line)
{
    const char *message = hanare_last_error();
    size_t name = strcspn(call, "( ");
    if (was == code && strncmp(message, call, name) == 0 && strncmp(message + name, ": ", 2) == 0
        && strstr(message, words) != NULL)
        return;
    fprintf(stderr, "%s:%d: %s returned %d, not %d, with \"%s\", which should begin with the call and hold \"%s\"\n",
            file, line, call, was, code, message, words);
    exit(1);
}

/* A buffer of `len` bytes that depend on `seed`. The caller frees it. */
static inline unsigned char *noise(size_t len, unsigned seed)
{
    unsigned char *bytes = (unsigned char *)malloc(len);
    EXPECT(bytes != NULL);
    for (size_t at = 0; at < len; at++)
        bytes[at] = (unsigned char)((at * 2654435761u + seed * 40503u) >> 11);
    return bytes;
}

#endif
