/* SPDX-License-Identifier: Apache-2.0
 *
 * The status socket of a process: a Unix socket at which collet-status asks for the records of all ranks.
 *
 *      collet-status ── struct status_request ──▶ @collet-status.<pid>.<random>        the watch answers: a program that
 *                    ◀── for each communicator: struct status_head, struct query_rank[nranks] ──     hangs need do nothing
 *
 * The socket is in Linux's abstract namespace: it has no file, so nothing is left behind, however the process ends. The kernel
 * names the user at the other end: only the same user and root get answers.
 */
#ifndef COLLET_LAYERS_OBSERVE_STATUS_SOCKET_H
#define COLLET_LAYERS_OBSERVE_STATUS_SOCKET_H

#include "layers/observe/status_query.h"

/* The socket's name is a zero byte, this text, and "<pid>.<random>". */
#define STATUS_SOCKET_NAME "collet-status."

struct status_request {
    uint32_t version; /* COLLET_VERSION */
    uint32_t all;     /* 0: only records of the asked process's own ranks */
    uint64_t tag;     /* tag of a communicator (boot_tag()); 0: all communicators */
};

struct status_head {
    uint32_t version;
    uint32_t rank_bytes; /* sizeof(struct query_rank) */
    uint64_t tag;
    int32_t nranks;
    int32_t asked; /* the lowest rank of the asked process */
};

/* Called on the watch thread when a hub that the watch serves begins, and when it ends. */
void status_socket_add(struct hub *hub);
void status_socket_remove(struct hub *hub);

#endif
