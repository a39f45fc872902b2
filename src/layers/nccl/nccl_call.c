/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one call of NCCL 2.31:
 *
 *    algSelection, forceAlgSelection   which algorithms and protocols; whether others are allowed if these are impossible
 *    minCTAs, maxCTAs                  how many channels
 *    CTAPolicy                         without NCCL_CTA_POLICY_ZERO: kernels move the data, not copy engines
 *
 * All other fields have no effect. If a call sets one, a line of the log says so, once per process.
 */
#include "layers/nccl/nccl_call.h"

#include "api/coll.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "layers/nccl/words_choice.h"
#include "layers/tuner/call_options.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UNDEF INT_MIN
#define POLICY_ZERO 2 /* a bit of CTAPolicy */

/* ncclCollConfig_t of NCCL 2.31. In 2.32 an event follows. */
struct call_config {
    size_t size;
    unsigned magic, version;
    const void *options; /* options of vendors; not used */
    int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection, CTAPolicy;
    uint64_t userProfilerTag;
};
_Static_assert(sizeof(struct call_config) == 64, "as long as that of NCCL 2.31");

static bool is_set(int value) { return value != UNDEF; }

static enum collet_result check_channels(const struct call_config *config) {
    const int fewest = config->minCTAs, most = config->maxCTAs;
    if ((is_set(fewest) && fewest < 1) || (is_set(most) && most < 1) ||
        (is_set(fewest) && is_set(most) && fewest > most))
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "config.minCTAs is %d and maxCTAs %d: 1 or more, and no more than the second", fewest, most);
    return COLLET_SUCCESS;
}

/* Warns once for each list of names. Lists whose hashes take the same place may be warned of again. */
static void warn_once(const struct call_config *config, enum prog_collective collective, const char *missing,
                      const char *then) {
    static uint32_t told[64];
    uint32_t hash = (uint32_t)collective + 1;
    for (const char *c = config->algSelection; *c != '\0'; c++)
        hash = hash_mix(hash, (uint64_t)*c);
    if (__atomic_exchange_n(&told[hash % 64], hash, __ATOMIC_RELAXED) != hash)
        log_warn(ENV, "config.algSelection=%.64s: collet has no %s for %s; %s", config->algSelection, missing,
                 prog_collective_name(collective), then);
}

static enum collet_result read_selection(const struct call_config *config, enum prog_collective collective,
                                         struct call_options *options) {
    struct selection selection;
    const bool forced = config->forceAlgSelection != 0;
    if (is_set(config->forceAlgSelection) && config->forceAlgSelection != 0 && config->forceAlgSelection != 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.forceAlgSelection is %d: 0 or 1",
                       config->forceAlgSelection);
    if (config->algSelection == NULL || config->algSelection[0] == '\0')
        return COLLET_SUCCESS;
    words_of_selection(config->algSelection, collective, &selection);
    if (selection.is_empty && forced)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "config.algSelection is \"%.64s\", which leaves nothing for %s (collet-prog --list); with "
                       "forceAlgSelection 0 another algorithm does it",
                       config->algSelection, prog_collective_name(collective));
    if (selection.missing[0] != '\0')
        warn_once(config, collective, selection.missing, selection.is_empty ? "it chooses freely" : "the rest counts");
    if (selection.is_empty)
        return COLLET_SUCCESS;
    options->algorithms = selection.algorithms;
    options->protocols = selection.protocols;
    options->insists = forced && (selection.algorithms != 0 || selection.protocols != 0);
    return COLLET_SUCCESS;
}

static enum collet_result read_policy(const struct call_config *config, struct call_options *options) {
    if (is_set(config->CTAPolicy) && (config->CTAPolicy < 0 || config->CTAPolicy > 3))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.CTAPolicy is %d: 0 … 3", config->CTAPolicy);
    options->by_kernels = is_set(config->CTAPolicy) && !(config->CTAPolicy & POLICY_ZERO);
    return COLLET_SUCCESS;
}

static void tell(const struct call_config *config, const void *completion) {
    static bool told;
    const bool wants = is_set(config->nvlsCTAs) || is_set(config->cgaClusterSize) || config->userProfilerTag != 0 ||
                       completion != NULL;
    if (wants && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_info(
            ENV,
            "ncclCollConfig_t: nvlsCTAs, cgaClusterSize, userProfilerTag and launchCompletionEvent have no effect");
}

static int channels_of(int ctas) { return !is_set(ctas) ? 0 : ctas < CHANNELS_MAX ? ctas : CHANNELS_MAX; }

enum collet_result nccl_call_read(const void *from, enum prog_collective collective, uint64_t *options_p) {
    struct call_config config;
    const void *completion = NULL;
    size_t size;
    *options_p = 0;
    if (from == NULL)
        return COLLET_SUCCESS;
    memcpy(&size, from, sizeof size);
    if (size < sizeof config || size > 4096)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.size is %zu: begin with NCCL_COLLCONFIG_INITIALIZER", size);
    memcpy(&config, from, sizeof config);
    if (size >= sizeof config + sizeof completion)
        memcpy(&completion, (const char *)from + sizeof config, sizeof completion);
    COLLET_TRY(check_channels(&config));
    struct call_options options = {.fewest = channels_of(config.minCTAs), .most = channels_of(config.maxCTAs)};
    COLLET_TRY(read_selection(&config, collective, &options));
    COLLET_TRY(read_policy(&config, &options));
    tell(&config, completion);
    *options_p = call_options_pack(&options);
    return COLLET_SUCCESS;
}

enum collet_result nccl_call_check(const struct exec_request *request, struct collet_comm *comm) {
    struct exec_request checked = *request;
    struct plan_choice choice;
    size_t block_bytes;
    if (!call_options_unpack(request->call_options).insists)
        return COLLET_SUCCESS;
    COLLET_TRY(coll_check(comm, &checked, NULL, &block_bytes));
    return comm_choose(comm, &checked, &choice);
}
