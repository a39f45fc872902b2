/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_WINDOWS_RECEIVE_H
#define COLLET_LAYERS_WINDOWS_RECEIVE_H

#include "layers/windows/endpoint.h"

/* Works off the slots that have come. `windows`: those of this rank. Errors: INTERNAL: the peer sent what it may not send. NO_MEMORY.
 * *moved is set if something came. */
enum collet_result endpoint_receive(struct endpoint *endpoint, struct rma_window *windows, bool *moved);

#endif
