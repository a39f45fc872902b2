/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a communicator from another one, its parent. The ranks talk over the parent's control plane, which they trust
 * already:
 *
 *     begin        each rank sends its wish: │ call │ colour │ key │ nranks of grow │ has an id? │
 *     agree        all ranks have all wishes (layers/elastic/oob_allgather.h); each rank finds out its communicator and its rank in it
 *     await_id     the leader of each new communicator has or makes a unique id, and sends it to the communicator's other ranks
 *     keep_watch   they join as with any id; a rank that dies in the parent is not waited for
 *
 * So the child has keys, connections and failures of its own, and outlives the parent. The stages can be polled: one thread
 * may make any number of children at the same time (comm_join_all()).
 */
#include "layers/elastic/way.h"

#include "api/group.h"
#include "api/join.h"
#include "api/options.h"
#include "base/memory.h"
#include "base/os.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- begin ---- */

static enum collet_result begin(struct collet_comm *comm) {
    struct split *s = comm->split;
    COLLET_TRY(split_enter(s));
    COLLET_TRY(boot_check(s->parent->boot));
    s->key = boot_key(BOOT_SPLIT, __atomic_fetch_add(&s->parent->splits, 1, __ATOMIC_RELAXED) << 1);
    const int timeout_s = (int)s->parent->config.init_timeout;
    const struct oob_allgather_terms terms = {.boot = s->parent->boot,
                                              .key = s->key,
                                              .ranks = s->ranks,
                                              .nranks = s->nranks,
                                              .self = s->self,
                                              .entry_bytes = sizeof s->wish,
                                              .call = s->way->call,
                                              .timeout_s = timeout_s};
    s->deadline_ns = os_now_ns() + 2 * (uint64_t)timeout_s * 1000000000u;
    return oob_allgather_start(&s->allgather, &terms, &s->wish);
}

/* ---- agree ---- */

static enum collet_result check_wishes(const struct split *s, const struct wish *wishes) {
    for (int k = 0; k < s->nranks; k++) {
        const struct wish *wish = &wishes[k];
        if (wish->call != s->wish.call)
            return err_set(COLLET_ERR_MISMATCH, "rank %d called %s but rank %d %s: all ranks must make the same calls",
                           s->ranks[s->self], s->way->call, s->ranks[k],
                           wish->call == CALL_SPLIT ? "collet_comm_split()" : "collet_comm_grow()");
        if (wish->nranks != s->wish.nranks)
            return err_set(COLLET_ERR_MISMATCH, "nranks is %d on rank %d but %d on rank %d: it must be equal",
                           s->wish.nranks, s->ranks[s->self], wish->nranks, s->ranks[k]);
    }
    return COLLET_SUCCESS;
}

struct split_rank {
    int32_t key, rank;
};

static int by_key_then_rank(const void *a, const void *b) {
    const struct split_rank *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : x->rank - y->rank;
}

/* Finds the ranks with this rank's colour, in the order of their keys. */
static enum collet_result find_company(struct collet_comm *comm, const struct wish *wishes) {
    struct split *s = comm->split;
    const int self = s->ranks[s->self];
    struct arena arena SCOPED_ARENA = {0};
    struct split_rank *members = arena_get(&arena, (size_t)s->nranks, sizeof *members);
    int n = 0;
    COLLET_TRY(arena_check(&arena, "no memory for %d ranks", s->nranks));
    s->leader = -1;
    for (int k = 0; k < s->nranks; k++) {
        if (s->leader < 0 && wishes[k].has_id)
            s->leader = s->ranks[k];
        if (wishes[k].color == s->wish.color)
            members[n++] = (struct split_rank){wishes[k].key, s->ranks[k]};
    }
    qsort(members, (size_t)n, sizeof *members, by_key_then_rank);
    for (int k = 0; k < n; k++) {
        s->ranks[k] = members[k].rank;
        if (members[k].rank == self)
            s->self = comm->rank = k;
    }
    s->nranks = n;
    comm->nranks = s->wish.nranks > 0 ? s->wish.nranks : n;
    return COLLET_SUCCESS;
}

static enum collet_result lead(struct split *s) {
    if (!s->wish.has_id)
        COLLET_TRY(split_make_id(s, NULL, &s->id));
    s->made_id = !s->wish.has_id;
    for (int k = 0; k < s->nranks; k++)
        if (k != s->self)
            COLLET_TRY(boot_send(s->parent->boot, s->ranks[k], s->key | 1, &s->id, sizeof s->id));
    return COLLET_SUCCESS;
}

