/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes an executable call from a request, with a table of choices by size class, and a cache of programs bound to connections.
 */
#include "plan/plan.h"

#include "topo/trees.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/plain.h"
#include "plan/extent.h"
#include "seams/gpu_plan.h"
#include "seams/tuner.h"
#include "transport/transport.h"

#include <stdlib.h>

/* There are two size classes per power of two. The choice of a class is the one for its largest size. */
#define SIZE_CLASSES 128

/* Number of remembered calls: a training program repeats few different calls. */
#define RECENT_CALLS 16

struct planner {
    struct chan *chan;
    const struct map *map;
    struct prog_shape *shapes; /* channel c uses shape c mod nshapes */
    int nshapes;
    struct chooser *chooser;
    struct tuner_limits limits;
    /* [kind of call][collective][size class]. Kind 2: calls that may use switches. Kind 1: other calls that may lend. Kind 0: the rest. */
    struct plan_choice choices[3][PROG_COLLECTIVE_COUNT][SIZE_CLASSES];
    bool warned[PROG_COLLECTIVE_COUNT]; /* [collective]: a warning about names was printed */
    struct exec_program *programs;      /* List of bound programs, the most recently used one first */
    /* Prepared calls, by hash of their request. program NULL: the place is free. */
    struct exec_call recent[RECENT_CALLS];
    uint64_t prepared; /* Number of calls that were prepared so far */
};

/* ---- the log ---- */

#define RING_TEXT_BYTES 256

/* Writes the ranks of an order, such as " 0 2 3 1". If the text is cut, it ends in " ...". */
static void ring_text(const struct prog_shape *shape, char text[RING_TEXT_BYTES]) {
    size_t at = 0, room = RING_TEXT_BYTES - 8;
    text[0] = '\0';
    for (int place = 0; place < shape->nranks && at < room; place++)
        at += (size_t)snprintf(text + at, RING_TEXT_BYTES - at, " %d",
                               prog_shape_rank(shape, prog_shape_turn(shape, place)));
    if (at >= room)
        snprintf(text + room, RING_TEXT_BYTES - room, " ...");
}

static void log_tree(const struct prog_shape *shape, int tree, int rank) {
    struct tree_place place = tree_of(shape, tree, rank);
    char children[48] = " none";
    for (int i = 0, at = 0; i < place.nchildren; i++)
        at += snprintf(children + at, sizeof(children) - (size_t)at, " %d", place.child[i]);
    log_info(GRAPH, "tree %d: rank %d, parent %d, children%s", tree, rank, place.parent, children);
}

/* Logs the shapes that channels use. Rank 0 does this once per communicator. The documentation explains these lines. */
static void log_shapes(const struct planner *planner) {
    char text[RING_TEXT_BYTES];
    for (int k = 0; k < planner->nshapes && k < planner->limits.nchannels; k++) {
        ring_text(&planner->shapes[k], text);
        log_info(GRAPH, "ring %d:%s", k, text);
    }
    for (int tree = 0; tree < TREES; tree++)
        for (int rank = 0; rank < planner->chan->owner.nranks; rank++)
            log_tree(&planner->shapes[0], tree, rank);
}

void plan_dump(const struct planner *planner, FILE *out) {
    char text[RING_TEXT_BYTES];
    for (int k = 0; k < planner->nshapes && k < planner->limits.nchannels; k++) {
        ring_text(&planner->shapes[k], text);
        fprintf(out, " ring %d:%s\n", k, text);
    }
}

/* ---- creating and destroying a planner ---- */

