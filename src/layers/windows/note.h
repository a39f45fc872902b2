/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes behind transfers. On host memory they are packets of the RMA engine. Between GPUs they are messages of the control plane, which the
 * host sends when the GPU has moved the pieces.
 */
#ifndef COLLET_LAYERS_WINDOWS_NOTE_H
#define COLLET_LAYERS_WINDOWS_NOTE_H

#include "collet.h"

/* Sends a note from a rank on a GPU. If that is not possible, the communicator fails. */
void note_send(const struct collet_comm *comm, int peer, const char *note, size_t bytes);

#endif
