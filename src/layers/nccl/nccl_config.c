/* SPDX-License-Identifier: Apache-2.0
 *
 * ncclConfig_t has only grown at its end. The caller's struct tells its size and its version:
 *
 *    2.14   size magic version blocking                                            24 bytes
 *    2.17   … cgaClusterSize minCTAs maxCTAs netName                               40
 *    2.18   … splitShare ╴                    ╴ is padding, and holds anything     48
 *    2.26   … splitShare trafficClass                                              48
 *    2.30   … graphStreamOrdering                                                  96
 *
 * A field beyond the caller's size is undefined. So is a field that is newer than the caller's version: at its place the
 * caller may have padding.
 */
#include "layers/nccl/nccl_config.h"
#include "layers/nccl/nccl_adviser.h"
#include "layers/nccl/nccl_conf.h"
#include "layers/nccl/nccl_observer.h"
#include "layers/nccl/nccl_plugin.h"
#include "layers/nccl/plug_lib.h"

#include "base/config.h"
#include "base/err.h"
#include "base/log.h"

#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define UNDEF INT_MIN
#define MAGIC 0xcafebeefu
#define CHANNELS_MAX 64

/* X(field, first version that has it, minimum, maximum, whether it has an effect here) */
#define INT_FIELDS(X)                                                                                                  \
    X(blocking, 21400, 0, 1, USED)                                                                                     \
    X(cgaClusterSize, 21700, 0, INT_MAX, IGNORED)                                                                      \
    X(minCTAs, 21700, 1, INT_MAX, USED)                                                                                \
    X(maxCTAs, 21700, 1, INT_MAX, USED)                                                                                \
    X(splitShare, 21800, 0, 1, IGNORED)                                                                                \
    X(trafficClass, 22600, INT_MIN, INT_MAX, IGNORED)                                                                  \
    X(collnetEnable, 22700, 0, 1, IGNORED)                                                                             \
    X(CTAPolicy, 22700, 0, 3, USED)                                                                                    \
    X(shrinkShare, 22700, 0, 1, IGNORED)                                                                               \
    X(nvlsCTAs, 22700, 1, INT_MAX, IGNORED)                                                                            \
    X(nChannelsPerNetPeer, 22800, 1, 64, IGNORED)                                                                      \
    X(nvlinkCentricSched, 22800, 0, 1, IGNORED)                                                                        \
    X(graphUsageMode, 22900, 0, 2, IGNORED)                                                                            \
    X(numRmaCtx, 22900, 0, INT_MAX, IGNORED)                                                                           \
    X(maxP2pPeers, 23000, 1, INT_MAX, IGNORED)                                                                         \
    X(graphStreamOrdering, 23005, 0, 1, IGNORED)

/* ncclConfig_t of NCCL 2.30.7. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char *netName;
    int splitShare, trafficClass;
    const char *commName;
    int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
    int nChannelsPerNetPeer, nvlinkCentricSched;
    int graphUsageMode, numRmaCtx;
    int maxP2pPeers, graphStreamOrdering;
};
_Static_assert(sizeof(struct nccl_config) == 96, "as long as that of NCCL 2.30");

enum { USED, IGNORED };

static const struct {
    const char *name;
    size_t offset;
    unsigned since;
    int least, most, effect;
} FIELDS[] = {
#define X(field, since, least, most, effect) {#field, offsetof(struct nccl_config, field), since, least, most, effect},
    INT_FIELDS(X)
#undef X
};
#define FIELD_COUNT (sizeof FIELDS / sizeof *FIELDS)

static int *field_of(struct nccl_config *config, size_t k) { return (int *)((char *)config + FIELDS[k].offset); }

/* ---- the caller's struct ---- */