static enum collet_result agree(struct collet_comm *comm) {
    struct split *s = comm->split;
    enum collet_result result = oob_allgather_try(&s->allgather);
    if (result == COLLET_IN_PROGRESS)
        COLLET_TRY(split_look_for_callers(s));
    COLLET_TRY(result);
    const struct wish *wishes = (const void *)s->allgather.table;
    COLLET_TRY(check_wishes(s, wishes));
    s->stage = SPLIT_AWAIT_ID;
    if (s->wish.color == COLLET_SPLIT_NOCOLOR) {
        s->stage = SPLIT_KEEP_WATCH;
        return COLLET_SUCCESS;
    }
    COLLET_TRY(find_company(comm, wishes));
    if (s->wish.call != CALL_GROW)
        s->leader = s->ranks[0];
    if (s->leader < 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "id is NULL on every rank: pass the new ranks' id on one of them");
    return s->leader == s->ranks[s->self] ? lead(s) : COLLET_SUCCESS;
}

/* ---- join ---- */

static enum collet_result await_id(struct collet_comm *comm) {
    struct split *s = comm->split;
    struct boot *boot = s->parent->boot;
    size_t bytes;
    if (s->leader != s->ranks[s->self]) {
        enum collet_result result = boot_try_recv(boot, s->leader, s->key | 1, &s->id, sizeof s->id, &bytes);
        if (result == COLLET_IN_PROGRESS)
            return boot_check_wait(boot, &s->late, s->leader, s->deadline_ns, "send the id of the new communicator");
        COLLET_TRY(result);
        if (bytes != sizeof s->id)
            return err_set(COLLET_ERR_INTERNAL, "rank %d sent an id of %zu bytes, not of %zu", s->leader, bytes,
                           sizeof s->id);
    }
    COLLET_TRY(comm_join(comm, &s->id, 1));
    s->stage = SPLIT_KEEP_WATCH;
    return COLLET_SUCCESS;
}

static enum collet_result keep_watch(struct collet_comm *comm) {
    COLLET_TRY(boot_check(comm->split->parent->boot));
    return split_look_for_deaths(comm->split, false);
}

static void give_up(struct collet_comm *comm, enum collet_result code, const char *text) {
    const struct split *s = comm->split;
    if (s->stage != SPLIT_AGREE && s->stage != SPLIT_AWAIT_ID)
        return;
    boot_fail(s->parent->boot, code, text);
    if (s->made_id)
        boot_cancel_id(&s->id, code, text);
}

/* Goes through the stages. SUCCESS: comm has begun to join, and its parent does not stop it; or this rank is in no new
 * communicator. */
static enum collet_result find_place(struct collet_comm *comm) {
    const struct split *s = comm->split;
    enum collet_result result;
    enum split_stage stage;
    do {
        stage = s->stage;
        result = s->way->stages[stage](comm);
    } while (result == COLLET_SUCCESS && stage != SPLIT_KEEP_WATCH);
    if (result < 0 && s->stage > SPLIT_BEGIN && s->stage < SPLIT_KEEP_WATCH)
        s->way->give_up(comm, result, err_last());
    return result;
}

/* Joins, as far as this needs no answer of other ranks. */
static enum collet_result join_alone(struct collet_comm *comm) {
    if (comm->split->stage == SPLIT_SETTLE) /* this rank has joined, and only waits for the others' results */
        return COLLET_SUCCESS;
    COLLET_TRY(find_place(comm));
    return comm_join_alone(comm);
}

static void keep_error(const struct collet_comm *comm, enum collet_result result) {
    const struct split *s = comm->split;
    char text[ERR_TEXT_BYTES];
    if (s == NULL || s->stage == SPLIT_BEGIN)
        return;
    if (result == COLLET_ERR_TIMEOUT && s->stage == SPLIT_KEEP_WATCH) {
        snprintf(text, sizeof text, "in %s, where rank %d has the meeting point: %.400s", s->way->call, s->leader,
                 err_last());
        err_adopt(result, text);
    }
    comm_keep_error(s->parent);
}

/* This rank gives comm up, because memory is missing. Tells the other ranks, which also make comm. The reason is the thread's last
 * error. */
static void refuse(struct collet_comm *comm) {
    const enum collet_result code = COLLET_ERR_NO_MEMORY;
    const struct split *s = comm->split;
    char text[ERR_TEXT_BYTES];
    if (s == NULL || comm->phase != COMM_JOINING) /* comm has failed already, for a known reason */
        return;
    if (s->way->settle == NULL) { /* the other ranks watch the parent until they have joined */
        comm_fail_without_memory(s->parent, code);
        return;
    }
    snprintf(text, sizeof text, "%s", err_last());
    if (s->stage == SPLIT_BEGIN)
        s->way->stages[SPLIT_BEGIN](comm);
    if (s->stage != SPLIT_BEGIN)
        s->way->give_up(comm, code, text);
    err_adopt(code, text);
}

