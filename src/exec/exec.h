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

/* Visits a worker of a call: tries its steps until it is blocked, done, or has had its turn. Each protocol has a compiled copy.
 * One more copy, for programs with ends over wires, asks each end for its protocol (PROTO_EACH_END). Traced ranks have their
 * own copies of all of these. */
typedef enum collet_result exec_visit(struct exec_call *call, struct interp_worker *w, bool *moved);
typedef exec_visit *const exec_visits[PROTOCOL_COUNT]; /* [protocol of a call] */

/* A meeting of all ranks of a communicator on GPUs: no rank puts work that waits for others into a stream before all have come. */
struct exec_meeting {
    uint64_t number; /* number of this meeting on its communicator; 0: none yet */
    enum { MEET_NOT_YET, MEET_ANNOUNCED, MEET_DONE } met;
    int arrived; /* rank 0: number of ranks that have come */
};

/* May a program's ends lend payloads, and may they borrow them? */
struct exec_loans {
    uint32_t lends_from, borrows_from, lands_from; /* as in struct interp_op */
    bool receives;                                 /* likewise */
    const struct commons *only;                    /* ends lend and offer only memory of these commons; NULL: any */
};

struct exec_program {
    struct prog **progs; /* [nchannels], owned; all have the same collective, algorithm, root and number of slices */
    const struct algorithm *source; /* the algorithm that built the programs */
    struct chan *chan;              /* owner of the connections */
    int nchannels;
    int nconns, nready; /* number of connections of all channels; the first nready are READY */
    struct conn **conns;
    int nremote; /* number of connections over a wire */
    const exec_visits *visits;
    uint32_t trace_mask;           /* a call of the present kind is not traced if its number has one of these bits */
    struct interp_op *ops;         /* [channel] */
    struct interp_op *pair_ops;    /* [worker], only for a pairwise collective: its workers differ in counts */
    struct exec_loans loans;       /* loans of calls of the present kind */
    uint64_t ops_id;               /* args_id of the call that filled ops; 0: none yet */
    struct interp_worker *workers; /* workers of all channels */
    int *first_worker;             /* [nchannels + 1]: index of the first worker of each channel */
    struct work_block *on_gpu;     /* address on the GPU, for the device executor; NULL: not there yet */
    bool lends_on_gpu;             /* 1: some of its ends lend */
    struct exec_meeting meeting;   /* GPUs: the meeting before its first use */
    struct copy_list *copies;      /* work of copy engines in its place (exec_copies.c); NULL: none yet */
    struct exec_program *next;     /* next program of the planner's list */
};

/* Binds progs[c] to the connections of channel c, for c = 0 … nchannels−1. Takes ownership of the array and its programs, also
 * on failure. */
enum collet_result exec_program_create(struct chan *chan, struct prog **progs, const struct algorithm *source,
                                       int nchannels, struct exec_program **program_p);
void exec_program_destroy(struct exec_program *program);

/* Finds who carries slots over a network: GPUs cannot do it themselves. Call it before the first call of the program. */
enum collet_result exec_find_carrier(const struct exec_program *program);

static inline int exec_channel_of(const struct exec_program *program, int worker) {
    int channel = 0;
    while (worker >= program->first_worker[channel + 1])
        channel++;
    return channel;
}

/* The rank for which a worker waits. */
static inline int exec_blocking_rank(const struct exec_program *program, int worker) {
    const struct prog *prog = program->progs[exec_channel_of(program, worker)];
    return prog->peers[program->workers[worker].blocked_on].rank;
}

/* The first element and the length of each block of a call. */
struct exec_extents {
    const struct span *of[STEP_REGIONS]; /* [region][block], into spans; NULL: its blocks have equal lengths */
    struct span spans[];
};

/* A call as the user made it. */
struct exec_request {
    enum prog_collective collective;
    size_t count;
    enum collet_type type;
    uint8_t named_type; /* send, recv: 1 + the type that the caller named (for texts); 0: none */
    enum collet_op op;  /* ignored if nothing is reduced */
    int root;           /* root; or the peer of a send or receive; else 0 */
    uint16_t scaling;   /* enum work_scaling, with its factor; neither changes the plan */
    uint64_t factor;
    bool by_copies;        /* GPUs: copy engines do the work, not a kernel */
    bool may_switch;       /* GPUs: the buffers lie in windows that let switches compute the sum (gpu_mark()) */
    bool may_lend;         /* GPUs: the buffers lie in windows, so payloads may be lent (gpu_mark()) */
    uint64_t call_options; /* options of this call alone, for who chooses (layers/tuner/call_options.h); 0: none */
    /* Only if blocks have their own counts (prog_is_counted); then `count` is their mean: */
    uint32_t counts_hash;         /* hash of the counts of all ranks; 0 if only pairs know them */
    struct exec_extents *extents; /* blocks of this rank's buffers; freed with the request */
};

enum exec_state { EXEC_IDLE, EXEC_CONNECTING, EXEC_RUNNING };

