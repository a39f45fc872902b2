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

/* How block numbers of a region map to elements of a call's buffer (the call's `count` as in collet.h). */
enum prog_layout {
    PROG_WHOLE,    /* one buffer of count elements; its slices are blocks */
    PROG_PER_RANK, /* nranks blocks of count elements each, or all slices of the first, then all of the second … */
    PROG_SINGLE,   /* one block of count elements, or its slices */
    PROG_COUNTS,   /* nranks blocks, each with a count and a displacement of its own */
    PROG_NONE,     /* no buffer; if neither region has one, block 0 has no element and is sent all the same */
};

enum { PROG_COPIES = 0, PROG_REDUCES = 1 };

/* Of a rooted collective: what the root of a program is. */
enum prog_root {
    PROG_NO_ROOT,
    PROG_FROM_ROOT, /* the only rank that has an IN */
    PROG_TO_ROOT,   /* the only rank that has an OUT */
    PROG_PEER,      /* the other end of a message: the collective is between two ranks */
};

/* What a call in place lays over what. */
enum prog_in_place {
    PROG_SAME_PLACE,       /* IN and OUT are the same buffer */
    PROG_IN_IS_OWN_BLOCK,  /* IN is the rank's own block of OUT */
    PROG_OUT_IS_OWN_BLOCK, /* OUT is the rank's own block of IN */
    PROG_APART,            /* it does not work in place */
};

/* A line of PROG_COLLECTIVES. */
struct prog_facts {
    const char *name;
    enum prog_layout in, out;
    bool reduces;
    enum prog_root root;
    enum prog_in_place in_place;
};
extern const struct prog_facts prog_facts[PROG_COLLECTIVE_COUNT];

/* Also of a number that is no collective: "?". */
const char *prog_collective_name(enum prog_collective collective);
/* By so many first letters of a text, in any case. False: they are no collective, or one between two ranks. */
bool prog_collective_find(const char *text, size_t length, enum prog_collective *collective_p);

/* Send or receive: between two ranks, not among all. A number that is no collective, which a stranger may say, is neither. */
static inline bool prog_is_p2p(enum prog_collective collective) {
    return (unsigned)collective < PROG_COLLECTIVE_COUNT && prog_facts[collective].root == PROG_PEER;
}

/* Without buffers: what ranks learn is that all others have come. */
static inline bool prog_is_bare(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_NONE && prog_facts[collective].out == PROG_NONE;
}

/* Is there a rank that reduces what the others only send? */
static inline bool prog_root_reduces(enum prog_collective collective) {
    return prog_facts[collective].reduces && prog_facts[collective].root == PROG_TO_ROOT;
}

/* Whether blocks have counts of their own … */
static inline bool prog_is_counted(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_COUNTS || prog_facts[collective].out == PROG_COUNTS;
}

/* … which only the two ranks of a pair know: block p of rank r goes to block r of rank p. */
static inline bool prog_is_pairwise(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_COUNTS && prog_facts[collective].out == PROG_COUNTS;
}

/* Whether blocks are slices of one buffer. */
static inline bool prog_is_sliced(enum prog_collective collective) {
    return prog_facts[collective].in == PROG_WHOLE || prog_facts[collective].out == PROG_WHOLE;
}

/* Bus bandwidth ÷ algorithm bandwidth, as the perf programs have it. */
static inline double prog_bus_factor(enum prog_collective collective, int nranks) {
    const double others = (double)(nranks - 1) / nranks;
    if (!prog_is_sliced(collective))
        return others;
    return prog_facts[collective].root == PROG_NO_ROOT ? 2 * others : 1;
}

struct prog_worker {
    int32_t first_step, nsteps; /* into prog.steps */
};

/* The line of source that emitted a step. */
struct prog_origin {
    const char *file;
    int line;
};

