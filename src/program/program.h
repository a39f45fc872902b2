/* SPDX-License-Identifier: Apache-2.0
 *
 * The step program: an algorithm, written as data.
 *
 * An algorithm moves no byte. For one rank it emits a short list of steps per worker. Executors run the list, check.c
 * proves it right, the cost model simulates it, and tools show it. A step is about one block, or about a run of blocks. A step
 * reduces an ordered list of operands (messages from peers, and local blocks at given places in the list) and puts the result
 * into local blocks, into slots of peers, or both:
 *
 *        operands, in this order                                    places
 *     ┌──────────────────────────────┐                        ┌─────────────────┐
 *     │ recv[0] … local … recv[k−1]  │ ── op ── (finish) ───▶ │ local blocks    │
 *     └──────────────────────────────┘                        │ send[0]…send[m] │
 *                                                             └─────────────────┘
 *
 * A program describes one *round*. A collective repeats the program, and each round moves the next piece of each block:
 * geometry.h says which elements these are. A step sends one message to a peer, in one slot, whatever the number of its
 * blocks. The workers of one program run concurrently, and each runs its own steps in order. Every connection (peer, lane) has
 * one producing and one consuming worker.
 *
 * Peers may read a result where it lies, in IN or OUT of the rank that sends it, until they have consumed the slot
 * (layers/memory/loan.h). The verifier proves that no step overwrites the result before. A step whose result is overwritten too early
 * says `copied`, or `copied_in_place`.
 *
 * A builder keeps its first error: an algorithm emits steps without checks, and prog_finish() returns the error at the end.
 * Read next: registry.h, ../algo/allreduce_ring.c, build.c, shape.c, then check.c.
 */
#ifndef COLLET_PROGRAM_PROGRAM_H
#define COLLET_PROGRAM_PROGRAM_H

#include "collet.h"
#include "program/registry.h"
#include "program/step.h"
#include "topo/shape.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- collectives ---- */

enum prog_collective {
#define X(upper, lower, in, out, reduces, root, in_place) PROG_##upper,
    PROG_COLLECTIVES(X)
#undef X
        PROG_COLLECTIVE_COUNT
};

/* Which elements of a call's buffer does a block number of a region mean? (`count` is the call's argument, as in collet.h.) */
enum prog_layout {
    PROG_WHOLE,    /* The buffer has count elements, cut into nslices slices. Each slice is a block */
    PROG_PER_RANK, /* The buffer has nranks parts of count elements. Each part is a block, or nslices blocks in a row */
    PROG_SINGLE,   /* The buffer has one part of count elements. The part is a block, or nslices blocks */
    PROG_COUNTS,   /* The buffer has nranks blocks. Each has its own count and displacement */
    PROG_NONE,     /* There is no buffer. If IN and OUT have none, block 0 is empty, but its message is sent */
};

enum { PROG_COPIES = 0, PROG_REDUCES = 1 };

/* Does the collective have a root, and what is special about it? */
enum prog_root {
    PROG_NO_ROOT,
    PROG_FROM_ROOT, /* The root is the only rank that has an IN */
    PROG_TO_ROOT,   /* The root is the only rank that has an OUT */
    PROG_PEER,      /* The root is the other rank of a send or receive */
};

/* Which buffers overlap in an in-place call? */
enum prog_in_place {
    PROG_SAME_PLACE,       /* IN and OUT are the same buffer */
    PROG_IN_IS_OWN_BLOCK,  /* IN is this rank's block of OUT */
    PROG_OUT_IS_OWN_BLOCK, /* OUT is this rank's block of IN */
    PROG_APART,            /* None: in-place calls are not allowed */
};

/* The facts about one collective: one line of PROG_COLLECTIVES. */
struct prog_facts {
    const char *name;
    enum prog_layout in, out;
    bool reduces;
    enum prog_root root;
    enum prog_in_place in_place;
};
extern const struct prog_facts prog_facts[PROG_COLLECTIVE_COUNT];

/* The name of a collective; "?" for a number that is no collective. */
const char *prog_collective_name(enum prog_collective collective);
/* Finds the collective that the first `length` letters of a text name, in upper or lower case. False: they name none. Send and receive are
 * not found. */
