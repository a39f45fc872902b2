/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's parameters by name. A key is the name of a variable that sets a knob: collet's variable or NCCL's. Its value is
 * what the environment says now, or the default. A handle is the key's entry in the table below.
 */

#include "base/config_read.h"
#include "layers/nccl/nccl_param.h"

#include "base/log.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nccl_param {
    const char *key, *unit;
    size_t field;
    bool is_number;
};

#define INT_KNOB(field, name, nccl, unit, scope, def, min, max, help)                                                  \
    {"COLLET_" name, unit, offsetof(struct config, field), true}, {nccl, unit, offsetof(struct config, field), true},
#define TEXT_KNOB(field, name, nccl, unit, scope, def, help)                                                           \
    {"COLLET_" name, unit, offsetof(struct config, field), false}, {nccl, unit, offsetof(struct config, field), false},
static const struct nccl_param PARAMS[] = {CONFIG_KNOBS(INT_KNOB, TEXT_KNOB)};
#undef INT_KNOB
#undef TEXT_KNOB
#define PARAM_COUNT (sizeof PARAMS / sizeof *PARAMS)

const struct nccl_param *nccl_param_find(const char *key) {
    for (size_t k = 0; key != NULL && k < PARAM_COUNT; k++)
        if (PARAMS[k].key != NULL && strcmp(PARAMS[k].key, key) == 0)
            return &PARAMS[k];
    return NULL;
}

bool nccl_param_text(const struct nccl_param *param, char text[CONFIG_TEXT_BYTES]) {
    struct config config;
    if (config_read(&config) != COLLET_SUCCESS)
        return false;
    const char *at = (const char *)&config + param->field;
    int64_t number;
    memcpy(&number, at, sizeof number);
    if (param->is_number)
        snprintf(text, CONFIG_TEXT_BYTES, "%" PRId64, number);
    else
        snprintf(text, CONFIG_TEXT_BYTES, "%s", strcmp(param->unit, "secret") == 0 && *at != '\0' ? "(hidden)" : at);
    return true;
}

bool nccl_param_number(const struct nccl_param *param, int64_t least, int64_t most, int64_t *number) {
    char text[CONFIG_TEXT_BYTES];
    if (!param->is_number || !nccl_param_text(param, text))
        return false;
    *number = strtoll(text, NULL, 10);
    return *number >= least && *number <= most;
}

int nccl_param_keys(const char ***keys_p) {
    static const char *keys[PARAM_COUNT];
    int count = 0;
    for (size_t k = 0; k < PARAM_COUNT; k++)
        if (PARAMS[k].key != NULL)
            keys[count++] = PARAMS[k].key;
    *keys_p = keys;
    return count;
}

void nccl_param_dump(void) {
    char text[CONFIG_TEXT_BYTES];
    for (size_t k = 0; k < PARAM_COUNT; k++)
        if (PARAMS[k].key != NULL && nccl_param_text(&PARAMS[k], text))
            log_always(ENV, "%s=%s", PARAMS[k].key, text);
}
