/* SPDX-License-Identifier: Apache-2.0
 *
 * The team of a window (layers/gpu/gpu.h): the GPUs of all ranks have their buffers under one address, so that switches can sum what lies
 * in them, and store what all are to have (kernels/cuda/block_team.cuh).
 *
 *      rank 0 creates it ══ a descriptor ══▶ all join ── meet ──▶ all bind ── meet ──▶ all map ── meet ──▶ there is a team
 *
 *      the team's address     │ ····a····b········ │    offset a, in the buffers of all ranks
 *      buffer of rank 0       │    [ window     ]│
 *      buffer of rank 1       │    [ window     ]  │
 *
 * All ranks have one, or none has: whoever cannot go on says so when they meet. Where each rank's windows lie in its buffer is its
 * own business; a switch is used for places that are at one offset on all ranks.
 */
#ifndef COLLET_LAYERS_GPU_WINDOW_TEAM_H
#define COLLET_LAYERS_GPU_WINDOW_TEAM_H

#include "layers/gpu/window_meet.h"
#include "layers/gpu/buffers.h"
#include "fifo/loan_end.h"

/* How long is the buffer, if its GPU can bind it, and may be in a team with those of all ranks? 0: it cannot. */
uint64_t window_team_bytes(const struct conn_owner *owner, const struct gpu_buffer *buffer);

/* Collective. bytes: of the longest buffer of a rank. A team that could not be made has no address, on all ranks. Failures are those
 * of the meeting. */
enum collet_result window_team_make(struct window_meeting *meeting, const struct gpu_buffer *buffer, uint64_t bytes,
                                    struct gpu_team *team);

/* The rank's work is done. A team that was not made is fine. */
void window_team_end(const struct conn_owner *owner, struct gpu_team *team);

/* What blocks on the rank's GPU are to know of the window of this number. */
struct loan_team window_team_note(const struct gpu_team *team, const struct gpu_buffer *buffer, uint32_t number);

#endif
