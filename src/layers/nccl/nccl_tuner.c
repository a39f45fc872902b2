/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin gets a table of predicted times, one per algorithm and protocol of NCCL, and may change it:
 *
 *    collet's tuner, held to one entry at a time ──▶ table ──▶ plugin ──▶ least entry ──▶ tuner, held to that entry
 *                                                                └─ nothing changed ────▶ tuner, free
 *
 * All ranks must make the same choice, so a plugin must answer the same on every rank. NCCL requires that too.
 */
#include "layers/nccl/nccl_adviser.h"

#include "base/log.h"
#include "base/memory.h"
#include "layers/nccl/nccl_plugin.h"
#include "compat/nccl_tuner.h"
#include "layers/tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tuner {
    void *library;
    const ncclTuner_v6_t *plugin;
    void *context;
};

/* ---- words of the two ---- */

/* Returns NCCL's number of the algorithm of this name; −1: NCCL has none like it. */
static int row_of(const struct algorithm *algorithm) {
    static const struct {
        const char *name;
        int row;
    } rows[] = {{"ring", NCCL_ALGO_RING}, {"chain", NCCL_ALGO_RING}, {"tree", NCCL_ALGO_TREE}, {"pat", NCCL_ALGO_PAT}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(algorithm->name, rows[k].name) == 0)
            return rows[k].row;
    return -1;
}

static const int COLUMNS[PROTOCOL_COUNT] = {
    [PROTOCOL_SIMPLE] = NCCL_PROTO_SIMPLE, [PROTOCOL_LL] = NCCL_PROTO_LL, [PROTOCOL_LL128] = NCCL_PROTO_LL128};

/* NCCL's number of the collective; −1: the plugin is not asked about it. */
static int function_of(enum prog_collective collective) {
    switch (collective) {
    case PROG_ALLREDUCE: return ncclFuncAllReduce;
    case PROG_ALLGATHER: return ncclFuncAllGather;
    case PROG_REDUCESCATTER: return ncclFuncReduceScatter;
    case PROG_BROADCAST: return ncclFuncBroadcast;
    case PROG_REDUCE: return ncclFuncReduce;
    default: return -1;
    }
}

/* ---- one choice ---- */

struct tuner_question {
    const struct cost_machine *machine;
    const struct tuner_limits *limits;
    enum prog_collective collective;
    uint64_t count;
    uint32_t elem_bytes;
};

static enum collet_result ask_tuner(const struct tuner_question *q, const struct tuner_limits *limits,
                                    struct plan_choice *choice) {
    return tuner_choose(q->machine, limits, q->collective, q->count, q->elem_bytes, choice);
}

/* Writes to *held the limits that allow only one entry of the table. False: they allow nothing. */
static bool hold_to(const struct tuner_question *q, int row, int column, struct tuner_limits *held) {
    const struct prog_shape *whole = q->machine->whole;
    bool named = tuner_is_named(q->limits, q->collective, whole), any = false;
    *held = *q->limits;
    for (int k = 0; algorithms[k].name != NULL; k++)
        held->algorithm_named[k] = row_of(&algorithms[k]) == row && (!named || q->limits->algorithm_named[k]);
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        any |= held->protocol_allowed[k] &= COLUMNS[k] == column && !(q->limits->barred[q->collective] >> k & 1);
    return any && tuner_is_named(held, q->collective, whole);
}

static enum collet_result fill_table(const struct tuner_question *q, float table[][NCCL_NUM_PROTOCOLS]) {
    struct tuner_limits held;
    struct plan_choice choice;
    for (int row = 0; row < NCCL_NUM_ALGORITHMS; row++)
        for (int column = 0; column < NCCL_NUM_PROTOCOLS; column++) {
            table[row][column] = NCCL_ALGO_PROTO_IGNORE;
            if (!hold_to(q, row, column, &held))
                continue;
            COLLET_TRY(ask_tuner(q, &held, &choice));
            table[row][column] = (float)(choice.predicted_ns / 1000);
        }
    return COLLET_SUCCESS;
}

/* Bytes of the larger buffer, which NCCL passes to plugins. */
static size_t bytes_of(const struct tuner_question *q) {
    const struct prog_facts *facts = &prog_facts[q->collective];
    bool per_rank = facts->in == PROG_PER_RANK || facts->out == PROG_PER_RANK;
    return q->count * q->elem_bytes * (per_rank ? (size_t)q->machine->whole->nranks : 1);
}

