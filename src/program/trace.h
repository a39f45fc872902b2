/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows what ranks hold while the symbolic machine runs:
 *
 *      turn 2  step  OUT 0     OUT 1  in slots       rank 1 did step 1 in this turn; its OUT block 0 has the finished sum
 *      rank 0     1  =r0+r1    -      -              (=) of both contributions, its block 1 nothing. Block 1 of rank 0
 *      rank 1     1  -         r1     <0 1:=r0+r1    arrived from rank 0 (<0) and was not read yet.
 *
 * r2[3] is block 3 of rank 2's IN; the number is left out where block 3 belongs. More than 3 ranks in a row: r0+..+r7.
 */
#ifndef COLLET_PROGRAM_TRACE_H
#define COLLET_PROGRAM_TRACE_H

#include "program/machine.h"

#include <stdio.h>

/* Runs the first round, in which every worker that is able to takes one step per turn; a table per turn. false: a step
 * failed. machine_run() goes on from there. */
bool trace_turns(struct machine *m, FILE *out);

/* What the ranks that the failed step is about hold; nothing if no step was done. */
void trace_failure(const struct machine *m, FILE *out);

#endif
