/* SPDX-License-Identifier: Apache-2.0
 *
 * How many slots a connection has, and how many bytes each slot takes.
 */
#ifndef COLLET_CHAN_SLOTS_H
#define COLLET_CHAN_SLOTS_H

#include "transport/conn.h"

/* The numbers that decide the sizes of slots, together with the configuration. */
struct chan_scale {
    /* node_ranks: ranks per node. If nodes differ, all ranks use the number of one and the same node. */
    int nranks, node_ranks;
    bool messages; /* True: a transport sends each slot as a message (transport.h) */
    bool on_gpus;  /* True: the ranks are on GPUs */
    bool turns;    /* True: some processes take turns on a GPU */
};
/* Maximum bytes of a rank's connections of one kind (enum prog_connects), for one direction and channel. */
#define CHAN_BUDGET_BYTES (320u << 20)
/* Computes the layout of each kind of connections: see struct conn_owner. */
void chan_layouts(const struct config *config, const struct chan_scale *scale,
                  struct fifo_layout layouts[PROG_CONNECTS_COUNT]);
/* The bytes of a slot within which payloads roam. With many neighbours they are fewer, because all connections share the caches. */
uint32_t chan_roam_bytes(int neighbours);

#endif
