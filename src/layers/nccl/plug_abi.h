/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of the interface between NCCL and its network plugins, versions 8 to 12: what a plugin is called, and what lies where.
 *
 *      libnccl-net-NAME.so   exports one table per version that it knows: ncclNetPlugin_v8 … ncclNetPlugin_v12
 *
 * A table is a name and pointers to functions. Later versions append functions at the end, and change the arguments of some
 * functions. Here one struct stands for the tables of all versions. A function whose arguments have changed is a union with
 * one member per form. The member is named after the first version that has this form.
 *
 *      consumer                                         producer
 *      listen ── handle, by another way ──────────────▶ connect, until there is a sender
 *      accept, until there is a receiver
 *      regMr, both; then per message
 *      irecv, until there is a request                  isend, until there is a request
 *      test, until done; for memory of a GPU iflush     test, until done
 *
 * The caller sets *on_device to NULL before connect and accept: no transfer is to be made by code on a device. No function
 * blocks. All but regMr, deregMr and the three that close may be called again and again.
 */
#ifndef COLLET_LAYERS_NCCL_PLUG_ABI_H
#define COLLET_LAYERS_NCCL_PLUG_ABI_H

#include <stddef.h>
#include <stdint.h>

#define PLUG_OLDEST 8
#define PLUG_NEWEST 12
#define PLUG_SYMBOL "ncclNetPlugin_v%d"
#define PLUG_FILE "libnccl-%s-%s.so" /* kind, name */
#define PLUG_HANDLE_BYTES 128
#define PLUG_REQUESTS_MAX 32 /* maximum number of requests of one sender or receiver at a time */

/* Results of the plugin's functions. */
enum plug_result { PLUG_SUCCESS = 0, PLUG_SYSTEM_ERROR = 2, PLUG_INTERNAL_ERROR = 3, PLUG_REMOTE_ERROR = 6 };

/* Kinds of memory: bits of the field `pointers` of a device. */
#define PLUG_HOST 1
#define PLUG_GPU 2
#define PLUG_DMABUF 4

typedef void plug_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/* Properties of a device, in version 8. */
struct plug_properties_v8 {
    char *name, *path; /* path: path of its PCI function in /sys; NULL: it has none */
    uint64_t guid;
    int pointers; /* bits PLUG_HOST, PLUG_GPU, PLUG_DMABUF */
    int global;   /* 1: a registration is valid for all connections */
    int mbits, port;
    float latency_us;
    /* Maximum number of connections, and of messages in one irecv. */
    int connections, receives;
    int device_type, device_version;
};

/* Properties of a device from version 9 on. The structs of later versions begin with these fields. */
struct plug_properties {
    char *name, *path;
    uint64_t guid;
    int pointers, global;
    int flush; /* 1: every receive into GPU memory needs iflush */
    int mbits, port;
    float latency_us;
    int connections, receives;
    int device_type, device_version;
};

struct plug_properties_v11 { /* Versions 9 and 10 end before `requests`. */
    struct plug_properties head;
    int nparts, parts[4]; /* physical devices of which this virtual device is made */
    size_t most_bytes, most_collective_bytes;
    int requests; /* maximum number of requests in one call */
};

struct plug_properties_v12 {
    struct plug_properties head;
    int nparts, parts[8];
    size_t most_bytes, most_collective_bytes;
    int requests;
    int16_t rail, plane; /* number of its rail and of its plane of the network; −1: not known */
};

struct plug_table {
    const char *name;
    union {
        int (*v8)(plug_log *log);
        int (*v10)(plug_log *log, void *profiler);
        int (*v11)(void **context, uint64_t communicator, void *config, plug_log *log, void *profiler);
    } init;
    int (*devices)(int *count);
    int (*get_properties)(int device, void *properties);
    union {
        int (*v8)(int device, void *handle, void **listener);
        int (*v11)(void *context, int device, void *handle, void **listener);
    } listen;
    union {
        int (*v8)(int device, void *handle, void **sender, void **on_device);
        int (*v10)(int device, void *config, void *handle, void **sender, void **on_device);
        int (*v11)(void *context, int device, void *handle, void **sender, void **on_device);
    } connect;
    int (*accept)(void *listener, void **receiver, void **on_device);
    int (*reg_mr)(void *end, void *data, size_t bytes, int kind, void **registration);
    int (*reg_mr_dmabuf)(void *end, void *data, size_t bytes, int kind, uint64_t offset, int fd, void **registration);
    int (*dereg_mr)(void *end, void *registration);
    union {
        int (*v8)(void *sender, void *data, int bytes, int tag, void *registration, void **request);
        int (*v9)(void *sender, void *data, size_t bytes, int tag, void *registration, void **request);
        int (*v10)(void *sender, void *data, size_t bytes, int tag, void *registration, void *event, void **request);
    } isend;
    union {
        int (*v8)(void *receiver, int n, void **data, int *bytes, int *tags, void **registrations, void **request);
        int (*v9)(void *receiver, int n, void **data, size_t *bytes, int *tags, void **registrations, void **request);
        int (*v10)(void *receiver, int n, void **data, size_t *bytes, int *tags, void **registrations, void **events,
                   void **request);
    } irecv;
    int (*iflush)(void *receiver, int n, void **data, int *bytes, void **registrations, void **request);
    int (*test)(void *request, int *done, int *bytes);
    int (*close_send)(void *sender);
    int (*close_recv)(void *receiver);
    int (*close_listen)(void *listener);
    int (*get_device_mr)(void *end, void *registration, void **on_device);
    int (*irecv_consumed)(void *receiver, int n, void *request);
    int (*make_device)(int *device, void *parts); /* from version 9 on */
    int (*finalize)(void *context);               /* from version 11 on */
    int (*set_attributes)(void *context, void *attributes);
};

#endif
