/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of NCCL 2.31 may say how it is to be done:
 *
 *    algSelection, forceAlgSelection     its algorithm, in the words of NCCL_ALGO
 *    minCTAs, maxCTAs                    bounds of its channels, within those of the communicator
 *    all others                          are checked, and have no effect; a line of the log says so, once per process
 */
#include "layers/nccl/nccl_call.h"

#include "base/err.h"
#include "base/log.h"
#include "layers/nccl/words_choice.h"
#include "layers/tuner/call_options.h"
#include "plan/limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UNDEF INT_MIN

/* As 2.31 has it; 2.32 has an event behind it. */
struct call_config {
    size_t size;
    unsigned magic, version;
    const void *options; /* of vendors */
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

static bool selects(const struct call_config *config) {
    return config->algSelection != NULL && config->algSelection[0] != '\0';
}

/* Into COLLET_ALGO's words. */
static enum collet_result read_selection(const struct call_config *config, struct call_options *options) {
    const int forced = config->forceAlgSelection;
    struct words words = {.text = ""};
    struct config named = {.algo = ""};
    if (is_set(forced) && forced != 0 && forced != 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.forceAlgSelection is %d: 0 or 1", forced);
    if (!selects(config))
        return COLLET_SUCCESS;
    words_of_algorithms(config->algSelection, &words);
    snprintf(named.algo, sizeof named.algo, "%s", words.text);
    options->insists = forced != 0;
    if (named.algo[0] != '\0' && tuner_check_names(&named) == COLLET_SUCCESS)
        snprintf(options->algo, sizeof options->algo, "%s", named.algo);
    else if (options->insists)
        return err_set(
            COLLET_ERR_UNSUPPORTED,
            "config.algSelection is \"%.64s\": collet has no such algorithm; set forceAlgSelection to 0, or name "
            "one of collet-prog --list",
            config->algSelection);
    return COLLET_SUCCESS;
}

static void tell(const struct call_config *config) {
    static bool told;
    const bool wants = is_set(config->nvlsCTAs) || is_set(config->cgaClusterSize) || is_set(config->CTAPolicy) ||
                       config->userProfilerTag != 0;
    if (wants && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_info(ENV,
                 "ncclCollConfig_t: nvlsCTAs, cgaClusterSize, CTAPolicy and userProfilerTag of single calls have no "
                 "effect; those of the communicator count");
}

enum collet_result nccl_call_read(const void *from, const struct call_options **options_p) {
    struct call_options options = {.insists = false};
    struct call_config config;
    size_t size;
    *options_p = NULL;
    if (from == NULL)
        return COLLET_SUCCESS;
    memcpy(&size, from, sizeof size);
    if (size < sizeof config || size > 4096)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.size is %zu: begin with NCCL_COLLCONFIG_INITIALIZER", size);
    memcpy(&config, from, sizeof config);
    COLLET_TRY(check_channels(&config));
    COLLET_TRY(read_selection(&config, &options));
    if (is_set(config.CTAPolicy) && (config.CTAPolicy < 0 || config.CTAPolicy > 3))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.CTAPolicy is %d: 0 … 3", config.CTAPolicy);
    tell(&config);
    options.min_nchannels = is_set(config.minCTAs) ? config.minCTAs : 0;
    options.max_nchannels = is_set(config.maxCTAs) ? config.maxCTAs : 0;
    if (options.algo[0] == '\0' && options.min_nchannels == 0 && options.max_nchannels == 0)
        return COLLET_SUCCESS;
    *options_p = call_options_find(&options);
    return *options_p != NULL ? COLLET_SUCCESS : err_set(COLLET_ERR_NO_MEMORY, "no memory for the options of a call");
}
