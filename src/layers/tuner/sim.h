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
 *    memory        ├ A ┤├ C ┤         ├ B ┤              of a host, one for all its CPUs: it serves the bytes of buffers that
 *                                                        are in no cache, one step after the other; a step ends with its bytes
 *
 * Workers act in the order in which they become ready, so all times follow from the programs alone. Time is in whole picoseconds. So sums
 * are exact and equal on every machine, and a state that repeats is equal to the bit.
 *
 * The model of links is virtual cut-through with unlimited buffers, first come first served (P. Kermani, L. Kleinrock,
 * "Virtual cut-through", Computer Networks 3, 1979), message by message as in the congestion-aware backend of ASTRA-sim
 * (W. Won et al., "ASTRA-sim2.0", ISPASS 2023). Messages are chunks, so flows that share a link take turns and get equal shares of it.
 * The errors of this model: a message takes its place in the queues of all its links when its step starts, not when its head arrives
 * there. Queues never push back. Two flows with chunks of different size share a link by messages, not by bytes. The model does not
 * know packets, routing inside the network, or a NIC's own limits.
 *
 * One simulated rank may stand for many that behave alike (../layers/tools/forecast/symmetry.h). Then a connection stands for all
 * connections of its kind, and a link for this link of every host. One simulated channel may stand for several that take turns.
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

/* Each of nhosts hosts has nlocal ranks; ranks are numbered host by host. EACH: every rank is simulated. SHIFT, XOR: only the ranks of
 * host 0 are simulated, and stand for all. With SHIFT, a connection depends only on the distance of its two hosts, modulo nhosts. With
 * XOR, it depends only on the bits in which the numbers of the two hosts differ. */
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
/* The distance between the hosts of two ranks. Connections between the same players at the same distance are of one kind. */
int sim_distance(const struct sim_cast *cast, int from, int to);

/* ---- what there is ---- */

/* Links of one host, by their numbers on this host. */
struct sim_links {
    const int *link;
    int count;
};

/* Payloads that the sender's step lends on a route (layers/memory/loan.h). */
struct sim_loan {
    enum link_class class;
    uint32_t least_bytes; /* Minimum bytes of a payload that is lent. 0: nothing is lent. */
    double helped;        /* Share of the bytes that the producer copies, because it has nothing else to do. */
};

/* The route of a message from one rank to another: first over links of the sender's host, then over links of the receiver's. */
struct sim_route {
    enum link_class class;
    struct sim_loan loan;
    struct sim_links out, in;
};

/* The machine, as a simulation knows it. */
struct sim_machine {
    const struct cost_table *costs;
    enum link_class home;    /* Cost class of the memory of a rank's own engine. */
    bool gpu;                /* Engines are blocks of GPUs. False: each rank has one engine, its CPU. */
    const double *crowd;     /* [rank]: ranks per CPU of its node. NULL: each rank has a CPU. */
    const int *node;         /* [rank]: number of its node, ascending. NULL: nodes are the hosts of the cast. */
    int nlinks;              /* Number of links of one host. */
    const double *link_gbps; /* [nlinks]: bandwidth. 0: memory of a GPU (sim_link_gbps()). */
    uint32_t nslots;
    double lent;       /* Share of all messages that steps lend if they may. The other messages lie in slots. */
    bool fans;         /* A message to all other ranks is written once, and all read it (fifo/fan.h). */
    bool root_reduces; /* Only the root reduces, so nothing is lent through the kernel (kernels/operands.h). */
    void (*route)(const void *context, int channel, int from, int to, struct sim_route *route);
    const void *context;
};

/* The bandwidth of a link. 0: the link never limits. */
static inline double sim_link_gbps(const double *link_gbps, const struct cost_table *costs, int link) {
    return link_gbps[link] > 0 ? link_gbps[link] : costs->gpu_memory_gbps;
}

/* The lengths of pieces in one channel. */
struct sim_lengths {
    bool uniform; /* All blocks are equally long: part_bytes, in pieces of chunk_bytes. */
    double part_bytes, chunk_bytes;
    struct geometry geometry; /* Used if blocks are not equally long. */
    uint32_t elem_bytes;
};

/* ---- the state ---- */

/* The engine's time for a step. fixed_ns: the part that does not depend on bytes. bytes_ns: the part that does. slots_ns: the share of
 * bytes_ns for bytes in slots. Slots stay in the caches, so an engine cannot do this share while it waits for memory. */
struct sim_work {
    double fixed_ns, bytes_ns, slots_ns;
};

