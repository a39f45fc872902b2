/* SPDX-License-Identifier: Apache-2.0
 *
 * The team of a window (layers/gpu/gpu.h). The buffers of all ranks are under one address. So switches can sum the contents of the buffers,
 * and can store the same bytes in all of them (kernels/cuda/block_team.cuh).
 *
 *      rank 0 creates it ══ a descriptor ══▶ all join ── meet ──▶ all bind ── meet ──▶ all map ── meet ──▶ there is a team
 *
 *      the team's address     │ ····a····b········ │    offset a, in the buffers of all ranks
 *      buffer of rank 0       │    [ window     ]│
 *      buffer of rank 1       │    [ window     ]  │
 *
 * All ranks have a team, or no rank has one: a rank that cannot go on says so when they meet. A rank's window may lie anywhere in its
 * buffer, but a switch is used only for places that have the same offset on all ranks.
 */
#ifndef COLLET_LAYERS_GPU_WINDOW_TEAM_H
#define COLLET_LAYERS_GPU_WINDOW_TEAM_H

#include "layers/gpu/window_meet.h"
#include "layers/gpu/buffers.h"
#include "fifo/loan_end.h"

/* Returns the length of the buffer, if its GPU can bind it, and may be in a team with the GPUs of all ranks. 0: there can be no team. */
uint64_t window_team_bytes(const struct conn_owner *owner, const struct gpu_buffer *buffer);

/* Collective. bytes: length of the longest buffer of a rank. If the team cannot be made, it has no address, on all ranks, and that is no
 * failure. Failures are those of the meeting. */
enum collet_result window_team_make(struct window_meeting *meeting, const struct gpu_buffer *buffer, uint64_t bytes,
                                    struct gpu_team *team);

/* Ends the team. The rank's work must be done. A team that was not made is fine. */
void window_team_end(const struct conn_owner *owner, struct gpu_team *team);

/* Returns what blocks on the rank's GPU have to know of the window with this number. */
struct loan_team window_team_note(const struct gpu_team *team, const struct gpu_buffer *buffer, uint32_t number);

#endif
