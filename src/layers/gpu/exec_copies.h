/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that run on no multiprocessor. The host puts copies into the stream, and stream memory operations that wait for other
 * ranks (exec_copies.c). copies_watch.c ends such a wait when it lasts too long.
 *
 * Run between processes on one H200 on 2026-11-26, never between GPUs.
 */
#ifndef COLLET_LAYERS_GPU_EXEC_COPIES_H
#define COLLET_LAYERS_GPU_EXEC_COPIES_H

#include "exec/exec.h"
#include "layers/gpu/windows.h"

#define COPIES_RANKS_MAX 64

/* Call it for each window, during its registration. The first window on which copies may do calls makes the communicator ready for copies:
 * from then on, copies do the calls that they can do. It is collective and blocks. A failure ends the communicator. */
enum collet_result exec_copies_open(struct chan *chan, const struct gpu_window *window);

/* Shall copies do this call with this OUT? Yes, if COLLET_CTA_POLICY wants it, copies can do the call, and OUT lies in a window. Then
 * *place says where. The place has to be the same on all ranks. OUT of a message may be anywhere. If the call names an algorithm, kernels
 * do it. */
bool exec_copies_take(const struct chan *chan, const struct exec_request *request, const void *out,
                      struct gpu_window_place *place);

/* Prepares a call that copies do. Such a call needs no connections and no kernels. */
enum collet_result exec_copies_prepare(const struct exec_call *call);

/* Puts one collective into the stream of a place; or n sends; or n receives. No two messages are of the same pair of ranks. */
enum collet_result exec_copies_put(const struct exec_call *const *calls, int n, const struct gpu_place *place);

/* Call it when the rank's work on its GPU has ended. If the rank has no words, it does nothing. */
void exec_copies_close(struct chan *chan);

/* ---- words, in pinned memory that all ranks map ----
 *
 *    of rank r    │ at │ call │ peer │ ready: from rank 0, 1, … │ done: from rank 0, 1, … │ mail: from rank 0, 1, … │
 */

/* What a stream waits for. The rank's own words are for the first three stages. A word for ROOM is in the mail of another rank. */
enum copies_stage { COPIES_READY, COPIES_DONE, COPIES_MAIL, COPIES_STAGES, COPIES_ROOM = COPIES_STAGES };
enum copies_word { COPIES_AT, COPIES_CALL, COPIES_PEER, COPIES_FROM };

/* A word of a stage holds a hash of the call, and these bits. `at` holds the same value while a stream is in that stage. */
#define COPIES_SEEN 1u /* copies_watch.c sets it in `at`: the watching thread has seen this value */
#define COPIES_SET 2u
#define COPIES_STAGE_SHIFT 2
#define COPIES_BITS 15u

static inline uint32_t copies_value(uint32_t hash, enum copies_stage stage) {
    return (hash & ~COPIES_BITS) | COPIES_SET | (uint32_t)stage << COPIES_STAGE_SHIFT;
}

/* `call`: the call's number and its collective, for texts. `peer`: the stream waits for this rank's word; COPIES_ALL: for all others'. */
#define COPIES_CALL_SHIFT 4
_Static_assert(PROG_COLLECTIVE_COUNT <= 1 << COPIES_CALL_SHIFT, "has room below the number");
#define COPIES_ALL UINT32_MAX

struct copies {
    struct chan *chan;
    uint32_t *words, *on_gpu; /* the words of all ranks: their address in this process, and on its GPU */
    size_t bytes;
    bool is_pinned;
    int fd; /* the descriptor of the memory, on rank 0, which owns the memory; −1: none */
    /* Each pair of ranks has room for one message, on the GPU of the receiver: */
    struct gpu_window *mail; /* NULL: there is none */
    void *mail_memory;
    size_t mail_bytes; /* maximum bytes of a message */
    /* copies_watch.c: */
    uint64_t since_ns; /* time at which the thread saw the present value of `at` for the first time */
    struct copies *next;
};

static inline size_t copies_row(const struct copies *copies, int rank) {
    return (size_t)rank * (COPIES_FROM + COPIES_STAGES * (size_t)copies->chan->owner.nranks);
}

/* Returns the index of the word of `rank` that `from` writes in a stage. */
static inline size_t copies_at(const struct copies *copies, int rank, enum copies_stage stage, int from) {
    return copies_row(copies, rank) + COPIES_FROM + (size_t)stage * (size_t)copies->chan->owner.nranks + (size_t)from;
}

/* From now on a thread ends the rank's waits: at the timeout, or when the communicator has failed. */
enum collet_result copies_watch(struct copies *copies);
void copies_unwatch(const struct copies *copies);

#endif
