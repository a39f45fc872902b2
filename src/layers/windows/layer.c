/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer "windows": ends transfers and windows when a communicator ends.
 */
#include "layers/windows/transfer.h"
#include "layers/windows/window.h"
#include "seams/layer.h"

static bool close_comm(struct collet_comm *comm) {
    transfer_end_all(comm);
    window_end_all(comm);
    return true;
}

const struct layer layer_windows = {.comm_close = close_comm};