/* A call in progress. */
struct exec_call {
    struct exec_request request;
    struct exec_program *program;
    struct work_args args; /* the request, in terms of the bound program */
    uint64_t args_id;      /* equal for calls whose args differ only in buffers and sequence; never 0 */
    reduce_fn reduce;
    struct chan *chan;
    enum exec_state state;
    int running;            /* number of workers that are not done */
    int told_peer;          /* the rank that this rank has said it waits for (exec_inquest.c); −1: none */
    uint64_t idle_since_ns; /* time at which it was first found without progress; 0: it has moved since the last look */
    bool last_try;          /* a rank that it waits for is gone: this is the last try */
    void *stream;           /* the stream of a GPU */
    struct gpu_window_place place; /* call by copy engines: the window place of OUT */
    struct observed *observed;     /* its observation (observer.h); NULL: it is not observed */
    uint64_t nth;                  /* GPU: number of calls of its lane (api/engine.h) before it in its group */
};

/* The functions that visit a program's workers: with or without wires, traced or not. */
const exec_visits *exec_visits_of(bool has_wires, bool traced);

/* Tries every worker of a call that is CONNECTING or RUNNING, and moves the slots of its wires. *moved: set if anything was done.
 * SUCCESS: the call is over, and IDLE. IN_PROGRESS: try again. Else a failure. */
enum collet_result exec_call_try(struct exec_call *call, bool *moved);

/* ---- calls whose counts only pairs know (exec_pairs.c) ---- */

/* Gives each worker the rounds, signature and sequence of its pair. */
void exec_pairs_start(const struct exec_call *call);

/* Is the header that worker w received of this call, but with other counts? MISMATCH: yes. SUCCESS: no. */
enum collet_result exec_pairs_check(const struct exec_call *call, const struct interp_worker *w);

/* ---- connections of calls (exec_connect.c) ---- */

static inline bool exec_is_connected(const struct exec_program *program) { return program->nready == program->nconns; }

/* Makes progress with the connections of a call's program: SUCCESS if all are READY, IN_PROGRESS if not yet. */
enum collet_result exec_connect_call(struct exec_call *call, bool *moved);

/* ---- loans (exec_loans.c) ---- */

/* The loans of a program whose connections are ready. */
struct exec_loans exec_loans_of(const struct exec_program *program);

/* See interp_borrow. */
enum interp_result exec_borrow(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                               const struct interp_piece *piece);

/* Has any of the first nworkers workers lent a payload in this call? */
static inline bool exec_has_lent(const struct exec_program *program, int nworkers) {
    for (int k = 0; k < nworkers; k++)
        if (program->workers[k].lent > 0)
            return true;
    return false;
}

/* Tells the producers where to put the payloads of the worker's next slots, if they can. */
void exec_announce(struct interp_worker *w);
/* Adds the places that consumers have offered to the places of a step's result. Returns the number of places. */
int exec_land(struct interp_worker *w, const struct prog_step *step, int ndst, uint32_t bytes, uint32_t *stream_mask);
/* After the result is made: the kernel copies it to the offered places that only the kernel reaches. */
void exec_carry(struct interp_worker *w, const struct prog_step *step, uint32_t bytes);
/* At the start of a call: tells its channels which of the call's buffers they may lend and offer. */
void exec_lend(const struct exec_call *call);

/* A waiting rank helps: it copies parts of the payloads that it has lent. */
void exec_help(const struct exec_program *program, bool *moved);

/* After a failure, before the call returns: makes peers stop using its buffers. */
void exec_stop_loans(const struct exec_call *call);

/* ---- waiting (exec_wait.c) ---- */

/* May a call go on waiting? SUCCESS, or the failure that ends it. */
enum collet_result exec_look(struct exec_call *call, uint64_t now_ns);

/* After a failure with `result`: looks for its cause for a short time. Returns the cause's code, or `result`. */
enum collet_result exec_explain(const struct exec_call *call, enum collet_result result);

/* Sets the error TIMEOUT, with one text for all executors. peers: the ranks that the call waits for. found: the reason, or "" if it is
 * not known. */
enum collet_result exec_err_timeout(const struct chan *chan, uint64_t idle_ns, enum prog_collective collective,
                                    uint64_t sequence, const char *peers, const char *found);

/* Sets the error MISMATCH: worker w received a slot of another call. */
enum collet_result exec_err_mismatch(struct exec_call *call, const struct interp_worker *w);

/* ---- who holds the job up (exec_inquest.c) ---- */

/* A call has waited for `peer` for idle_ns: tells the other ranks, and finds out step by step why. SUCCESS, or the failure
 * that it found: MISMATCH. */
enum collet_result exec_inquire(struct exec_call *call, int peer, uint64_t idle_ns, uint64_t now_ns);
/* The reason that was found; "": none yet. */
const char *exec_found(const struct exec_call *call);

/* Withdraws what the call said about its wait: it moves again, or has ended. */
void exec_take_back(struct exec_call *call);
static inline void exec_said_no_more(struct exec_call *call) {
    if (call->told_peer >= 0)
        exec_take_back(call);
}

/* Sets the error MISMATCH. Asks all ranks for their calls, to say which rank called what. If that is not found: `otherwise`. */
enum collet_result exec_explain_mismatch(struct exec_call *call, int peer, const char *otherwise);
/* "allreduce of 7 float, op sum"; "broadcast of 7 float, root 2" */
void exec_describe(const struct exec_request *request, char *text, size_t room);

/* The number of the collective in which the answering rank waits, and its description in text; 0: it waits in none of this communicator. */
uint64_t exec_said(const struct boot_answer *answer, int nranks, char *text, size_t room);

#endif
