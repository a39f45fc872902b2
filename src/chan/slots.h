/* SPDX-License-Identifier: Apache-2.0
 *
 * How many slots a connection has, and how long they are.
 */
#ifndef COLLET_CHAN_SLOTS_H
#define COLLET_CHAN_SLOTS_H

#include "transport/conn.h"

/* The numbers that decide the sizes of slots, together with the configuration. */
struct chan_scale {
    int nranks, node_ranks; /* node_ranks: ranks per node; if nodes differ, those of a node that all ranks agree on */
    bool messages;          /* each slot is a message (transport.h) */
    bool on_gpus;           /* ranks are on GPUs */
    bool turns;             /* processes take turns on a GPU */
};
/* Maximum memory of a rank's connections of one kind, for one direction and channel. */
#define CHAN_BUDGET_BYTES (320u << 20)
/* Computes the layout of each kind of connections: see struct conn_owner. */
void chan_layouts(const struct config *config, const struct chan_scale *scale,
                  struct fifo_layout layouts[PROG_CONNECTS_COUNT]);
/* Bytes per slot within which payloads roam. With many neighbours it is less, because their connections share the caches. */
uint32_t chan_roam_bytes(int neighbours);

#endif
