/* SPDX-License-Identifier: Apache-2.0
 *
 * libibverbs, opened at run time: collet is built with its header and runs on machines without it.
 *
 * The library's functions are called through this table. What the header defines inline over a context's own table
 * (ibv_post_send, ibv_post_recv, ibv_poll_cq) needs no entry here and is called by its name.
 */
#ifndef COLLET_TRANSPORT_VERBS_LIB_H
#define COLLET_TRANSPORT_VERBS_LIB_H

#include <infiniband/verbs.h>

#include <stdbool.h>

struct verbs_lib {
    int (*fork_init)(void);
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    /* Fills a zeroed struct ibv_port_attr as far as the oldest drivers know it, which is all that is used here. */
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr);
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room, uint32_t flags,
                               size_t entry_bytes);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t bytes, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *user, struct ibv_comp_channel *channel,
                                int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    const char *(*event_type_str)(enum ibv_event_type type);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    /* NULL before rdma-core 34. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                                    int access);
};

/* Fills the table. False: this machine has no RDMA devices or no usable libibverbs, and *why says so, with the remedy.
 * The library stays open. */
bool verbs_lib_open(struct verbs_lib *lib, const char **why);

#endif
