/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "tuner": few bytes by few hops, many bytes round a ring.
 */
#include "plan/model.h"
#include "plan/tuner.h"

#include <stdio.h>
#include <stdlib.h>

enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shapes, int nshapes, struct model **model_p) {
    (void)chan, (void)config, (void)map;
    COLLET_TRY(memory_get(model_p, 1, sizeof **model_p, "no memory for a model"));
    (*model_p)->machine.shapes = (*model_p)->machine.whole = shapes;
    (*model_p)->machine.nshapes = nshapes;
    return COLLET_SUCCESS;
}
void model_destroy(struct model *model) { free(model); }
uint32_t net_lent_from(const struct config *config) { (void)config; return 0; }
int tuner_most_channels(const struct tuner_limits *limits, uint32_t nslots, int npeers, int blocks, bool by_network) { (void)limits, (void)nslots, (void)npeers, (void)blocks, (void)by_network; return 1; }
void tuner_choice_text(const struct plan_choice *choice, char *text, size_t room) { snprintf(text, room, "%s", choice->algorithm->name); }

#define SMALL_BYTES 16384
enum collet_result tuner_choose(const struct cost_machine *machine, const struct tuner_limits *limits, enum prog_collective collective, uint64_t count, uint32_t elem_bytes, struct plan_choice *choice) {
    static const char *const small[] = {"oneshot", "doubling", "direct", "bruck", "tree", "ring"}, *const large[] = {"ring", "chain", "direct", "tree", "oneshot"};
    const bool is_small = count * elem_bytes <= SMALL_BYTES;
    const char *const *names = is_small ? small : large;
    for (int k = 0; k < (is_small ? 6 : 5); k++) {
        const struct algorithm *algorithm = algorithm_find(collective, names[k]);
        if (algorithm != NULL && algorithm_applies(algorithm, machine->whole)) {
            *choice = (struct plan_choice){algorithm, PROTOCOL_SIMPLE, 1, limits->sizes.long_bytes / 2, 0};
            return COLLET_SUCCESS;
        }
    }
    return COLLET_ERR_INTERNAL;
}
