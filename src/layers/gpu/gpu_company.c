/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/gpu_company.h"

#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/wait.h"
#include "layers/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The calls of one thread, on its stack. */
struct party {
    struct party *next;
    struct gpu_entry *set;
    int n;
    bool taken; /* by the thread that launches: it cannot be taken back any more */
    bool done;  /* atomic: what is above and below is its thread's again */
    enum collet_result result;
    char text[ERR_TEXT_BYTES];
};

struct member {
    struct member *next;
    const struct chan *chan;
    uint64_t caller; /* the thread that has made its newest call, or the rank itself: this_thread() */
};

/* Ranks of one process and communicator on one GPU. Guarded by the lock. */
struct company {
    struct company *next;
    const void *peers; /* the communicator's table */
    int ordinal, nmembers;
    struct member *members;
    struct party *parties; /* that have come, and wait for the rest */
    uint64_t alone;        /* atomic: the newest call that a rank has launched alone */
    int left;              /* a rank that is no member any more, and will not come; −1: none */
};

PROCESS_LOCK(lock);
static struct company *companies;

static struct company *company_find(const struct conn_owner *owner) {
    for (struct company *c = companies; c != NULL; c = c->next)
        if (c->peers == owner->peers && c->ordinal == owner->gpu->ordinal)
            return c;
    return NULL;
}

/* ---- members ---- */

/* Of no other thread, ever: a new one may get the pthread_self() of one that has ended. */
static uint64_t this_thread(void) {
    static uint64_t count; /* atomic */
    static _Thread_local uint64_t number;
    if (number == 0)
        number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return number;
}

static enum collet_result company_of(const struct conn_owner *owner, struct company **company_p) {
    *company_p = company_find(owner);
    if (*company_p != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(company_p, 1, sizeof **company_p, "no memory for ranks that share a GPU"));
    (*company_p)->peers = owner->peers;
    (*company_p)->ordinal = owner->gpu->ordinal;
    (*company_p)->left = -1;
    (*company_p)->next = companies;
    companies = *company_p;
    return COLLET_SUCCESS;
}

#define QUEUES_DEFAULT 8 /* of a GPU, that the streams of a process share */

static int queues_of_a_gpu(void) {
    const char *given = config_env("CUDA_DEVICE_MAX_CONNECTIONS");
    return given != NULL && atoi(given) > 0 ? atoi(given) : QUEUES_DEFAULT;
}