enum collet_result planner_create(struct chan *chan, const struct config *config, const struct map *map,
                                  struct planner **planner_p) {
    struct planner *planner;
    COLLET_TRY(memory_get(&planner, 1, sizeof *planner, "no memory for the planner"));
    planner->chan = chan;
    planner->map = map;
    enum collet_result result = tuner_limits_read(config, chan->owner.layouts, map->nrails, &planner->limits);
    if (result == COLLET_SUCCESS && chan->owner.gpu != NULL)
        result = gpu_limit(chan, config, map, &planner->limits);
    /* The channel must not change the bits of a result. */
    const bool alike = planner->limits.determinism != DETERMINISM_NONE;
    planner->shapes = map->shapes;
    planner->nshapes = alike ? 1 : map->norders;
    if (result == COLLET_SUCCESS)
        result =
            chooser_create(chan, config, map, planner->shapes, planner->nshapes, &planner->limits, &planner->chooser);
    if (result != COLLET_SUCCESS) {
        planner_destroy(planner);
        return result;
    }
    /* From here on, no connection may be made on which lines do not arrive whole. The number of channels may depend on a call's size. */
    const struct tuner_limits *limits = &planner->limits;
    const int most = limits->most_nchannels > limits->nchannels ? limits->most_nchannels : limits->nchannels;
    chan->owner.map = map;
    chan->owner.tied = map_ties(map, most);
    chan->owner.whole_lines = chan->owner.gpu != NULL && limits->protocol_allowed[PROTOCOL_LL128];
    chan->owner.joined = map->facts[chan->owner.rank].joined;
    if (chan->owner.rank == 0 && log_wanted(LOG_INFO, LOG_GRAPH))
        log_shapes(planner);
    *planner_p = planner;
    return COLLET_SUCCESS;
}

void planner_destroy(struct planner *planner) {
    if (planner == NULL)
        return;
    for (struct exec_program *program = planner->programs, *next; program != NULL; program = next) {
        next = program->next;
        exec_program_destroy(program);
    }
    chooser_destroy(planner->chooser);
    free(planner);
}

/* ---- choice ---- */

static uint32_t size_class(uint64_t bytes) {
    if (bytes < 2)
        return 0;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(bytes - 1); /* 2^octave < bytes ≤ 2^(octave+1) */
    uint64_t middle = (1ull << octave) + (1ull << octave) / 2;
    return 2 * octave + (bytes > middle);
}

static uint64_t class_bytes(uint32_t class) {
    uint64_t base = 1ull << (class / 2);
    return class % 2 ? 2 * base : base + base / 2;
}

/* ---- messages of ranks on host memory ---- */

/* A message is cut into pieces, so the reader can begin while the writer still writes. In shared memory a piece costs little, unless the
 * operating system copies it. Elsewhere a message has four pieces, or more if it does not fit into four slots. A short message is not
 * cut. */
#define P2P_MEMORY_CHUNK_BYTES (32u << 10)

static uint32_t p2p_chunk(const struct planner *planner, const struct transport *transport, uint64_t bytes) {
    uint32_t forced = planner->limits.forced_chunk_bytes, slot = planner->limits.sizes_of[PROG_TO_ALL].long_bytes;
    if (forced > 0)
        return forced < slot ? forced : slot;
    if (transport != NULL && transport->messages)
        return plan_piece_bytes(slot, bytes);
    if (planner->chan->owner.kernel_from > 0)
        return slot;
    return slot / 4 < P2P_MEMORY_CHUNK_BYTES ? slot / 4 : P2P_MEMORY_CHUNK_BYTES;
}

/* Send and receive have one algorithm and one channel. */
static struct plan_choice choose_p2p(const struct planner *planner, const struct exec_request *request,
                                     uint64_t bytes) {
    const struct chan *chan = planner->chan;
    const struct transport *transport = chan_pair_transport(chan, chan->owner.rank, request->root);
    return (struct plan_choice){algorithm_find(request->collective, "direct"), PROTOCOL_SIMPLE, 1,
                                p2p_chunk(planner, transport, bytes), 0};
}

/* ---- choices ---- */

/* Warns if COLLET_ALGO names an algorithm that cannot be used. */
static void warn_once(struct planner *planner, enum prog_collective collective) {
    if (planner->chan->owner.rank == 0 && !planner->warned[collective])
        tuner_warn_of_names(&planner->limits, collective, &planner->shapes[0]);
    planner->warned[collective] = true;
}

/* If only pairs know the counts, the plan assumes this many bytes, because all ranks must make equal plans. */
#define PAIR_BYTES (1u << 20)

static uint64_t planned_count(const struct exec_request *request) {
    return prog_is_pairwise(request->collective) ? PAIR_BYTES / collet_type_size(request->type) : request->count;
}

