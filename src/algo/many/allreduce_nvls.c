/* SPDX-License-Identifier: Apache-2.0
 *
 * NVLS allreduce: two-shot, of which NVSwitches may do the work. The buffer is cut into one slice per rank; rank r owns slice r.
 *
 *      two-shot, by loans                               by switches (NVLink SHARP)
 *      worker 0   lends slice p to its owner p          the same: "my slice p may be read, and stored where its result belongs"
 *      worker 1   loads slice r of every rank,          loads the sum of all slices r by one address,
 *                 stores the sum, lends it to all       stores it for all ranks by one address
 *      worker 2   copies slice p from its owner p       hears from owner p that it is there
 *
 * Both are the same steps, so this is one program, and what is proved of two-shot holds here. Whether switches do a step, the block
 * that runs it sees by what it was lent (kernels/cuda/block_team.cuh): all ranks' slices must lie at one place of windows that have a
 * team (layers/gpu/window_team.h). On host memory, and wherever they do not, this is two-shot.
 *
 * Why is it faster? Of S bytes on n GPUs, a GPU of two-shot sends and receives 2 S (n−1)/n; here its links carry S (n+1)/n each way.
 * With 8 GPUs that is 1.75 S and 1.125 S. And a block loads one value in the place of n.
 *
 * A switch sums in its own order. All ranks get the same bits, but perhaps others than in rank order.
 * After: B. Klenk, N. Jiang, G. Thorson, L. Dennison, "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor
 * Collectives", ISCA 2020.
 */
#include "program/program.h"

void allreduce_twoshot_build(struct prog *prog);

void allreduce_nvls_build(struct prog *prog) { allreduce_twoshot_build(prog); }
