/* SPDX-License-Identifier: Apache-2.0
 *
 * May the kernel copy payloads between processes of a node, instead of slots (COLLET_DIRECT=cma)?
 *
 *      slots       producer ──copies──▶ slot ──copies──▶ consumer      two copies, of lines that go from CPU to CPU
 *      kernel      producer's memory ──process_vm_readv()──▶ consumer   one copy; the kernel looks up each page
 *
 * Which is faster depends on the machine. For 64 KiB between near CPUs, an Intel Xeon takes 9 µs through slots and 4 µs through the
 * kernel, an AMD EPYC 5 and 6 µs. So the lowest rank of a node measures it, beside the distance of the CPUs
 * (distance.h), and all ranks know what it found.
 */
#ifndef COLLET_LAYERS_TUNER_KERNEL_COPIES_H
#define COLLET_LAYERS_TUNER_KERNEL_COPIES_H

#include "boot/boot.h"

#include <stdbool.h>

/* As COLLET_KERNEL_COPIES says, else measured: a fraction of a millisecond. False where nothing goes from CPU to CPU, and where it
 * cannot be measured, also because the kernel forbids it to this rank: then no rank of the node uses it. Says in the log what it
 * found. */
bool kernel_copies_pay(const struct config *config, const struct peer_info *peers, int nranks, int node);

#endif
