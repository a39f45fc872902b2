/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs whose results go back to where their operands came from: two-shot, and whatever has its steps.
 *
 *      lend    IN(p) ──▶ p                                  one for each other rank p
 *      sum     all others, IN(r) ──▶ OUT(r), all others     one
 *      hear    p ──▶ OUT(p)                                 one for each other rank p
 *
 * There p may store its result in OUT(p) of this rank as soon as it has it: this rank's loan of IN(p) says where that is
 * (kernels/cuda/block_push.cuh).
 */
#ifndef COLLET_LAYERS_GPU_RETURNS_H
#define COLLET_LAYERS_GPU_RETURNS_H

#include "program/program.h"

bool gpu_returns(const struct prog *prog);

#endif
