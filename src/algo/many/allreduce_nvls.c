/* SPDX-License-Identifier: Apache-2.0
 *
 * NVLS allreduce: two-shot, with sums that NVSwitches may compute. The buffer is cut into one slice per rank. Rank r owns slice r.
 *
 *      two-shot, by loans                               by switches (NVLink SHARP)
 *      worker 0   lends slice p to its owner p          lends slice p to its owner p, and the place of the result too
 *      worker 1   loads slice r of every rank,          loads the sum of all slices r by one address,
 *                 stores the sum, lends it to all       stores it for all ranks by one address
 *      worker 2   copies slice p from its owner p       learns from owner p that slice p is complete
 *
 * Both columns are the same steps. So there is one program, and the proofs of two-shot hold here. The block that runs a step sees from the
 * loans whether switches can compute it (kernels/cuda/block_team.cuh): all ranks' slices must lie at one place of windows that have a
 * team (layers/gpu/window_team.h). On host memory, and if slices do not lie so, this algorithm is two-shot.
 *
 * Why are switches faster? For S bytes on n GPUs, a GPU sends and receives 2 S (n−1)/n in two-shot. With switches its links carry
 * S (n+1)/n each way. With 8 GPUs that is 1.75 S and 1.125 S. And a block loads one value instead of n.
 *
 * A switch sums in its own order. All ranks get the same bits, but perhaps others than in rank order.
 * After: B. Klenk, N. Jiang, G. Thorson, L. Dennison, "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor
 * Collectives", ISCA 2020.
 */
#include "program/program.h"

void allreduce_twoshot_build(struct prog *prog);

void allreduce_nvls_build(struct prog *prog) { allreduce_twoshot_build(prog); }
