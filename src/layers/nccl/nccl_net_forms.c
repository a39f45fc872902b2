/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbols of libnccl-net-collet.so: one table per version of the interface, the properties of its one device, and each
 * function in all the forms that it has had. A form ignores the arguments that collet does not need, and calls nccl_net.c.
 */
#include "layers/nccl/nccl_net.h"

#include "transport/verbs/verbs_device.h"

#include <string.h>

#define MOST_BYTES ((size_t)1 << 40)
#define USUAL_MBITS 10000

/* ---- what is the same in every version ---- */

static int net_devices(int *count) {
    *count = 1;
    return PLUG_SUCCESS;
}
/* Host memory needs no registration, because messages are copied. */
static int net_reg(void *line, void *data, size_t bytes, int kind, void **registration) {
    (void)data, (void)bytes;
    *registration = line;
    return kind == PLUG_HOST ? PLUG_SUCCESS : PLUG_INTERNAL_ERROR;
}
static int net_dereg(void *line, void *registration) {
    (void)line, (void)registration;
    return PLUG_SUCCESS;
}
static int net_flush(void *line, int n, void **data, int *bytes, void **registrations, void **request) {
    (void)line, (void)n, (void)data, (void)bytes, (void)registrations;
    *request = NULL;
    return PLUG_SUCCESS;
}

static int net_mbits(void) {
    const struct verbs_host *host = verbs_host();
    int most = 0;
    for (int k = 0; k < host->nports; k++)
        if (host->ports[k].kinds != 0 && (int)host->ports[k].mbits > most)
            most = (int)host->ports[k].mbits;
    return most > 0 ? most : USUAL_MBITS;
}

/* There is one device. The transports choose interfaces and rails. */
static struct plug_properties head_of(int device) {
    static char name[] = "collet";
    return (struct plug_properties){.name = name,
                                    .guid = (uint64_t)device,
                                    .pointers = PLUG_HOST,
                                    .global = 1,
                                    .mbits = net_mbits(),
                                    .port = 1,
                                    .connections = 65536,
                                    .receives = PLUG_RECEIVES_MAX};
}

static int net_properties_v8(int device, void *properties) {
    struct plug_properties head = head_of(device);
    *(struct plug_properties_v8 *)properties = (struct plug_properties_v8){.name = head.name,
                                                                           .guid = head.guid,
                                                                           .pointers = head.pointers,
                                                                           .global = head.global,
                                                                           .mbits = head.mbits,
                                                                           .port = head.port,
                                                                           .connections = head.connections,
                                                                           .receives = head.receives};
    return PLUG_SUCCESS;
}
static int net_properties_v11(int device, void *properties) {
    *(struct plug_properties_v11 *)properties = (struct plug_properties_v11){.head = head_of(device),
                                                                             .nparts = 1,
                                                                             .parts = {device},
                                                                             .most_bytes = MOST_BYTES,
                                                                             .most_collective_bytes = MOST_BYTES,
                                                                             .requests = 1};
    return PLUG_SUCCESS;
}
static int net_properties_v9(int device, void *properties) {
    struct plug_properties_v11 all;
    net_properties_v11(device, &all);
    memcpy(properties, &all, offsetof(struct plug_properties_v11, requests));
    return PLUG_SUCCESS;
}
static int net_properties_v12(int device, void *properties) {
    *(struct plug_properties_v12 *)properties = (struct plug_properties_v12){.head = head_of(device),
                                                                             .nparts = 1,
                                                                             .parts = {device},
                                                                             .most_bytes = MOST_BYTES,
                                                                             .most_collective_bytes = MOST_BYTES,
                                                                             .requests = 1,
                                                                             .rail = -1,
                                                                             .plane = -1};
    return PLUG_SUCCESS;
}

/* ---- the forms of each version ---- */