bool prog_collective_find(const char *text, size_t length, enum prog_collective *collective_p);

/* Is the collective a send or a receive? Then only two ranks take part. False for a number that is no collective: the number may come from
 * another process. */
static inline bool prog_is_p2p(enum prog_collective collective) {
    return (unsigned)collective < PROG_COLLECTIVE_COUNT && prog_facts[collective].root == PROG_PEER;
}

/* Has the collective no buffers? Then ranks only learn that all ranks have called it (barrier). */
static inline bool prog_is_bare(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_NONE && prog_facts[collective].out == PROG_NONE;
}

/* Does the root alone reduce, while all other ranks only send? */
static inline bool prog_root_reduces(enum prog_collective collective) {
    return prog_facts[collective].reduces && prog_facts[collective].root == PROG_TO_ROOT;
}

/* Does each block have its own count? */
static inline bool prog_is_counted(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_COUNTS || prog_facts[collective].out == PROG_COUNTS;
}

/* Do only two ranks know each count? (Block p of rank r's IN goes to block r of rank p's OUT.) */
static inline bool prog_is_pairwise(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_COUNTS && prog_facts[collective].out == PROG_COUNTS;
}

/* Are the blocks slices of one whole buffer? */
static inline bool prog_is_sliced(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_WHOLE || prog_facts[collective].out == PROG_WHOLE;
}

/* Bus bandwidth divided by algorithm bandwidth, as nccl-tests defines them. */
static inline double prog_bus_factor(enum prog_collective collective, int nranks) {
    const double others = (double)(nranks - 1) / nranks;
    if (!prog_is_sliced(collective))
        return others;
    return prog_facts[collective].root == PROG_NO_ROOT ? 2 * others : 1;
}

struct prog_worker {
    int32_t first_step, nsteps; /* Steps of the worker: prog.steps[first_step … +nsteps−1] */
};

/* The source line of the algorithm that emitted a step. */
struct prog_origin {
    const char *file;
    int line;
};

#define PROG_BUCKETS 256
struct prog {
    enum prog_collective collective;
    int nranks, rank, root;
    int nslices;     /* Slices per buffer, or per rank's part of a buffer; 1: nothing is cut */
    int ntmp;        /* Number of blocks of TMP. Each has room for one piece */
    int longest_run; /* Number of blocks of the longest message that any rank's program sends. Equal on all ranks */
    int nworkers, nsteps, npeers, nlocals;
    struct prog_worker *workers;
    struct prog_step *steps;
    struct prog_peer *peers; /* Table of peers, which steps name by index. So are the locals */
    struct prog_local *locals;
    struct prog_origin *origins; /* [step] */
    /* Used only while the program is built: */
    const struct prog_shape *shape;
    const struct schedule *schedule; /* The imported schedule that the program is built from; NULL: none */
    int workers_room, steps_room, origins_room, peers_room, locals_room, next_room;
    int peer_heads[PROG_BUCKETS], *peer_next; /* Hash table of peers: a chain for each bucket, of indexes into peers */
    enum collet_result error;
};

/* ---- building ---- */

void prog_destroy(struct prog *prog);

/* Cuts each buffer (PER_RANK layout: each rank's part of it) into nslices slices; the default is 1. Call it before the first step.
 * Blocks that have their own counts cannot be cut. */
void prog_slices(struct prog *prog, int nslices);

/* Gives the program a region TMP of nblocks blocks. Call it before the first step. All rounds use the same memory. So workers that
 * share a block of TMP must order their steps by messages. */
void prog_tmp(struct prog *prog, int nblocks);

/* Says that some rank has messages of up to this many blocks, even if this rank has none so long. The length of pieces depends on this
 * number, and must be equal on all ranks. */
void prog_longest_run(struct prog *prog, int blocks);

/* Starts a worker. The following steps belong to it. */
void prog_worker(struct prog *prog);

/* A lane distinguishes several connections from one rank to another. For example, the two trees of a double tree use two lanes. (The two
 * directions always have separate connections.) Algorithms may use lanes up to PROG_LANE_ALL; send and recv use PROG_LANE_P2P. */
#define PROG_LANE_P2P 63

