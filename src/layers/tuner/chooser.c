/* SPDX-License-Identifier: Apache-2.0
 *
 * The chooser of a communicator: the tuner, by its model of the machine, or a plugin in its place.
 */
#include "seams/tuner.h"

#include "base/err.h"
#include "base/log.h"
#include "exec/exec.h"
#include "layers/tuner/advice.h"
#include "layers/tuner/call_options.h"
#include "layers/tuner/model.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The choice for calls with options of their own (call_options.h). A program has few kinds of such calls, so they are a list. */
struct own_choice {
    struct own_choice *next;
    struct exec_request request; /* A call with these options. */
    uint64_t bytes;
    struct plan_choice choice;
};

struct chooser {
    const struct chan *chan;
    struct model *model;
    const struct plan_adviser *adviser; /* NULL: no plugin chooses. */
    void *advice;                       /* Context of the adviser. NULL: no plugin chooses. */
    struct own_choice *own;
};

/* ---- plugins ---- */

/* The adviser is set before there are communicators, or by several threads to the same value. The store pairs with the load
 * in find_advice(). */
static const struct plan_adviser *adviser;

void plan_take_adviser(const struct plan_adviser *taken) { __atomic_store_n(&adviser, taken, __ATOMIC_RELEASE); }

/* Opens the plugin. A rank loads the plugin that its own environment names, and rank 0's environment must name the same one. */
static enum collet_result find_advice(struct chooser *chooser, const struct config *config,
                                      const struct tuner_limits *limits) {
    const char *plugin = config->tuner_plugin, *own = config_process()->tuner_plugin;
    if (strcmp(plugin, own) != 0)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "COLLET_TUNER_PLUGIN (NCCL_TUNER_PLUGIN) is \"%s\" here and \"%s\" on rank 0: set it alike", own,
                       plugin);
    chooser->adviser = __atomic_load_n(&adviser, __ATOMIC_ACQUIRE);
    if (*plugin == '\0' || strcasecmp(plugin, "none") == 0)
        chooser->adviser = NULL;
    else if (limits->determinism != DETERMINISM_NONE)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "COLLET_TUNER_PLUGIN and COLLET_DETERMINISM: a plugin chooses by size; unset one of them");
    else if (chooser->adviser == NULL)
        log_always(PLAN, "COLLET_TUNER_PLUGIN has no effect: plugins are for programs that use NCCL's names");
    return chooser->adviser == NULL ? COLLET_SUCCESS
                                    : chooser->adviser->open(plugin, chooser->chan->owner.nranks,
                                                             chooser->model->machine.whole->nnodes, &chooser->advice);
}

/* ---- schedules ---- */

/* Takes the schedule of COLLET_PROGRAM, if it is for these ranks. */
static void use_imported(const struct chooser *chooser, const struct map *map, struct tuner_limits *limits) {
    const struct algorithm *imported = map->imported;
    if (imported == NULL)
        return;
    if (algorithm_applies(imported, chooser->model->machine.whole) &&
        algorithm_applies(imported, &chooser->model->machine.shapes[0]))
        limits->imported = imported;
    else if (chooser->chan->owner.rank == 0)
        log_always(PLAN, "COLLET_PROGRAM is not used: it is for %d ranks, the communicator has %d", imported->nranks,
                   chooser->chan->owner.nranks);
}

/* ---- the seam ---- */

enum collet_result chooser_create(const struct chan *chan, const struct config *config, const struct map *map,
                                  const struct prog_shape *shapes, int nshapes, struct tuner_limits *limits,
                                  struct chooser **chooser_p) {
    struct chooser *chooser;
    COLLET_TRY(memory_get(&chooser, 1, sizeof *chooser, "no memory to choose algorithms"));
    chooser->chan = chan;
    enum collet_result result = model_create(chan, config, map, shapes, nshapes, &chooser->model);
    if (result == COLLET_SUCCESS)
        result = find_advice(chooser, config, limits);
    if (result != COLLET_SUCCESS) {
        chooser_destroy(chooser);
        return result;
    }
    use_imported(chooser, map, limits);
    *chooser_p = chooser;
    return COLLET_SUCCESS;
}

