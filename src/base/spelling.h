/* SPDX-License-Identifier: Apache-2.0
 *
 * Which known word did somebody mean?
 */
#ifndef COLLET_BASE_SPELLING_H
#define COLLET_BASE_SPELLING_H

/* Letters of a word that is compared; and the distance of words that are longer. */
enum { SPELLING_WORD_MAX = 63, SPELLING_FAR = 1000 };

/* Start with {the word that somebody wrote, SPELLING_FAR}. Offer all known words. Then append hint to the error text. */
struct spelling {
    const char *word;
    int distance;  /* 0: the word is known */
    char hint[96]; /* "; did you mean ring?", or "" if no known word is near */
};
void spelling_offer(struct spelling *spelling, const char *known);

#endif