/* A rank sends on this lane only to all other ranks, in one step, and all get the same message. If one host has all ranks, the message
 * is written once, and all other ranks read it there (transport/fan.c). Otherwise there is a message per rank, as on other lanes. */
#define PROG_LANE_ALL 62

/* The peers of a step: `count` ranks first, first+1 … modulo nranks. If count is OTHERS, they are all ranks from `first` on, except this
 * rank. If `ranks` is set, they are ranks[0 … count−1]. The step receives and reduces in this order. All peers are on one lane. */
struct peers {
    int first, count, lane;
    const int *ranks; /* NULL: the peers are the ranks from `first` on */
};
#define OTHERS (-1)
#define PEER(rank) PEER_LANE(rank, 0)
#define PEER_LANE(rank, lane) ((struct peers){(rank), 1, (lane), NULL})
#define LISTED(ranks, count, lane) ((struct peers){0, (count), (lane), (ranks)})

/* Puts these peers into the peer table, in this order. Call it before the first step. A later step that uses one or all of these peers
 * refers to these entries, so the table stays short. A GPU keeps a short table in fast memory. */
void prog_peers(struct prog *prog, struct peers peers);

/* A run of blocks in memory. */
struct run {
    int first, count, stride, group; /* count: number of blocks. The others are as in struct block_run */
};
struct local {
    enum step_region region;
    struct run run;
};
#define ROW(first, count) ((struct run){(first), (count), 1, 1}) /* Neighbours, which wrap around */
#define IN_RUN(run) ((struct local){STEP_IN, (run)})
#define OUT_RUN(run) ((struct local){STEP_OUT, (run)})
#define TMP_RUN(run) ((struct local){STEP_TMP, (run)})
#define IN(block) IN_RUN(ROW(block, 1))
#define OUT(block) OUT_RUN(ROW(block, 1))
#define TMP(block) TMP_RUN(ROW(block, 1))

/* One of several local operands of a step. It comes after `at` received operands. */
struct local_operand {
    int at;
    struct local local;
};
struct local_list {
    const struct local_operand *list;
    int count;
};

/* A step, as an algorithm writes it. A field that is left out means none: no peers, no local operand, no place in memory, not finished.
 * Use either `local` or `local_list`. All runs of a step have the same length. */
struct step_text {
    struct peers recv;  /* Peers whose messages are operands */
    struct local local; /* The local operand, if there is only one */
    int local_at;       /* The local operand comes after this many received operands */
    struct local_list local_list;
    struct local store; /* Blocks of this rank that get the result */
    /* Blocks that the step is about. Default: the stored blocks of OUT, else the read ones. */
    struct local length_of;
    struct peers send;         /* Peers that get the result */
    bool copied;               /* Peers get copies of the result: its memory is overwritten too early to be lent */
    bool copied_in_place;      /* Like `copied`, but only if IN and OUT are the same memory */
    bool finish;               /* The result holds all ranks' contributions: an average divides it now */
    struct prog_origin origin; /* Set by prog_step() */
};
void prog_emit(struct prog *prog, struct step_text text);
#define prog_step(prog, ...) prog_emit((prog), (struct step_text){.origin = {__FILE__, __LINE__}, __VA_ARGS__})

/* r modulo nranks, also if r is negative: the rank that is r positions after rank 0 on the ring of rank numbers. */
static inline int prog_wrap(const struct prog *prog, int r) {
    int rest = r % prog->nranks;
    return rest < 0 ? rest + prog->nranks : rest;
}

/* The position of a rank on the ring of the shape. */
static inline int prog_ring_place(const struct prog *prog, int rank) {
    return prog_shape_turn(prog->shape, prog_shape_position(prog->shape, rank));
}

/* The rank that is k positions after this rank on the ring of the shape. If k is negative, the rank is before this one. */
static inline int prog_after(const struct prog *prog, int k) {
    int place = prog_wrap(prog, prog_ring_place(prog, prog->rank) + k);
    return prog_shape_rank(prog->shape, prog_shape_turn(prog->shape, place));
}

/* How many positions after the root is this rank, on the ring of the shape? 0 … nranks−1. */
static inline int prog_behind_root(const struct prog *prog) {
    return prog_wrap(prog, prog_ring_place(prog, prog->rank) - prog_ring_place(prog, prog->root));
}

