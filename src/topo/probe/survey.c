/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a survey. In each stage a rank waits for one rank after another. Read survey.h first.
 *
 *      answer   │ where a rank is │ its GPU, and which others are joined with it │
 *      report   │ bytes of the graph │ far? │ joined? │ place of each rank of the node, by number │ graph as text │
 */
#include "topo/probe/survey.h"

#include "base/cpus.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "chan/crowd.h"
#include "layers/gpu/gpu.h"
#include "layers/gpu/nvlink.h"
#include "layers/schedules/import.h"
#include "layers/tuner/cards.h"
#include "layers/tuner/costs_file.h"
#include "layers/tuner/host.h"
#include "layers/tuner/host_find.h"
#include "topo/probe/atlas.h"
#include "topo/probe/bundle.h"
#include "topo/probe/text.h"
#include "topo/probe/topo.h"

#include <stdlib.h>
#include <string.h>

#define KEY_WHERE boot_key(BOOT_PLACE, 0)
#define KEY_REPORT boot_key(BOOT_GRAPH, 0)
#define KEY_ATLAS boot_key(BOOT_ATLAS, 0)

enum stage { ASK_RANKS, ASK_NODES, AWAIT_ATLAS };

/* Extra patience per stage. A rank may wait for a rank that waits itself. It must give up later, so that the rank that can
 * name the missing one is the first to give up. */
#define PATIENCE_NS 2000000000ull

struct survey {
    struct boot *boot;
    const struct config *config;
    const struct peer_info *peers;
    int nranks, rank;
    enum stage stage;
    int next; /* The rank that this rank waits for. All ranks before it have answered. */
    /* Only at the lowest rank of a node. [nranks]: where each rank of the node is, by number among the node's ranks. */
    struct topo_whereabouts *where;
    /* Only at the lowest rank of a node. [nranks]: the GPU of each rank, in the same order as `where`. */
    struct nvlink_card *cards;
    struct bundle *reports; /* Only at rank 0. [nranks]: report of a node, at the index of its lowest rank. */
    struct bundle atlas;
    uint64_t deadline_ns;
    struct arena arena; /* The arena that owns the arrays. */
};

static bool leads(const struct survey *survey, int rank) { return survey->peers[rank].node == rank; }

/* ---- one rank's answer ---- */

struct survey_answer {
    struct topo_whereabouts where;
    struct nvlink_card card;
};
_Static_assert(sizeof(struct survey_answer) <= BOOT_MESSAGE_BYTES, "is one letter");

static enum collet_result say_surveyed(const struct survey *survey, const char *busid) {
    const struct peer_info *self = &survey->peers[survey->rank];
    struct survey_answer answer = {.where.rank = survey->rank};
    snprintf(answer.where.busid, sizeof answer.where.busid, "%s", busid);
    for (int k = 0; k < TOPO_CPU_WORDS && k < OS_CPUS / 32; k++)
        answer.where.cpus[k] = (uint32_t)(self->cpus.word[k / 2] >> 32 * (k % 2));
    COLLET_TRY(nvlink_ask(self->device, &answer.card));
    return boot_send(survey->boot, self->node, KEY_WHERE, &answer, sizeof answer);
}

/* Writes the machine of rank 0 to the file of COLLET_TOPO_DUMP_FILE. If the file cannot be written, the survey goes on. */
static void dump_machine(const struct config *config) {
    const struct topo *here;
    if (topo_here(config, &here) != COLLET_SUCCESS || topo_write_file(here, config->topo_dump_file) != COLLET_SUCCESS)
        log_always(GRAPH, "COLLET_TOPO_DUMP_FILE: %s", err_last());
}

/* ---- a node's report ---- */

/* Gives the graph of this machine. If the machine cannot be probed, it counts as one CPU. */
static enum collet_result look_here(const struct survey *survey, const struct topo **here_p, struct topo **made_p) {
    *made_p = NULL;
    if (topo_here(survey->config, here_p) == COLLET_SUCCESS)
        return COLLET_SUCCESS;
    log_warn(GRAPH, "%s; going on without a topology of this machine", err_last());
    COLLET_TRY(topo_synthetic("1 cpu", made_p));
    *here_p = *made_p;
    return COLLET_SUCCESS;
}

