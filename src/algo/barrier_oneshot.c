/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot barrier: every rank tells all others that it has come. n(n−1) empty messages, but a single hop
 * (allreduce_oneshot.c has the picture).
 */
#include "program/program.h"

void allreduce_oneshot_build(struct prog *prog);

void barrier_oneshot_build(struct prog *prog) { allreduce_oneshot_build(prog); }
