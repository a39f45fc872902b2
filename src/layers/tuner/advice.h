/* SPDX-License-Identifier: Apache-2.0
 *
 * An adviser chooses in place of tuner_choose(), for communicators with COLLET_TUNER_PLUGIN. So a library over this one may let plugins
 * choose.
 */
#ifndef COLLET_LAYERS_TUNER_ADVICE_H
#define COLLET_LAYERS_TUNER_ADVICE_H

#include "layers/tuner/tuner.h"

/* `choose` must come to the same choice on every rank. */
struct plan_adviser {
    enum collet_result (*open)(const char *plugin, int nranks, int nnodes, void **context_p);
    enum collet_result (*choose)(void *context, const struct cost_machine *machine, const struct tuner_limits *limits,
                                 enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                 struct plan_choice *choice);
    void (*close)(void *context);
};
void plan_take_adviser(const struct plan_adviser *adviser);

#endif
