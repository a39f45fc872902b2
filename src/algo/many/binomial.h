/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial trees over places 0 … n−1. The parent of a place is the place without its lowest set bit:
 *
 *                      0                        n = 11
 *         ┌────────────┼───────┬───┐
 *         8            4       2   1            the level of a place is its number of trailing zero bits: 0 for 1, 3,
 *      ┌──┴──┐      ┌──┴──┐    │                5 …, 1 for 2, 6, 10, 2 for 4, 3 for 8; the root is above all others, at
 *     10     9      6     5    3                ⌈log2 n⌉ = 4
 *                   │
 *                   7
 *
 * From the root, a place is reached in as many hops as its number has set bits, at most ⌈log2 n⌉. Each hop is a power of two long, and the
 * longest comes first. Algorithms run many such trees at once, in which a rank stands at different places. A program then has a
 * worker for each level, and a worker does its places in order: down the trees from the lowest number to the
 * highest, up the trees from the highest to the lowest. So the first place in that order that is not done can always
 * be done: it waits only for places before it. One slot per connection is enough.
 */
#ifndef COLLET_ALGO_BINOMIAL_H
#define COLLET_ALGO_BINOMIAL_H

#define BINOMIAL_MAX_CHILDREN 31

/* The level of the root. All other places have levels 0 … binomial_levels(n)−1. */
int binomial_levels(int n);
int binomial_level(int n, int place);

/* The places of a level, from the lowest on: i = 0 … count−1. */
int binomial_count(int n, int level);
int binomial_place(int n, int level, int i);

/* The parent of a place other than the root. */
static inline int binomial_parent(int place) { return place & (place - 1); }

/* binomial_span: the number of places in the tree below a place, itself included; they are the place and the next ones.
 * binomial_longest_span: the largest span of a place other than the root. */
int binomial_span(int n, int place);
int binomial_longest_span(int n);

/* Writes the children of a place to child, nearest first. Returns their number. */
int binomial_children(int n, int place, int child[BINOMIAL_MAX_CHILDREN]);

#endif
