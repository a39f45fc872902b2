/* SPDX-License-Identifier: Apache-2.0
 *
 * The host executor: runs programs on memory the CPU can address, in the calling thread.
 *
 * A program is bound once to the connections of its rank (struct exec_program) and then run for call after call. A call
 * (struct exec_call) is tried, again and again, until it is done. Each try returns soon, so one thread runs any number of
 * calls of any number of communicators side by side (api/engine.h):
 *
 *    IDLE ─▶ CONNECTING ── every connection ready ──▶ RUNNING ── every worker done, every wire idle ──▶ IDLE
 */
#ifndef COLLET_EXEC_EXEC_H
#define COLLET_EXEC_EXEC_H

#include "base/wait.h"
#include "chan/chan.h"
#include "kernels/reduce_host.h"
#include "kernels/worker.h"
#include "program/program.h"
#include "seams/gpu.h"

#include <stdio.h>

struct exec_call;

/* Visits a worker of a call: tries its steps until it is blocked, done, or had its turn. There is a copy of it per
 * protocol. Another one asks each end for its protocol (PROTO_EACH_END), for programs with ends over wires. Traced
 * ranks have all these again. */
typedef enum collet_result exec_visit(struct exec_call *call, struct interp_worker *w, bool *moved);
typedef exec_visit *const exec_visits[PROTOCOL_COUNT]; /* [protocol of a call] */

/* All ranks of a communicator on GPUs come together, before one of them puts work into a stream that waits for others. */
struct exec_meeting {
    uint64_t number; /* of the communicator's; 0: not numbered yet */
    enum { MEET_NOT_YET, MEET_ANNOUNCED, MEET_DONE } met;
    int arrived; /* at rank 0: how many ranks have come */
};

/* What a program's ends may lend, and whether they may be lent payloads. */
struct exec_loans {
    uint32_t lends_from, borrows_from, lands_from; /* as in struct interp_op */
    bool receives;                                 /* likewise */
    const struct commons *only;                    /* ends lend, and offer, only what lies there; NULL: any memory */
};

struct exec_program {
    struct prog **progs; /* [nchannels], owned; all have the same collective, algorithm, root and cut into slices */
    const struct algorithm *source; /* what built it */
    struct chan *chan;              /* whose connections these are */
    int nchannels;
    int nconns, nready; /* connections of all channels; the first nready are READY */
    struct conn **conns;
    int nremote; /* of them over a wire */
    const exec_visits *visits;
    uint32_t trace_mask;           /* calls of the present kind whose number has one of these bits are not traced */
    struct interp_op *ops;         /* one per channel */
    struct interp_op *pair_ops;    /* [worker], of a pairwise collective, whose workers differ in counts; else NULL */
    struct exec_loans loans;       /* of calls of the present kind */
    uint64_t ops_id;               /* args_id of the call that they were last filled from; 0: none yet */
    struct interp_worker *workers; /* of all channels */
    int *first_worker;             /* [nchannels + 1]: the workers of channel c begin at first_worker[c] */
    struct work_block *on_gpu;     /* where the device executor finds it; NULL: not there yet */
    bool lends_on_gpu;             /* some of its ends lend */
    struct exec_meeting meeting;   /* on GPUs: before its first use */
    struct copy_list *copies;      /* what copy engines do in its place (exec_copies.c); NULL: not made yet */
    struct exec_program *next;     /* in its owner's list */
};

/* Binds progs[c] to connections on channel c of chan, for c = 0 … nchannels−1. Takes the array and its programs over,
 * also on failure. */
enum collet_result exec_program_create(struct chan *chan, struct prog **progs, const struct algorithm *source,
                                       int nchannels, struct exec_program **program_p);
void exec_program_destroy(struct exec_program *program);

/* Before the first call that uses the program's connections: GPUs cannot carry slots over a network themselves. */
enum collet_result exec_find_carrier(const struct exec_program *program);