/* Asks the plugin, and restricts *limits to its choice. */
static enum collet_result take_advice(const struct tuner *tuner, const struct tuner_question *q,
                                      struct tuner_limits *limits) {
    float table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS], asked[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS], least = -1;
    int nchannels = 0, most = limits->most_nchannels > limits->nchannels ? limits->most_nchannels : limits->nchannels;
    COLLET_TRY(fill_table(q, table));
    memcpy(asked, table, sizeof asked);
    if (tuner->plugin->getCollInfo(tuner->context, function_of(q->collective), bytes_of(q), 1, (float **)table,
                                   NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, 0, &nchannels) != ncclSuccess)
        return COLLET_SUCCESS;
    for (int row = 0; row < NCCL_NUM_ALGORITHMS && memcmp(asked, table, sizeof asked) != 0; row++)
        for (int column = 0; column < NCCL_NUM_PROTOCOLS; column++) {
            struct tuner_limits held;
            float cost = table[row][column];
            if (isnan(cost))
                log_warn(PLAN, "tuner plugin %s: entry [%d][%d] of its table is not a number: ignored",
                         tuner->plugin->name, row, column);
            if (!(cost >= 0) || (least >= 0 && cost >= least) || !hold_to(q, row, column, &held))
                continue;
            least = cost;
            *limits = held;
        }
    if (nchannels > 0) {
        limits->nchannels = limits->most_nchannels = nchannels < most ? nchannels : most;
        limits->channels_given = true;
    }
    return COLLET_SUCCESS;
}

static enum collet_result tuner_plugin_choose(void *context, const struct cost_machine *machine,
                                              const struct tuner_limits *limits, enum prog_collective collective,
                                              uint64_t count, uint32_t elem_bytes, struct plan_choice *choice) {
    const struct tuner *tuner = context;
    const struct tuner_question q = {machine, limits, collective, count, elem_bytes};
    struct tuner_limits held = *limits;
    if (function_of(collective) < 0)
        return ask_tuner(&q, limits, choice);
    COLLET_TRY(take_advice(tuner, &q, &held));
    COLLET_TRY(ask_tuner(&q, &held, choice));
    int row = row_of(choice->algorithm);
    size_t chunk = choice->chunk_bytes;
    if (tuner->plugin->getChunkSize == NULL || row < 0 ||
        tuner->plugin->getChunkSize(tuner->context, function_of(collective), bytes_of(&q), row,
                                    COLUMNS[choice->protocol], choice->nchannels, &chunk) != ncclSuccess ||
        chunk == choice->chunk_bytes || chunk == 0)
        return COLLET_SUCCESS;
    held.forced_chunk_bytes = chunk < held.sizes.long_bytes ? (uint32_t)chunk : held.sizes.long_bytes;
    return ask_tuner(&q, &held, choice);
}

/* ---- life ---- */

static void tuner_plugin_close(void *context) {
    struct tuner *tuner = context;
    if (tuner->plugin != NULL && tuner->plugin->finalize != NULL)
        tuner->plugin->finalize(tuner->context);
    nccl_plugin_close(tuner->library);
    free(tuner);
}

/* Opens the plugin. False: a warning was written. */
static bool begin(const char *name, size_t nranks, size_t nnodes, struct tuner *tuner) {
    ncclNvlDomainInfo_v6_t domains = {(int)nranks, 1, 1};
    ncclTunerConstants_v6_t constants;
    const void *table;
    if (!nccl_plugin_open("TUNER", name, "ncclTunerPlugin_v6", &tuner->library, &table))
        return false;
    const ncclTuner_v6_t *plugin = table;
    memset(&constants, 0, sizeof constants);
    if (plugin->init == NULL || plugin->getCollInfo == NULL)
        nccl_plugin_miss("TUNER", name, "lacks init or getCollInfo");
    else if (plugin->init(&tuner->context, 0, nranks, nnodes, nccl_plugin_log, &domains, &constants) != ncclSuccess)
        nccl_plugin_miss("TUNER", name, "is no help: its init() failed");
    else
        tuner->plugin = plugin;
    return tuner->plugin != NULL;
}

/* If a plugin cannot be used, *context_p is NULL and collet's tuner chooses alone, as in NCCL. */
static enum collet_result tuner_plugin_open(const char *name, int nranks, int nnodes, void **context_p) {
    struct tuner *tuner;
    *context_p = NULL;
    COLLET_TRY(memory_get(&tuner, 1, sizeof *tuner, "no memory for a tuner plugin"));
    if (begin(name, (size_t)nranks, (size_t)nnodes, tuner)) {
        log_info(PLAN, "tuner plugin %s: %s", name, tuner->plugin->name);
        *context_p = tuner;
    } else {
        tuner_plugin_close(tuner);
    }
    return COLLET_SUCCESS;
}

const struct plan_adviser nccl_tuner = {tuner_plugin_open, tuner_plugin_choose, tuner_plugin_close};
