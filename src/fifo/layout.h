/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything lies in the memory of a connection, and how that memory and its ends begin.
 */
#ifndef COLLET_FIFO_LAYOUT_H
#define COLLET_FIFO_LAYOUT_H

#include "base/config.h"
#include "fifo/fifo.h"

/* The layout of nslots slots of slot_bytes, and LL and LL128 slots of ll_bytes payload. */
struct fifo_layout fifo_layout_of(uint32_t nslots, uint32_t slot_bytes, uint32_t ll_bytes);
/* The same with room_bytes ≥ slot_bytes from a Simple slot to the next. */
struct fifo_layout fifo_layout_roomy(uint32_t nslots, uint32_t slot_bytes, uint32_t room_bytes, uint32_t ll_bytes);

/* Points end into memory laid out so, with both counters at first_step. The consumer's side also initialises memory. */
void fifo_end_init(struct fifo_end *end, void *memory, const struct fifo_layout *layout, const struct config *config);
void fifo_memory_init(void *memory, const struct fifo_layout *layout, const struct config *config);

#endif
