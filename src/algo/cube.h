/* SPDX-License-Identifier: Apache-2.0
 *
 * Any number of ranks as a hypercube: a power of two of core ranks, and extra ranks that stand behind some of them.
 *
 *      6 ranks in the order of the shape     0 1   2 3   4   5
 *      core ranks, in binary                 00    01    10  11        partners at distance 2^k differ in bit k
 *      extra ranks                             e     e
 *
 * An extra rank sends its contribution to its core rank, and gets the result from it.
 */
#ifndef COLLET_ALGO_CUBE_H
#define COLLET_ALGO_CUBE_H

#include "program/program.h"

struct cube {
    int nranks, nextras; /* Number of core ranks, a power of two; number of extra ranks, which is smaller */
    int self;            /* This rank's number among core ranks. For an extra rank: the number of its core rank */
    bool extra;          /* True: this rank is an extra rank */
};

struct cube cube_of(const struct prog *prog);

/* cube_rank: the core rank with this number. cube_extra: the extra rank of that core rank; −1: it has none. */
int cube_rank(const struct prog *prog, const struct cube *cube, int number);
int cube_extra(const struct prog *prog, const struct cube *cube, int number);

#endif
