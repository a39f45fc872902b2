/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs whose results go back to where their operands came from: two-shot, and all programs with the same steps.
 *
 *      lend    IN(p) ──▶ p                                  one for each other rank p
 *      sum     all others, IN(r) ──▶ OUT(r), all others     one step
 *      hear    p ──▶ OUT(p)                                 one for each other rank p
 *
 * In such a program, p may store its result in OUT(p) of this rank as soon as p has it. This rank's loan of IN(p) tells p where OUT(p)
 * is (kernels/cuda/block_push.cuh).
 */
#ifndef COLLET_LAYERS_GPU_RETURNS_H
#define COLLET_LAYERS_GPU_RETURNS_H

#include "program/program.h"

bool gpu_returns(const struct prog *prog);

#endif
