/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processes of one host tell each other about their GPUs.
 */
#ifndef COLLET_TRANSPORT_IPC_H
#define COLLET_TRANSPORT_IPC_H

#include "chan/chan.h"

/* Tells the ranks of this host in other processes which GPU this rank is on. */
enum collet_result ipc_hello(const struct chan *chan);

#endif
