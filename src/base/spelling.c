/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimal string alignment distance, a row of the table per letter of `a`.
 */
#include "base/spelling.h"

#include <ctype.h>
#include <string.h>

static int least(int a, int b) { return a < b ? a : b; }

static int same_letter(char a, char b) { return toupper((unsigned char)a) == toupper((unsigned char)b); }

int spelling_distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    int rows[3][SPELLING_WORD_MAX + 1]; /* of letter i, i − 1 and i − 2, modulo 3 */
    if (na > SPELLING_WORD_MAX || nb > SPELLING_WORD_MAX)
        return SPELLING_FAR;
    for (size_t i = 0; i <= na; i++) {
        int *now = rows[i % 3], *before = rows[(i + 2) % 3], *two_before = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            if (i == 0) {
                now[j] = (int)j;
                continue;
            }
            now[j] = least(least(before[j], now[j - 1]) + 1, before[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                now[j] = least(now[j], two_before[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}