/* The smallest number of blocks of all cards. */
static uint32_t fewest_of(const struct nvlink_card *cards, int n) {
    uint32_t fewest = cards[0].blocks;
    for (int k = 1; k < n; k++)
        fewest = cards[k].blocks < fewest ? cards[k].blocks : fewest;
    return fewest;
}

static bool is_one_process(const struct peer_info *a, const struct peer_info *b) {
    return memcmp(a->process, b->process, sizeof a->process) == 0;
}

static const struct peer_info *peer_at(const struct survey *survey, int k) {
    return &survey->peers[survey->where[k].rank];
}

/* Is the k-th rank the first rank of its process on its GPU? */
static bool is_first_there(const struct survey *survey, int k) {
    for (int before = 0; before < k; before++)
        if (survey->cards[before].gpu == survey->cards[k].gpu &&
            is_one_process(peer_at(survey, before), peer_at(survey, k)))
            return false;
    return true;
}

/* The maximum number of other processes that have their turn before a process has the GPU again. 0: processes do not take
 * turns. */
static uint32_t turns_of(const struct survey *survey, int nlocal) {
    uint32_t most = 0;
    for (int k = 0; k < nlocal; k++) {
        uint32_t others = 0;
        for (int other = 0; other < nlocal && survey->cards[k].turns; other++)
            others += survey->cards[other].gpu == survey->cards[k].gpu && is_first_there(survey, other) &&
                      !is_one_process(peer_at(survey, other), peer_at(survey, k));
        most = others > most ? others : most;
    }
    return most;
}

static void warn_of_turns(void) {
    static bool said;
    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        log_always(
            INIT,
            "processes share a GPU and take turns on it: a call waits for some slices of time, 2 ms each. With MPS "
            "they run side by side: start nvidia-cuda-mps-control -d before them, or use a process for all ranks");
}

/* The first bytes of a report. Behind them stand the places of the node's ranks, and the graph as text. */
struct report_head {
    uint32_t graph_bytes;
    struct node_facts facts;
    struct host_speed speed;
};

static enum collet_result send_report(const struct survey *survey, const struct topo *here, int nlocal) {
    SCOPED_FREE char *graph = NULL, *report = NULL;
    SCOPED_FREE int32_t *place = NULL;
    struct report_head head = {0};
    COLLET_TRY(memory_get(&place, (size_t)nlocal, sizeof *place, "no memory to report on %d ranks", nlocal));
    for (int i = 0; i < nlocal; i++)
        place[i] = topo_locate(here, &survey->where[i]);
    const struct host_found found = host_find(survey->config, survey->peers, survey->nranks, survey->rank);
    head.speed = found.speed;
    head.facts.far = found.far;
    head.facts.measured = found.speed.line_ns > 0;
    head.facts.kernel_copies = found.kernel_copies;
    head.facts.joined = nvlink_joins_all(here, place, survey->cards, nlocal);
    head.facts.blocks = fewest_of(survey->cards, nlocal);
    head.facts.turns = turns_of(survey, nlocal);
    if (head.facts.turns > 0)
        warn_of_turns();
    COLLET_TRY(topo_share(here, nlocal, place, &graph));
    size_t graph_bytes = strlen(graph), size = sizeof head + graph_bytes + (size_t)nlocal * sizeof *place;
    COLLET_TRY(memory_get(&report, size, 1, "no memory to report on %d ranks", nlocal));
    head.graph_bytes = (uint32_t)graph_bytes;
    char *at = (char *)memcpy(report, &head, sizeof head) + sizeof head;
    at = (char *)memcpy(at, place, (size_t)nlocal * sizeof *place) + (size_t)nlocal * sizeof *place;
    memcpy(at, graph, graph_bytes);
    return bundle_send(survey->boot, 0, KEY_REPORT, report, size);
}

static enum collet_result report(const struct survey *survey, int nlocal) {
    const struct topo *here;
    struct topo *made;
    COLLET_TRY(look_here(survey, &here, &made));
    enum collet_result result = send_report(survey, here, nlocal);
    topo_destroy(made);
    return result;
}

