/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU memory for the FIFOs of connections within a process. To get memory from CUDA takes longer than many calls, and the first
 * call of a GPU makes a hundred connections. So FIFOs share slabs. Each new slab has as many pieces as all earlier slabs
 * together:
 *
 *    slab     │ FIFO │ FIFO │ … 8 │      │ … 8 more │      │ … 16 more │       pieces of one length, on one GPU; a bit each: taken or not
 */
#ifndef COLLET_TRANSPORT_IPC_GPU_FIFOS_H
#define COLLET_TRANSPORT_IPC_GPU_FIFOS_H

#include "layers/gpu/gpu.h"
#include "transport/conn.h"

/* Takes zeroed memory of the GPU that is entered. `ordinal` is that GPU. */
enum collet_result gpu_fifo_take(const struct gpu_driver *driver, int ordinal, size_t bytes, void **memory_p);
void gpu_fifo_give_back(const struct gpu_driver *driver, void *memory);

/* Initializes a FIFO, like fifo_memory_init(), or only one of its two counters, in memory of the GPU that is entered. */
enum collet_result conn_memory_init_on_gpu(const struct conn *conn, void *memory);
enum collet_result conn_counter_init_on_gpu(const struct conn *conn, void *counter);

/* The error of a connection whose owner has whole_lines, but whose slots cannot lie in memory where LL128 lines arrive whole. */
enum collet_result conn_err_not_whole(const struct conn *conn);

#endif
