/* SPDX-License-Identifier: Apache-2.0
 *
 * The step program: what an algorithm is, as data.
 *
 * An algorithm moves no byte. For one rank it emits a short list of steps per worker; executors run the list, check.c
 * proves it right, cost models add it up, tools show it. A step is about one block, or about a run of blocks. It
 * reduces an ordered list of operands (what peers sent, and local blocks at stated places among it) and puts the result
 * into local blocks, into slots of peers, or both:
 *
 *        operands, in this order                                    places
 *     ┌──────────────────────────────┐                        ┌─────────────────┐
 *     │ recv[0] … local … recv[k−1]  │ ── op ── (finish) ───▶ │ local blocks    │
 *     └──────────────────────────────┘                        │ send[0]…send[m] │
 *                                                             └─────────────────┘
 *
 * A program is one *round*; a collective repeats it over the buffers, piece by piece: geometry.h says which elements of a
 * block that is in a given round. What a step sends to a peer is one message, in one slot, whatever the number of its
 * blocks. Workers of one program run concurrently, each through its own steps in order. Every connection (peer, lane) has
 * one producing and one consuming worker.
 *
 * Peers may read a result where it lies, in IN or OUT of the rank that sends it, until they have gone on (layers/memory/loan.h). The
 * verifier proves that nothing overwrites it before; a step for which that is not so says `copied`, or `copied_in_place`.
 *
 * A builder keeps a sticky error: emit freely, then look at what prog_finish() says.
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

/* How do block numbers of a region map to elements of a call's buffer? (`count` is the call's argument, as in collet.h.) */
enum prog_layout {
    PROG_WHOLE,    /* one buffer of count elements, cut into slices: each slice is a block */
    PROG_PER_RANK, /* nranks parts of count elements: each part is a block, or nslices blocks in a row */
    PROG_SINGLE,   /* one part of count elements. It is one block, or is cut into slices */
    PROG_COUNTS,   /* nranks blocks; each has its own count and displacement */
    PROG_NONE,     /* no buffer. If neither region has one, block 0 is empty, but its message is sent */
};

enum { PROG_COPIES = 0, PROG_REDUCES = 1 };

/* What is the root of a rooted collective? */
enum prog_root {
    PROG_NO_ROOT,
    PROG_FROM_ROOT, /* the only rank that has an IN */
    PROG_TO_ROOT,   /* the only rank that has an OUT */
    PROG_PEER,      /* the other end of a message: the collective is between two ranks */
};

/* Which buffers overlap in an in-place call? */
enum prog_in_place {
    PROG_SAME_PLACE,       /* IN and OUT are the same buffer */
    PROG_IN_IS_OWN_BLOCK,  /* IN is this rank's block of OUT */
    PROG_OUT_IS_OWN_BLOCK, /* OUT is this rank's block of IN */
    PROG_APART,            /* in-place calls are not allowed */
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
/* Finds a collective by the first `length` letters of a text, in any case. False: they name no collective, or one between two ranks. */
bool prog_collective_find(const char *text, size_t length, enum prog_collective *collective_p);

/* Is it a send or a receive? Then two ranks take part, not all. False for a number that is no collective: it may come from a stranger. */
static inline bool prog_is_p2p(enum prog_collective collective) {
    return (unsigned)collective < PROG_COLLECTIVE_COUNT && prog_facts[collective].root == PROG_PEER;
}

/* Has the collective no buffers? Then ranks only learn that all ranks have called (barrier). */
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

/* Do only two ranks know each count? (Block p of rank r goes to block r of rank p.) */
static inline bool prog_is_pairwise(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_COUNTS && prog_facts[collective].out == PROG_COUNTS;
}

/* Is one buffer cut into slices that are the blocks? */
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
    int32_t first_step, nsteps; /* its steps: prog.steps[first_step … +nsteps−1] */
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
    int nslices;     /* slices per buffer, or per rank's part of it (1: not cut) */
    int ntmp;        /* blocks of TMP; each has room for one piece */
    int longest_run; /* blocks of the program's longest message; all ranks have the same number */
    int nworkers, nsteps, npeers, nlocals;
    struct prog_worker *workers;
    struct prog_step *steps;
    struct prog_peer *peers; /* tables, to which steps point by index */
    struct prog_local *locals;
    struct prog_origin *origins; /* [step] */
    /* Only while the program is built: */
    const struct prog_shape *shape;
    const struct schedule *schedule; /* the imported schedule; NULL: none */
    int workers_room, steps_room, origins_room, peers_room, locals_room, next_room;
    int peer_heads[PROG_BUCKETS], *peer_next; /* hash table of peers: chains of equal hash */
    enum collet_result error;
};

