/* SPDX-License-Identifier: Apache-2.0
 *
 * libibverbs, opened at run time: collet is built with its header and runs on machines without it.
 *
 * The library's functions are called through this table. The header defines some functions inline, over a context's own table
 * (ibv_post_send, ibv_post_recv, ibv_poll_cq). These need no entry here, and are called by name.
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_LIB_H
#define COLLET_TRANSPORT_VERBS_VERBS_LIB_H

#include <infiniband/verbs.h>

#include <stdbool.h>

/* X(field, function). query_port must get a zeroed struct ibv_port_attr. The oldest drivers fill in only its first fields; no others
 * are used here. */
#define VERBS_FUNCTIONS(X)                                                                                             \
    X(fork_init, ibv_fork_init)                                                                                        \
    X(get_device_list, ibv_get_device_list)                                                                            \
    X(free_device_list, ibv_free_device_list)                                                                          \
    X(get_device_name, ibv_get_device_name)                                                                            \
    X(open_device, ibv_open_device)                                                                                    \
    X(close_device, ibv_close_device)                                                                                  \
    X(query_device, ibv_query_device)                                                                                  \
    X(query_port, ibv_query_port)                                                                                      \
    X(query_gid_table, _ibv_query_gid_table)                                                                           \
    X(query_pkey, ibv_query_pkey)                                                                                      \
    X(alloc_pd, ibv_alloc_pd)                                                                                          \
    X(dealloc_pd, ibv_dealloc_pd)                                                                                      \
    X(reg_mr, ibv_reg_mr)                                                                                              \
    X(reg_mr_iova2, ibv_reg_mr_iova2)                                                                                  \
    X(dereg_mr, ibv_dereg_mr)                                                                                          \
    X(create_cq, ibv_create_cq)                                                                                        \
    X(destroy_cq, ibv_destroy_cq)                                                                                      \
    X(create_qp, ibv_create_qp)                                                                                        \
    X(modify_qp, ibv_modify_qp)                                                                                        \
    X(destroy_qp, ibv_destroy_qp)                                                                                      \
    X(get_async_event, ibv_get_async_event)                                                                            \
    X(ack_async_event, ibv_ack_async_event)                                                                            \
    X(event_type_str, ibv_event_type_str)                                                                              \
    X(wc_status_str, ibv_wc_status_str)

struct verbs_lib {
#define X(field, function) __typeof__(function) *field;
    VERBS_FUNCTIONS(X)
#undef X
    /* NULL before rdma-core 34, whose header declares it first. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                                    int access);
};

/* Fills the table. False: the machine has no RDMA devices, or no usable libibverbs; *why says which, with the remedy. The library
 * stays open. */
bool verbs_lib_open(struct verbs_lib *lib, const char **why);

#endif
