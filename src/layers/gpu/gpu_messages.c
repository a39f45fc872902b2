/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a company's threads. A thread that comes waits for the threads that have the other ends of its messages, for the threads
 * that have the other ends of those threads' messages, and so on. The last thread launches all of them, in the order of one group
 * (gpu_waves.h).
 *
 *    rank 0's thread    to 1, from 3   comes ─ waits ─────────────────▶ goes on
 *    rank 1's thread    to 2, from 0     comes ─ waits ───────────────▶ goes on
 *    rank 2's thread    to 3, from 1                comes ─ waits ────▶ goes on
 *    rank 3's thread    to 0, from 2                       launches ──▶ goes on
 *    rank 4's thread    has no message: nobody waits for it
 *
 * When do messages go alone, as if their rank were the only one?
 *
 *    in a capture                                  its graph holds its own calls
 *    this thread itself has to call the other end  it would wait for itself. If the GPU has fewer queues than ranks, it waits for a
 *                                                  while all the same: another thread may call for that rank from now on
 *    all have come, but with other messages        they would wait for each other, as two sends in a group and a lone receive do
 *    the other end does not come for a while       a small send ends without its receive; and the caller may need to go on first.
 *                                                  The wait gets shorter if that happens again and again
 *
 * If one end has gone alone, its other end has nothing to wait for. If the GPU has fewer queues than ranks, the last two cases are failures,
 * with the numbers: kernels that wait for each other there may never end.
 */
#include "layers/gpu/gpu_party.h"
#include "layers/gpu/gpu_waves.h"

#include "base/memory.h"
#include "base/os.h"
#include "base/wait.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- ends of messages: with the lock ---- */

static int rank_of(const struct gpu_entry *e) { return e->call->chan->owner.rank; }

static enum prog_collective other_kind(const struct gpu_entry *e) {
    return e->call->request.collective == PROG_SEND ? PROG_RECV : PROG_SEND;
}

static struct lone *find_lone(const struct company_member *member, int peer, enum prog_collective kind) {
    struct lone *lone = member->lones;
    while (lone != NULL && (lone->peer != peer || lone->kind != kind))
        lone = lone->next;
    return lone;
}

/* Returns the rank of the other end, if this end has to wait for it; else NULL. */
static struct company_member *partner_of(const struct company *company, const struct gpu_entry *e) {
    struct company_member *partner = gpu_company_member(company, e->call->request.root);
    const struct lone *lone = partner == NULL ? NULL : find_lone(partner, rank_of(e), other_kind(e));
    return lone != NULL && lone->sequence >= e->call->args.sequence ? NULL : partner;
}

/* Notes that this end goes alone. If there is no memory for the note, the other end waits in vain, but not without limit. */
static void note_lone(struct company_member *member, const struct gpu_entry *e) {
    const struct exec_request *request = &e->call->request;
    struct lone *lone = find_lone(member, request->root, request->collective);
    if (lone == NULL && (lone = calloc(1, sizeof(*lone))) != NULL) {
        *lone = (struct lone){.next = member->lones, .peer = request->root, .kind = request->collective};
        member->lones = lone;
    }
    if (lone != NULL)
        lone->sequence = e->call->args.sequence;
}

/* ---- parties: with the lock ---- */

static void come_in(const struct company *company, struct party *party) {
    for (int k = 0; k < party->n; k++) {
        struct company_member *member = gpu_company_member(company, rank_of(&party->set[k]));
        member->messages = party;
        member->caller = gpu_company_thread();
    }
}

static void go_out(const struct company *company, const struct party *party) {
    for (int k = 0; k < party->n; k++)
        gpu_company_member(company, rank_of(&party->set[k]))->messages = NULL;
}

static void go_alone(struct company *company, struct party *party) {
    go_out(company, party);
    for (int k = 0; k < party->n; k++)
        if (gpu_company_member(company, party->set[k].call->request.root) != NULL)
            note_lone(gpu_company_member(company, rank_of(&party->set[k])), &party->set[k]);
    __atomic_add_fetch(&company->nlones, 1, __ATOMIC_RELEASE); /* pairs with wait_for_ends() */
    party->is_alone = party->taken = true;
}

