/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that run on no multiprocessor: the host puts copies into the stream, and stream memory operations that wait for other
 * ranks (exec_copies.c). copies_watch.c looks at the clock for them.
 *
 * Run between processes on one H200 on 2026-11-26, never between GPUs.
 */
#ifndef COLLET_LAYERS_GPU_EXEC_COPIES_H
#define COLLET_LAYERS_GPU_EXEC_COPIES_H

#include "exec/exec.h"
#include "layers/gpu/windows.h"

#define COPIES_RANKS_MAX 64

/* Call it for each window. For the communicator's first window on which copies may do calls, it prepares that: from then on copies do the
 * calls that they can. It is part of the window's registration: it is collective and blocks. A failure ends the communicator. */
enum collet_result exec_copies_open(struct chan *chan, const struct gpu_window *window);

/* Shall copies do this call, whose OUT is there? COLLET_CTA_POLICY wants it, they can, and OUT lies in a window; then *place says
 * where. It has to be at the same place on all ranks. OUT of a message may be anywhere. A call that names its algorithm is for
 * kernels. */
bool exec_copies_take(const struct chan *chan, const struct exec_request *request, const void *out,
                      struct gpu_window_place *place);

/* Prepares a call that copies do, in place of connections and kernels. */
enum collet_result exec_copies_prepare(const struct exec_call *call);

/* Puts a collective into the stream of a place; or n sends, or n receives, at most one of each pair. */
enum collet_result exec_copies_put(const struct exec_call *const *calls, int n, const struct gpu_place *place);

/* Call it when the rank's work on its GPU has ended. Without words it does nothing. */
void exec_copies_close(struct chan *chan);

/* ---- words, in pinned memory that all ranks map ----
 *
 *    of rank r    │ at │ call │ peer │ ready: from rank 0, 1, … │ done: from rank 0, 1, … │ mail: from rank 0, 1, … │
 */

/* What a stream waits for. The words of the first three stages belong to the rank; those of ROOM are in the mail of another rank. */
enum copies_stage { COPIES_READY, COPIES_DONE, COPIES_MAIL, COPIES_STAGES, COPIES_ROOM = COPIES_STAGES };
enum copies_word { COPIES_AT, COPIES_CALL, COPIES_PEER, COPIES_FROM };

/* A word of a stage has a hash of the call, and these bits. So has `at`, while a stream is in that stage. */
#define COPIES_SEEN 1u /* set in `at` by the thread that looks at it */
#define COPIES_SET 2u
#define COPIES_STAGE_SHIFT 2
#define COPIES_BITS 15u

static inline uint32_t copies_value(uint32_t hash, enum copies_stage stage) {
    return (hash & ~COPIES_BITS) | COPIES_SET | (uint32_t)stage << COPIES_STAGE_SHIFT;
}

/* `call`: the call's number and its collective, for texts. `peer`: whose word is waited for; COPIES_ALL: those of all others. */
#define COPIES_CALL_SHIFT 4
_Static_assert(PROG_COLLECTIVE_COUNT <= 1 << COPIES_CALL_SHIFT, "has room below the number");
#define COPIES_ALL UINT32_MAX

struct copies {
    struct chan *chan;
    uint32_t *words, *on_gpu; /* the words of all ranks: their address in this process, and on its GPU */
    size_t bytes;
    bool is_pinned;
    int fd; /* rank 0, which owns the memory: its descriptor; −1: none */
    /* Room for a message from each rank to each, on the GPU of the one that receives it: */
    struct gpu_window *mail; /* NULL: there is none */
    void *mail_memory;
    size_t mail_bytes; /* maximum bytes of a message */
    /* copies_watch.c: */
    uint64_t since_ns; /* the stream has been at the place in `at` (with SEEN) at least since this time */
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
