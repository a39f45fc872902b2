/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of common/whole.c, for tests that are linked with a part of the library: what the other layers would give them. They do not
 * call it, since the library is not whole. These functions are weak: if a layer is there, its own ones count.
 */
#include "common/whole.h"

#include "collet.h"

#include <stdio.h>
#include <stdlib.h>

const bool library_is_whole = false;

static enum collet_result none(const char *function) {
    fprintf(stderr, "%s() is not in this part of the library: a test must not call it\n", function);
    abort();
}

#define WEAK __attribute__((weak))
#define NONE return none(__func__)

WEAK enum collet_result collet_mem_alloc(void **memory, size_t bytes, int device) {
    (void)memory, (void)bytes, (void)device;
    NONE;
}
WEAK enum collet_result collet_mem_free(void *memory) {
    (void)memory;
    NONE;
}
WEAK enum collet_result collet_op_create_premul_sum(enum collet_op *op, const void *scalar, enum collet_type type,
                                                    enum collet_residence where, struct collet_comm *comm) {
    (void)op, (void)scalar, (void)type, (void)where, (void)comm;
    NONE;
}
WEAK enum collet_result collet_op_destroy(enum collet_op op, struct collet_comm *comm) {
    (void)op, (void)comm;
    NONE;
}
WEAK enum collet_result collet_stream_create(struct collet_stream **stream) {
    (void)stream;
    NONE;
}
WEAK enum collet_result collet_stream_destroy(struct collet_stream *stream) {
    (void)stream;
    NONE;
}
WEAK enum collet_result collet_stream_synchronize(struct collet_stream *stream) {
    (void)stream;
    NONE;
}
WEAK enum collet_result collet_comm_split(struct collet_comm *comm, int color, int key, struct collet_comm **part,
                                          const struct collet_config *config) {
    (void)comm, (void)color, (void)key, (void)part, (void)config;
    NONE;
}
WEAK enum collet_result collet_comm_shrink(struct collet_comm *comm, const int *excluded, int nexcluded,
                                           struct collet_comm **smaller, const struct collet_config *config) {
    (void)comm, (void)excluded, (void)nexcluded, (void)smaller, (void)config;
    NONE;
}
WEAK enum collet_result collet_allgatherv(const void *sendbuff, size_t sendcount, void *recvbuff,
                                          const size_t *recvcounts, const size_t *displs, enum collet_type type,
                                          struct collet_comm *comm, void *stream) {
    (void)sendbuff, (void)sendcount, (void)recvbuff, (void)recvcounts, (void)displs, (void)type, (void)comm;
    (void)stream;
    NONE;
}
WEAK enum collet_result collet_reducescatterv(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                              enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                              void *stream) {
    (void)sendbuff, (void)recvbuff, (void)recvcounts, (void)type, (void)op, (void)comm, (void)stream;
    NONE;
}
WEAK enum collet_result collet_alltoallv(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
                                         void *recvbuff, const size_t *recvcounts, const size_t *rdispls,
                                         enum collet_type type, struct collet_comm *comm, void *stream) {
    (void)sendbuff, (void)sendcounts, (void)sdispls, (void)recvbuff, (void)recvcounts, (void)rdispls, (void)type;
    (void)comm, (void)stream;
    NONE;
}
WEAK enum collet_result collet_probe(int *peer, struct collet_comm *comm, void *stream) {
    (void)peer, (void)comm, (void)stream;
    NONE;
}
