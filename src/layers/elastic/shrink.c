/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a communicator of the ranks that are still alive. Its parent may have failed, and more ranks may die at the same time:
 *
 *    agree        which ranks are alive? (layers/elastic/agreement.h)  The coordinator makes an id for them.
 *    keep_watch   they join as with any id
 *    settle       have all joined? (layers/elastic/agreement.h)
 *                   all have              ─▶ done
 *                   a rank has died       ─▶ agree again, without it
 *                   a rank cannot join    ─▶ the same error on all ranks
 *
 * So either all ranks that are alive have the new communicator, or none has it. The agreements use the parent's control
 * plane, which works on after a failure.
 */
#include "layers/elastic/way.h"

#include "api/join.h"
#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

#define EXCUSES_EVERY_NS 50000000u

static enum collet_result check_parent(const struct split *s) {
    if (comm_is_live(s->parent))
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_ABORTED, "comm was ended during %s", s->way->call);
}

/* Adds this rank's name to its error text, because the other ranks will see it. */
static enum collet_result name_rank(const struct collet_comm *parent, enum collet_result result) {
    char text[ERR_TEXT_BYTES];
    if (result == COLLET_SUCCESS)
        return result;
    snprintf(text, sizeof text, "rank %d: %.480s", parent->rank, err_last());
    return err_adopt(result, text);
}

/* ---- agreements ---- */

/* A hash of its ranks tells one shrink from another: a rank that takes part in one shrink may be excluded from the next one. */
#define HASH_OF_NONE 0xcbf29ce484222325u
static uint64_t hash_with(uint64_t hash, int rank) { return (hash ^ (uint64_t)rank) * 0x100000001b3u; }

static uint64_t hash_of_ranks(const struct split *s) {
    uint64_t hash = HASH_OF_NONE;
    for (int k = 0; k < s->nranks; k++)
        hash = hash_with(hash, s->ranks[k]);
    return hash;
}

static enum collet_result give_id(void *giver, const uint8_t *lives, char payload[AGREEMENT_PAYLOAD_BYTES]) {
    const struct split *s = giver;
    struct collet_unique_id id;
    COLLET_TRY(name_rank(s->parent, split_make_id(s, lives, &id)));
    memcpy(payload, id.bytes, sizeof id.bytes);
    return COLLET_SUCCESS;
}

static struct agreement_terms terms_of(struct split *s, bool settles) {
    return (struct agreement_terms){.boot = s->parent->boot,
                                    .key = hash_of_ranks(s),
                                    .ranks = s->ranks,
                                    .nranks = s->nranks,
                                    .self = s->self,
                                    .leaving_is_no = settles,
                                    .give = settles ? NULL : give_id,
                                    .giver = s,
                                    .call = s->way->call,
                                    .timeout_s = (int)s->parent->config.init_timeout};
}

static enum collet_result start_agreement(struct split *s, bool settles, enum collet_result code) {
    const struct agreement_terms terms = terms_of(s, settles);
    agreement_fini(&s->agreement);
    late_begin(&s->late, os_now_ns(), s->parent->config.warn_after);
    enum collet_result result =
        name_rank(s->parent, agreement_start(&s->agreement, &terms, name_rank(s->parent, code)));
    if (result != COLLET_SUCCESS)
        agreement_give_up(&s->agreement, result, err_last());
    return result;
}

/* Makes progress with the agreement. If votes are missing, the coordinator can say whose. */
static enum collet_result try_agreement(struct split *s) {
    const struct agreement *agreement = &s->agreement;
    const enum collet_result result = agreement_try(&s->agreement);
    char who[160];
    size_t used = 0;
    if (result != COLLET_IN_PROGRESS || !late_look(&s->late))
        return result;
    for (int k = 0; k < s->nranks && agreement->coordinator == s->self && used + 16 < sizeof who; k++)
        if (k != s->self && agreement->votes[k].number == 0)
            used += (size_t)snprintf(who + used, sizeof who - used, "%s%d", used > 0 ? ", " : "", s->ranks[k]);
    if (used == 0)
        snprintf(who, sizeof who, "%d, which has not said yet who lives", s->ranks[agreement->coordinator]);
    log_always(BOOT, "rank %d %s: for %s of rank %s", s->parent->rank, late_text(&s->late), s->way->call, who);
    return result;
}

/* Removes the ranks that are not alive. */
static void keep_survivors(struct split *s) {
    const uint8_t *lives = s->agreement.decision->lives;
    const int self = s->ranks[s->self], nranks = s->nranks;
    s->nranks = 0;
    for (int k = 0; k < nranks; k++) {
        if (!lives[k])
            continue;
        if (s->ranks[k] == self)
            s->self = s->nranks;
        s->ranks[s->nranks++] = s->ranks[k];
    }
}

/* Returns the decision's code. The decision's text becomes the last error. */
static enum collet_result check_decision(const struct split *s) {
    const struct agreement_decision *decision = s->agreement.decision;
    if (!decision->lives[s->self])
        return err_set(COLLET_ERR_REMOTE, "the other ranks count this process as lost, and shrank without it");
    if (decision->sum.code == COLLET_SUCCESS)
        return COLLET_SUCCESS;
    return err_adopt((enum collet_result)decision->sum.code, decision->sum.text);
}