static void end(struct collet_comm *comm) {
    struct split *s = comm->split;
    char text[ERR_TEXT_BYTES];
    if (s == NULL)
        return;
    if (s->stage != SPLIT_BEGIN) {
        snprintf(text, sizeof text, "rank %d gave up %s%s%.400s", s->parent->rank, s->way->call,
                 comm->error_text[0] ? ": " : "", comm->error_text);
        s->way->give_up(comm, COLLET_ERR_REMOTE, text);
        comm_leave(s->parent);
    }
    oob_allgather_fini(&s->allgather);
    agreement_fini(&s->agreement);
    free(s->ranks);
    sodium_memzero(s, sizeof *s); /* the id contains a secret */
    free(s);
    comm->split = NULL;
}

enum collet_result split_join(struct collet_comm *comm) {
    const struct split *s = comm->split;
    enum collet_result result = join_alone(comm);
    if (result != COLLET_IN_PROGRESS && s->way->settle != NULL)
        result = s->way->settle(comm, result);
    if (result < 0)
        keep_error(comm, result);
    else if (result == COLLET_SUCCESS)
        end(comm);
    return result;
}

/* ---- non-blocking parents ---- */

enum collet_result split_poll(struct collet_comm *parent) {
    struct collet_comm *comm = __atomic_load_n(&parent->making, __ATOMIC_ACQUIRE), *made = comm;
    if (comm == NULL)
        return COLLET_SUCCESS;
    if (!call_lock_try(&comm->lock))
        return COLLET_IN_PROGRESS;
    enum collet_result result = COLLET_IN_PROGRESS;
    /* Goes on only if no other thread has completed comm, or given it up. */
    if (__atomic_load_n(&parent->making, __ATOMIC_ACQUIRE) == comm)
        result = comm_try_join(comm);
    if (result != COLLET_IN_PROGRESS &&
        __atomic_compare_exchange_n(&parent->making, &made, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        comm_hand_over(comm, result);
    else
        call_lock_release(&comm->lock);
    return result;
}

void split_discard(struct collet_comm *comm) {
    struct collet_comm *made = __atomic_exchange_n(&comm->making, NULL, __ATOMIC_ACQ_REL);
    if (made != NULL)
        comm_end_join(
            made, err_set(COLLET_ERR_ABORTED, "rank %d ended the communicator of which this one was made", comm->rank));
    end(comm);
}

const struct layer layer_elastic = {
    .rank_begin = agreement_stock,
    .hub_hear = agreement_hear,
    .hub_free = agreement_forget,
    .comm_failed = refuse,
};

/* ---- the calls ---- */

static void fail_parent(struct collet_comm *parent, const int *exclude_ranks, int count, enum collet_result code) {
    (void)exclude_ranks;
    (void)count;
    comm_fail_without_memory(parent, code);
}

static const struct split_way split_way = {
    "collet_comm_split()", {begin, agree, await_id, keep_watch}, NULL, give_up, fail_parent};
static const struct split_way grow_way = {
    "collet_comm_grow()", {begin, agree, await_id, keep_watch}, NULL, give_up, fail_parent};
static const struct split_way *const ways[] = {
    [CALL_SPLIT] = &split_way, [CALL_SHRINK] = &shrink_way, [CALL_GROW] = &grow_way};

/* Sets the configuration: the parent's, or the environment's with the caller's options. The device is always the parent's. */
static enum collet_result configure(const struct collet_comm *parent, const struct collet_config *config,
                                    struct collet_comm *comm) {
    struct collet_config options;
    if (config == NULL) {
        comm->config = parent->config;
        comm->timeout_ms = parent->timeout_ms;
        comm->nonblocking = parent->nonblocking;
        comm->device = parent->device;
        memcpy(comm->name, parent->name, sizeof comm->name);
        return COLLET_SUCCESS;
    }
    COLLET_TRY(options_read(config, &options));
    if (options.device != COLLET_DEVICE_HOST && options.device != parent->device)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "config.device is %d, but that of comm is %d: leave it 0 to stay there", options.device,
                       parent->device);
    options.device = parent->device;
    return options_apply(&options, comm);
}

/* Lists the parent's ranks that are not excluded. */
static enum collet_result list_ranks(struct split *s, const int *exclude_ranks, int count) {
    const int nranks = s->parent->nranks;
    COLLET_TRY(memory_get(&s->ranks, (size_t)nranks, sizeof *s->ranks, "no memory for %d ranks", nranks));
    for (int k = 0; k < count; k++) {
        const int rank = exclude_ranks[k];
        if (rank < 0 || rank >= nranks || rank == s->parent->rank || s->ranks[rank] != 0)
            return err_set(COLLET_ERR_INVALID_ARGUMENT,
                           "exclude_ranks[%d] is %d: each of 0 … %d at most once, and not %d, which makes this call", k,
                           rank, nranks - 1, s->parent->rank);
        s->ranks[rank] = 1;
    }
    for (int rank = 0; rank < nranks; rank++) {
        if (s->ranks[rank] != 0)
            continue;
        if (rank == s->parent->rank)
            s->self = s->nranks;
        s->ranks[s->nranks++] = rank;
    }
    return COLLET_SUCCESS;
}

/* Does everything that needs no other rank. */
static enum collet_result prepare_split(struct collet_comm *parent, const struct wish *wish, const int *exclude_ranks,
                                        int count, const struct collet_config *config, struct collet_comm *comm) {
    COLLET_TRY(memory_get(&comm->split, 1, sizeof *comm->split, "no memory for a communicator"));
    comm->split->way = ways[wish->call];
    comm->split->parent = parent;
    comm->split->wish = *wish;
    COLLET_TRY(list_ranks(comm->split, exclude_ranks, count));
    COLLET_TRY(configure(parent, config, comm));
    snprintf(comm->config.believed, sizeof comm->config.believed, "by %s", comm->split->way->call);
    return COLLET_SUCCESS;
}

/* Starts the split. If the parent is non-blocking, the caller polls it later. */
static enum collet_result start_split(struct collet_comm *parent, struct collet_comm *comm) {
    struct collet_comm *none = NULL;
    if (!parent->nonblocking)
        return group_join(comm);
    if (__atomic_compare_exchange_n(&parent->making, &none, comm, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        enum collet_result result = split_poll(parent);
        return result < 0 ? result : COLLET_IN_PROGRESS;
    }
    comm_discard(comm);
    return err_set(COLLET_ERR_INVALID_USAGE, "another communicator is still being made of comm: poll "
                                             "collet_comm_get_async_error() first");
}

static enum collet_result make_of(struct collet_comm *parent, const struct wish *wish, const int *exclude_ranks,
                                  int count, const struct collet_unique_id *id, struct collet_comm **newcomm,
                                  const struct collet_config *config) {
    struct collet_comm *comm;
    if (newcomm == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "newcomm is NULL: pass where the new handle goes");
    *newcomm = NULL;
    COLLET_TRY(comm_check_usable(parent));
    enum collet_result result = comm_create(0, 0, &comm);
    if (result == COLLET_SUCCESS) {
        result = prepare_split(parent, wish, exclude_ranks, count, config, comm);
        if (result != COLLET_SUCCESS)
            comm_discard(comm);
    }
    if (result == COLLET_ERR_NO_MEMORY && comm_enter(parent)) { /* otherwise the others would wait for this rank */
        ways[wish->call]->refuse(parent, exclude_ranks, count, result);
        comm_leave(parent);
    }
    COLLET_TRY(result);
    if (id != NULL)
        comm->split->id = *id;
    comm->to = newcomm;
    comm_show(comm);
    return start_split(parent, comm);
}

enum collet_result collet_comm_split(struct collet_comm *comm, int color, int key, struct collet_comm **newcomm,
                                     const struct collet_config *config) {
    const struct wish wish = {CALL_SPLIT, color, key, 0, 0};
    if (color < 0 && color != COLLET_SPLIT_NOCOLOR)
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT,
                                    "color is %d: 0 or more, or COLLET_SPLIT_NOCOLOR for no new communicator", color));
    return group_poison(make_of(comm, &wish, NULL, 0, NULL, newcomm, config));
}

