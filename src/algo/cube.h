/* SPDX-License-Identifier: Apache-2.0
 *
 * Any number of ranks as a hypercube: a power of two of core ranks, and extra ranks that stand behind some of them.
 *
 *      6 ranks in the order of the shape     0 1   2 3   4   5
 *      core ranks, in binary                 00    01    10  11        partners at distance 2^k differ in bit k
 *      extra ranks                             e     e
 *
 * An extra rank hands its contribution to its core rank and gets the result from there.
 */
#ifndef COLLET_ALGO_CUBE_H
#define COLLET_ALGO_CUBE_H

#include "program/program.h"

struct cube {
    int nranks, nextras; /* core ranks are a power of two; the extra ranks are fewer */
    int self;            /* this rank's number among core ranks; for an extra rank, that of its core rank */
    bool extra;          /* 1: this is an extra rank */
};

struct cube cube_of(const struct prog *prog);

/* cube_rank: the core rank with this number. cube_extra: its extra rank; −1: none. */
int cube_rank(const struct prog *prog, const struct cube *cube, int number);
int cube_extra(const struct prog *prog, const struct cube *cube, int number);

#endif