/* The memory of a program beside the buffers of calls; without TMP itself, which is where the executor is. */
struct interp_memory exec_memory_of(const struct prog *prog, const struct fifo_layout *layout);

static inline int exec_channel_of(const struct exec_program *program, int worker) {
    int channel = 0;
    while (worker >= program->first_worker[channel + 1])
        channel++;
    return channel;
}

/* The rank that a worker waits for. */
static inline int exec_blocking_rank(const struct exec_program *program, int worker) {
    const struct prog *prog = program->progs[exec_channel_of(program, worker)];
    return prog->peers[program->workers[worker].blocked_on].rank;
}

/* Where each block of a call begins, and how long it is. */
struct exec_extents {
    const struct span *of[STEP_REGIONS]; /* [region][block], into spans; NULL: the region has none */
    struct span spans[];
};

/* A call as the user made it. */
struct exec_request {
    enum prog_collective collective;
    size_t count;
    enum collet_type type;
    uint8_t named_type; /* of a message, which is bytes: 1 + the type that the caller named, for texts; 0: none */
    enum collet_op op;  /* ignored where nothing is reduced */
    int root;           /* or the peer of a send or receive; 0 if there is none */
    uint16_t scaling;   /* enum work_scaling, and its factor; they do not take part in the plan */
    uint64_t factor;
    bool by_copies;  /* of GPUs' copy engines, not by a kernel */
    bool may_switch; /* a sum that switches make, if its buffers lie in windows that let them (gpu_mark()) */
    bool may_lend;   /* of GPUs: payloads are lent, if its buffers lie in windows (gpu_mark()) */
    uint64_t manner; /* how this call alone is to be done, to who chooses (layers/tuner/manner.h); 0: as others are */
    /* Of blocks that have counts of their own (prog_is_counted), whose mean count is `count`: */
    uint32_t counts_hash;         /* of all ranks' counts; 0 if only pairs know them */
    struct exec_extents *extents; /* of this rank's buffers; freed with the request */
};

enum exec_state { EXEC_IDLE, EXEC_CONNECTING, EXEC_RUNNING };

/* A call under way. */
struct exec_call {
    struct exec_request request;
    struct exec_program *program;
    struct work_args args; /* what the request comes to for the bound program */
    uint64_t args_id;      /* equal on calls whose args differ only in buffers and sequence; never 0 */
    reduce_fn reduce;
    struct chan *chan;
    enum exec_state state;
    int running;            /* workers not done */
    int told_peer;          /* the rank that it has said it waits for (exec_inquest.c); −1: it has not said any */
    uint64_t idle_since_ns; /* when it was first found not to have moved; 0: it has moved since the last look */
    bool last_try;          /* in that time, a rank that it waits for was found gone */
    void *stream;           /* of a GPU */
    struct gpu_window_place place; /* of a call by copies: that of OUT */
    struct observed *observed;     /* observer.h; NULL: nobody observes it while it runs */
    uint64_t nth;                  /* on a GPU: so many calls of its lane (api/engine.h) come before it in its group */
};

/* What visits the workers of a program. */
const exec_visits *exec_visits_of(bool has_wires, bool traced);

/* Tries every worker of a call that is CONNECTING or RUNNING, and lets its wires make progress. *moved: set if anything
 * was done. SUCCESS at its end, which leaves it IDLE; IN_PROGRESS before; or a failure. */
enum collet_result exec_call_try(struct exec_call *call, bool *moved);

/* ---- calls of which only pairs know the counts (exec_pairs.c) ---- */

/* Gives each worker rounds, signature and sequence of its pair. */
void exec_pairs_start(const struct exec_call *call);

/* MISMATCH, if the header that worker w has received is of this call, and of other counts; else SUCCESS. */
enum collet_result exec_pairs_check(const struct exec_call *call, const struct interp_worker *w);

