/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks hold a communicator up? The ends of chains of ranks that wait for each other.
 *
 *      rank 0 ── waits for ──▶ rank 3 ── waits for ──▶ rank 1: is stopped
 *      rank 2 ────────────────────────────────────────────▲
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_BLAME_H
#define COLLET_LAYERS_TOOLS_STATUS_BLAME_H

#include "layers/tools/status/ask.h"

/* Sets `blocks` and `blocked` of every rank. Returns how many ranks hold others up. */
int blame_find(struct status_job *job);

/* Describes a rank that holds others up: "rank 1 (host n1, process 77), which is stopped; ranks that wait for it: 2". */
void blame_describe(const struct status_rank *rank, char *text, size_t room);

#endif