#define PROG_BUCKETS 256
struct prog {
    enum prog_collective collective;
    int nranks, rank, root;
    int nslices;     /* of a buffer, or of each rank's part of it */
    int ntmp;        /* blocks of TMP, each with room for one piece of a round */
    int longest_run; /* blocks of the longest message; the same on all ranks */
    int nworkers, nsteps, npeers, nlocals;
    struct prog_worker *workers;
    struct prog_step *steps;
    struct prog_peer *peers; /* the tables that steps point into */
    struct prog_local *locals;
    struct prog_origin *origins; /* [step] */
    /* While building: */
    const struct prog_shape *shape;
    const struct schedule *schedule; /* the algorithm's */
    int workers_room, steps_room, origins_room, peers_room, locals_room, next_room;
    int peer_heads[PROG_BUCKETS], *peer_next; /* chains of peers with equal hashes, to find them by */
    enum collet_result error;
};

/* ---- building ---- */

/* The shape is looked at until prog_finish(). */
struct prog *prog_create(enum prog_collective collective, const struct prog_shape *shape, int rank, int root);
void prog_destroy(struct prog *prog);

/* Before the first step: cuts buffers into nslices (1 unless called), of PER_RANK layout each rank's part. Blocks with counts of
 * their own cannot be cut. */
void prog_slices(struct prog *prog, int nslices);

/* Before the first step: gives the program a region TMP of nblocks blocks. It is the same memory in every round: workers
 * that share a block of it must order their rounds by messages. */
void prog_tmp(struct prog *prog, int nblocks);

/* Messages of other ranks have up to so many blocks, if those of this rank have fewer: all ranks cut pieces alike. */
void prog_longest_run(struct prog *prog, int blocks);

/* Starts a worker; the steps that follow are its. */
void prog_worker(struct prog *prog);

/* Lanes keep apart several connections from one rank to another (a double tree's two trees; there and back differ
 * anyway). Lanes below PROG_LANE_P2P are free to use; that one belongs to send and recv. */
#define PROG_LANE_P2P 63

/* Peers of a step: `count` ranks first, first+1 … modulo nranks; with count OTHERS all ranks from `first` on but this one;
 * or ranks[0 … count−1]. Receiving and reducing keep this order. All are on one lane. */
struct peers {
    int first, count, lane;
    const int *ranks; /* NULL: from first on */
};
#define OTHERS (-1)
#define PEER(rank) PEER_LANE(rank, 0)
#define PEER_LANE(rank, lane) ((struct peers){(rank), 1, (lane), NULL})
#define LISTED(ranks, count, lane) ((struct peers){0, (count), (lane), (ranks)})

/* Before the first step: puts these peers in the table in this order. Steps of one peer each then find it there, and a later step of all of
 * them adds none: a GPU keeps a short table at hand. */
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

/* A local operand among several, and its place: after `at` received ones. */
struct local_operand {
    int at;
    struct local local;
};
struct local_list {
    const struct local_operand *list;
    int count;
};

/* A step as an algorithm writes it. Fields left out mean: nothing received, no local operand, nothing sent, nothing
 * stored, not finished. Use either `local` or `local_list`. All runs of a step are equally long. */
struct step_text {
    struct peers recv;  /* operands from peers */
    struct local local; /* the local operand */
    int local_at;       /* its place: after this many received operands */
    struct local_list local_list;
    struct local store;     /* where the result goes here */
    struct local length_of; /* blocks of IN or OUT as long as the pieces; else those stored, else those read */
    struct peers send;      /* to whom the result goes */
    bool copied;            /* peers get copies, because the memory that has the result is overwritten too soon … */
    bool copied_in_place;   /* … which happens only if IN and OUT are the same memory */
    bool finish;            /* the result holds every rank's contribution: avg divides here */
    struct prog_origin origin; /* prog_step() fills it in */
};
void prog_emit(struct prog *prog, struct step_text text);
#define prog_step(prog, ...) prog_emit((prog), (struct step_text){.origin = {__FILE__, __LINE__}, __VA_ARGS__})

