/* SPDX-License-Identifier: Apache-2.0
 *
 * A barrier is an allreduce of nothing: every rank's result depends on every rank. By recursive doubling it takes ⌈log2 n⌉
 * hops, each with an empty slot (allreduce_doubling.c has the picture).
 */
#include "program/program.h"

void allreduce_doubling_build(struct prog *prog);

void barrier_doubling_build(struct prog *prog) { allreduce_doubling_build(prog); }
