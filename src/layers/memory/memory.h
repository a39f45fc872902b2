/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that programs get from collet, or tell it of.
 */
#ifndef COLLET_LAYERS_MEMORY_MEMORY_H
#define COLLET_LAYERS_MEMORY_MEMORY_H

#include "api/comm.h"

/* The end of a communicator ends its registrations. */
void memory_deregister_all(struct collet_comm *comm);

#endif
