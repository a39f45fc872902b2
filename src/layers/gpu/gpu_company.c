/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/gpu_company.h"

#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "layers/gpu/gpu.h"

#include <stdlib.h>

PROCESS_LOCK(lock);
static struct company *companies;

pthread_mutex_t *gpu_company_lock(void) { return &lock; }

struct company *gpu_company_find(const struct conn_owner *owner) {
    for (struct company *c = companies; c != NULL; c = c->next)
        if (c->peers == owner->peers && c->ordinal == owner->gpu->ordinal)
            return c;
    return NULL;
}

struct company_member *gpu_company_member(const struct company *company, int rank) {
    struct company_member *member = company->members;
    while (member != NULL && member->chan->owner.rank != rank)
        member = member->next;
    return member;
}

uint64_t gpu_company_thread(void) {
    static uint64_t count; /* atomic */
    static _Thread_local uint64_t number;
    if (number == 0)
        number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return number;
}

/* ---- queues ---- */

#define QUEUES_DEFAULT 8 /* number of queues of a GPU that the streams of a process share */

int gpu_company_queues(void) {
    const char *given = config_env("CUDA_DEVICE_MAX_CONNECTIONS");
    return given != NULL && atoi(given) > 0 ? atoi(given) : QUEUES_DEFAULT;
}

bool gpu_company_is_crowded(const struct company *company) { return company->nmembers > gpu_company_queues(); }

/* Two kinds of calls are not launched together: calls that one thread makes for several ranks one by one, and calls in graphs. Nobody knows
 * here whether a program will make such calls. So this only warns. */
static void warn_of_queues(const struct company *company) {
    static bool said;
    if (gpu_company_is_crowded(company) && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        log_always(
            INIT,
            "%d ranks of this process share GPU %d, whose streams share %d queues: calls that a thread makes for several ranks "
            "without a group, and graphs of each rank, may wait for each other there. Set CUDA_DEVICE_MAX_CONNECTIONS=32 before "
            "the first call of CUDA, or call for all of these ranks in one group",
            company->nmembers, company->ordinal, gpu_company_queues());
}

/* ---- members ---- */

static enum collet_result company_of(const struct conn_owner *owner, struct company **company_p) {
    *company_p = gpu_company_find(owner);
    if (*company_p != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(company_p, 1, sizeof **company_p, "no memory for ranks that share a GPU"));
    (*company_p)->peers = owner->peers;
    (*company_p)->ordinal = owner->gpu->ordinal;
    (*company_p)->left = -1;
    (*company_p)->grace_ms = COMPANY_GRACE_MS;
    (*company_p)->next = companies;
    companies = *company_p;
    return COLLET_SUCCESS;
}

enum collet_result gpu_company_join(const struct chan *chan) {
    SCOPED_LOCK(&lock);
    struct company *company;
    struct company_member *member;
    COLLET_TRY(company_of(&chan->owner, &company));
    COLLET_TRY(memory_get(&member, 1, sizeof *member, "no memory for ranks that share a GPU"));
    *member = (struct company_member){.next = company->members, .chan = chan};
    company->members = member;
    company->nmembers++;
    warn_of_queues(company);
    return COLLET_SUCCESS;
}

static void remove_member(struct company_member *member) {
    for (struct lone *lone = member->lones, *next; lone != NULL; lone = next) {
        next = lone->next;
        free(lone);
    }
    free(member);
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
    struct company *company = gpu_company_find(&chan->owner);
    for (struct company_member **link = company == NULL ? NULL : &company->members; link != NULL && *link != NULL;) {
        struct company_member *member = *link;
        if (member->chan != chan) {
            link = &member->next;
            continue;
        }
        *link = member->next;
        remove_member(member);
        company->nmembers--;
        company->left = chan->owner.rank;
    }
    if (company != NULL)
        __atomic_add_fetch(&company->nlones, 1,
                           __ATOMIC_RELEASE); /* pairs with wait_for_ends(): nobody waits for this rank any more */
    if (company != NULL && company->nmembers == 0)
        remove_company(company);
}
