/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_WINDOWS_SEND_H
#define COLLET_LAYERS_WINDOWS_SEND_H

#include "layers/windows/endpoint.h"

/* Moves operations, replies and answers on. True: something moved. */
bool endpoint_send(struct endpoint *endpoint);

#endif
