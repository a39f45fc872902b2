/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives that run on no multiprocessor: the host puts copies into the stream, straight into the other ranks' OUT, and stream
 * memory operations that wait for these ranks (exec_copies.c). copies_watch.c looks at the clock for them.
 *
 * Not run on a GPU yet.
 */
#ifndef COLLET_EXEC_EXEC_COPIES_H
#define COLLET_EXEC_EXEC_COPIES_H

#include "exec/exec.h"

#define COPIES_RANKS_MAX 64

/* Shall copies do this call, whose OUT is there? COLLET_CTA_POLICY wants it, they can, and OUT lies in a window; then *place says
 * where. It has to be at the same place on all ranks. */
bool exec_copies_take(const struct chan *chan, const struct exec_request *request, const void *out,
                      struct gpu_window_place *place);

/* In place of connections: the words, which all ranks map and meet behind. SUCCESS or IN_PROGRESS. */
enum collet_result exec_copies_connect(struct exec_call *call, bool *moved);

/* Puts a call into a stream. */
enum collet_result exec_copies_put(const struct exec_call *call, void *stream);

/* The rank's work on its GPU has ended. Without words it does nothing. */
void exec_copies_close(struct chan *chan);

/* ---- words, in pinned memory that all ranks map ----
 *
 *    of rank r    │ at │ call │ ready: from rank 0, 1, … │ done: from rank 0, 1, … │
 */

enum copies_stage { COPIES_READY, COPIES_DONE, COPIES_STAGES };
enum copies_word { COPIES_AT, COPIES_CALL, COPIES_FROM };

/* What is in a word of a stage, and in `at` while a stream is in that stage: a hash of the call, and: */
#define COPIES_SEEN 1u /* in `at`, by the thread that looks at it */
#define COPIES_SET 2u
#define COPIES_STAGE 4u /* DONE, not READY */
#define COPIES_BITS 7u

static inline uint32_t copies_value(uint32_t hash, enum copies_stage stage) {
    return (hash & ~COPIES_BITS) | COPIES_SET | (stage == COPIES_DONE ? COPIES_STAGE : 0);
}

/* `call`: the call's number and its collective, for texts. */
#define COPIES_CALL_SHIFT 4
_Static_assert(PROG_COLLECTIVE_COUNT <= 1 << COPIES_CALL_SHIFT, "has room below the number");

struct copies {
    struct chan *chan;
    uint32_t *words, *on_gpu; /* of all ranks: where the process maps them, and where its GPU finds them */
    size_t bytes;
    bool is_pinned;
    int fd; /* at rank 0, whose memory it is; −1: none */
    struct exec_meeting meeting;
    /* copies_watch.c: */
    uint64_t since_ns; /* the stream has been where `at` says, SEEN, since then at least */
    struct copies *next;
};

static inline size_t copies_row(const struct copies *copies, int rank) {
    return (size_t)rank * (COPIES_FROM + COPIES_STAGES * (size_t)copies->chan->owner.nranks);
}

/* Number of the word of `rank` that `from` writes in a stage. */
static inline size_t copies_at(const struct copies *copies, int rank, enum copies_stage stage, int from) {
    return copies_row(copies, rank) + COPIES_FROM + (size_t)stage * (size_t)copies->chan->owner.nranks + (size_t)from;
}

/* From now on a thread ends the rank's waits: at the timeout, or when the communicator has failed. */
enum collet_result copies_watch(struct copies *copies);
void copies_unwatch(const struct copies *copies);

#endif
