/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated execution of step programs in time, with links that are shared.
 *
 *    engine of A   ├ step ┤        ├ step ┤              a CPU runs all workers of its rank in turns; a GPU has many
 *                    ╲ head          ╲
 *    link 1           ├ bytes ┤       ├ bytes ┤          a link serves one message after the other; the next link
 *    link 2             ├ bytes ┤        ┆├ bytes ┤      begins when the head has come through
 *    engine of B                 ─α─▶├ step ┤            a step starts when its engine is free, its operands have
 *                                                        arrived and its places have credit
 *
 * Workers act in the order in which they become ready, so the time of everything follows from the programs alone. Time
 * is in whole picoseconds: sums are exact, so the same on every machine, and a state that repeats does so to the bit.
 *
 * The model of links is virtual cut-through with unlimited buffers, first come first served (P. Kermani, L. Kleinrock,
 * "Virtual cut-through", Computer Networks 3, 1979), message by message as in the congestion-aware backend of ASTRA-sim
 * (W. Won et al., "ASTRA-sim2.0", ISPASS 2023). Messages are chunks, so that flows which share a link take turns and get
 * equal shares of it. Its errors: a message takes its place in the queues of all its links when its step starts, not
 * when its head arrives there; queues never push back; two flows with chunks of different size share a link by
 * messages, not by bytes; nothing is known of packets, routing inside the network, or a NIC's own limits.
 *
 * One simulated rank may stand for many that behave alike (../layers/tools/forecast/symmetry.h): then a connection stands for all of its
 * kind, and a link for the same link of every host. One simulated channel may stand for several that take turns.
 * Read next: sim.c, sim_build.c, sim_queue.h, sim_bounds.c.
 */
#ifndef COLLET_LAYERS_TUNER_SIM_H
#define COLLET_LAYERS_TUNER_SIM_H

#include "fifo/geometry.h"
#include "kernels/worker.h"
#include "layers/tuner/costs.h"
#include "layers/tuner/sim_queue.h"
#include "program/program.h"

#define SIM_CHANNELS_MAX 64

/* ---- who stands for whom ---- */

/* Ranks are nlocal on each of nhosts hosts, host by host. EACH: every rank for itself. SHIFT, XOR: the ranks of host 0 stand
 * for all; hosts are alike as seen at a distance modulo nhosts, or at a bitwise difference. */
enum sim_grouping { SIM_EACH, SIM_SHIFT, SIM_XOR };
struct sim_cast {
    enum sim_grouping grouping;
    int nhosts, nlocal;
};

static inline int sim_player_of(const struct sim_cast *cast, int rank) {
    return cast->grouping == SIM_EACH ? rank : rank % cast->nlocal;
}
static inline int sim_nplayers(const struct sim_cast *cast) {
    return cast->grouping == SIM_EACH ? cast->nhosts * cast->nlocal : cast->nlocal;
}
/* The distance between two ranks. Connections between the same players, at the same distance, are of one kind. */
int sim_distance(const struct sim_cast *cast, int from, int to);

/* ---- what there is ---- */

/* Links of one host, by their numbers on it. */
struct sim_links {
    const int *link;
    int count;
};

/* The cost class of payloads that the sender's step lends (layers/memory/loan.h), and their minimum bytes. */
struct sim_loan {
    enum link_class class;
    uint32_t least_bytes; /* 0: none is lent */
};

/* The way of a message from one rank to another: over links of the sender's host, and then of the receiver's. */
struct sim_route {
    enum link_class class;
    struct sim_loan loan;
    struct sim_links out, in;
};

/* The machine, as far as a simulation asks. */
struct sim_machine {
    const struct cost_table *costs;
    enum link_class home;    /* class of the memory of a rank's own engine */
    bool gpu;                /* engines are blocks, else one CPU per rank */
    const double *crowd;     /* [rank]: ranks per CPU of its node; NULL: each has a CPU */
    const int *node;         /* [rank]: ascending; NULL: hosts of the cast */
    int nlinks;              /* of one host */
    const double *link_gbps; /* [nlinks]; 0: memory of a GPU (sim_link_gbps()) */
    uint32_t nslots;
    double lent;       /* share of all messages that steps lend if they may; the others lie in slots */
    bool root_reduces; /* only the root reduces: then nothing is lent through the kernel (kernels/operands.h) */
    void (*route)(const void *context, int channel, int from, int to, struct sim_route *route);
    const void *context;
};

