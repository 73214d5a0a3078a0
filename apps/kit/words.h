/* Command lines: which words a program takes, and what they set. */
#ifndef KIT_WORDS_H
#define KIT_WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A word of the command line. Exactly one of the three pointers is not NULL; an empty name is the bare word. */
typedef struct word {
    const char *name;
    int *flag;            /* becomes 1 */
    size_t *count;        /* becomes the number that follows, from 1 to 2^31 */
    const char **choice;  /* becomes the text that follows ... */
    const char *choices;  /* ... which is one of these, parted by |; any text where this is NULL */
} word;

enum { WORD_COUNT_MAX = 2147483647 };

static inline void words_usage(const char *program, const word *words)
{
    fprintf(stderr, "usage: %s", program);
    for (; words->name != NULL; words++)
        if (words->choice != NULL)
            fprintf(stderr, words->name[0] ? " [%s %s]" : " [%s%s]", words->name, words->choices != NULL ? words->choices : "TEXT");
        else
            fprintf(stderr, words->flag != NULL ? " [%s]" : words->name[0] ? " [%s COUNT]" : " [%sCOUNT]", words->name);
    fprintf(stderr, "\n");
    exit(2);
}

/* Whether text is one of choices. */
static inline int words_offer(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = choices; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (len > 0 && strncmp(at, text, len) == 0 && (at[len] == '|' || at[len] == 0))
            return 1;
    }
    return 0;
}

static inline int words_take(const word *to, const char *text)
{
    if (to->choice != NULL) {
        *to->choice = text;
        return to->choices == NULL || words_offer(to->choices, text);
    }
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *to->count = value;
    return *text >= '0' && *text <= '9' && *end == 0 && value >= 1 && value <= WORD_COUNT_MAX;
}

/* Reads the command line into what `words` names; ends the program with its usage where a word is none of them. The
 * last of `words` has a NULL name. */
static inline void read_words(int argc, char **argv, const word *words)
{
    for (int at = 1; at < argc; at++) {
        const word *to = words;
        int is_bare = argv[at][0] != '-';
        while (to->name != NULL && strcmp(to->name, is_bare ? "" : argv[at]) != 0)
            to++;
        if (to->name == NULL)
            words_usage(argv[0], words);
        if (to->flag != NULL)
            *to->flag = 1;
        else if ((!is_bare && ++at == argc) || !words_take(to, argv[at]))
            words_usage(argv[0], words);
    }
}

#endif