static enum collet_result ask_ranks(struct survey *survey) {
    for (; survey->next < survey->nranks; survey->next++) {
        struct survey_answer answer = {.where.rank = 0};
        size_t bytes;
        if (survey->peers[survey->next].node != survey->rank)
            continue;
        COLLET_TRY(boot_try_recv(survey->boot, survey->next, KEY_WHERE, &answer, sizeof answer, &bytes));
        if (bytes != sizeof answer)
            return err_set(COLLET_ERR_INTERNAL, "rank %d says in %zu bytes where it is, not in %zu", survey->next,
                           bytes, sizeof answer);
        answer.where.busid[TOPO_BUSID_BYTES - 1] = '\0';
        answer.where.rank = survey->next; /* The rank's own number in its answer is not trusted. */
        int k = crowd_of_node(survey->peers, survey->next, survey->rank);
        survey->where[k] = answer.where;
        survey->cards[k] = answer.card;
    }
    return report(survey, crowd_of_node(survey->peers, survey->nranks, survey->rank));
}

/* ---- the atlas ---- */

static enum collet_result read_report(const struct survey *survey, int lowest, struct atlas_node *node) {
    const struct bundle *report = &survey->reports[lowest];
    struct report_head head = {0};
    node->nlocal = crowd_of_node(survey->peers, survey->nranks, lowest);
    size_t rest = sizeof head + (size_t)node->nlocal * sizeof(int32_t);
    if (report->size >= rest)
        memcpy(&head, report->bytes, sizeof head);
    if (report->size != rest + head.graph_bytes)
        return err_set(COLLET_ERR_INTERNAL, "the report of rank %d on its node has %zu bytes", lowest, report->size);
    node->place = (const void *)((const char *)report->bytes + sizeof head);
    node->graph = (const char *)report->bytes + rest;
    node->graph_bytes = head.graph_bytes;
    node->facts = head.facts;
    node->speed = head.speed;
    return COLLET_SUCCESS;
}

/* The GPU of this rank. */
static struct card_gpu own_gpu(const struct survey *survey, char name[GPU_MODEL_BYTES]) {
    const int ordinal = survey->peers[survey->rank].device - COLLET_DEVICE_CUDA(0);
    gpu_driver()->model(ordinal, name);
    return (struct card_gpu){name, (int)gpu_driver()->capability(ordinal)};
}

/* Gives the constants of the cost model that all ranks use: those of rank 0's GPU, changed by what rank 0's file says. */
static enum collet_result read_costs(const struct survey *survey, struct cost_table *costs) {
    const struct config *config = survey->config;
    char name[GPU_MODEL_BYTES], note[CARD_NOTE_BYTES];
    *costs = costs_default;
    if (survey->cards[0].on_gpu) {
        const struct card_gpu gpu = own_gpu(survey, name);
        COLLET_TRY(card_suit(gpu, CARD_KERNELS, costs));
        log_info(PLAN, "the cost model's constants: %s", card_note(gpu, CARD_KERNELS, note));
    }
    if (config->tuner_file[0] == '\0')
        return COLLET_SUCCESS;
    COLLET_TRY(costs_read(config->tuner_file, costs));
    log_info(PLAN, "the cost model's constants are those of %s", config->tuner_file);
    return COLLET_SUCCESS;
}

/* Sets the number of blocks per GPU by what drivers say, whatever a file says: a call must find room on the GPU with the
 * fewest blocks. */
static void take_blocks(const struct atlas_node *nodes, int nnodes, struct cost_table *costs) {
    uint32_t fewest = nodes[0].facts.blocks;
    for (int n = 1; n < nnodes; n++)
        fewest = nodes[n].facts.blocks < fewest ? nodes[n].facts.blocks : fewest;
    if (fewest > 0)
        costs->gpu_blocks = (int)fewest;
}

/* Sets the speed of hosts, each figure by the slowest host. What rank 0's file says wins over what was measured. */
static void take_hosts(const struct atlas_node *nodes, int nnodes, struct cost_table *costs) {
    struct host_speed worst = {.line_ns = 0};
    for (int n = 0; n < nnodes; n++)
        host_speed_agree(&worst, &nodes[n].speed);
    if (costs->host.line_ns == 0)
        costs->host = worst;
    host_suit(costs);
}

/* Adds the time of turns on a GPU. When a rank stores into memory of the GPU, a rank of another process sees this only when
 * its own turn comes: in the worst case after all others. */
