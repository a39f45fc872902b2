/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of a company's threads: a thread that comes waits for the others, and the last one launches for all.
 *
 * A thread in a capture launches alone: its graph holds only its own call. A thread also launches alone if it has called for another rank
 * of the company before, and now leaves that rank out: it would wait for itself. All others then launch this call alone, too. If the GPU
 * has fewer queues than ranks, such a thread first waits for a while: another thread may call for that rank from now on.
 */
#include "layers/gpu/gpu_party.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathering ---- */

static uint64_t number_of(const struct party *party) { return party->set->call->args.sequence; }

static bool is_among(const struct party *parties, const struct chan *chan) {
    for (; parties != NULL; parties = parties->next)
        for (int k = 0; k < parties->n; k++)
            if (parties->set[k].call->chan == chan)
                return true;
    return false;
}

/* Shall this party still wait for a rank that its thread has called before? From now on another thread may call for that rank. If kernels
 * that go alone may never end, a wait is worth it, but only for the first of several such calls. The caller holds the lock. */
static bool is_soon(const struct company *company, const struct party *party, uint64_t waited_ns) {
    return gpu_company_is_crowded(company) && company->alone + 1 < number_of(party) &&
           waited_ns < COMPANY_GRACE_MS * 1000000ull;
}

/* Has this thread called for another rank before? Then it is in vain to wait here for that rank. */
static bool calls_for_another_rank(const struct company *company, const struct party *party) {
    for (const struct company_member *member = company->members; member != NULL; member = member->next)
        if (member->caller == gpu_company_thread() && !is_among(party, member->chan))
            return true;
    return false;
}

static void note_caller(const struct company *company, const struct party *party) {
    for (struct company_member *member = company->members; member != NULL; member = member->next)
        if (is_among(party, member->chan))
            member->caller = gpu_company_thread();
}

/* Does the party go alone? It also does if another rank has launched this call, or a later one, alone. */
static bool goes_alone(struct company *company, const struct party *party, uint64_t waited_ns) {
    const bool parts = calls_for_another_rank(company, party) && !is_soon(company, party, waited_ns);
    if ((party->set->capture != 0 || parts) && company->alone < number_of(party))
        __atomic_store_n(&company->alone, number_of(party), __ATOMIC_RELEASE); /* pairs with wait_for_rest() */
    return number_of(party) <= company->alone;
}

static int nranks_of(const struct party *parties) {
    int ranks = 0;
    for (; parties != NULL; parties = parties->next)
        ranks += gpu_set_ranks(parties->set, parties->n);
    return ranks;
}

enum arrival { ALONE, EARLY, LAST };

/* LAST: *parties_p are all other parties, and nobody can take them back. */
static enum arrival arrive(struct party *party, struct company **company_p, struct party **parties_p) {
    SCOPED_LOCK(gpu_company_lock());
    struct company *company = *company_p = gpu_company_find(&party->set->call->chan->owner);
    note_caller(company, party);
    if (goes_alone(company, party, 0))
        return ALONE;
    if (nranks_of(company->parties) + nranks_of(party) < company->nmembers) {
        party->next = company->parties;
        company->parties = party;
        return EARLY;
    }
    *parties_p = company->parties;
    company->parties = NULL;
    for (struct party *other = *parties_p; other != NULL; other = other->next)
        other->taken = true;
    return LAST;
}

/* Takes the party back. False: another thread has already taken it. */
static bool take_back(struct company *company, struct party *party) {
    SCOPED_LOCK(gpu_company_lock());
    struct party **link = &company->parties;
    if (party->taken)
        return false;
    while (*link != party)
        link = &(*link)->next;
    *link = party->next;
    return true;
}

/* ---- waiting ---- */

static enum collet_result err_not_all(const struct company *company, const struct party *party, uint64_t idle_ns) {
    const struct exec_call *call = party->set->call;
    char missing[96] = "";
    SCOPED_LOCK(gpu_company_lock());
    for (const struct company_member *member = company->members; member != NULL; member = member->next) {
        const size_t at = strlen(missing);
        if (!is_among(company->parties, member->chan) && at + 12 < sizeof(missing))
            snprintf(missing + at, sizeof(missing) - at, "%s%d", at > 0 ? ", " : "", member->chan->owner.rank);
    }
    return exec_err_timeout(call->chan, idle_ns, call->request.collective, call->args.sequence, missing, "");
}

static enum collet_result err_left(const struct company *company, const struct party *party) {
    const struct exec_call *call = party->set->call;
    return err_set(
        COLLET_ERR_REMOTE,
        "rank %d left the communicator (it was destroyed there) while rank %d, on the same GPU, waited for it in "
        "%s (call %llu)",
        company->left, call->chan->owner.rank, prog_collective_name(call->request.collective),
        (unsigned long long)call->args.sequence);
}

static bool has_left(const struct company *company) {
    SCOPED_LOCK(gpu_company_lock());
    return company->left >= 0;
}

