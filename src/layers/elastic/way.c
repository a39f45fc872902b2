/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/elastic/way.h"

#include "api/engine.h"
#include "base/os.h"

#define LOOK_EVERY_NS 100000000u

enum collet_result split_enter(struct split *s) {
    if (!comm_enter(s->parent))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comm was ended before %s began", s->way->call);
    s->stage = SPLIT_AGREE;
    s->look_ns = os_now_ns() + LOOK_EVERY_NS;
    return comm_check_phase(s->parent);
}

enum collet_result split_make_id(const struct split *s, const uint8_t *lives, struct collet_unique_id *id) {
    bool one_process = true;
    for (int k = 0; k < s->nranks; k++)
        if (lives == NULL || lives[k])
            one_process &= process_is_here(boot_peers(s->parent->boot)[s->ranks[k]].process);
    return boot_unique_id_fresh(one_process, id);
}

/* This rank waits for the others to make the same call. MISMATCH: one of them is blocked in a collective that this rank has not called. */
static enum collet_result check_callers(const struct split *s) {
    const struct chan *chan = s->parent->chan;
    struct call_facts theirs;
    char text[96];
    for (int k = 0; k < s->nranks; k++) {
        if (!exec_hear(chan, s->ranks[k], &theirs) || theirs.sequence <= engine_collectives(s->parent))
            continue;
        exec_describe(&theirs, text, sizeof(text));
        return err_set(COLLET_ERR_MISMATCH,
                       "rank %d is in its call %llu, %s, but rank %d called %s: all ranks must make the same calls "
                       "in the same order",
                       s->ranks[k], (unsigned long long)theirs.sequence, text, chan->owner.rank, s->way->call);
    }
    return COLLET_SUCCESS;
}

/* A call of another thread or stream may be on its way, and other ranks may wait for that call. So this looks only if no such call
 * exists. */
enum collet_result split_look_for_callers(struct split *s) {
    struct collet_comm *parent = s->parent;
    struct driver driver = {.waiter = parent->engine.patience};
    if (os_now_ns() < s->look_ns || !driver_take(&driver, parent))
        return COLLET_SUCCESS;
    s->look_ns = os_now_ns() + LOOK_EVERY_NS;
    enum collet_result result = COLLET_SUCCESS;
    if (!engine_is_busy(&parent->engine))
        result = check_callers(s);
    driver_leave(&driver);
    return result;
}

/* Only the parent knows that a rank is dead. The meeting point would wait for that rank. */
enum collet_result split_look_for_deaths(const struct split *s, bool at_once) {
    const struct boot *boot = s->parent->boot;
    for (int k = 0; k < s->nranks && boot_missing_count(boot) > 0; k++) {
        const struct peer_info *peer = &boot_peers(boot)[s->ranks[k]];
        const enum peer_state state =
            at_once ? boot_peer_state(boot, s->ranks[k], NULL) : boot_peer_settled(boot, s->ranks[k], true);
        if (peer_is_gone(state))
            return err_set(COLLET_ERR_REMOTE, "rank %d (host %s, pid %d) %s during %s", peer->rank, peer->host,
                           peer->pid, boot_fate(boot, s->ranks[k]), s->way->call);
    }
    return COLLET_SUCCESS;
}
