/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request to an executable call: a memo of choices by size class, and a cache of programs bound to connections.
 */
#include "plan/plan.h"

#include "algo/trees.h"
#include "base/err.h"
#include "base/log.h"
#include "plan/tuner.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

/* Two classes an octave; a class is tuned for its largest size. */
#define SIZE_CLASSES 128

/* Training repeats the same few calls. */
#define RECENT_CALLS 16

struct planner {
    struct chan *chan;
    struct prog_shape shape;
    struct cost_machine machine;
    uint8_t *link;
    int *ranks_of_node;
    struct tuner_limits limits;
    struct plan_choice choices[PROG_COLLECTIVE_COUNT][SIZE_CLASSES];
    struct exec_program *programs; /* most recently used first */
    struct exec_call recent[RECENT_CALLS]; /* prepared calls by hash of their request; program NULL: none */
};

/* ---- life ---- */

static enum collet_result shape_init(struct planner *planner) {
    const struct chan *chan = planner->chan;
    int *node_of = malloc((size_t)chan->nranks * sizeof(*node_of));
    if (node_of == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the nodes of %d ranks", chan->nranks);
    for (int rank = 0; rank < chan->nranks; rank++)
        node_of[rank] = chan->peers[rank].node;
    enum collet_result result = prog_shape_init(&planner->shape, chan->nranks, node_of);
    free(node_of);
    return result;
}

static int node_at(const struct planner *planner, int position) {
    return planner->chan->peers[prog_shape_rank(&planner->shape, position)].node;
}

/* The first ranks in the order of the shape, and whole nodes of them where that is possible. */
static struct prog_shape simulated_shape(const struct planner *planner) {
    int n = planner->shape.nranks, nnodes = 1, node_ranks = planner->shape.node_ranks;
    if (n > COST_RANKS_MAX)
        n = node_ranks > 0 && node_ranks < COST_RANKS_MAX ? COST_RANKS_MAX / node_ranks * node_ranks : COST_RANKS_MAX;
    for (int position = 1; position < n; position++)
        nnodes += node_at(planner, position) != node_at(planner, position - 1);
    return (struct prog_shape){.nranks = n, .nnodes = nnodes, .node_ranks = nnodes == 1 ? n : node_ranks};
}

static enum collet_result machine_init(struct planner *planner, const struct config *config) {
    const struct chan *chan = planner->chan;
    const struct prog_shape *whole = &planner->shape, shape = simulated_shape(planner);
    int n = shape.nranks;
    planner->link = calloc((size_t)n * (size_t)n, sizeof(*planner->link));
    planner->ranks_of_node = calloc((size_t)n, sizeof(*planner->ranks_of_node));
    if (planner->link == NULL || planner->ranks_of_node == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the table of %d ranks", chan->nranks);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const struct transport *transport =
                chan_pair_transport(chan, prog_shape_rank(whole, a), prog_shape_rank(whole, b));
            planner->link[a * n + b] = transport != NULL && transport->remote ? LINK_NET : LINK_MEMORY;
        }
    for (int a = 0; a < n; a++)
        for (int rank = 0; rank < chan->nranks; rank++)
            planner->ranks_of_node[a] += chan->peers[rank].node == node_at(planner, a);
    planner->machine = (struct cost_machine){
        .nranks = n,
        .shape = shape,
        .whole = whole,
        .link = planner->link,
        .ranks_of_node = planner->ranks_of_node,
        .cpus = (int)config->cpus,
        .nslots = chan->layout.nslots,
    };
    return COLLET_SUCCESS;
}

/* The shapes that algorithms use, once a communicator, as rank 0 sees them. Documented lines. */
static void log_shapes(const struct prog_shape *shape) {
    int nranks = shape->nranks;
    char line[256];
    size_t at = 0;
    for (int position = 0; position < nranks && at < sizeof(line) - 8; position++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, " %d", prog_shape_rank(shape, position));
    log_info(GRAPH, "ring:%s%s", line, at < sizeof(line) - 8 ? "" : " ...");
    for (int tree = 0; tree < TREES; tree++)
        for (int rank = 0; rank < nranks; rank++) {
            struct tree_place place = tree_of(shape, tree, rank);
            int left = place.nchildren > 0 ? place.child[0] : -1, right = place.nchildren > 1 ? place.child[1] : -1;
            log_info(GRAPH, "tree %d: rank %d, parent %d, children %d %d", tree, rank, place.parent, left, right);
        }
}

enum collet_result planner_create(struct chan *chan, const struct config *config, struct planner **planner_p) {
    struct planner *planner = calloc(1, sizeof(*planner));
    if (planner == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the planner");
    planner->chan = chan;
    enum collet_result result = tuner_limits_read(config, &chan->layout, &planner->limits);
    if (result == COLLET_SUCCESS)
        result = shape_init(planner);
    if (result == COLLET_SUCCESS)
        result = machine_init(planner, config);
    if (result != COLLET_SUCCESS) {
        planner_destroy(planner);
        return result;
    }
    if (chan->rank == 0 && log_wanted(LOG_INFO, LOG_GRAPH))
        log_shapes(&planner->shape);
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
    prog_shape_fini(&planner->shape);
    free(planner->link);
    free(planner->ranks_of_node);
    free(planner);
}

/* ---- choice ---- */

static uint32_t size_class(uint64_t bytes) {
    if (bytes < 2)
        return 0;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(bytes - 1); /* bytes is in (2^octave, 2^(octave+1)] */
    uint64_t middle = (1ull << octave) + (1ull << octave) / 2;
    return 2 * octave + (bytes > middle);
}

static uint64_t class_bytes(uint32_t class) {
    uint64_t base = 1ull << (class / 2);
    return class % 2 ? 2 * base : base + base / 2;
}

/* Sends and receives have one algorithm; a message is cut so that reading it begins while it is being written. */
static struct plan_choice choose_p2p(const struct planner *planner, enum prog_collective collective) {
    uint32_t forced = planner->limits.forced_chunk_bytes;
    uint32_t slot = planner->limits.slot_bytes;
    uint32_t chunk = forced == 0 ? slot / 4 : forced < slot ? forced : slot;
    return (struct plan_choice){algorithm_find(collective, "direct"), INTERP_SIMPLE, 1, chunk, 0};
}

static enum collet_result choose(struct planner *planner, const struct exec_request *request,
                                 struct plan_choice **choice_p) {
    uint32_t elem_bytes = (uint32_t)collet_type_size(request->type);
    uint32_t class = size_class((uint64_t)request->count * elem_bytes);
    struct plan_choice *choice = &planner->choices[request->collective][class];
    *choice_p = choice;
    if (choice->algorithm != NULL)
        return COLLET_SUCCESS;
    if (prog_is_p2p(request->collective)) {
        *choice = choose_p2p(planner, request->collective);
        return COLLET_SUCCESS;
    }
    /* The class, not the call, is tuned, and in bytes: whichever call of a class comes first, all ranks choose the same. */
    return tuner_choose(&planner->machine, &planner->limits, request->collective,
                        class_bytes(class), 1, choice);
}

/* ---- bound programs ---- */

static enum collet_result program_get(struct planner *planner, const struct plan_choice *choice, int root,
                                      struct exec_program **program_p) {
    struct exec_program **link = &planner->programs;
    for (struct exec_program *program; (program = *link) != NULL; link = &program->next) {
        if (program->source != choice->algorithm || program->prog->root != root ||
            program->nchannels != choice->nchannels)
            continue;
        *link = program->next;
        program->next = planner->programs;
        *program_p = planner->programs = program;
        return COLLET_SUCCESS;
    }
    struct chan *chan = planner->chan;
    struct prog *prog;
    COLLET_TRY(algorithm_build(choice->algorithm, &planner->shape, chan->rank, root, &prog));
    if (chan->config->check_programs) {
        char why[256];
        if (!prog_check(choice->algorithm, &planner->shape, root, (int)chan->layout.nslots, false, why, sizeof(why))) {
            prog_destroy(prog);
            return err_set(COLLET_ERR_INTERNAL, "algorithm %s is wrong: %s", choice->algorithm->name, why);
        }
    }
    struct exec_program *program;
    COLLET_TRY(exec_program_create(chan, prog, choice->algorithm, choice->nchannels, &program));
    program->next = planner->programs;
    *program_p = planner->programs = program;
    return COLLET_SUCCESS;
}

static uint32_t mix(uint32_t hash, uint64_t value) {
    hash = (hash ^ (uint32_t)value) * 2654435761u;
    hash = (hash ^ (uint32_t)(value >> 32)) * 2246822519u;
    return hash ^ hash >> 15;
}

/* What both ends of a connection must agree on. Ends of a point-to-point message see only its bytes alike. */
static uint32_t signature_of(const struct exec_request *request, const struct plan_choice *choice) {
    bool p2p = prog_is_p2p(request->collective);
    uint32_t hash = mix(p2p ? PROG_COLLECTIVE_COUNT : (uint32_t)request->collective, request->count);
    hash = mix(hash, (uint64_t)request->type << 8 | (uint64_t)request->op);
    hash = mix(hash, p2p ? 0 : (uint64_t)request->root);
    hash = mix(hash, p2p ? 0 : (uint64_t)(choice->algorithm - algorithms));
    return mix(hash, (uint64_t)choice->protocol << 32 | choice->chunk_bytes);
}

static enum collet_result prepare(struct planner *planner, const struct exec_request *request, struct exec_call *call) {
    struct plan_choice *choice;
    struct exec_program *program;
    COLLET_TRY(choose(planner, request, &choice));
    COLLET_TRY(program_get(planner, choice, request->root, &program));

