/* SPDX-License-Identifier: Apache-2.0
 *
 * What libnccl-net-collet.so does, independent of the interface's version: see nccl_net.c. Senders, receivers and listeners
 * belong to the program from the call that creates them until the call that closes them. A request belongs to it until
 * net_test() says that it is done.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_NET_H
#define COLLET_LAYERS_NCCL_NCCL_NET_H

#include "layers/nccl/plug_abi.h"

#include <stddef.h>

/* Sets the plugin's log function. From now on failures are reported to it. */
void net_tell(plug_log *log);

int net_listen(void *handle, void **listener);
int net_close_listen(void *listener);
/* The program calls net_accept() and net_connect() again and again, until *receiver or *sender is not NULL. */
int net_accept(void *listener, void **receiver, void **on_device);
int net_connect(void *handle, void **sender);
int net_close(void *line);

/* Maximum number of messages that one irecv may ask for: as many as plugins for InfiniBand take. */
#define PLUG_RECEIVES_MAX 8

/* Sends a message. *request NULL: the message is not taken now; call again. A sender takes a message only after its
 * receiver has asked for one with this tag. */
int net_isend(void *line, void *data, size_t bytes, int tag, void **request);
/* Offers room for n messages. They may come in any order: each room takes the next message that is sent with its tag. */
int net_irecv(void *line, int n, void **data, const size_t *bytes, const int *tags, void **request);
/* Is the request done? bytes: NULL, or an array that gets the length of each of the request's messages once it is done. */
int net_test(void *request, int *done, int *bytes);

#endif
