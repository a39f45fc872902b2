/* SPDX-License-Identifier: Apache-2.0
 *
 * Which known word did somebody mean?
 */
#ifndef COLLET_BASE_SPELLING_H
#define COLLET_BASE_SPELLING_H

/* The fewest letters to insert, delete, replace or swap with their neighbour that make `b` of `a`, in any case.
 * SPELLING_FAR where one of the words is too long to compare. */
enum { SPELLING_WORD_MAX = 63, SPELLING_FAR = 1000 };
int spelling_distance(const char *a, const char *b);

/* Begin with {what somebody wrote, SPELLING_FAR}, and offer the known words. Then hint ends the message. */
struct spelling {
    const char *word;
    int distance;  /* 0: the word is known */
    char hint[96]; /* "; did you mean ring?", or "" if no known word is near */
};
void spelling_offer(struct spelling *spelling, const char *known);

#endif