/* ---- algorithms ---- */

/* Emits the steps of one rank. The steps depend only on (collective, shape, rank, root), and never on sizes, the clock or the environment.
 * `root` is 0 if the collective has none. For SEND and RECV it is the peer. */
typedef void (*prog_build_fn)(struct prog *prog);

/* In which order are contributions summed? ANY_ORDER: the order is not specified. IN_RANK_ORDER: one step sums all contributions by rank
 * number. SWITCH_ORDER: like IN_RANK_ORDER, unless an NVSwitch computes the sum (kernels/cuda/block_team.cuh).
 * Then the switch decides. */
enum prog_order { PROG_ANY_ORDER, PROG_IN_RANK_ORDER, PROG_SWITCH_ORDER };

/* How many connections does a rank receive from, at most? TO_FEW: about log2 of the number of ranks. TO_MATES: a few per rank of its
 * node. TO_MANY: more, but fewer than one per rank. TO_ALL: one per rank. TO_ALL_TWICE: two per rank. */
enum prog_connects { PROG_TO_FEW, PROG_TO_MATES, PROG_TO_MANY, PROG_TO_ALL, PROG_TO_ALL_TWICE, PROG_CONNECTS_COUNT };

struct algorithm {
    const char *name; /* Name in COLLET_ALGO: "ring", "tree", "oneshot" … */
    enum prog_collective collective;
    prog_build_fn build;
    bool (*applies)(const struct prog_shape *shape); /* Does the algorithm work for this shape? NULL: for every shape */
    const char *where;                               /* The condition of applies() in words: "up to 64 ranks" */
    enum prog_connects connects;
    enum prog_order order;
    const char *about;               /* A description of one line, for tools */
    int nranks;                      /* The only number of ranks that the algorithm works for; 0: it works for any */
    const struct schedule *schedule; /* Imported schedule that build() reads (layers/schedules/import.h); NULL: none */
};

/* All algorithms, in the order of the table ALGORITHMS. The last entry has name == NULL. algo/registry.c defines and checks the array. */
#define ALGORITHMS_MAX 64
extern const struct algorithm algorithms[];
const struct algorithm *algorithm_find(enum prog_collective collective, const char *name); /* NULL if there is none */

bool algorithm_applies(const struct algorithm *algorithm, const struct prog_shape *shape);

/* Builds the program of one rank. The caller owns *prog_p. Errors: INVALID_ARGUMENT (rank or root is out of range, or the algorithm does
 * not work for the shape), NO_MEMORY, INTERNAL (the algorithm emitted an invalid step; the text names the step). */
enum collet_result algorithm_build(const struct algorithm *algorithm, const struct prog_shape *shape, int rank,
                                   int root, struct prog **prog_p);

/* ---- readers ---- */

/* The number of blocks in a region; 0: the program has no such region. */
int prog_region_blocks(const struct prog *prog, enum step_region region);

/* Does any step read blocks of IN? */
bool prog_reads_in(const struct prog *prog);

/* Does the collective send a message even if the message has no element? */
static inline bool prog_keeps_empty(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_NONE || prog_facts[collective].out == PROG_NONE ||
           prog_is_pairwise(collective);
}

/* Executes the programs of all ranks symbolically with `nslots` slots per connection, over so many rounds that slots are
 * reused, and then over short rounds in which the last blocks are empty. Checks that
 *   every output block reduces every contribution exactly once. The expression is equal on all ranks, except that a+b = b+a;
 *   it is in rank order if the algorithm promises that;
 *   `finish` is applied exactly once to every reduced output;
 *   no step reads a block that is not written yet, or is overwritten already (also in place), in whatever order workers run,
 *   whichever messages are lent, and whichever payloads land early;
 *   there is no deadlock, and every message that is sent is received;
 *   both ends of a message count equally many pieces of equal lengths;
 *   each connection has one producing and one consuming worker.
 * in_place: the buffers overlap as the collective's in-place rule in collet.h says. Ignored if the collective has no such rule.
 * For send and recv, `root` is the peer, and the peer runs the opposite collective of the same algorithm name.
 * On failure `why` (why_bytes long) says which rank, worker, step and block; on success it is "". */
bool prog_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                char *why, size_t why_bytes);

#endif
