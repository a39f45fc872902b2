/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of one operator, one per type. The Makefile compiles this file once per operator, so that several CPUs share
 * the work: EXEC_OP is the operator's enumerator, EXEC_ROW the array's name.
 */
#include "kernels/exec_cuda.cuh"

#define KERNEL(TYPE, ...) (const void *)run_launch<reduction<COLLET_##TYPE, EXEC_OP>>,
extern "C" const void *const EXEC_ROW[COLLET_TYPE_COUNT] = {COLLET_TYPES(KERNEL)};
