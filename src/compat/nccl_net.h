/* SPDX-License-Identifier: Apache-2.0
 *
 * What libnccl-net-collet.so does, whatever version of the interface asks for it: see nccl_net.c. Senders, receivers, listeners and
 * requests are the program's from the call that makes them to the one that closes them, or finds them done.
 */
#ifndef COLLET_COMPAT_NCCL_NET_H
#define COLLET_COMPAT_NCCL_NET_H

#include "transport/plug_abi.h"

#include <stddef.h>

/* Where failures are told from now on. */
void net_tell(plug_log *log);

int net_listen(void *handle, void **listener);
int net_close_listen(void *listener);
/* Both to be called until there is a receiver or a sender. */
int net_accept(void *listener, void **receiver, void **on_device);
int net_connect(void *handle, void **sender);
int net_close(void *line);

/* A sender sends, a receiver has room for a message. *request is NULL where nothing is taken now. */
int net_enqueue(void *line, void *data, size_t bytes, void **request);
int net_test(void *request, int *done, int *bytes);

#endif
