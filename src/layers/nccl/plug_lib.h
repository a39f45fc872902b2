/* SPDX-License-Identifier: Apache-2.0
 *
 * The network plugin of this process (COLLET_NET_PLUGIN), loaded at the first communicator and kept until the process ends. What
 * differs between versions of the interface is hidden here. A forked child does without: plugins do not survive that.
 */
#ifndef COLLET_LAYERS_NCCL_PLUG_LIB_H
#define COLLET_LAYERS_NCCL_PLUG_LIB_H

#include "base/config.h"
#include "topo/probe/topo.h"
#include "layers/nccl/plug_abi.h"

#include <stdbool.h>

#define PLUG_DEVICES_MAX 64

struct plug_device {
    struct topo_nic nic; /* name, port, guid, mbits, latency_us, gdr */
    char busid[TOPO_BUSID_BYTES];
    int pointers;
    int receives; /* messages that one request may ask for */
    bool flush;
};

struct plug_host {
    const struct plug_table *table; /* NULL: there is none */
    int version;
    void *context;
    uint64_t card; /* of its name: ranks with the same plugin reach each other; 0: there is none */
    int ndevices;
    struct plug_device devices[PLUG_DEVICES_MAX];
    char why[512]; /* there is none: why, with the remedy */
};

/* This process's. Never NULL. The first call also tells the graph of this machine which NICs there are. */
const struct plug_host *plug_host(void);

/* The calls whose arguments depend on the version. They return an enum plug_result, or what the plugin makes up. */
int plug_listen(const struct plug_host *host, int device, void *handle, void **listener);
int plug_connect(const struct plug_host *host, int device, void *handle, void **sender);
/* A message that goes, or room for one that comes. */
struct plug_message {
    void *data;
    size_t bytes;
    void *registration;
};
#define PLUG_TOGETHER 2 /* messages that one request may ask for */

/* tag: k for what is to come to the k-th message of a request. */
int plug_isend(const struct plug_host *host, void *sender, const struct plug_message *message, int tag, void **request);
int plug_irecv(const struct plug_host *host, void *receiver, int n, const struct plug_message *messages,
               void **request);

/* A plugin of a kind ("net", "tuner"): under a path, the name of a file, or X of libnccl-<kind>-X.so. NULL: why[] says of each file that was
 * tried why not. */
void *plug_find(const char *kind, const char *name, char *why, size_t room);

#endif
