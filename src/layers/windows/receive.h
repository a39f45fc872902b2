/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_WINDOWS_RECEIVE_H
#define COLLET_LAYERS_WINDOWS_RECEIVE_H

#include "layers/windows/endpoint.h"

/* Works off the slots that have come. windows: the windows of this rank. INTERNAL: the peer broke the protocol. NO_MEMORY is possible.
 * *moved is set if something came. */
enum collet_result endpoint_receive(struct endpoint *endpoint, struct rma_window *windows, bool *moved);

#endif
