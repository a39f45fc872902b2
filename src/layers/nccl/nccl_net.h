/* SPDX-License-Identifier: Apache-2.0
 *
 * What libnccl-net-collet.so does, whatever version of the interface asks for it: see nccl_net.c. Senders, receivers, listeners and
 * requests are the program's from the call that makes them to the one that closes them, or finds them done.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_NET_H
#define COLLET_LAYERS_NCCL_NCCL_NET_H

#include "layers/nccl/plug_abi.h"

#include <stddef.h>

/* Sets the function that hears of failures from now on. */
void net_tell(plug_log *log);

int net_listen(void *handle, void **listener);
int net_close_listen(void *listener);
/* Both to be called until there is a receiver or a sender. */
int net_accept(void *listener, void **receiver, void **on_device);
int net_connect(void *handle, void **sender);
int net_close(void *line);

/* The most messages that one irecv asks for: as many as plugins for InfiniBand take. */
#define PLUG_RECEIVES_MAX 8

/* *request is NULL where nothing is taken now, and to be called again. A sender takes nothing before its receiver has asked for a
 * message of this tag. */
int net_isend(void *line, void *data, size_t bytes, int tag, void **request);
/* Room for n messages, in any order: each takes the next that is sent with its tag. */
int net_irecv(void *line, int n, void **data, const size_t *bytes, const int *tags, void **request);
/* bytes: of a request's messages, n of them, once it is done; or NULL. */
int net_test(void *request, int *done, int *bytes);

#endif