/* The choice for a request. On GPUs the request already says whether it may lend and switch. */
static enum collet_result choose(struct planner *planner, const struct exec_request *request,
                                 struct plan_choice *choice_p) {
    uint32_t elem_bytes = (uint32_t)type_size(request->type);
    uint32_t class = size_class(planned_count(request) * elem_bytes);
    struct plan_choice *choice =
        &planner->choices[request->may_switch ? 2 : request->may_lend][request->collective][class];
    const bool is_message = prog_is_p2p(request->collective);
    if (planner->chan->owner.gpu != NULL && (is_message || request->by_copies))
        return gpu_choose(planner->chan, &planner->limits, request, class_bytes(class), choice_p);
    if (is_message) {
        *choice_p = choose_p2p(planner, request, class_bytes(class));
        return COLLET_SUCCESS;
    }
    if (request->call_options != 0)
        return chooser_choose(planner->chooser, &planner->limits, request, class_bytes(class), choice_p);
    /* Chooses for the largest size of the class, not for this call. So all ranks choose alike, whichever call of the class comes first. */
    if (choice->algorithm == NULL) {
        warn_once(planner, request->collective);
        COLLET_TRY(chooser_choose(planner->chooser, &planner->limits, request, class_bytes(class), choice));
    }
    *choice_p = *choice;
    return COLLET_SUCCESS;
}

void plan_choice_text(const struct plan_choice *choice, char *text, size_t room) {
    const locale_t before = plain_begin();
    snprintf(text, room, "%s, %s, %d channel(s), chunk %u bytes, predicted %.2f us", choice->algorithm->name,
             protocol_names[choice->protocol], choice->nchannels, choice->chunk_bytes, choice->predicted_ns / 1000);
    plain_end(before);
}

enum collet_result plan_choose(struct planner *planner, const struct exec_request *request,
                               struct plan_choice *choice_p) {
    struct exec_request asked = *request;
    if (planner->chan->owner.gpu != NULL)
        gpu_mark(planner->chan, &asked);
    return choose(planner, &asked, choice_p);
}

/* ---- bound programs ---- */

/* Builds this rank's program of one channel. With COLLET_CHECK_PROGRAMS the programs of all ranks are verified. */
static enum collet_result build_channel(const struct planner *planner, const struct plan_choice *choice, int root,
                                        int channel, struct prog **prog_p) {
    const struct chan *chan = planner->chan;
    const struct prog_shape *shape = &planner->shapes[channel % planner->nshapes];
    char why[256];
    if (chan->owner.config->check_programs && channel < planner->nshapes &&
        !prog_check(choice->algorithm, shape, root, (int)chan->owner.layouts[choice->algorithm->connects].nslots, false,
                    why, sizeof(why)))
        return err_set(COLLET_ERR_INTERNAL, "algorithm %s is wrong: %s", choice->algorithm->name, why);
    return algorithm_build(choice->algorithm, shape, chan->owner.rank, root, prog_p);
}

/* Builds one program per channel, along the ring of that channel. */
static enum collet_result build_channels(const struct planner *planner, const struct plan_choice *choice, int root,
                                         struct prog ***progs_p) {
    struct prog **progs;
    enum collet_result result = COLLET_SUCCESS;
    COLLET_TRY(memory_get(&progs, (size_t)choice->nchannels, sizeof(*progs), "no memory for programs of %d channels",
                          choice->nchannels));
    for (int channel = 0; channel < choice->nchannels && result == COLLET_SUCCESS; channel++)
        result = build_channel(planner, choice, root, channel, &progs[channel]);
    for (int channel = 0; channel < choice->nchannels && result != COLLET_SUCCESS; channel++)
        prog_destroy(progs[channel]);
    if (result == COLLET_SUCCESS)
        *progs_p = progs;
    else
        free(progs);
    return result;
}

static enum collet_result program_get(struct planner *planner, const struct plan_choice *choice, int root,
                                      struct exec_program **program_p) {
    struct exec_program **link = &planner->programs;
    for (struct exec_program *program; (program = *link) != NULL; link = &program->next) {
        if (program->source != choice->algorithm || program->progs[0]->root != root ||
            program->nchannels != choice->nchannels)
            continue;
        *link = program->next;
        program->next = planner->programs;
        *program_p = planner->programs = program;
        return COLLET_SUCCESS;
    }
    struct prog **progs = NULL;
    struct exec_program *program;
    COLLET_TRY(build_channels(planner, choice, root, &progs));
    COLLET_TRY(exec_program_create(planner->chan, progs, choice->algorithm, choice->nchannels, &program));
    program->next = planner->programs;
    *program_p = planner->programs = program;
    return COLLET_SUCCESS;
}