/* `count` equal steps, one after another. The struct is short, because the speed of a large simulation is that of loading
 * runs from memory. */
struct sim_run {
    uint32_t count;
    uint32_t pieces; /* Number of blocks of which a step moves a piece. */
    /* Connections that steps receive from and send to, as ranges of sim.refs. */
    uint32_t recv_first, recv_count, send_first, send_count;
    int32_t kind;
};

/* The blocks whose pieces a run's steps move, and the number of blocks of their region. Only used if blocks are not equally
 * long. */
struct sim_blocks {
    struct block_run about;
    uint32_t nblocks;
};

/* Properties that steps of one kind have in common. The engine's work for a step follows from them and from its bytes. */
struct sim_kind {
    uint32_t loads, stores; /* Number of local operands; number of local places. */
    bool fan;               /* The step sends to all other ranks, and writes once. */
    /* A CPU runs several workers in turns, so each of them drives the data of the others out of the cache. */
    bool turns;
    uint32_t run; /* The first run of this kind. All runs of the kind have connections of the same classes. */
    double bytes; /* The bytes for which `work` was computed. Most steps have as many bytes as the one before. */
    struct sim_work work;
};

/* The CPUs that the ranks of a node share: indices into sim.engine_free. */
struct sim_cpus {
    uint32_t first, count; /* count 0: each rank has a CPU. */
};

/* Number of steps of one kind, and number of pieces that these steps move. */
struct sim_share {
    double steps, pieces;
};

enum sim_state { SIM_READY, SIM_BLOCKED, SIM_DONE };
struct sim_worker {
    uint32_t first_run, nruns;
    int32_t engine;
    int32_t channel;
    uint32_t round, run, step; /* The worker's next step: its round, its run, its number in the run. */
    enum sim_state state;
    /* READY: the time since which the worker is ready. Other states: the time at which its last step ended. */
    int64_t at_ps;
    uint64_t order; /* READY: number that counts workers in the order in which they became ready. */
};

struct sim_conn {
    int32_t producer, consumer; /* Workers at the two ends. */
    struct sim_route route;
    int32_t out_host, in_host; /* Hosts of the route's links. */
    uint32_t sent, received;
};

struct sim {
    struct sim_machine machine;
    struct sim_cast cast;
    enum protocol protocol;
    struct sim_lengths lengths[SIM_CHANNELS_MAX];
    int nchannels;
    /* Share of the buffers' bytes that are in no cache. These bytes cross the memory of the host. */
    double missed;
    double turns;       /* Number of channels that each simulated channel stands for. They send in turns. */
    bool weightless;    /* Bytes cost nothing, so the result is the latency. */
    bool switched;      /* Switches move the payloads that steps lend: see struct sim_crossing. */
    uint32_t lent_from; /* GPUs: minimum bytes of a payload that is lent, if a step may lend. 0: nothing is lent. */
    const struct sim_skipper *skips; /* NULL: every step is simulated. */
    uint32_t rounds_run;             /* Number of rounds that are simulated. */

    struct sim_run *runs;
    struct sim_blocks *blocks; /* [run]: its blocks. NULL: all blocks are equally long. */
    struct sim_worker *workers;
    struct sim_conn *conns;
    int32_t *refs;
    struct sim_kind *kinds;
    size_t nruns, nworkers, nconns, nrefs, nkinds;
    int runs_room, blocks_room, workers_room, conns_room, refs_room, kinds_room;

    uint32_t most_sent; /* Maximum number of messages of a connection in a round. */
    uint32_t nslots;    /* Number of slots of a connection that are simulated: not more than it has messages. */
    int64_t *slots;     /* [conn · nslots + s]: the time since which the slot is full, or free. */
    size_t slots_room;
    int64_t *link_free;    /* [host · nlinks + link]: the time since which the link is idle. */
    int64_t *engine_free;  /* [engine], then [CPU], then [memory of a node]: the time since which it is idle. */
    struct sim_cpus *cpus; /* [engine]: the CPUs of its node. NULL: engines do not share CPUs. */
    uint32_t *memory;      /* [engine]: index of its node's memory in engine_free. NULL: engines are blocks of GPUs. */
    double *link_ps;       /* [link]: the time of a byte. sim_begin() sets it. */
    size_t nlinks, nengines, nclocks;
    struct sim_queue *queue;
    uint64_t norders, nevents;

