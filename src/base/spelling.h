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

#endif