static void take_turns(const struct atlas_node *nodes, int nnodes, struct cost_table *costs) {
    uint32_t most = 0;
    for (int n = 0; n < nnodes; n++)
        most = nodes[n].facts.turns > most ? nodes[n].facts.turns : most;
    for (int p = 0; p < COSTS_PROTOCOLS; p++)
        costs->step[LINK_GPU][p].alpha_ns += most * costs->gpu_turn_ns;
}

/* Appends the schedule of rank 0 to the atlas, if rank 0 has one. The last bytes are the number of bytes of the schedule. */
static enum collet_result append_schedule(const struct config *config, void **atlas_p, size_t *size_p) {
    SCOPED_FREE char *text = NULL;
    size_t bytes = 0;
    if (config->program[0] != '\0')
        COLLET_TRY(text_load("COLLET_PROGRAM", config->program, COLLET_ERR_INVALID_ARGUMENT, &text, &bytes));
    char *both = realloc(*atlas_p, *size_p + bytes + sizeof bytes);
    if (both == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for COLLET_PROGRAM");
    if (bytes > 0)
        memcpy(both + *size_p, text, bytes);
    memcpy(both + *size_p + bytes, &bytes, sizeof bytes);
    *atlas_p = both;
    *size_p += bytes + sizeof bytes;
    return COLLET_SUCCESS;
}

static enum collet_result send_atlas(const struct survey *survey, const struct atlas_node *nodes, int nnodes) {
    SCOPED_FREE void *atlas = NULL;
    size_t size;
    struct cost_table costs;
    COLLET_TRY(read_costs(survey, &costs));
    take_blocks(nodes, nnodes, &costs);
    take_turns(nodes, nnodes, &costs);
    take_hosts(nodes, nnodes, &costs);
    COLLET_TRY(atlas_pack(nodes, nnodes, &costs, &atlas, &size));
    COLLET_TRY(append_schedule(survey->config, &atlas, &size));
    for (int rank = 0; rank < survey->nranks; rank++)
        if (leads(survey, rank))
            COLLET_TRY(bundle_send(survey->boot, rank, KEY_ATLAS, atlas, size));
    return COLLET_SUCCESS;
}

static enum collet_result ask_nodes(struct survey *survey) {
    int nnodes = 0;
    for (; survey->next < survey->nranks; survey->next++)
        if (leads(survey, survey->next))
            COLLET_TRY(bundle_try_recv(&survey->reports[survey->next], survey->boot, survey->next, KEY_REPORT));
    SCOPED_FREE struct atlas_node *nodes = NULL;
    COLLET_TRY(memory_get(&nodes, (size_t)survey->nranks, sizeof *nodes, "no memory for the nodes of %d ranks",
                          survey->nranks));
    for (int rank = 0; rank < survey->nranks; rank++)
        if (leads(survey, rank))
            COLLET_TRY(read_report(survey, rank, &nodes[nnodes++]));
    return send_atlas(survey, nodes, nnodes);
}

static enum collet_result await_atlas(struct survey *survey) {
    survey->next = leads(survey, survey->rank) ? 0 : survey->peers[survey->rank].node;
    COLLET_TRY(bundle_try_recv(&survey->atlas, survey->boot, survey->next, KEY_ATLAS));
    for (int rank = survey->rank + 1; rank < survey->nranks && leads(survey, survey->rank); rank++)
        if (survey->peers[rank].node == survey->rank)
            COLLET_TRY(bundle_send(survey->boot, rank, KEY_ATLAS, survey->atlas.bytes, survey->atlas.size));
    return COLLET_SUCCESS;
}

/* Keeps what was measured, so that the ranks of a later communicator on the same CPUs, or on some of them, need not measure
 * again. */
static void keep_found(const struct survey *survey, const struct map *map) {
    const struct node_facts *facts = &map->facts[survey->rank];
    const struct host_found found = {facts->far, facts->kernel_copies, chart_of(map)->costs.host};
    if (facts->measured && survey->config->tuner_file[0] == '\0')
        host_keep(survey->peers, survey->nranks, survey->peers[survey->rank].node, &found);
}

static enum collet_result read_atlas(const struct survey *survey, struct map **map_p) {
    size_t bytes = 0, size = survey->atlas.size - sizeof bytes;
    const char *atlas = survey->atlas.bytes;
    if (survey->atlas.size >= sizeof bytes)
        memcpy(&bytes, atlas + size, sizeof bytes);
    if (survey->atlas.size < sizeof bytes || bytes > size)
        return err_set(COLLET_ERR_INTERNAL, "the map of rank 0 has %zu bytes", survey->atlas.size);
    struct map *map;
    COLLET_TRY(chart_create(survey->peers, survey->nranks, atlas, size - bytes, &map));
    enum collet_result result = COLLET_SUCCESS;
    if (bytes > 0)
        result = import_text(atlas + size - bytes, bytes, "COLLET_PROGRAM of rank 0", &map->imported);
    if (result == COLLET_SUCCESS && bytes > 0)
        result = import_verify(map->imported);
    if (result == COLLET_SUCCESS && bytes > 0 && survey->rank == 0)
        import_warn(map->imported, survey->config->program);
    if (result == COLLET_SUCCESS)
        keep_found(survey, map);
    if (result == COLLET_SUCCESS)
        *map_p = map;
    else
        chart_destroy(map);
    return result;
}

/* ---- all of it ---- */

/* Does the work of survey_create() for a rank on the GPU with this bus id. busid "": the rank is in host memory. */
static enum collet_result survey_begin(struct boot *boot, const struct config *config, const char *busid, int nranks,
                                       int rank, struct survey **survey_p) {
    struct survey *survey;
    COLLET_TRY(memory_get(&survey, 1, sizeof *survey, "no memory to survey %d ranks", nranks));
    *survey =
        (struct survey){.boot = boot, .config = config, .peers = boot_peers(boot), .nranks = nranks, .rank = rank};
    survey->stage = leads(survey, rank) ? ASK_RANKS : AWAIT_ATLAS;
    survey->deadline_ns = os_now_ns() + (uint64_t)config->init_timeout * 1000000000u;
    if (leads(survey, rank)) {
        survey->where = arena_get(&survey->arena, (size_t)nranks, sizeof *survey->where);
        survey->cards = arena_get(&survey->arena, (size_t)nranks, sizeof *survey->cards);
    }
    if (rank == 0)
        survey->reports = arena_get(&survey->arena, (size_t)nranks, sizeof *survey->reports);
    enum collet_result result = arena_check(&survey->arena, "no memory to survey %d ranks", nranks);
    if (result == COLLET_SUCCESS)
        result = say_surveyed(survey, busid);
    if (result == COLLET_SUCCESS && config->topo_dump_file[0] != '\0' && rank == 0)
        dump_machine(config);
    if (result == COLLET_SUCCESS)
        *survey_p = survey;
    else
        survey_destroy(survey);
    return result;
}

enum collet_result survey_create(struct boot *boot, const struct config *config, int nranks, int rank,
                                 struct survey **survey_p) {
    const int device = boot_peers(boot)[rank].device;
    char busid[GPU_BUSID_BYTES] = "";
    if (device != COLLET_DEVICE_HOST)
        gpu_busid(device - COLLET_DEVICE_CUDA(0), busid);
    return survey_begin(boot, config, busid, nranks, rank, survey_p);
}

void survey_destroy(struct survey *survey) {
    if (survey == NULL)
        return;
    for (int rank = 0; survey->reports != NULL && rank < survey->nranks; rank++)
        bundle_fini(&survey->reports[rank]);
    bundle_fini(&survey->atlas);
    arena_free(&survey->arena);
    free(survey);
}

enum collet_result survey_try(struct survey *survey, struct map **map_p) {
    static enum collet_result (*const stages[])(struct survey * survey) = {
        [ASK_RANKS] = ask_ranks, [ASK_NODES] = ask_nodes, [AWAIT_ATLAS] = await_atlas};
    for (;;) {
        enum collet_result result = stages[survey->stage](survey);
        if (result == COLLET_IN_PROGRESS)
            return boot_check_wait(survey->boot, NULL, survey->next, survey->deadline_ns + survey->stage * PATIENCE_NS,
                                   "say what machine it is on");
        COLLET_TRY(result);
        if (survey->stage == AWAIT_ATLAS)
            return read_atlas(survey, map_p);
        survey->stage = survey->stage == ASK_RANKS && survey->rank == 0 ? ASK_NODES : AWAIT_ATLAS;
        survey->next = 0;
    }
}