/* Collectives go together, but messages do not, nor does what is in graphs. */
static void warn_of_queues(int nmembers, int ordinal) {
    static bool said;
    if (nmembers > queues_of_a_gpu() && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        log_always(
            INIT,
            "%d ranks of this process share GPU %d, whose streams share %d queues: sends and receives of threads, and graphs of "
            "each rank, may wait for each other there. Set CUDA_DEVICE_MAX_CONNECTIONS=32 before the first call of CUDA, or call "
            "for all of these ranks in one group",
            nmembers, ordinal, queues_of_a_gpu());
}

enum collet_result gpu_company_join(const struct chan *chan) {
    SCOPED_LOCK(&lock);
    struct company *company;
    struct member *member;
    COLLET_TRY(company_of(&chan->owner, &company));
    COLLET_TRY(memory_get(&member, 1, sizeof *member, "no memory for ranks that share a GPU"));
    *member = (struct member){company->members, chan, this_thread()};
    company->members = member;
    company->nmembers++;
    warn_of_queues(company->nmembers, company->ordinal);
    return COLLET_SUCCESS;
}

static void remove_company(struct company *company) {
    struct company **link = &companies;
    while (*link != company)
        link = &(*link)->next;
    *link = company->next;
    free(company);
}

void gpu_company_leave(const struct chan *chan) {
    SCOPED_LOCK(&lock);
    struct company *company = company_find(&chan->owner);
    for (struct member **link = company == NULL ? NULL : &company->members; link != NULL && *link != NULL;) {
        struct member *member = *link;
        if (member->chan != chan) {
            link = &member->next;
            continue;
        }
        *link = member->next;
        free(member);
        company->nmembers--;
        company->left = chan->owner.rank;
    }
    if (company != NULL && company->nmembers == 0)
        remove_company(company);
}

/* ---- gathering ---- */

static uint64_t number_of(const struct party *party) { return party->set->call->args.sequence; }

static bool is_among(const struct party *parties, const struct chan *chan) {
    for (; parties != NULL; parties = parties->next)
        for (int k = 0; k < parties->n; k++)
            if (parties->set[k].call->chan == chan)
                return true;
    return false;
}

/* Then it is in vain to wait for that rank here. With the lock, as what follows. */
static bool calls_for_another_rank(const struct company *company, const struct party *party) {
    for (const struct member *member = company->members; member != NULL; member = member->next)
        if (member->caller == this_thread() && !is_among(party, member->chan))
            return true;
    return false;
}

static void note_caller(const struct company *company, const struct party *party) {
    for (struct member *member = company->members; member != NULL; member = member->next)
        if (is_among(party, member->chan))
            member->caller = this_thread();
}

/* Or comes behind a call that another rank has launched alone. */
static bool goes_alone(struct company *company, const struct party *party) {
    if ((party->set->capture != 0 || calls_for_another_rank(company, party)) && company->alone < number_of(party))
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

/* LAST: *parties_p are all others, and nobody can take them back. */
static enum arrival arrive(struct party *party, struct company **company_p, struct party **parties_p) {
    SCOPED_LOCK(&lock);
    struct company *company = *company_p = company_find(&party->set->call->chan->owner);
    note_caller(company, party);
    if (goes_alone(company, party))
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

/* False: too late. */
static bool take_back(struct company *company, struct party *party) {
    SCOPED_LOCK(&lock);
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
    SCOPED_LOCK(&lock);
    for (const struct member *member = company->members; member != NULL; member = member->next) {
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
    SCOPED_LOCK(&lock);
    return company->left >= 0;
}

static enum collet_result check_wait(const struct company *company, const struct party *party, uint64_t idle_ns) {
    const struct chan *chan = party->set->call->chan;
    COLLET_TRY(boot_check(chan->owner.boot));
    if (has_left(company))
        return err_left(company, party);
    return idle_ns / 1000000u < (uint64_t)chan->timeout_ms ? COLLET_SUCCESS : err_not_all(company, party, idle_ns);
}

/* SUCCESS: the party is done, or launches alone. A failure has taken it back. */
static enum collet_result wait_for_rest(struct company *company, struct party *party, bool *alone) {
    struct waiter waiter = party->set->call->chan->patience;
    while (!__atomic_load_n(&party->done, __ATOMIC_ACQUIRE)) { /* pairs with tell_all() */
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

static void tell_all(struct party *parties, enum collet_result result) {
    for (struct party *party = parties, *next; party != NULL; party = next) {
        next = party->next;
        party->result = result;
        if (result != COLLET_SUCCESS)
            snprintf(party->text, sizeof(party->text), "%s", err_last());
        __atomic_store_n(&party->done, true, __ATOMIC_RELEASE); /* then it may be gone */
    }
}

/* By the thread that came last. More ranks than a launch holds are refused by gpu_launch_set(), which looks at no more of them. */
static enum collet_result launch_all(const struct party *own, struct party *others) {
    struct gpu_entry set[WORK_MAX + 1];
    int n = 0;
    for (int k = 0; k < own->n && n <= WORK_MAX; k++)
        set[n++] = own->set[k];
    for (const struct party *party = others; party != NULL; party = party->next)
        for (int k = 0; k < party->n && n <= WORK_MAX; k++) {
            set[n] = party->set[k];
            set[n++].is_guest = true;
        }
    qsort(set, (size_t)n, sizeof(*set), by_rank);
    enum collet_result result = gpu_launch_set(set, n);
    tell_all(others, result);
    return result;
}

static enum collet_result come(const struct party *party) {
    for (int k = 0; k < party->n; k++)
        COLLET_TRY(gpu_guest_comes(&party->set[k]));
    return COLLET_SUCCESS;
}

static enum collet_result leave(const struct party *party) {
    if (party->result != COLLET_SUCCESS)
        return err_adopt(party->result, party->text);
    for (int k = 0; k < party->n; k++)
        COLLET_TRY(gpu_guest_leaves(&party->set[k]));
    return COLLET_SUCCESS;
}

/* Their graphs wait for each other, and nobody knows when they are launched. */
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

static bool is_whole_company(const struct conn_owner *owner, int nranks) {
    SCOPED_LOCK(&lock);
    return company_find(owner)->nmembers == nranks;
}

enum collet_result gpu_company_launch(struct gpu_entry *set, int n) {
    struct party party = {.set = set, .n = n}, *others = NULL;
    struct company *company;
    bool alone = false;
    if (is_whole_company(&set->call->chan->owner, n))
        return gpu_launch_set(set, n);
    warn_of_graphs(set);
    if (set->capture == 0)
        COLLET_TRY(come(&party));
    switch (arrive(&party, &company, &others)) {
    case ALONE: return gpu_launch_set(set, n);
    case LAST: return launch_all(&party, others);
    case EARLY: COLLET_TRY(wait_for_rest(company, &party, &alone));
    }
    return alone ? gpu_launch_set(set, n) : leave(&party);
}
