/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that other ranks write into.
 */
#ifndef COLLET_API_WINDOW_H
#define COLLET_API_WINDOW_H

#include "api/comm.h"

/* The end of a communicator ends its windows. */
void window_deregister_all(struct collet_comm *comm);

#endif