/* If this call goes alone now, wait_for_rest() sees it next. */
static void look_again(struct company *company, const struct party *party, uint64_t waited_ns) {
    SCOPED_LOCK(gpu_company_lock());
    if (!party->taken)
        goes_alone(company, party, waited_ns);
}

static enum collet_result check_wait(struct company *company, const struct party *party, uint64_t idle_ns) {
    const struct chan *chan = party->set->call->chan;
    COLLET_TRY(boot_check(chan->owner.boot));
    if (has_left(company))
        return err_left(company, party);
    look_again(company, party, idle_ns);
    return idle_ns / 1000000u < (uint64_t)chan->timeout_ms ? COLLET_SUCCESS : err_not_all(company, party, idle_ns);
}

/* SUCCESS: the party is done, or launches alone (*alone). On a failure, the party is taken back. */
static enum collet_result wait_for_rest(struct company *company, struct party *party, bool *alone) {
    struct waiter waiter = party->set->call->chan->patience;
    while (!__atomic_load_n(&party->done, __ATOMIC_ACQUIRE)) { /* pairs with gpu_party_tell() */
        *alone = __atomic_load_n(&company->alone, __ATOMIC_ACQUIRE) >= number_of(party) && take_back(company, party);
        if (*alone)
            return COLLET_SUCCESS;
        enum collet_result result =
            wait_pause(&waiter) ? check_wait(company, party, wait_idle_ns(&waiter)) : COLLET_SUCCESS;
        if (result < 0 && take_back(company, party))
            return result;
    }
    return COLLET_SUCCESS;
}

/* ---- launching ---- */

static int by_rank(const void *a, const void *b) {
    const struct gpu_entry *x = a, *y = b;
    return x->call->chan->owner.rank - y->call->chan->owner.rank;
}

void gpu_party_tell(struct party *parties, enum collet_result result) {
    for (struct party *party = parties, *next; party != NULL; party = next) {
        next = party->next;
        party->result = result;
        if (result != COLLET_SUCCESS)
            snprintf(party->text, sizeof(party->text), "%s", err_last());
        __atomic_store_n(&party->done, true, __ATOMIC_RELEASE); /* from here on the party may be gone */
    }
}

/* The thread that came last launches for all. If there are more ranks than a launch holds, gpu_launch_set() refuses them. */
static enum collet_result launch_all(struct party *own, struct party *others) {
    struct gpu_entry set[WORK_MAX + 1];
    own->next = others;
    const int n = gpu_party_merge(own, set, WORK_MAX + 1);
    qsort(set, (size_t)n, sizeof(*set), by_rank);
    enum collet_result result = gpu_launch_set(set, n);
    gpu_party_tell(others, result);
    return result;
}

int gpu_party_merge(const struct party *own, struct gpu_entry *set, int most) {
    int n = 0;
    for (const struct party *party = own; party != NULL; party = party->next)
        for (int k = 0; k < party->n && n < most; k++) {
            set[n] = party->set[k];
            set[n].into = own->set->call->stream;
            set[n++].is_guest = party != own;
        }
    return n;
}

enum collet_result gpu_party_end(const struct party *party) {
    return party->result == COLLET_SUCCESS ? gpu_guests_leave(party->set, party->n)
                                           : err_adopt(party->result, party->text);
}

/* The graphs of several ranks wait for each other, and nobody here knows when the program launches them. */
static void warn_of_graphs(const struct gpu_entry *set) {
    static bool said;
    if (set->capture != 0 && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        log_always(
            COLL,
            "ranks that share GPU %d are captured into different graphs. Launch these graphs at the same time, and set "
            "CUDA_DEVICE_MAX_CONNECTIONS=32 before the first call of CUDA, or one of them may keep the other one in a "
            "queue of the GPU; or capture all of these ranks into one graph",
            set->call->chan->owner.gpu->ordinal);
}

static bool is_whole_company(const struct party *party) {
    SCOPED_LOCK(gpu_company_lock());
    const struct company *company = gpu_company_find(&party->set->call->chan->owner);
    const bool is_whole = company->nmembers == party->n;
    if (is_whole)
        note_caller(company, party);
    return is_whole;
}

enum collet_result gpu_company_launch(struct gpu_entry *set, int n) {
    struct party party = {.set = set, .n = n}, *others = NULL;
    struct company *company;
    bool alone = false;
    if (is_whole_company(&party))
        return gpu_launch_set(set, n);
    warn_of_graphs(set);
    if (set->capture == 0)
        COLLET_TRY(gpu_guests_come(set, n));
    switch (arrive(&party, &company, &others)) {
    case ALONE: return gpu_launch_set(set, n);
    case LAST: return launch_all(&party, others);
    case EARLY: COLLET_TRY(wait_for_rest(company, &party, &alone));
    }
    return alone ? gpu_launch_set(set, n) : gpu_party_end(&party);
}