/* 0: it binds nothing. */
static inline double sim_link_gbps(const double *link_gbps, const struct cost_table *costs, int link) {
    return link_gbps[link] > 0 ? link_gbps[link] : costs->gpu_memory_gbps;
}

/* The lengths of pieces, in each channel. */
struct sim_lengths {
    bool uniform; /* all blocks are equally long: of part_bytes, in pieces of chunk_bytes */
    double part_bytes, chunk_bytes;
    struct geometry geometry; /* else */
    uint32_t elem_bytes;
};

/* ---- the state ---- */

/* The time of the engine for a step: the part that does not depend on bytes, and the part that does. */
struct sim_work {
    double fixed_ns, bytes_ns;
};

/* `count` steps alike, one after another. Short: a large simulation is as fast as these come from memory. */
struct sim_run {
    uint32_t count;
    uint32_t pieces;                                         /* number of blocks of which a step moves a piece */
    uint32_t recv_first, recv_count, send_first, send_count; /* into refs: connections */
    int32_t kind;
};

/* Which blocks the pieces of a run's steps are of, and of how many; only asked for where lengths are not uniform. */
struct sim_blocks {
    struct block_run about;
    uint32_t nblocks;
};

/* Facts on which the engine's work for a step depends, besides bytes. Steps of one kind have them in common. */
struct sim_kind {
    uint32_t touches; /* local operand, local place */
    bool turns;       /* a CPU runs several workers in turns: so each drives the data of the others out of the cache */
    uint32_t run;     /* the first run of this kind. All runs of the kind have connections of the same classes */
    double bytes;     /* the bytes for which `work` was computed: the next step mostly has as many */
    struct sim_work work;
};

/* The CPUs of a node that has fewer CPUs than ranks: indices into sim.engine_free. */
struct sim_cpus {
    uint32_t first, count; /* count 0: each rank has one */
};

/* Steps of one kind. */
struct sim_share {
    double steps, pieces;
};

enum sim_state { SIM_READY, SIM_BLOCKED, SIM_DONE };
struct sim_worker {
    uint32_t first_run, nruns;
    int32_t engine;
    int32_t channel;
    uint32_t round, run, step; /* step: of the run */
    enum sim_state state;
    int64_t at_ps;  /* READY: since when; else the end of its last step */
    uint64_t order; /* READY: of becoming so */
};

struct sim_conn {
    int32_t producer, consumer; /* workers */
    struct sim_route route;
    int32_t out_host, in_host; /* whose links these are */
    uint32_t sent, received;
};

struct sim {
    struct sim_machine machine;
    struct sim_cast cast;
    enum protocol protocol;
    struct sim_lengths lengths[SIM_CHANNELS_MAX];
    int nchannels;
    double turns;       /* number of channels for which each simulated channel stands: they send in turn */
    bool weightless;    /* bytes cost nothing: what is left is latency */
    bool switched;      /* switches move what steps lend: struct sim_crossing */
    uint32_t lent_from; /* GPUs: minimum bytes of a payload that is lent, if a step may lend; 0: none is lent */
    const struct sim_skipper *skips; /* NULL: every step is simulated */
    uint32_t rounds_run;             /* number of rounds that are simulated */

    struct sim_run *runs;
    struct sim_blocks *blocks; /* [run]; NULL: lengths are uniform */
    struct sim_worker *workers;
    struct sim_conn *conns;
    int32_t *refs;
    struct sim_kind *kinds;
    size_t nruns, nworkers, nconns, nrefs, nkinds;
    int runs_room, blocks_room, workers_room, conns_room, refs_room, kinds_room;