static enum collet_result config_copy(const void *from, struct nccl_config *to) {
    *to = (struct nccl_config){.magic = MAGIC};
    for (size_t k = 0; k < FIELD_COUNT; k++)
        *field_of(to, k) = UNDEF;
    if (from == NULL)
        return COLLET_SUCCESS;
    size_t size;
    memcpy(&size, from, sizeof size);
    if (size < offsetof(struct nccl_config, cgaClusterSize) || size > 4096 || size % _Alignof(struct nccl_config) != 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.size is %zu: begin with NCCL_CONFIG_INITIALIZER", size);
    memcpy(to, from, size < sizeof *to ? size : sizeof *to);
    if (to->magic != MAGIC)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.magic is 0x%x: begin with NCCL_CONFIG_INITIALIZER",
                       to->magic);
    return COLLET_SUCCESS;
}

static enum collet_result config_check(struct nccl_config *config) {
    for (size_t k = 0; k < FIELD_COUNT; k++) {
        int *value = field_of(config, k);
        if (config->version < FIELDS[k].since)
            *value = UNDEF;
        if (*value != UNDEF && (*value < FIELDS[k].least || *value > FIELDS[k].most))
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.%s is %d: %d … %d", FIELDS[k].name, *value,
                           FIELDS[k].least, FIELDS[k].most);
        if (*value != UNDEF && FIELDS[k].effect == IGNORED)
            log_info(ENV, "ncclConfig_t: %s=%d has no effect", FIELDS[k].name, *value);
    }
    if (config->version < 21700)
        config->netName = NULL;
    if (config->version < 22700)
        config->commName = NULL;
    /* Also if only minCTAs is given: maxCTAs is then UNDEF, the smallest int. */
    if (config->minCTAs > config->maxCTAs)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.minCTAs is %d, but maxCTAs is less or not given",
                       config->minCTAs);
    return COLLET_SUCCESS;
}

/* ---- the environment ---- */

/* Environment variables of NCCL that this file and nccl.c read. base/config.h has the others. */
static const char *const READ_HERE[] = {
    "NCCL_COMM_BLOCKING", "NCCL_CONF_FILE",   "NCCL_ENV_PLUGIN", "NCCL_MIN_CTAS",    "NCCL_MAX_CTAS",
    "NCCL_NET",           "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",  "NCCL_SHM_DISABLE", "NCCL_MULTI_RANK_GPU_ENABLE"};

static bool is_read(const char *name) {
    for (size_t k = 0; k < sizeof READ_HERE / sizeof *READ_HERE; k++)
        if (strcmp(name, READ_HERE[k]) == 0)
            return true;
    return config_reads(name);
}

/* Called once, before the process's first communicator is created. */
static void begin_with_nccl(void) {
    char names[512] = "";
    nccl_conf_tell();
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        size_t used = strlen(names);
        if (strncmp(name, "NCCL_", strlen("NCCL_")) == 0 && !is_read(name))
            snprintf(names + used, sizeof names - used, " %s", name);
    }
    if (names[0] != '\0')
        log_info(ENV, "set, but without effect on collet:%s", names);
    const char *plugin = config_env("NCCL_ENV_PLUGIN");
    if (plugin != NULL && strcasecmp(plugin, "none") != 0)
        nccl_plugin_miss("ENV", plugin, "is not loaded: collet has no such plugins, and reads the environment itself");
    plan_take_adviser(&nccl_tuner);
    observer_take(&nccl_profiler);
}

int nccl_env_int(const char *name, int otherwise) {
    const char *text = config_env(name);
    char *end = NULL;
    long value = text != NULL ? strtol(text, &end, 0) : 0;
    return end == text || text == NULL ? otherwise : (int)value;
}

bool nccl_on_host(void) { return strcasecmp(config_process()->device, "host") == 0; }

/* Adds to *excluded the transports that do not belong to the network of this name. False: there is no such network. */
static bool net_excludes(const char *net, unsigned *excluded) {
    if (strcasecmp(net, "Socket") == 0)
        *excluded |= COLLET_TRANSPORT_VERBS | COLLET_TRANSPORT_PLUGIN;
    else if (strcasecmp(net, "IB") == 0)
        *excluded |= COLLET_TRANSPORT_TCP | COLLET_TRANSPORT_PLUGIN;
    else if (plug_host()->table != NULL)
        *excluded |= COLLET_TRANSPORT_TCP | COLLET_TRANSPORT_VERBS;
    else
        return false;
    return true;
}