static bool waits_for_itself(const struct company *company, const struct party *party) {
    for (int k = 0; k < party->n; k++) {
        const struct company_member *partner = partner_of(company, &party->set[k]);
        if (partner != NULL && partner->messages != party && partner->caller == gpu_company_thread())
            return true;
    }
    return false;
}

/* Puts the parties for which this party waits at the end of the list. False: one of them has not come. */
static bool add_partners(const struct company *company, const struct party *party, struct party **last_p) {
    for (int k = 0; k < party->n; k++) {
        const struct company_member *partner = partner_of(company, &party->set[k]);
        struct party *theirs = partner != NULL ? partner->messages : NULL;
        if (partner != NULL && theirs == NULL)
            return false;
        if (theirs == NULL || theirs->is_inside)
            continue;
        theirs->is_inside = true;
        theirs->next = NULL;
        *last_p = (*last_p)->next = theirs;
    }
    return true;
}

/* Lists, behind `own`, all parties for which it waits, and all for which those wait, and so on. False: one of them has not come. */
static bool gather(const struct company *company, struct party *own) {
    struct party *last = own;
    bool all = true;
    own->is_inside = true;
    own->next = NULL;
    for (const struct party *party = own; party != NULL && all; party = party->next)
        all = add_partners(company, party, &last);
    for (struct party *party = own; party != NULL; party = party->next)
        party->is_inside = false;
    return all;
}

/* ---- do they fit? ---- */

/* The messages that are launched together. */
struct exchange {
    struct gpu_entry *set;
    int n;
};

static enum collet_result merge(const struct party *own, struct exchange *exchange) {
    int n = 0;
    for (const struct party *party = own; party != NULL; party = party->next)
        n += party->n;
    COLLET_TRY(memory_get(&exchange->set, (size_t)n, sizeof *exchange->set, "no memory for a group of messages"));
    exchange->n = gpu_party_merge(own, exchange->set, n);
    gpu_waves_sort(exchange->set, n);
    return COLLET_SUCCESS;
}

static bool are_ends(const struct gpu_entry *e, const struct gpu_entry *other) {
    return rank_of(other) == e->call->request.root && other->call->request.root == rank_of(e) &&
           other->call->request.collective == other_kind(e) && other->call->args.sequence == e->call->args.sequence;
}

/* Both ends must be of one wave. Otherwise the earlier end would wait for an end that is launched behind it. */
static bool has_other_end(const struct exchange *exchange, int k) {
    const struct gpu_entry *set = exchange->set;
    for (int at = k; at >= 0 && set[at].wave == set[k].wave; at--)
        if (are_ends(&set[k], &set[at]))
            return true;
    for (int at = k; at < exchange->n && set[at].wave == set[k].wave; at++)
        if (are_ends(&set[k], &set[at]))
            return true;
    return false;
}

static bool fit(const struct company *company, const struct exchange *exchange) {
    for (int k = 0; k < exchange->n; k++)
        if (partner_of(company, &exchange->set[k]) != NULL && !has_other_end(exchange, k))
            return false;
    return true;
}

/* ---- coming ---- */

/* GONE: another thread has taken the messages. */
enum arrival { ALONE, EARLY, LAST, UNFIT, GONE };

static void take_all(const struct company *company, struct party *own) {
    for (struct party *party = own; party != NULL; party = party->next) {
        go_out(company, party);
        party->taken = true;
    }
}

/* Lets the threads of these parties launch their messages themselves. */
static void send_away(struct company *company, struct party *others) {
    for (struct party *party = others; party != NULL; party = party->next)
        go_alone(company, party);
    gpu_party_tell(others, COLLET_SUCCESS);
}

