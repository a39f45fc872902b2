/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial trees over places 0 … n−1: who hangs below whom. A place hangs below the one without its lowest set bit:
 *
 *                      0                        n = 11
 *         ┌────────────┼───────┬───┐
 *         8            4       2   1            the level of a place is its number of trailing zero bits: 0 for 1, 3,
 *      ┌──┴──┐      ┌──┴──┐    │                5 …, 1 for 2, 6, 10, 2 for 4, 3 for 8; the root is above all others, at
 *     10     9      6     5    3                ⌈log2 n⌉ = 4
 *                   │
 *                   7
 *
 * Every place is reached in as many hops as it has set bits, at most ⌈log2 n⌉, each a power of two long, the longest
 * first. Algorithms run many such trees at once, in which a rank stands at different places. A program then has a
 * worker for each level of places, and a worker takes its places in order: down the trees from the lowest to the
 * highest, up the trees from the highest to the lowest. So the first place in that order that is not done can always
 * be: whatever it waits for comes before it. One slot a connection is enough.
 */
#ifndef COLLET_ALGO_BINOMIAL_H
#define COLLET_ALGO_BINOMIAL_H

#define BINOMIAL_MAX_CHILDREN 31

/* The level of the root; the others are 0 … levels−1. */
int binomial_levels(int n);
int binomial_level(int n, int place);

/* The places of a level, from the lowest on: i = 0 … count−1. */
int binomial_count(int n, int level);
int binomial_place(int n, int level, int i);

/* Not of the root. */
static inline int binomial_parent(int place) { return place & (place - 1); }

/* How many places a place's tree has, itself included: it and its next ones. Of the places but the root: the most. */
int binomial_span(int n, int place);
int binomial_longest_span(int n);

/* Writes the children of place, nearest first; returns how many. */
int binomial_children(int n, int place, int child[BINOMIAL_MAX_CHILDREN]);

#endif