    int nranks = planner->chan->nranks;
    uint32_t elem_bytes = (uint32_t)collet_type_size(request->type);
    bool p2p = prog_is_p2p(request->collective);
    struct exec_args *args = &call->args;
    plan_extent(request->collective, request->count, nranks, program->prog->nblocks, &args->total_elems,
                &args->block_elems);
    args->chunk_elems = plan_chunk_elems(choice->chunk_bytes, elem_bytes);
    args->nchannels = (uint32_t)choice->nchannels;
    args->elem_bytes = elem_bytes;
    args->divisor = request->op == COLLET_AVG ? (uint32_t)nranks : 1;
    args->protocol = choice->protocol;
    args->signature = signature_of(request, choice);
    args->keep_empty = p2p;
    args->reduce = reduce_host_get(request->type, request->op);
    call->request = *request;
    call->program = program;
    call->chan = planner->chan;
    call->after = -1;
    call->state = EXEC_WAITING;
    call->running = 0;
    call->told_peer = -1;
    return COLLET_SUCCESS;
}

static bool same_request(const struct exec_request *a, const struct exec_request *b) {
    return a->count == b->count && a->collective == b->collective && a->type == b->type && a->op == b->op &&
           a->root == b->root;
}

enum collet_result plan_get(struct planner *planner, const struct exec_request *request, struct exec_call *call) {
    size_t hash = request->count ^ request->count >> 7 ^ (size_t)request->collective << 1 ^ (size_t)request->root;
    struct exec_call *recent = &planner->recent[hash % RECENT_CALLS];
    if (recent->program == NULL || !same_request(&recent->request, request)) {
        recent->program = NULL;
        COLLET_TRY(prepare(planner, request, recent));
    }
    *call = *recent;
    return COLLET_SUCCESS;
}