/* ---- building ---- */

void prog_destroy(struct prog *prog);

/* Cuts each buffer (PER_RANK layout: each rank's part of it) into nslices slices; the default is 1. Call it before the first step.
 * Blocks that have their own counts cannot be cut. */
void prog_slices(struct prog *prog, int nslices);

/* Gives the program a region TMP of nblocks blocks. Call it before the first step. All rounds use the same memory: workers that
 * share a block of TMP must order their rounds by messages. */
void prog_tmp(struct prog *prog, int nblocks);

/* Other ranks have messages of up to this many blocks, although this rank has none so long. All ranks must cut pieces alike. */
void prog_longest_run(struct prog *prog, int blocks);

/* Starts a worker. The following steps belong to it. */
void prog_worker(struct prog *prog);

/* A lane distinguishes several connections from one rank to another, for example those of a double tree's two trees. (The two
 * directions always have separate connections.) Algorithms may use lanes below PROG_LANE_P2P; send and recv use PROG_LANE_P2P. */
#define PROG_LANE_P2P 63

/* The peers of a step: `count` ranks first, first+1 … modulo nranks. If count is OTHERS: all ranks from `first` on except this rank.
 * If `ranks` is set: ranks[0 … count−1]. Receiving and reducing keep this order. All are on one lane. */
struct peers {
    int first, count, lane;
    const int *ranks; /* NULL: ranks from `first` on */
};
#define OTHERS (-1)
#define PEER(rank) PEER_LANE(rank, 0)
#define PEER_LANE(rank, lane) ((struct peers){(rank), 1, (lane), NULL})
#define LISTED(ranks, count, lane) ((struct peers){0, (count), (lane), (ranks)})

/* Puts these peers into the table, in this order. Call it before the first step. Later steps that use one or all of them
 * find them there, so the table stays short. A GPU keeps a short table in fast memory. */
void prog_peers(struct prog *prog, struct peers peers);

/* A run of blocks in memory. */
struct run {
    int first, count, stride, group; /* as in struct block_run */
};
struct local {
    enum step_region region;
    struct run run;
};
#define ROW(first, count) ((struct run){(first), (count), 1, 1}) /* neighbours, which wrap around */
#define IN_RUN(run) ((struct local){STEP_IN, (run)})
#define OUT_RUN(run) ((struct local){STEP_OUT, (run)})
#define TMP_RUN(run) ((struct local){STEP_TMP, (run)})
#define IN(block) IN_RUN(ROW(block, 1))
#define OUT(block) OUT_RUN(ROW(block, 1))
#define TMP(block) TMP_RUN(ROW(block, 1))

/* One of several local operands. It comes after `at` received operands. */
struct local_operand {
    int at;
    struct local local;
};
struct local_list {
    const struct local_operand *list;
    int count;
};

/* A step, as an algorithm writes it. A missing field means: nothing received, no local operand, nothing sent, nothing stored, not
 * finished. Use either `local` or `local_list`. All runs of a step have the same length. */
struct step_text {
    struct peers recv;  /* operands from peers */
    struct local local; /* the local operand */
    int local_at;       /* the local operand comes after this many received operands */
    struct local_list local_list;
    struct local store;        /* blocks of this rank that get the result */
    struct local length_of;    /* blocks as long as the pieces; default: the stored blocks, else the read ones */
    struct peers send;         /* peers that get the result */
    bool copied;               /* peers get copies of the result: its memory is overwritten too early to be lent */
    bool copied_in_place;      /* likewise, but only if IN and OUT are the same memory */
    bool finish;               /* the result has all ranks' contributions: an average divides now */
    struct prog_origin origin; /* set by prog_step() */
};
void prog_emit(struct prog *prog, struct step_text text);
#define prog_step(prog, ...) prog_emit((prog), (struct step_text){.origin = {__FILE__, __LINE__}, __VA_ARGS__})

/* r modulo nranks, also for negative r: the rank r positions after rank 0 on the ring of rank numbers. */
static inline int prog_wrap(const struct prog *prog, int r) {
    int rest = r % prog->nranks;
    return rest < 0 ? rest + prog->nranks : rest;
}

/* The position of a rank on the ring of the shape. */
static inline int prog_ring_place(const struct prog *prog, int rank) {
    return prog_shape_turn(prog->shape, prog_shape_position(prog->shape, rank));
}

