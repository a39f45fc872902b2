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
    s->asked = -1;
    return comm_check_phase(s->parent);
}

enum collet_result split_make_id(const struct split *s, const uint8_t *lives, struct collet_unique_id *id) {
    bool one_process = true;
    for (int k = 0; k < s->nranks; k++)
        if (lives == NULL || lives[k])
            one_process &= process_is_here(boot_peers(s->parent->boot)[s->ranks[k]].process);
    return boot_unique_id_fresh(one_process, id);
}

static int rank_after(const int *ranks, int nranks, int at) {
    for (int k = 0; k < nranks; k++)
        if (ranks[k] > at)
            return ranks[k];
    return ranks[0];
}

/* This rank waits for the others to make the same call. MISMATCH: one of them waits in a collective that this rank has not called.
 * Asks a different rank each time. */
static enum collet_result check_callers(struct split *s) {
    const struct chan *chan = s->parent->chan;
    struct boot *boot = chan->owner.boot;
    struct boot_answer answer;
    char text[96];
    if (s->asked >= 0 && boot_try_answer(boot, s->asked, s->question, &answer) == COLLET_SUCCESS) {
        const uint64_t theirs = exec_said(&answer, chan->owner.nranks, text, sizeof(text));
        if (theirs > engine_collectives(s->parent))
            return err_set(COLLET_ERR_MISMATCH,
                           "rank %d is in its call %llu, %s, but rank %d called %s: all ranks must make the same calls "
                           "in the same order",
                           s->asked, (unsigned long long)theirs, text, chan->owner.rank, s->way->call);
    }
    s->asked = rank_after(s->ranks, s->nranks, s->asked);
    return boot_ask(boot, s->asked, &s->question);
}

/* A call of another thread or stream may be on its way: it may be the one for which others wait. So this looks only if there is none. */
enum collet_result split_look_for_callers(struct split *s) {
    struct collet_comm *parent = s->parent;
    struct driver driver;
    driver_init(&driver, &parent->engine.patience);
    if (os_now_ns() < s->look_ns || !driver_take(&driver, parent))
        return COLLET_SUCCESS;
    s->look_ns = os_now_ns() + LOOK_EVERY_NS;
    enum collet_result result = COLLET_SUCCESS;
    if (!engine_is_busy(&parent->engine))
        result = check_callers(s);
    driver_leave(&driver);
    return result;
}

/* The meeting point waits for missing ranks. Only the parent knows that one of them is dead. */
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
