/* SPDX-License-Identifier: Apache-2.0
 *
 * The host executor: it runs programs on memory that the CPU can address, in the calling thread.
 *
 * A program is bound once to the connections of its rank (struct exec_program), and then runs for many calls. A call
 * (struct exec_call) is tried again and again, until it is done. Each try returns soon, so one thread runs any number of
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

/* Visits a worker of a call: tries its steps until the worker is blocked, is done, or has had its turn. For each protocol there is a
 * compiled copy of this function (visit.h). One more copy, for programs with ends over wires, asks each end for its protocol
 * (PROTO_EACH_END). Another one is for calls with direct ends. Traced ranks have their own copies of all these. */
typedef enum collet_result exec_visit(struct exec_call *call, struct interp_worker *w, bool *moved);
typedef exec_visit *const exec_visits[PROTOCOL_COUNT]; /* [protocol of a call] */

/* A meeting of all ranks of a communicator on GPUs. Before all ranks have come, no rank puts work into a stream that waits for other
 * ranks. */
struct exec_meeting {
    uint64_t number; /* Number of this meeting on its communicator; 0: there was none yet */
    enum { MEET_NOT_YET, MEET_ANNOUNCED, MEET_DONE } met;
    int arrived; /* Rank 0: number of ranks that have come */
};

struct exec_program {
    /* [channel]: a program, which this struct owns. All have the same collective, algorithm, root and number of slices. */
    struct prog **progs;
    const struct algorithm *source; /* The algorithm that built the programs */
    struct chan *chan;              /* Owner of the connections */
    int nchannels;
    int nconns, nready; /* Number of connections of all channels. The first nready are READY */
    struct conn **conns;
    int nremote;                  /* Number of connections over a wire */
    const exec_visits *visits;    /* The functions that visit its workers (exec_visits_of()) */
    uint32_t trace_mask;          /* A call of the present kind is not traced if its number has one of these bits */
    struct interp_op *ops;        /* [channel]: what the workers of the channel share */
    struct interp_op *pair_ops;   /* [worker]: only for a pairwise collective, whose workers have different counts */
    exec_visit *visit;            /* Visits the workers first in a call of the present kind */
    struct direct_worker *direct; /* [worker]: what direct ends need (layers/memory/exec_direct.c); NULL: nothing yet */
    uint64_t ops_id;              /* args_id of the call that filled ops; 0: there was none yet */
    struct interp_worker *workers; /* Workers of all channels */
    /* [channel]: index of its first worker. One more entry holds the number of workers. */
    int *first_worker;
    struct work_block *on_gpu;   /* Address of its blocks on the GPU; NULL: they are not there yet */
    bool lends_on_gpu;           /* GPUs: true: some of its ends lend */
    struct exec_meeting meeting; /* GPUs: the meeting before its first use */
    struct copy_list *copies;    /* The work, if copy engines do it instead (exec_copies.c); NULL: none yet */
    struct exec_program *next;   /* Next program of the planner's list */
};

/* Binds progs[c] to the connections of channel c, for c = 0 … nchannels−1. Takes ownership of the array and its programs, also
 * on failure. */
enum collet_result exec_program_create(struct chan *chan, struct prog **progs, const struct algorithm *source,
                                       int nchannels, struct exec_program **program_p);
void exec_program_destroy(struct exec_program *program);

/* Makes sure that a proxy carries slots over networks, if the rank is on a GPU, which cannot do it, or COLLET_PROXY asks for one. Call it
 * before the first call of the program. */
enum collet_result exec_find_carrier(const struct exec_program *program);

static inline int exec_channel_of(const struct exec_program *program, int worker) {
    int channel = 0;
    while (worker >= program->first_worker[channel + 1])
        channel++;
    return channel;
}

/* The rank for which a blocked worker waits. */
static inline int exec_blocking_rank(const struct exec_program *program, int worker) {
    const struct prog *prog = program->progs[exec_channel_of(program, worker)];
    return prog->peers[program->workers[worker].blocked_on].rank;
}

/* The first element and the length of each block of a call. */
struct exec_extents {
    const struct span *of[STEP_REGIONS]; /* [region][block]: points into spans; NULL: the blocks have equal lengths */
    struct span spans[];
};

/* A call as the user made it. */
struct exec_request {
    enum prog_collective collective;
    enum collet_type type;
    enum collet_op op; /* Ignored if the collective does not reduce */
    int root;          /* Root; or the peer of a send or receive; else 0 */
    size_t count;      /* If blocks have their own counts (prog_is_counted()), this is their mean */
    uint64_t factor;   /* The factor of `scaling`. Scaling and factor do not change the plan */
    /* Options of this call alone, which the tuner reads (layers/tuner/call_options.h); 0: none. */
    uint64_t call_options;
    struct exec_extents
        *extents;         /* Blocks with their own counts of this rank's buffers. They are freed with the request */
    uint32_t counts_hash; /* Likewise: hash of the counts of all ranks; 0: each count is known to two ranks only */
    uint16_t scaling;     /* enum work_scaling */
    uint8_t named_type;   /* Send and receive: 1 + the type that the caller named (for texts); 0: none */
    bool by_copies;       /* GPUs: true: copy engines do the work, not a kernel */
    bool may_switch;      /* GPUs: true: switches may compute the sum (gpu_mark()) */
    bool may_lend;        /* GPUs: true: payloads may be lent (gpu_mark()) */
};

