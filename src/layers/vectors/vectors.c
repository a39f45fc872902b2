/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives of collet.h that take a count per block. api/coll.c has the collectives that take one count.
 */
#include "api/coll.h"
#include "api/group.h"
#include "layers/vectors/counts.h"

#include <stdlib.h>

static enum collet_result counted_check(struct collet_comm *comm, struct exec_request *request, const void *in,
                                        void *out, const struct counts *in_counts, const struct counts *out_counts,
                                        const void *stream) {
    size_t ignored;
    COLLET_TRY(coll_check(comm, request, stream, &ignored));
    if (comm_is_on_gpu(comm))
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "collet_%s() is for communicators of host memory: a GPU does not get counts of blocks yet; use "
                       "collet_send() and collet_recv() in a group",
                       prog_collective_name(request->collective));
    COLLET_TRY(counts_read(request, comm->rank, comm->nranks, in_counts, out_counts));
    return counts_check_buffers(request, comm->rank, comm->nranks, in, out);
}

static enum collet_result counted_call(struct exec_request *request, const void *in, void *out,
                                       const struct counts *in_counts, const struct counts *out_counts,
                                       struct collet_comm *comm, void *stream) {
    enum collet_result result = counted_check(comm, request, in, out, in_counts, out_counts, stream);
    bool empty = request->count == 0 && !prog_keeps_empty(request->collective);
    if (result != COLLET_SUCCESS || empty) {
        free(request->extents);
        return result != COLLET_SUCCESS ? coll_refuse(comm, result) : COLLET_SUCCESS;
    }
    coll_log(comm, request);
    struct post post = {.request = *request, .comm = comm, .in = in, .out = out, .stream = stream};
    return group_call(&post);
}

enum collet_result collet_allgatherv(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts,
                                     const size_t *displs, enum collet_type type, struct collet_comm *comm,
                                     void *stream) {
    return counted_call(&(struct exec_request){.collective = PROG_ALLGATHERV, .type = type}, sendbuff, recvbuff,
                        &(struct counts){"sendcount", &sendcount, NULL},
                        &(struct counts){"recvcounts", recvcounts, displs}, comm, stream);
}

enum collet_result collet_reducescatterv(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                         enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                         void *stream) {
    return counted_call(&(struct exec_request){.collective = PROG_REDUCESCATTERV, .type = type, .op = op}, sendbuff,
                        recvbuff, &(struct counts){"recvcounts", recvcounts, NULL},
                        &(struct counts){"recvcounts", NULL, NULL}, comm, stream);
}

enum collet_result collet_alltoallv(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
                                    void *recvbuff, const size_t *recvcounts, const size_t *rdispls,
                                    enum collet_type type, struct collet_comm *comm, void *stream) {
    return counted_call(&(struct exec_request){.collective = PROG_ALLTOALLV, .type = type}, sendbuff, recvbuff,
                        &(struct counts){"sendcounts", sendcounts, sdispls},
                        &(struct counts){"recvcounts", recvcounts, rdispls}, comm, stream);
}