/* ---- connections of calls (exec_connect.c) ---- */

static inline bool exec_is_connected(const struct exec_program *program) { return program->nready == program->nconns; }

/* Moves the connections of a call's program toward READY: SUCCESS when all are, IN_PROGRESS while not. */
enum collet_result exec_connect_call(struct exec_call *call, bool *moved);

/* ---- loans (exec_loans.c) ---- */

/* Of a program whose connections are ready. */
struct exec_loans exec_loans_of(const struct exec_program *program);

/* interp_borrow */
enum interp_result exec_borrow(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                               const struct interp_piece *piece);

/* Has a call whose first workers these are lent anything? */
static inline bool exec_has_lent(const struct exec_program *program, int nworkers) {
    for (int k = 0; k < nworkers; k++)
        if (program->workers[k].lent > 0)
            return true;
    return false;
}

/* Says where the payloads of the worker's next slots are to go, if their producers can put them there. */
void exec_announce(struct interp_worker *w);
/* A step's result: adds the places that consumers have offered to its others. Returns how many places there are now. */
int exec_land(struct interp_worker *w, const struct prog_step *step, int ndst, uint32_t bytes, uint32_t *stream_mask);
/* The result is made: has the kernel take it to the places that only the kernel reaches. */
void exec_carry(struct interp_worker *w, const struct prog_step *step, uint32_t bytes);
/* A call starts whose program may lend or offer something: says so to its channels, if the call's buffers are such. */
void exec_lend(const struct exec_call *call);
/* Are IN and OUT of a call apart, as far as the program touches them? */
bool exec_is_out_of_place(const struct interp_op *op, const struct prog *prog);

/* A rank that waits copies for those that take what it has lent. */
void exec_help(const struct exec_program *program, bool *moved);

/* The call has failed: before it returns, peers stop to use its buffers. */
void exec_stop_loans(const struct exec_call *call);

/* ---- waiting (exec_wait.c) ---- */

/* May a call that has begun still be waited for? SUCCESS, or the failure that ends it. */
enum collet_result exec_look(struct exec_call *call, uint64_t now_ns);

/* The call has failed with result: looks for a cause behind it, for a moment, and returns that or result. */
enum collet_result exec_explain(const struct exec_call *call, enum collet_result result);

/* TIMEOUT, in the words that every executor has for it; peers: ranks that were waited for; found: why, "" if that is not
 * known. */
enum collet_result exec_err_timeout(const struct chan *chan, uint64_t idle_ns, enum prog_collective collective,
                                    uint64_t sequence, const char *peers, const char *found);

/* MISMATCH: what worker w has received is not of its call. */
enum collet_result exec_err_mismatch(struct exec_call *call, const struct interp_worker *w);

/* ---- who holds the job up (exec_inquest.c) ---- */

/* A call has waited for `peer` for idle_ns: says so, and finds out, step by step, why. SUCCESS, or the failure that was found:
 * a MISMATCH. */
enum collet_result exec_inquire(struct exec_call *call, int peer, uint64_t idle_ns, uint64_t now_ns);
/* What was found; "": nothing yet. */
const char *exec_found(const struct exec_call *call);

/* The call moves, or has ended. */
void exec_take_back(struct exec_call *call);
static inline void exec_said_no_more(struct exec_call *call) {
    if (call->told_peer >= 0)
        exec_take_back(call);
}

/* MISMATCH: asks all ranks what they are in, and says which rank called what; or else `otherwise`. */
enum collet_result exec_explain_mismatch(struct exec_call *call, int peer, const char *otherwise);
/* "allreduce of 7 float, op sum"; "broadcast of 7 float, root 2" */
void exec_describe(const struct exec_request *request, char *text, size_t room);

/* The number of the collective that the answering rank waits in, and its words; 0: it waits in none of this communicator. */
uint64_t exec_said(const struct boot_answer *answer, int nranks, char *text, size_t room);

#endif