/* All parties have come. */
static enum arrival arrive_last(struct company *company, struct party *party, const struct exchange *exchange) {
    if (fit(company, exchange)) {
        company->grace_ms = 2 * company->grace_ms < COMPANY_GRACE_MS ? 2 * company->grace_ms : COMPANY_GRACE_MS;
        take_all(company, party);
        return LAST;
    }
    if (gpu_company_is_crowded(company)) {
        take_all(company, party);
        return UNFIT;
    }
    go_alone(company, party);
    send_away(company, party->next);
    return ALONE;
}

/* LAST, UNFIT: all messages of the list are in `exchange`, and no party can be taken back. EARLY: the party has come in, if it stays. */
static enum collet_result messages_arrive(struct party *party, bool stays, struct exchange *exchange,
                                          enum arrival *arrival) {
    SCOPED_LOCK(gpu_company_lock());
    struct company *company = gpu_company_find(&party->set->call->chan->owner);
    *arrival = GONE;
    if (party->taken)
        return COLLET_SUCCESS;
    come_in(company, party);
    if (party->set->capture != 0 || (!gpu_company_is_crowded(company) && waits_for_itself(company, party))) {
        go_alone(company, party);
        *arrival = ALONE;
    } else if (gather(company, party)) {
        enum collet_result result = merge(party, exchange);
        if (result != COLLET_SUCCESS)
            go_out(company, party);
        COLLET_TRY(result);
        *arrival = arrive_last(company, party, exchange);
    } else {
        if (!stays)
            go_out(company, party);
        *arrival = EARLY;
    }
    return COLLET_SUCCESS;
}

/* ---- waiting: for whom, and how long ---- */

/* Takes the party back. False: another thread has already taken it. */
static bool messages_take_back(struct party *party) {
    SCOPED_LOCK(gpu_company_lock());
    if (!party->taken)
        go_out(gpu_company_find(&party->set->call->chan->owner), party);
    return !party->taken;
}

/* Finds the first message that waits for a rank that has not come. */
static const struct gpu_entry *find_waiting(const struct company *company, const struct party *party) {
    for (int k = 0; k < party->n; k++) {
        const struct company_member *partner = partner_of(company, &party->set[k]);
        if (partner != NULL && partner->messages == NULL)
            return &party->set[k];
    }
    return party->set;
}

static enum collet_result err_not_there(const struct company *company, const struct party *party, uint64_t idle_ns) {
    char peer[16], found[ERR_TEXT_BYTES / 2];
    SCOPED_LOCK(gpu_company_lock());
    const struct exec_call *call = find_waiting(company, party)->call;
    snprintf(peer, sizeof(peer), "%d", call->request.root);
    snprintf(
        found, sizeof(found),
        "%d ranks share GPU %d and its %d queues, so a message is launched when both its ends are there: if they come one after "
        "the other, set CUDA_DEVICE_MAX_CONNECTIONS=32 before the first call of CUDA",
        company->nmembers, company->ordinal, gpu_company_queues());
    return exec_err_timeout(call->chan, idle_ns, call->request.collective, call->args.sequence, peer,
                            gpu_company_is_crowded(company) ? found : "");
}

static enum collet_result err_unfit(const struct party *party) {
    SCOPED_LOCK(gpu_company_lock());
    const struct company *company = gpu_company_find(&party->set->call->chan->owner);
    return err_set(
        COLLET_ERR_UNSUPPORTED,
        "rank %d and others have messages for each other, but not the same ones in the same groups: %d ranks of this "
        "process share GPU %d, whose streams share %d queues, where they might wait for each other without end. Group "
        "sends as their receives are grouped, or set CUDA_DEVICE_MAX_CONNECTIONS=32 before the first call of CUDA",
        rank_of(party->set), company->nmembers, company->ordinal, gpu_company_queues());
}

/* If the party has waited long enough, it goes alone. Two cases allow that: each rank's kernel finds a queue of its own, or the party waits
 * for a rank for which only this thread calls. */