static int init_v8(plug_log *log) {
    net_tell(log);
    return PLUG_SUCCESS;
}
static int init_v10(plug_log *log, void *profiler) {
    (void)profiler;
    return init_v8(log);
}
static int init_v11(void **context, uint64_t communicator, void *config, plug_log *log, void *profiler) {
    (void)communicator, (void)config, (void)profiler;
    *context = NULL;
    return init_v8(log);
}
static int listen_v8(int device, void *handle, void **listener) {
    (void)device;
    return net_listen(handle, listener);
}
static int listen_v11(void *context, int device, void *handle, void **listener) {
    (void)context;
    return listen_v8(device, handle, listener);
}
static int connect_v8(int device, void *handle, void **sender, void **on_device) {
    (void)device, (void)on_device;
    return net_connect(handle, sender);
}
static int connect_v10(int device, void *config, void *handle, void **sender, void **on_device) {
    (void)config;
    return connect_v8(device, handle, sender, on_device);
}
static int connect_v11(void *context, int device, void *handle, void **sender, void **on_device) {
    (void)context;
    return connect_v8(device, handle, sender, on_device);
}
static int isend_v8(void *line, void *data, int bytes, int tag, void *registration, void **request) {
    (void)registration;
    return net_isend(line, data, (size_t)bytes, tag, request);
}
static int isend_v9(void *line, void *data, size_t bytes, int tag, void *registration, void **request) {
    (void)registration;
    return net_isend(line, data, bytes, tag, request);
}
static int isend_v10(void *line, void *data, size_t bytes, int tag, void *registration, void *event, void **request) {
    (void)event;
    return isend_v9(line, data, bytes, tag, registration, request);
}
static int irecv_v9(void *line, int n, void **data, size_t *bytes, int *tags, void **registrations, void **request) {
    (void)registrations;
    return net_irecv(line, n, data, bytes, tags, request);
}
static int irecv_v8(void *line, int n, void **data, int *bytes, int *tags, void **registrations, void **request) {
    size_t sizes[PLUG_RECEIVES_MAX];
    for (int k = 0; k < n && k < PLUG_RECEIVES_MAX; k++)
        sizes[k] = (size_t)bytes[k];
    return irecv_v9(line, n, data, sizes, tags, registrations, request);
}
static int irecv_v10(void *line, int n, void **data, size_t *bytes, int *tags, void **registrations, void **events,
                     void **request) {
    (void)events;
    return irecv_v9(line, n, data, bytes, tags, registrations, request);
}
static int net_finalize(void *context) {
    (void)context;
    return PLUG_SUCCESS;
}
static int net_attributes(void *context, void *attributes) {
    (void)context, (void)attributes;
    return PLUG_SUCCESS;
}

/* X(version, and the form of: properties, init, listen, connect, isend and irecv) */
#define TABLES(X)                                                                                                      \
    X(8, v8, v8, v8, v8, v8)                                                                                           \
    X(9, v9, v8, v8, v8, v9)                                                                                           \
    X(10, v9, v10, v8, v10, v10)                                                                                       \
    X(11, v11, v11, v11, v11, v10)                                                                                     \
    X(12, v12, v11, v11, v11, v10)

#define TABLE(number, properties, begins, listens, connects, sends)                                                    \
    extern const struct plug_table ncclNetPlugin_v##number;                                                            \
    __attribute__((visibility("default"))) const struct plug_table ncclNetPlugin_v##number = {                         \
        .name = "collet",                                                                                              \
        .init.begins = init_##begins,                                                                                  \
        .devices = net_devices,                                                                                        \
        .get_properties = net_properties_##properties,                                                                 \
        .listen.listens = listen_##listens,                                                                            \
        .connect.connects = connect_##connects,                                                                        \
        .accept = net_accept,                                                                                          \
        .reg_mr = net_reg,                                                                                             \
        .dereg_mr = net_dereg,                                                                                         \
        .isend.sends = isend_##sends,                                                                                  \
        .irecv.sends = irecv_##sends,                                                                                  \
        .iflush = net_flush,                                                                                           \
        .test = net_test,                                                                                              \
        .close_send = net_close,                                                                                       \
        .close_recv = net_close,                                                                                       \
        .close_listen = net_close_listen,                                                                              \
        .finalize = net_finalize,                                                                                      \
        .set_attributes = net_attributes,                                                                              \
    };
TABLES(TABLE)