/* ---- the stages ---- */

static enum collet_result shrink_begin(struct collet_comm *comm) {
    COLLET_TRY(split_enter(comm->split));
    return start_agreement(comm->split, false, COLLET_SUCCESS);
}

/* While the parent works: does any rank wait in a collective of the parent? Such a collective ends with the parent. */
static enum collet_result look_for_others(struct split *s) {
    if (boot_failed(s->parent->boot) != COLLET_SUCCESS)
        return COLLET_SUCCESS;
    enum collet_result result = split_look_for_callers(s);
    if (result != COLLET_SUCCESS)
        boot_fail(s->parent->boot, result, err_last());
    return result;
}

/* Tells the meeting point that this rank will not come. The text names the rank by its number in the parent. */
static void excuse(const struct split *s, enum collet_result code) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", err_last());
    boot_excuse(&s->id, -1, name_rank(s->parent, code));
    err_adopt(code, text);
}

static enum collet_result shrink_agree(struct collet_comm *comm) {
    struct split *s = comm->split;
    COLLET_TRY(check_parent(s));
    enum collet_result result = try_agreement(s);
    if (result == COLLET_IN_PROGRESS)
        COLLET_TRY(look_for_others(s));
    COLLET_TRY(result);
    COLLET_TRY(check_decision(s));
    memcpy(s->id.bytes, s->agreement.decision->payload, sizeof s->id.bytes);
    keep_survivors(s);
    comm->rank = s->self;
    comm->nranks = s->nranks;
    s->stage = SPLIT_KEEP_WATCH; /* if this rank cannot join, all others must be told */
    result = comm_join(comm, &s->id, 1);
    if (result != COLLET_SUCCESS)
        excuse(s, result);
    return result;
}

/* A rank without a free descriptor can neither join nor tell the meeting point. But the coordinator, which serves the
 * meeting point, receives its vote. */
static enum collet_result hear_excuses(struct split *s) {
    struct agreement_vote no;
    if (s->self != 0 || os_now_ns() < s->look_ns)
        return COLLET_SUCCESS;
    s->look_ns = os_now_ns() + EXCUSES_EVERY_NS;
    const struct agreement_terms terms = terms_of(s, true);
    if (!agreement_hears_no(&terms, &no))
        return COLLET_SUCCESS;
    boot_cancel_id(&s->id, (enum collet_result)no.code, no.text);
    return err_adopt((enum collet_result)no.code, no.text);
}

static enum collet_result shrink_keep_watch(struct collet_comm *comm) {
    COLLET_TRY(check_parent(comm->split));
    COLLET_TRY(split_look_for_deaths(comm->split, true));
    return hear_excuses(comm->split);
}

static bool somebody_died(const struct split *s) {
    return memchr(s->agreement.decision->lives, 0, (size_t)s->nranks) != NULL;
}

static enum collet_result shrink_settle(struct collet_comm *comm, enum collet_result result) {
    struct split *s = comm->split;
    if (s->stage < SPLIT_KEEP_WATCH)
        return result;
    if (s->stage == SPLIT_KEEP_WATCH) {
        s->stage = SPLIT_SETTLE;
        COLLET_TRY(start_agreement(s, true, result));
    }
    COLLET_TRY(check_parent(s));
    COLLET_TRY(try_agreement(s));
    if (!s->agreement.decision->lives[s->self] || !somebody_died(s))
        return check_decision(s);
    comm_close(comm);
    keep_survivors(s);
    s->stage = SPLIT_AGREE;
    COLLET_TRY(start_agreement(s, false, COLLET_SUCCESS));
    return COLLET_IN_PROGRESS;
}

/* Tells the others that this rank says no. If the parent has ended, that is not needed: the rank has left. */
static void shrink_give_up(struct collet_comm *comm, enum collet_result code, const char *text) {
    struct split *s = comm->split;
    if (!comm_is_live(s->parent))
        return;
    if (s->stage == SPLIT_KEEP_WATCH && start_agreement(s, true, code) != COLLET_SUCCESS)
        return;
    agreement_give_up(&s->agreement, code, text);
}

/* Says no, if there is no memory for the list of ranks. */
static void shrink_refuse(struct collet_comm *parent, const int *exclude_ranks, int count, enum collet_result code) {
    struct agreement_terms terms = {.boot = parent->boot, .key = HASH_OF_NONE};
    for (int rank = 0; rank < parent->nranks; rank++) {
        int k = 0;
        while (k < count && exclude_ranks[k] != rank)
            k++;
        if (k < count)
            continue;
        terms.key = hash_with(terms.key, rank);
        terms.nranks++;
    }
    agreement_refuse(&terms, name_rank(parent, code), err_last());
}

const struct split_way shrink_way = {"collet_comm_shrink()",
                                     {shrink_begin, shrink_agree, NULL, shrink_keep_watch},
                                     shrink_settle,
                                     shrink_give_up,
                                     shrink_refuse};
