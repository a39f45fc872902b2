/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of NCCL 2.31 may say how it is to be done. A communicator of collet has chosen for all its calls, so what the struct
 * says is checked, and has no effect: bounds of channels, policy, tag. A line of the log says so, once per process. Only a
 * call that insists on an algorithm is refused.
 */
#include "layers/nccl/nccl_call.h"

#include "base/err.h"
#include "base/log.h"

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

static enum collet_result check_selection(const struct call_config *config) {
    const int forced = config->forceAlgSelection;
    if (is_set(forced) && forced != 0 && forced != 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.forceAlgSelection is %d: 0 or 1", forced);
    if (config->algSelection != NULL && config->algSelection[0] != '\0' && forced != 0)
        return err_set(
            COLLET_ERR_UNSUPPORTED,
            "config.algSelection is \"%.64s\": collet chooses per communicator; set forceAlgSelection to 0, or NCCL_ALGO "
            "for all calls",
            config->algSelection);
    return COLLET_SUCCESS;
}

static void tell(const struct call_config *config) {
    static bool told;
    const bool wants = is_set(config->minCTAs) || is_set(config->maxCTAs) || is_set(config->nvlsCTAs) ||
                       is_set(config->cgaClusterSize) || is_set(config->CTAPolicy) || config->algSelection != NULL;
    if (wants && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_info(ENV, "ncclCollConfig_t: options of single calls have no effect; those of the communicator count");
}

enum collet_result nccl_call_check(const void *from) {
    struct call_config config;
    size_t size;
    if (from == NULL)
        return COLLET_SUCCESS;
    memcpy(&size, from, sizeof size);
    if (size < sizeof config || size > 4096)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.size is %zu: begin with NCCL_COLLCONFIG_INITIALIZER", size);
    memcpy(&config, from, sizeof config);
    COLLET_TRY(check_channels(&config));
    COLLET_TRY(check_selection(&config));
    if (is_set(config.CTAPolicy) && (config.CTAPolicy < 0 || config.CTAPolicy > 3))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.CTAPolicy is %d: 0 … 3", config.CTAPolicy);
    tell(&config);
    return COLLET_SUCCESS;
}