/* r modulo nranks, also for a negative r: the rank r steps round the ring from rank 0. */
static inline int prog_wrap(const struct prog *prog, int r) {
    int rest = r % prog->nranks;
    return rest < 0 ? rest + prog->nranks : rest;
}

/* Where a rank stands on the ring. */
static inline int prog_ring_place(const struct prog *prog, int rank) {
    return prog_shape_turn(prog->shape, prog_shape_position(prog->shape, rank));
}

/* The rank k places behind this one (before it, if k is negative) on the ring of the shape. */
static inline int prog_after(const struct prog *prog, int k) {
    int place = prog_wrap(prog, prog_ring_place(prog, prog->rank) + k);
    return prog_shape_rank(prog->shape, prog_shape_turn(prog->shape, place));
}

/* How many places this rank stands behind the root on that ring: 0 … nranks−1. */
static inline int prog_behind_root(const struct prog *prog) {
    return prog_wrap(prog, prog_ring_place(prog, prog->rank) - prog_ring_place(prog, prog->root));
}

/* Ends building; returns the first error met (no memory, a block or peer out of range, a step without effect …). */
enum collet_result prog_finish(struct prog *prog);

/* ---- algorithms ---- */

/* A pure function (collective, shape, rank, root) → steps; no size, no clock, no environment. `root` is 0 for
 * collectives without one; for SEND and RECV it is the peer. */
typedef void (*prog_build_fn)(struct prog *prog);

/* In which order results are summed up. IN_RANK_ORDER: that of the ranks' numbers, in one step. SWITCH_ORDER: so does the program;
 * but where a switch makes the sum of that step (kernels/cuda/block_team.cuh), the order is the switch's. */
enum prog_order { PROG_ANY_ORDER, PROG_IN_RANK_ORDER, PROG_SWITCH_ORDER };

/* By how many connections a rank receives at most: as many as the logarithm of the number of ranks; a few from each mate of its node;
 * more, though not one from each rank; one from each rank; two from each rank. */
enum prog_connects { PROG_TO_FEW, PROG_TO_MATES, PROG_TO_MANY, PROG_TO_ALL, PROG_TO_ALL_TWICE, PROG_CONNECTS_COUNT };

struct algorithm {
    const char *name; /* as in COLLET_ALGO: "ring", "tree", "oneshot" … */
    enum prog_collective collective;
    prog_build_fn build;
    bool (*applies)(const struct prog_shape *shape); /* where it works and makes sense; NULL: everywhere */
    const char *where;                               /* the same in words: "up to 64 ranks" */
    enum prog_connects connects;
    enum prog_order order;
    const char *about;               /* one line for tools */
    int nranks;                      /* 0: any number that it applies to */
    const struct schedule *schedule; /* what build() reads, of one that was imported (layers/schedules/import.h) */
};

/* All algorithms, in order of registration; ends with name == NULL (algo/registry.c, which checks that they fit). */
#define ALGORITHMS_MAX 64
extern const struct algorithm algorithms[];
const struct algorithm *algorithm_find(enum prog_collective collective, const char *name); /* NULL if there is none */

bool algorithm_applies(const struct algorithm *algorithm, const struct prog_shape *shape);

/* Builds rank's program; *prog_p is owned by the caller. Errors: INVALID_ARGUMENT (rank, root, or a shape that the
 * algorithm does not take), NO_MEMORY, INTERNAL (the algorithm emitted nonsense; the text names the step). */
enum collet_result algorithm_build(const struct algorithm *algorithm, const struct prog_shape *shape, int rank,
                                   int root, struct prog **prog_p);

/* ---- readers ---- */

/* How many block numbers a region has; 0 if the program has no such region. */
int prog_region_blocks(const struct prog *prog, enum step_region region);

/* Does any of its steps read in IN? */
bool prog_reads_in(const struct prog *prog);

/* Whether a message of this collective is sent although it has no element. */
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