enum exec_state { EXEC_IDLE, EXEC_CONNECTING, EXEC_RUNNING };

/* A call in progress. */
struct exec_call {
    struct exec_request request;
    struct exec_program *program;
    struct work_args args; /* The request, in terms of the bound program */
    uint64_t args_id;      /* Equal for calls whose args differ only in buffers and sequence. Never 0 */
    reduce_fn reduce;
    struct chan *chan;
    enum exec_state state;
    exec_visit *visit;      /* Visits its workers, if it is RUNNING */
    int running;            /* Number of workers that are not done */
    uint64_t idle_since_ns; /* Time of the first look that found no progress; 0: the last look found progress */
    int waits_for;          /* If the call makes no progress: a rank that it waits for; −1: none is known yet */
    bool waits_sending;     /* True: the call waits for credit. False: it waits for data */
    uint64_t told_ns;       /* Time at which rank waits_for was told of this call (exec_compare.c); 0: not yet */
    bool last_try;          /* True: a rank that the call waits for is gone, and this is the last try */
    void *stream;           /* The stream that the user passed */
    struct gpu_window_place place; /* Call by copy engines: the place of OUT in a window */
    struct observed *observed;     /* The observation of this call (observer.h); NULL: it is not observed */
    uint64_t nth;                  /* GPU: number of calls before it in its group, on its lane (api/engine.h) */
    struct exec_call *shown;       /* GPU: the lane's copy of this call, which other threads may read; else NULL */
};

/* The functions that visit a program's workers: with or without wires, traced or not. */
const exec_visits *exec_visits_of(bool has_wires, bool traced);

/* Tries every worker of a call that is CONNECTING or RUNNING, and moves the slots of its wires. *moved becomes true if the call made
 * progress. SUCCESS: the call is over, and IDLE. IN_PROGRESS: try again. Any other result is a failure. */
enum collet_result exec_call_try(struct exec_call *call, bool *moved);

/* ---- calls whose counts only pairs know (exec_pairs.c) ---- */

/* Gives each worker the rounds, signature and sequence of its pair. */
void exec_pairs_start(const struct exec_call *call);

/* Does the header that worker w received belong to this call, but with other counts? MISMATCH: yes. SUCCESS: no. */
enum collet_result exec_pairs_check(const struct exec_call *call, const struct interp_worker *w);

/* ---- connections of calls (exec_connect.c) ---- */

/* Makes progress with the connections of a call's program. SUCCESS: all are READY. IN_PROGRESS: some are not READY yet. */
enum collet_result exec_connect_call(struct exec_call *call, bool *moved);

/* ---- direct ends (layers/memory/exec_direct.c) ---- */

/* Called when a call of another kind begins. The function that visits its workers, if ends may lend payloads, or borrow them
 * (fifo/proto_direct.h); NULL: none does. */
exec_visit *exec_direct_visit(const struct exec_call *call);

/* Call it after a failure, before the call returns: makes peers stop using the call's buffers. */
void exec_stop_loans(const struct exec_call *call);

/* ---- waiting (exec_wait.c) ---- */

/* May a call go on waiting? SUCCESS: yes. Any other result is the failure that ends the call. */
enum collet_result exec_look(struct exec_call *call, uint64_t now_ns);

/* Call it after a failure with `result`: looks for the cause for a short time. Returns the cause's code, or `result`. */
enum collet_result exec_explain(const struct exec_call *call, enum collet_result result);

/* Sets the error TIMEOUT. All executors use this text. peers: the ranks that the call waits for. found: the reason, or "" if it is
 * not known. */
enum collet_result exec_err_timeout(const struct chan *chan, uint64_t idle_ns, enum prog_collective collective,
                                    uint64_t sequence, const char *peers, const char *found);

/* Sets the error MISMATCH, because worker w received a slot of another call. */
enum collet_result exec_err_mismatch(struct exec_call *call, const struct interp_worker *w);

/* ---- which call a rank is in (exec_compare.c) ---- */

struct call_facts {
    uint64_t sequence, count;
    uint32_t signature;
    int32_t root;
    uint8_t collective, type, named_type, op; /* As in struct exec_request */
};
struct call_facts exec_facts(const struct exec_call *call);
bool exec_facts_valid(const struct call_facts *facts); /* Checks facts that another rank has sent */
/* Writes for example "allreduce of 7 float, op sum", or "broadcast of 7 float, root 2". */
void exec_describe(const struct call_facts *facts, char *text, size_t room);

/* A call that has made no progress for this time is blocked. */
uint64_t exec_blocked_ns(const struct chan *chan);
/* Call it again and again while a call waits. idle_ns: time without progress. If the call is blocked, its rank compares it with the calls
 * of other blocked ranks. SUCCESS: no difference was found. MISMATCH: a rank is in another call. */
enum collet_result exec_compare(struct exec_call *call, uint64_t idle_ns, uint64_t now_ns);
/* Gets the collective in which `rank` is blocked, if `rank` has told this rank so. False: no such message came since the last question. */
bool exec_hear(const struct chan *chan, int rank, struct call_facts *facts);
/* Sets the error MISMATCH, because this call differs from a call of rank `peer`. text: says how they differ, as far as this rank knows. */
enum collet_result exec_err_differs(struct exec_call *call, int peer, const char *text);

#endif