/* The rank k positions after this one on the ring of the shape. If k is negative, it is before this one. */
static inline int prog_after(const struct prog *prog, int k) {
    int place = prog_wrap(prog, prog_ring_place(prog, prog->rank) + k);
    return prog_shape_rank(prog->shape, prog_shape_turn(prog->shape, place));
}

/* How many positions is this rank after the root on that ring? 0 … nranks−1. */
static inline int prog_behind_root(const struct prog *prog) {
    return prog_wrap(prog, prog_ring_place(prog, prog->rank) - prog_ring_place(prog, prog->root));
}

/* ---- algorithms ---- */

/* Emits the steps of one rank: a pure function of (collective, shape, rank, root), without size, clock or environment. `root` is 0
 * if the collective has none; for SEND and RECV it is the peer. */
typedef void (*prog_build_fn)(struct prog *prog);

/* In which order does a result sum contributions? ANY_ORDER: unspecified. IN_RANK_ORDER: by rank number, in one step. SWITCH_ORDER: by rank
 * number too, unless an NVSwitch computes the sum (kernels/cuda/block_team.cuh): then the switch decides. */
enum prog_order { PROG_ANY_ORDER, PROG_IN_RANK_ORDER, PROG_SWITCH_ORDER };

/* How many connections does a rank receive from, at most? TO_FEW: about log2 of the number of ranks. TO_MATES: a few per rank of its
 * node. TO_MANY: more, but fewer than one per rank. TO_ALL: one per rank. TO_ALL_TWICE: two per rank. */
enum prog_connects { PROG_TO_FEW, PROG_TO_MATES, PROG_TO_MANY, PROG_TO_ALL, PROG_TO_ALL_TWICE, PROG_CONNECTS_COUNT };

struct algorithm {
    const char *name; /* as in COLLET_ALGO: "ring", "tree", "oneshot" … */
    enum prog_collective collective;
    prog_build_fn build;
    bool (*applies)(const struct prog_shape *shape); /* for which shapes? NULL: for every shape */
    const char *where;                               /* the same condition in words: "up to 64 ranks" */
    enum prog_connects connects;
    enum prog_order order;
    const char *about;               /* a description of one line, for tools */
    int nranks;                      /* the only number of ranks that it is for; 0: any */
    const struct schedule *schedule; /* imported schedule that build() reads (layers/schedules/import.h); NULL: none */
};

/* All algorithms, in order of registration. The last entry has name == NULL. Defined in algo/registry.c, which checks the table. */
#define ALGORITHMS_MAX 64
extern const struct algorithm algorithms[];
const struct algorithm *algorithm_find(enum prog_collective collective, const char *name); /* NULL if there is none */

bool algorithm_applies(const struct algorithm *algorithm, const struct prog_shape *shape);

/* Builds rank's program; *prog_p is owned by the caller. Errors: INVALID_ARGUMENT (rank, root, or a shape that the
 * algorithm does not take), NO_MEMORY, INTERNAL (the algorithm emitted nonsense; the text names the step). */
enum collet_result algorithm_build(const struct algorithm *algorithm, const struct prog_shape *shape, int rank,
                                   int root, struct prog **prog_p);

/* ---- readers ---- */

/* The number of blocks in a region; 0: the program has no such region. */
int prog_region_blocks(const struct prog *prog, enum step_region region);

/* Does any step read blocks of IN? */
bool prog_reads_in(const struct prog *prog);

/* Is a message sent although it has no element? */
static inline bool prog_keeps_empty(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_NONE || prog_facts[collective].out == PROG_NONE ||
           prog_is_pairwise(collective);
}

/* Executes the programs of all ranks symbolically with `nslots` slots per connection, over so many rounds that slots are
 * reused, and then over short rounds in which the last blocks are empty; and checks:
 *   every output block is the reduction of every contribution exactly once, in an expression that is the same on all
 *   ranks up to a+b = b+a, and in rank order where the algorithm promises it; finish applied exactly once to every reduced
 *   output; no read of a block that was not yet written or was overwritten (also in place), in whatever order workers run,
 *   wherever messages are lent, and whenever payloads land early;
 *   no deadlock; nothing sent that is not received; messages have as many pieces, of the same lengths, on both ends; one
 *   producing and one consuming worker per connection.
 * in_place: the buffers alias as the collective's in-place rule in collet.h says; ignored where it has none.
 * For send and recv, `root` is the peer, and the other direction of the same name is its counterpart there.
 * On failure `why` (why_bytes long) says which rank, worker, step and block; on success it is "". */
bool prog_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                char *why, size_t why_bytes);

#endif