enum collet_result collet_comm_shrink(struct collet_comm *comm, const int *exclude_ranks, int count,
                                      struct collet_comm **newcomm, const struct collet_config *config) {
    const struct wish wish = {CALL_SHRINK, 0, 0, 0, 0};
    if (newcomm != NULL)
        *newcomm = NULL;
    if (count < 0 || (exclude_ranks == NULL && count > 0))
        return group_poison(err_set(COLLET_ERR_INVALID_ARGUMENT,
                                    "exclude_ranks is %s and count %d: pass count ranks, or NULL and 0",
                                    exclude_ranks == NULL ? "NULL" : "given", count));
    return group_poison(make_of(comm, &wish, exclude_ranks, count, NULL, newcomm, config));
}

enum collet_result collet_comm_grow(struct collet_comm *comm, int nranks, const struct collet_unique_id *id,
                                    struct collet_comm **newcomm, const struct collet_config *config) {
    const struct wish wish = {CALL_GROW, 0, 0, nranks, id != NULL};
    if (newcomm != NULL)
        *newcomm = NULL;
    COLLET_TRY(group_poison(boot_check_ranks(nranks, 0)));
    if (comm_is_live(comm) && nranks <= comm->nranks)
        return group_poison(
            err_set(COLLET_ERR_INVALID_ARGUMENT, "nranks is %d: more than the %d that comm has", nranks, comm->nranks));
    if (id != NULL)
        COLLET_TRY(group_poison(boot_check_id(id)));
    return group_poison(make_of(comm, &wish, NULL, 0, id, newcomm, config));
}
