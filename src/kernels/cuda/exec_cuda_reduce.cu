/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of one operator, one per type. The Makefile compiles this file once per operator, so that several CPUs share
 * the work: EXEC_OP, EXEC_TYPES and EXEC_SIGN are from the operator's row in COLLET_OPS, EXEC_ROW is the array's name.
 */
#include "kernels/cuda/kernel.cuh"

#define LAUNCH (const void *)run_launch
extern "C" const void *const EXEC_ROW[COLLET_TYPE_COUNT] = {BLOCK_KERNELS(LAUNCH, EXEC_OP, EXEC_TYPES, EXEC_SIGN)};
