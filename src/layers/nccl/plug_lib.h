/* SPDX-License-Identifier: Apache-2.0
 *
 * The network plugin of this process (COLLET_NET_PLUGIN). It is loaded at the first communicator, and kept until the
 * process ends. The differences between versions of the interface are hidden here. A forked child uses no plugin, because
 * plugins do not survive fork().
 */
#ifndef COLLET_LAYERS_NCCL_PLUG_LIB_H
#define COLLET_LAYERS_NCCL_PLUG_LIB_H

#include "base/config.h"
#include "topo/probe/topo.h"
#include "layers/nccl/plug_abi.h"

#include <stdbool.h>

#define PLUG_DEVICES_MAX 64

struct plug_device {
    struct topo_nic nic; /* used fields: name, port, guid, mbits, latency_us, gdr */
    char busid[TOPO_BUSID_BYTES];
    int pointers;
    int receives; /* maximum number of messages in one receive request */
    bool flush;
};

struct plug_host {
    const struct plug_table *table; /* NULL: the process uses no plugin */
    int version;
    void *context;
    /* Hash of the plugin's name. Ranks with equal cards reach each other by the plugin. 0: there is no plugin. */
    uint64_t card;
    int ndevices;
    struct plug_device devices[PLUG_DEVICES_MAX];
    char why[512]; /* if there is no plugin: the reason, with the remedy */
};

/* The plugin of this process. Never NULL. The first call also adds the plugin's NICs to the graph of this machine. */
const struct plug_host *plug_host(void);

/* The functions whose arguments depend on the version. They return an enum plug_result, or another number that the
 * plugin uses. */
int plug_listen(const struct plug_host *host, int device, void *handle, void **listener);
int plug_connect(const struct plug_host *host, int device, void *handle, void **sender);
/* A message to send, or room for a message to receive. */
struct plug_message {
    void *data;
    size_t bytes;
    void *registration;
};
#define PLUG_TOGETHER 2 /* maximum number of messages that collet asks for in one request */

/* tag k: the message is for the k-th message of a receive request. */
int plug_isend(const struct plug_host *host, void *sender, const struct plug_message *message, int tag, void **request);
int plug_irecv(const struct plug_host *host, void *receiver, int n, const struct plug_message *messages,
               void **request);

/* Opens a plugin of a kind ("net", "tuner"). name: a path, a file name, or X of libnccl-<kind>-X.so. NULL: `why` gets
 * the reason for each file that was tried. */
void *plug_find(const char *kind, const char *name, char *why, size_t room);

#endif