    struct sim_share *shares; /* [engine · nkinds + kind]: the steps of an engine in a round. NULL: not counted yet. */
    double *crossed
        [COSTS_PROTOCOLS]; /* [link of a host]: weighed number of pieces that cross it in a round. NULL: not counted yet. */
    struct sim_index *index; /* Only while the simulation is built: finds connections of the channel by their ends. */
};

/* ---- building (sim_build.c) ---- */

enum collet_result sim_create(const struct sim_machine *machine, const struct sim_cast *cast, struct sim **sim_p);
void sim_destroy(struct sim *sim);

/* sim_add_channel() adds the next channel. sim_add_program() adds the program of one player to this channel; every player must have one.
 * (A player is a simulated rank. It stands for itself, or for all ranks like it.) If blocks are equally long, equal steps are folded
 * into one run, so later lengths must be equal for all blocks too. */
enum collet_result sim_add_channel(struct sim *sim, const struct sim_lengths *lengths);
enum collet_result sim_add_program(struct sim *sim, const struct prog *prog);

/* ---- running (sim.c) ---- */

/* Simulates a call. *ns_p is the time from the first step to the last. At most rounds_max rounds (at least 2) are simulated. Each
 * further round counts as the mean of the last nslots simulated rounds, or of the last quarter of the rounds. May be repeated with other
 * lengths (sim_set()) and another protocol. Errors: INTERNAL if ranks wait for each other without end, NO_MEMORY. */
void sim_set(struct sim *sim, int channel, const struct sim_lengths *lengths);
enum collet_result sim_run(struct sim *sim, enum protocol protocol, uint32_t rounds_max, double *ns_p);

uint32_t sim_rounds(const struct sim_lengths *lengths);
/* The bytes that one step of a run moves in a round. */
double sim_bytes(const struct sim *sim, const struct sim_lengths *lengths, const struct sim_run *run, uint32_t round);

/* The route of the k-th connection of a run's steps. Connections from which the steps receive come first. */
const struct sim_route *sim_peer_route(const struct sim *sim, const struct sim_run *run, uint32_t k);
/* How much of a message crosses the links of its route: `first` on the first link, `behind` on the other ones. Both are 1, unless switches
 * sum and store the payloads that the steps of two-shot lend. Then each of n GPUs
 *
 *      sends   all its n slices ─▶ switch ─▶ each GPU gets the sum of one slice of all      as n−1 messages
 *              one sum ──────────▶ switch ─▶ each GPU gets all n sums                        as n−1 messages
 */
struct sim_crossing {
    double first, behind;
};
/* The share of a payload's bytes that ranks move through memory, if they are on one GPU, or on two GPUs that NVLink joins.
 * It is below 1 if some payloads are lent. */
double sim_moved_share(const struct sim *sim, enum link_class class, double bytes);
/* The crossing of the messages that the steps of this run send. */
struct sim_crossing sim_crossing_of(const struct sim *sim, const struct sim_run *run);
/* sim_work_of() is the work of the engine for a step, in the protocol of sim_begin(). sim_begin() sets the protocol and
 * forgets the work of other protocols. */
void sim_begin(struct sim *sim, enum protocol protocol);
struct sim_work sim_work_of(struct sim *sim, const struct sim_run *run, double bytes);
/* Time in which the memory of a node is busy with a step. Bytes that the step reads and stores in the rank's own buffers count, as far
 * as they are in no cache. Payloads that other ranks lend do not count here: the lender has just had them in its cache, or counts them
 * itself. */
double sim_memory_ns(const struct sim *sim, const struct sim_run *run, double bytes);

/* ---- adding up (sim_bounds.c) ---- */

/* The bytes that each link of a host carries in a call, all channels together. Of equal links of several hosts, the maximum
 * counts. load: [nlinks of a host]. */
enum collet_result sim_load(struct sim *sim, enum protocol protocol, double *load);
/* The time of all steps of the busiest engine, if no step waits. */
enum collet_result sim_busiest(struct sim *sim, enum protocol protocol, double *ns_p);

/* ---- skipping ---- */

/* Looks at a simulation after each step. A skipper may move the whole simulation ahead (../layers/tools/forecast/steady.c),
 * or write down what happens (../layers/tools/sim/timeline.c). */
struct sim_skipper {
    /* Called when a simulation begins. Returns the `skipper` of look(). NULL: look() is not called in this simulation. */
    void *(*create)(const struct sim *sim);
    void (*look)(void *skipper, struct sim *sim, int32_t worker, int64_t now_ps);
    void (*destroy)(void *skipper);
};

#endif
