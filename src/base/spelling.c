/* SPDX-License-Identifier: Apache-2.0
 *
 * See spelling.h. Words are compared by their optimal string alignment distance.
 */
#include "base/spelling.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int least(int a, int b) { return a < b ? a : b; }

static int same_letter(char a, char b) { return toupper((unsigned char)a) == toupper((unsigned char)b); }

/* The minimum number of letters to insert, delete, replace or swap with a neighbour to make `b` from `a`; case is ignored.
 * SPELLING_FAR: one of the words is too long to compare. */
static int spelling_distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    /* [i][j]: distance of the first i letters of a and the first j letters of b. */
    int d[SPELLING_WORD_MAX + 1][SPELLING_WORD_MAX + 1];
    if (na > SPELLING_WORD_MAX || nb > SPELLING_WORD_MAX)
        return SPELLING_FAR;
    for (size_t i = 0; i <= na; i++)
        for (size_t j = 0; j <= nb; j++) {
            d[i][j] = i == 0 || j == 0 ? (int)(i + j)
                                       : least(least(d[i - 1][j], d[i][j - 1]) + 1,
                                               d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

/* If two known words are equally near, the one with the same first letter wins. */
void spelling_offer(struct spelling *s, const char *known) {
    const int distance = 2 * spelling_distance(s->word, known) + !same_letter(s->word[0], known[0]);
    if (distance > 2 * least(3, 1 + (int)strlen(s->word) / 4) + 1 || distance >= s->distance)
        return;
    s->distance = distance;
    snprintf(s->hint, sizeof s->hint, "; did you mean %s?", known);
}
