/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a process whose ranks share a GPU: their collectives are launched together, by the thread that comes last.
 *
 *    thread of rank 0    comes ─ waits ───────────────────▶ goes on        stream 0   ──┐        ┌─▶
 *    thread of rank 1    comes ─ waits ───────────────────▶ goes on        stream 1   ──┤  grid  ├─▶
 *    thread of rank 2              comes last ─ launches ─▶ goes on        stream 2   ──┴────────┴─▶
 *
 * Why not a launch by each thread? A GPU has few queues, and the streams of a process share them. In a queue, work waits for what was
 * put before it, though it may be of another stream:
 *
 *    a queue    rank 0's kernel   (runs, and waits for rank 3)
 *               what rank 0's stream has next   (waits for that kernel)
 *               rank 3's kernel   (waits behind it, without end)
 *
 * One grid that holds all of them waits for none of them. So these ranks cannot keep each other waiting, whatever streams the program
 * has, and whatever else is in them.
 *
 * Who is in a capture launches alone: its graph holds its own call. So does a thread that has called for another rank of the company
 * before, and now leaves it out: it would wait for itself. All others then launch this call alone, too. Messages go alone in any case,
 * since a rank need not have any.
 */
#ifndef COLLET_LAYERS_GPU_GPU_COMPANY_H
#define COLLET_LAYERS_GPU_GPU_COMPANY_H

#include "layers/gpu/gpu_launch.h"

/* From now on the rank is one of those that share its GPU in this process and communicator. Until leave. */
enum collet_result gpu_company_join(const struct chan *chan);
void gpu_company_leave(const struct chan *chan);

/* As gpu_launch_set(), for the ranks of this thread. Waits until all others of the company make this call, or one of them launches it
 * alone; TIMEOUT names those that did not. */
enum collet_result gpu_company_launch(struct gpu_entry *set, int n);

#endif
