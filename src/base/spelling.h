/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the known word that a misspelled word probably means.
 */
#ifndef COLLET_BASE_SPELLING_H
#define COLLET_BASE_SPELLING_H

/* SPELLING_WORD_MAX: maximum letters of a word that is compared. SPELLING_FAR: the distance of longer words. */
enum { SPELLING_WORD_MAX = 63, SPELLING_FAR = 1000 };

/* Initialise this with {the word that the user wrote, SPELLING_FAR}. Call spelling_offer() for all known words. Then append `hint` to the
 * error text. */
struct spelling {
    const char *word;
    int distance;  /* Distance to the nearest known word; 0: the word is known */
    char hint[96]; /* "; did you mean ring?", or "" if no known word is near */
};
void spelling_offer(struct spelling *spelling, const char *known);

#endif
