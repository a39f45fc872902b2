/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_WINDOWS_TRANSFER_H
#define COLLET_LAYERS_WINDOWS_TRANSFER_H

#include "collet.h"

/* Ends all transfers of a communicator. Call it when the communicator ends. */
void transfer_end_all(struct collet_comm *comm);

#endif
