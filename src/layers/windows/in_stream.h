/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on windows of GPUs. They hold the communicator's lock, as collectives do: so the rank's operations have one order.
 */
#ifndef COLLET_LAYERS_WINDOWS_IN_STREAM_H
#define COLLET_LAYERS_WINDOWS_IN_STREAM_H

#include "layers/windows/window.h"

/* A put of these bytes, without a signal. */
struct onesided_move in_stream_move_of(const struct collet_window *window, int peer,
                                       const struct window_target *target);
/* See gpu_onesided_move() and gpu_onesided_wait(). The caller has entered comm. */
enum collet_result in_stream_move(struct collet_comm *comm, const struct onesided_move *move, void *stream);
enum collet_result in_stream_wait(struct collet_comm *comm, uint32_t number, const struct onesided_wait *waits, int n,
                                  void *stream);

#endif