static void lose_patience(struct company *company, struct party *party, uint64_t waited_ns) {
    SCOPED_LOCK(gpu_company_lock());
    if (party->taken || waited_ns < (uint64_t)company->grace_ms * 1000000u ||
        (gpu_company_is_crowded(company) && !waits_for_itself(company, party)))
        return;
    company->grace_ms = company->grace_ms > 1 ? company->grace_ms / 2 : 1;
    go_alone(company, party);
    party->done = true;
}

static enum collet_result messages_check_wait(struct company *company, struct party *party, uint64_t waited_ns) {
    const struct chan *chan = party->set->call->chan;
    COLLET_TRY(boot_check(chan->owner.boot));
    lose_patience(company, party, waited_ns);
    return waited_ns / 1000000u < (uint64_t)chan->timeout_ms ? COLLET_SUCCESS
                                                             : err_not_there(company, party, waited_ns);
}

/* Waits until this thread has something to launch, or until another thread has launched it. On a failure, the party is taken back. */
static enum collet_result wait_for_ends(struct company *company, struct party *party, struct exchange *exchange,
                                        enum arrival *arrival) {
    struct waiter waiter = party->set->call->chan->patience;
    const uint64_t came_ns = os_now_ns();
    uint64_t nlones = 0, now_lones;
    while (!__atomic_load_n(&party->done, __ATOMIC_ACQUIRE)) { /* pairs with gpu_party_tell() */
        now_lones = __atomic_load_n(&company->nlones, __ATOMIC_ACQUIRE);
        if (now_lones != nlones) { /* an end has gone alone: this party may have nobody to wait for any more */
            nlones = now_lones;
            COLLET_TRY(messages_arrive(party, true, exchange, arrival));
            if (*arrival != EARLY && *arrival != GONE)
                return COLLET_SUCCESS;
        }
        enum collet_result result =
            wait_pause(&waiter) ? messages_check_wait(company, party, os_now_ns() - came_ns) : COLLET_SUCCESS;
        if (result < 0 && messages_take_back(party))
            return result;
    }
    *arrival = party->is_alone ? ALONE : GONE;
    return COLLET_SUCCESS;
}

/* ---- launching ---- */

static enum collet_result messages_launch(const struct party *party, const struct exchange *exchange) {
    enum collet_result result = gpu_waves_launch(exchange->set, exchange->n);
    gpu_party_tell(party->next, result);
    return result;
}

static enum collet_result refuse_all(const struct party *party) {
    enum collet_result result = err_unfit(party);
    gpu_party_tell(party->next, result);
    return result;
}

static enum collet_result exchange_with_others(struct company *company, struct party *party,
                                               struct exchange *exchange) {
    enum arrival arrival;
    COLLET_TRY(messages_arrive(party, false, exchange, &arrival));
    if (arrival == EARLY) { /* other threads may launch it: their sets must wait for its streams */
        COLLET_TRY(gpu_guests_come(party->set, party->n));
        COLLET_TRY(messages_arrive(party, true, exchange, &arrival));
    }
    if (arrival == EARLY)
        COLLET_TRY(wait_for_ends(company, party, exchange, &arrival));
    switch (arrival) {
    case LAST: return messages_launch(party, exchange);
    case UNFIT: return refuse_all(party);
    case ALONE: return gpu_waves_launch(party->set, party->n);
    default: return gpu_party_end(party);
    }
}

static struct company *messages_company(const struct gpu_entry *messages) {
    SCOPED_LOCK(gpu_company_lock());
    struct company *company = gpu_company_find(&messages->call->chan->owner);
    return company->nmembers > 1 ? company : NULL;
}

enum collet_result gpu_company_exchange(struct gpu_entry *messages, int n) {
    struct party party = {.set = messages, .n = n};
    struct exchange exchange = {.set = NULL};
    struct company *company = messages_company(messages);
    if (company == NULL)
        return gpu_waves_launch(messages, n);
    enum collet_result result = exchange_with_others(company, &party, &exchange);
    free(exchange.set);
    return result;
}
