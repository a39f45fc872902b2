/* SPDX-License-Identifier: Apache-2.0
 *
 * Which known word did somebody mean?
 */
#ifndef COLLET_BASE_SPELLING_H
#define COLLET_BASE_SPELLING_H

/* The minimum number of letters to insert, delete, replace or swap with a neighbour to make `b` from `a`; case is ignored.
 * SPELLING_FAR: one of the words is too long to compare. */
enum { SPELLING_WORD_MAX = 63, SPELLING_FAR = 1000 };
int spelling_distance(const char *a, const char *b);

/* Start with {the word that somebody wrote, SPELLING_FAR}. Offer all known words. Then append hint to the error text. */
struct spelling {
    const char *word;
    int distance;  /* 0: the word is known */
    char hint[96]; /* "; did you mean ring?", or "" if no known word is near */
};
void spelling_offer(struct spelling *spelling, const char *known);

#endif