    uint32_t most_sent; /* maximum number of messages of a connection in a round */
    uint32_t nslots;    /* number of used slots of a connection: not more than it has messages */
    int64_t *slots;     /* [conn · nslots + s]: the time since which the slot is full, or free */
    size_t slots_room;
    int64_t *link_free;    /* [host · nlinks + link] */
    int64_t *engine_free;  /* [engine], and behind these [CPU]: the time since which it is idle */
    struct sim_cpus *cpus; /* [engine]; NULL: engines do not share CPUs */
    double *link_ps;       /* [link]: the time of a byte; set by sim_begin() */
    size_t nlinks, nengines, nclocks;
    struct sim_queue *queue;
    uint64_t norders, nevents;

    struct sim_share *shares; /* [engine · nkinds + kind]: the steps of an engine in a round; NULL: not counted yet */
    double *crossed
        [COSTS_PROTOCOLS]; /* [link of a host]: weighed number of messages that cross it in a round; NULL: not counted yet */
    struct sim_index *index; /* while building: connections of the channel by their ends */
};

/* ---- building (sim_build.c) ---- */

enum collet_result sim_create(const struct sim_machine *machine, const struct sim_cast *cast, struct sim **sim_p);
void sim_destroy(struct sim *sim);

/* Channels in order, and in each the program of every player (a rank that stands for itself, or for those like it).
 * Steps that are alike are folded if lengths are uniform; that may not change later. */
enum collet_result sim_add_channel(struct sim *sim, const struct sim_lengths *lengths);
enum collet_result sim_add_program(struct sim *sim, const struct prog *prog);

/* ---- running (sim.c) ---- */

/* Time from the first step to the last, in ns; rounds beyond rounds_max (at least 2) cost what the last third of these
 * cost. May be repeated with other lengths (sim_set) and another protocol. Errors: INTERNAL if ranks wait for each other
 * without end, NO_MEMORY. */
void sim_set(struct sim *sim, int channel, const struct sim_lengths *lengths);
enum collet_result sim_run(struct sim *sim, enum protocol protocol, uint32_t rounds_max, double *ns_p);

uint32_t sim_rounds(const struct sim_lengths *lengths);
/* The bytes that a step of a run moves in a round. */
double sim_bytes(const struct sim *sim, const struct sim_lengths *lengths, const struct sim_run *run, uint32_t round);

/* The route of the k-th connection of a run's steps. Connections from which they receive come first. */
const struct sim_route *sim_peer_route(const struct sim *sim, const struct sim_run *run, uint32_t k);
/* How much of a message crosses the links of its route: the first, and those behind it. 1, unless switches sum and store what the steps
 * of two-shot lend. Then each of n GPUs
 *
 *      sends   all its n slices ─▶ switch ─▶ each GPU gets the sum of one slice of all      as n−1 messages
 *              one sum ──────────▶ switch ─▶ each GPU gets all n sums                        as n−1 messages
 */
struct sim_crossing {
    double first, behind;
};
/* The share of a payload's bytes that ranks move through memory, if they are on one GPU or on two that NVLink joins. It is less than 1 if
 * some payloads are lent. */
double sim_moved_share(const struct sim *sim, enum link_class class, double bytes);
/* The crossing of the messages that the run's steps send. */
struct sim_crossing sim_crossing_of(const struct sim *sim, const struct sim_run *run);
/* The work of the engine for a step, in the protocol of sim_begin(). (sim_begin() forgets the work of other protocols.) */
void sim_begin(struct sim *sim, enum protocol protocol);
struct sim_work sim_work_of(struct sim *sim, const struct sim_run *run, double bytes);

/* ---- adding up (sim_bounds.c) ---- */

/* What each link of a host carries in a call of all channels, in bytes: the most of all hosts. load: [nlinks of a host]. */
enum collet_result sim_load(struct sim *sim, enum protocol protocol, double *load);
/* The time of all steps of the busiest engine, if no step has to wait. */
enum collet_result sim_busiest(struct sim *sim, enum protocol protocol, double *ns_p);

/* ---- skipping ---- */

/* Looks at a simulation after each step, to move all of it ahead (../layers/tools/forecast/steady.c), or to write down what happens
 * (../layers/tools/sim/timeline.c). */
struct sim_skipper {
    void *(*create)(const struct sim *sim); /* when a simulation begins; NULL: there is nothing to look at */
    void (*look)(void *skipper, struct sim *sim, int32_t worker, int64_t now_ps);
    void (*destroy)(void *skipper);
};

#endif
