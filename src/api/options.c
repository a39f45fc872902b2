/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include "base/config_read.h"
#include "plan/limits.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

static void list_transports(unsigned bits, char *list, size_t room) {
    list[0] = '\0';
    for (const struct transport *const *t = transports; *t != NULL; t++) {
        size_t at = strlen(list);
        if (bits & (*t)->bit)
            snprintf(list + at, room - at, "%s%s", at ? "," : "", (*t)->name);
    }
}

unsigned collet_transport_bit(const char *name) {
    const struct transport *transport = name == NULL ? NULL : transport_named(name);
    return transport == NULL ? 0 : transport->bit;
}

/* Copies the caller's struct. An older program has a shorter struct: its missing fields become zero. A newer program has a longer
 * struct: the fields that this library does not know must be zero. */
static enum collet_result options_copy(const struct collet_config *from, struct collet_config *to) {
    *to = (struct collet_config){.size = sizeof(*to)};
    if (from == NULL)
        return COLLET_SUCCESS;
    if (from->size < sizeof(from->size) || from->size > 4096)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.size is %zu: set it to sizeof(struct collet_config)",
                       from->size);
    for (size_t k = sizeof(*to); k < from->size; k++)
        if (((const char *)from)[k] != 0)
            return err_set(COLLET_ERR_INVALID_ARGUMENT,
                           "config has a field at byte %zu that this library (version %d) does not know", k,
                           COLLET_VERSION);
    memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
    to->size = sizeof(*to);
    return COLLET_SUCCESS;
}

static enum collet_result options_check(const struct collet_config *o) {
    if (o->nonblocking != 0 && o->nonblocking != 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.nonblocking is %d: 0 or 1", o->nonblocking);
    if (o->min_channels < 0 || o->min_channels > 64 || o->max_channels < 0 || o->max_channels > 64)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.min_channels is %d and max_channels %d: 0 … 64 each",
                       o->min_channels, o->max_channels);
    if (o->max_channels != 0 && o->max_channels < o->min_channels)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.max_channels %d is less than config.min_channels %d",
                       o->max_channels, o->min_channels);
    if (o->timeout_ms < 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.timeout_ms is %d: 0 (default) or more", o->timeout_ms);
    if (o->init_timeout_ms < 0 || o->init_timeout_ms > 86400000)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.init_timeout_ms is %d: 0 (default) … 86400000, a day",
                       o->init_timeout_ms);
    if (o->cta_policy != NULL && !config_policy_is_known(o->cta_policy))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.cta_policy is \"%s\": default, efficiency or zero",
                       o->cta_policy);
    unsigned known = 0;
    for (const struct transport *const *t = transports; *t != NULL; t++)
        known |= (*t)->bit;
    if (o->transports & ~known)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "config.transports has unknown bits 0x%x: this library has 0x%x",
                       o->transports & ~known, known);
    return COLLET_SUCCESS;
}

enum collet_result options_check_device(int *device, const char *argument) {
    int ordinal;
    if (*device == COLLET_DEVICE_HOST)
        return COLLET_SUCCESS;
    COLLET_TRY(gpu_find(*device, argument, &ordinal));
    *device = COLLET_DEVICE_CUDA(ordinal);
    return COLLET_SUCCESS;
}

enum collet_result options_read(const struct collet_config *from, struct collet_config *to) {
    COLLET_TRY(options_copy(from, to));
    COLLET_TRY(options_check(to));
    return options_check_device(&to->device, "config.device");
}

enum collet_result options_apply(const struct collet_config *o, struct collet_comm *comm) {
    struct config *config = &comm->config;
    COLLET_TRY(config_read(config));
    COLLET_TRY(tuner_check_names(config));
    COLLET_TRY(chan_check_names(config));
    /* If the caller sets one of the bounds, all bounds of the environment are ignored. */
    if (o->min_channels > 0 || o->max_channels > 0) {
        config->nchannels = 0;
        config->min_nchannels = o->min_channels;
        config->max_nchannels = o->max_channels;
    }
    if (o->transports != 0)
        list_transports(o->transports, config->transport, sizeof(config->transport));
    if (o->cta_policy != NULL)
        snprintf(config->cta_policy, sizeof(config->cta_policy), "%s", o->cta_policy);
    if (o->init_timeout_ms != 0)
        config->init_timeout = (o->init_timeout_ms + 999) / 1000;
    comm->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : config->timeout * 1000;
    comm->nonblocking = o->nonblocking;
    comm->device = o->device;
    snprintf(comm->name, sizeof(comm->name), "%s", o->name != NULL ? o->name : "");
    return COLLET_SUCCESS;
}