/* Hashes what both ends of a connection must agree on. Send and receive agree only on their bytes. */
static uint32_t signature_of(const struct exec_request *request, const struct plan_choice *choice) {
    bool p2p = prog_is_p2p(request->collective);
    bool listed = !p2p && choice->algorithm->schedule == NULL;
    uint32_t hash = hash_mix(p2p ? PROG_COLLECTIVE_COUNT : (uint32_t)request->collective, request->count);
    hash = hash_mix(hash, (uint64_t)request->type << 8 | (uint64_t)request->op);
    hash = hash_mix(hash, p2p ? 0 : (uint64_t)request->counts_hash << 32 | (uint64_t)request->root);
    hash = hash_mix(hash, (listed ? (uint64_t)(choice->algorithm - algorithms) : 0) + request->call_options);
    return hash_mix(hash, (uint64_t)(choice->protocol | (uint32_t)request->by_copies << 8) << 32 | choice->chunk_bytes);
}

static enum collet_result call_prepare(struct planner *planner, const struct exec_request *request,
                                       struct exec_call *call) {
    struct plan_choice choice;
    struct exec_program *program;
    COLLET_TRY(choose(planner, request, &choice));
    COLLET_TRY(program_get(planner, &choice, request->root, &program));
    if (!request->by_copies)
        COLLET_TRY(exec_find_carrier(program));

    int nranks = planner->chan->owner.nranks;
    uint32_t elem_bytes = (uint32_t)type_size(request->type);
    struct work_args *args = &call->args;
    plan_extent(request->collective, planned_count(request), nranks, program->progs[0]->nslices, args);
    args->chunk_elems = plan_chunk_elems(choice.chunk_bytes, elem_bytes);
    args->nchannels = (uint32_t)choice.nchannels;
    if (planner->chan->owner.gpu == NULL && !planner->limits.channels_given && request->call_options == 0)
        args->nchannels = (uint32_t)plan_channels(choice.nchannels, args->block_elems * elem_bytes);
    args->elem_bytes = elem_bytes;
    args->divisor = request->op == COLLET_AVG ? (uint32_t)nranks : 1;
    args->protocol = choice.protocol;
    args->signature = signature_of(request, &choice);
    args->keep_empty = prog_keeps_empty(request->collective);
    call->args_id = ++planner->prepared;
    call->reduce = reduce_host_get(request->type, request->op);
    call->request = *request;
    call->program = program;
    call->chan = planner->chan;
    return COLLET_SUCCESS;
}

static bool same_request(const struct exec_request *a, const struct exec_request *b) {
    return a->count == b->count && a->collective == b->collective && a->type == b->type && a->op == b->op &&
           a->root == b->root && a->counts_hash == b->counts_hash && a->by_copies == b->by_copies &&
           a->may_switch == b->may_switch && a->may_lend == b->may_lend && a->call_options == b->call_options;
}

static enum collet_result call_find(struct planner *planner, const struct exec_request *request,
                                    struct exec_call *call) {
    size_t hash = request->count ^ request->count >> 7 ^ (size_t)request->collective << 1 ^ (size_t)request->root;
    struct exec_call *recent = &planner->recent[hash % RECENT_CALLS];
    if (recent->program == NULL || !same_request(&recent->request, request)) {
        recent->program = NULL;
        COLLET_TRY(call_prepare(planner, request, recent));
    }
    *call = *recent;
    return COLLET_SUCCESS;
}

enum collet_result plan_get(struct planner *planner, const struct exec_request *request, struct exec_call *call) {
    if (call->program == NULL || !same_request(&call->request, request))
        COLLET_TRY(call_find(planner, request, call));
    call->args.scaling = request->scaling;
    call->args.factor = request->factor;
    call->request.extents = request->extents;
    call->state = EXEC_CONNECTING;
    call->waits_for = -1;
    call->idle_since_ns = 0;
    return COLLET_SUCCESS;
}