/* Chooses the network: NCCL_NET, else `wanted`. An unknown NCCL_NET is only warned of; an unknown `wanted` is an error. */
static enum collet_result net_choose(const char *wanted, unsigned *excluded) {
    static bool told;
    const char *variable = config_env("NCCL_NET"), *net = variable != NULL ? variable : wanted;
    if (net == NULL || net_excludes(net, excluded))
        return COLLET_SUCCESS;
    if (variable == NULL)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "config.netName is \"%s\": collet has the networks Socket and IB, and that of a plugin that "
                       "NCCL_NET_PLUGIN names",
                       net);
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_always(ENV,
                   "NCCL_NET=%s: collet has the networks Socket and IB, and that of a plugin that NCCL_NET_PLUGIN "
                   "names; it takes what there is",
                   net);
    return COLLET_SUCCESS;
}

/* Level LOC (0 in older scripts) means that GPUs never access each other's memory. For all other levels the GPU driver
 * decides. */
static bool p2p_is_off(void) {
    const char *level = config_env("NCCL_P2P_LEVEL");
    return nccl_env_int("NCCL_P2P_DISABLE", 0) != 0 ||
           (level != NULL && (strcasecmp(level, "LOC") == 0 || strcmp(level, "0") == 0));
}

/* *transports: the transports that NCCL's options allow; 0: all. */
static enum collet_result transports_left(const char *net, unsigned *transports) {
    static const char *const names[] = {"self", "ipc", "shm", "plugin", "verbs", "tcp"};
    unsigned excluded = p2p_is_off() ? COLLET_TRANSPORT_IPC : 0;
    if (nccl_env_int("NCCL_SHM_DISABLE", 0))
        excluded |= COLLET_TRANSPORT_SHM;
    COLLET_TRY(net_choose(net, &excluded));
    *transports = 0;
    if (excluded != 0 && config_env("COLLET_TRANSPORT") == NULL)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            *transports |= collet_transport_bit(names[k]) & ~excluded;
    return COLLET_SUCCESS;
}

/* ---- together ---- */

static int channels_of(const char *variable, int ctas) {
    int n = nccl_env_int(variable, ctas != UNDEF ? ctas : 0);
    return n < 0 ? 0 : n > CHANNELS_MAX ? CHANNELS_MAX : n;
}

/* The environment may override one of the two numbers, so the minimum may exceed the maximum. Then the maximum counts. */
static int fewest_of(int fewest, int most) { return most > 0 && fewest > most ? most : fewest; }

/* Text of a CTA policy. NULL: it is not given, or the environment overrides it. */
static const char *policy_of(int policy) {
    static const char *const texts[] = {"0", "1", "2", "3"};
    const bool given = config_env("COLLET_CTA_POLICY") != NULL || config_env("NCCL_CTA_POLICY") != NULL;
    return policy == UNDEF || given ? NULL : texts[policy];
}

enum collet_result nccl_config_read(const void *from, struct collet_config *options) {
    static pthread_once_t begun = PTHREAD_ONCE_INIT;
    pthread_once(&begun, begin_with_nccl);
    struct nccl_config config;
    COLLET_TRY(config_copy(from, &config));
    COLLET_TRY(config_check(&config));
    const int most = channels_of("NCCL_MAX_CTAS", config.maxCTAs);
    *options = (struct collet_config){
        .size = sizeof *options,
        .nonblocking = nccl_env_int("NCCL_COMM_BLOCKING", config.blocking != 0) == 0,
        .min_channels = fewest_of(channels_of("NCCL_MIN_CTAS", config.minCTAs), most),
        .max_channels = most,
        .device = nccl_on_host() ? COLLET_DEVICE_HOST : COLLET_DEVICE_CUDA_CURRENT,
        .name = config.commName,
        .cta_policy = policy_of(config.CTAPolicy),
    };
    return transports_left(config.netName, &options->transports);
}