void chooser_destroy(struct chooser *chooser) {
    if (chooser == NULL)
        return;
    if (chooser->advice != NULL)
        chooser->adviser->close(chooser->advice);
    for (struct own_choice *own = chooser->own, *next; own != NULL; own = next) {
        next = own->next;
        free(own);
    }
    model_destroy(chooser->model);
    free(chooser);
}

static enum collet_result choose(const struct chooser *chooser, const struct tuner_limits *all,
                                 const struct exec_request *request, uint64_t bytes, struct plan_choice *choice) {
    struct cost_machine machine = chooser->model->machine;
    struct tuner_limits limits = *all;
    const uint32_t lent_from = net_lent_from(chooser->chan->owner.config);
    limits.switches = request->may_switch;
    machine.switched_from = request->may_switch ? lent_from : 0;
    machine.lent_from = request->may_lend ? lent_from : 0;
    if (chooser->advice != NULL)
        return chooser->adviser->choose(chooser->advice, &machine, &limits, request->collective, bytes, 1, choice);
    return tuner_choose(&machine, &limits, request->collective, bytes, 1, choice);
}

static enum collet_result choose_and_warn(const struct chooser *chooser, struct tuner_limits *limits,
                                          const struct exec_request *request, uint64_t bytes,
                                          struct plan_choice *choice) {
    COLLET_TRY(choose(chooser, limits, request, bytes, choice));
    if (chooser->chan->owner.rank == 0)
        tuner_warn_of_channels(limits, choice);
    return COLLET_SUCCESS;
}

/* ---- calls with options of their own ---- */

static const struct own_choice *own_find(const struct chooser *chooser, const struct exec_request *request,
                                         uint64_t bytes) {
    const struct own_choice *own = chooser->own;
    while (own != NULL &&
           (own->request.call_options != request->call_options || own->request.collective != request->collective ||
            own->request.may_switch != request->may_switch || own->request.may_lend != request->may_lend ||
            own->bytes != bytes))
        own = own->next;
    return own;
}

static enum collet_result own_make(const struct chooser *chooser, struct tuner_limits *limits,
                                   const struct exec_request *request, uint64_t bytes, struct plan_choice *choice) {
    const struct prog_shape *whole = chooser->model->machine.whole;
    const struct call_options options = call_options_unpack(request->call_options);
    struct tuner_limits held = *limits;
    COLLET_TRY(call_options_restrict(&options, request->collective, whole, &held));
    COLLET_TRY(choose_and_warn(chooser, &held, request, bytes, choice));
    limits->warned_of_channels = held.warned_of_channels;
    const bool spares = chooser->chan->owner.gpu == NULL && !limits->channels_given;
    return spares ? call_options_spare(&options, whole, bytes, choice) : COLLET_SUCCESS;
}

static enum collet_result choose_own(struct chooser *chooser, struct tuner_limits *limits,
                                     const struct exec_request *request, uint64_t bytes, struct plan_choice *choice) {
    const struct own_choice *known = own_find(chooser, request, bytes);
    if (known != NULL) {
        *choice = known->choice;
        return COLLET_SUCCESS;
    }
    struct own_choice *own;
    COLLET_TRY(own_make(chooser, limits, request, bytes, choice));
    COLLET_TRY(memory_get(&own, 1, sizeof *own, "no memory for a choice"));
    *own = (struct own_choice){chooser->own, *request, bytes, *choice};
    chooser->own = own;
    return COLLET_SUCCESS;
}

enum collet_result chooser_choose(struct chooser *chooser, struct tuner_limits *limits,
                                  const struct exec_request *request, uint64_t bytes, struct plan_choice *choice) {
    return request->call_options != 0 ? choose_own(chooser, limits, request, bytes, choice)
                                      : choose_and_warn(chooser, limits, request, bytes, choice);
}
