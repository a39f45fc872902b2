/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/windows.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/names.h"
#include "boot/process.h"
#include "layers/gpu/window_team.h"
#include "transport/ipc/gpu_peers.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a rank says of its buffer. */
struct window_card {
    uint64_t address, bytes; /* address and length of the window */
    uint64_t offset;         /* offset of the window in the buffer */
    uint64_t taken;          /* numbers of the rank's windows, by bits */
    uint64_t team_bytes;     /* window_team_bytes() */
    int32_t is_buffer;       /* the window lies in a buffer, or is empty */
    int32_t is_named;
    struct gpu_name name;
    char hand_over[HAND_OVER_NAME_BYTES]; /* socket at which others get the descriptor; "": there is none */
};

/* The result of a rank. */
struct window_finding {
    int32_t attached; /* the rank has attached all buffers that it has to attach */
    int32_t reaches_all;
    int32_t may_wait; /* the rank's streams may wait for words of other ranks */
};

/* How this rank reaches the buffer of another rank. */
struct window_reach {
    char *base;
    uint64_t bytes;
    void *attached; /* NULL: nothing was attached */
    struct gpu_name name;
};

struct gpu_window {
    struct gpu_window *next;
    struct chan *chan;
    uint32_t number;
    struct gpu_buffer *buffer;  /* NULL: the window is empty */
    struct window_reach *reach; /* [nranks] */
    bool is_lent, is_symmetric, may_wait;
    struct gpu_team team;
};

PROCESS_LOCK(windows_lock); /* guards the list of every communicator */

/* ---- other ranks' buffers ---- */

static enum collet_result attach(struct window_meeting *meeting, const struct window_card *card,
                                 struct window_reach *reach) {
    const struct gpu_rank *gpu = meeting->chan->owner.gpu;
    struct gpu_name name = card->name;
    if (!card->is_named)
        return err_set(COLLET_ERR_UNSUPPORTED, "its driver gives that memory no name");
    if (card->offset > name.bytes || card->bytes > name.bytes - card->offset)
        return err_set(COLLET_ERR_REMOTE, "it says that the window ends behind its memory of %llu bytes",
                       (unsigned long long)name.bytes);
    name.fd = -1;
    if (card->hand_over[0] != '\0')
        COLLET_TRY(window_take(meeting, card->hand_over, &name.fd));
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    enum collet_result result = gpu->driver->sharing->attach(&name, &reach->attached);
    if (name.fd >= 0)
        close(name.fd);
    reach->name = name;
    if (result == COLLET_SUCCESS)
        reach->base = (char *)reach->attached + card->offset;
    return result;
}

/* True: this rank reaches the buffer, or there is nothing to reach. */
static bool reach_buffer(struct window_meeting *meeting, struct gpu_window *window, int rank,
                         const struct window_card *card) {
    const struct conn_owner *owner = &meeting->chan->owner;
    struct window_reach *reach = &window->reach[rank];
    reach->bytes = card->bytes;
    if (card->bytes == 0 || !gpu_peer_is_near(owner, rank))
        return true;
    if (process_is_here(owner->peers[rank].process)) {
        if (owner->gpu->driver->sharing->open_peer(owner->gpu->ordinal, gpu_peer_ordinal(owner, rank)))
            reach->base = (char *)(uintptr_t)card->address;
        return reach->base != NULL;
    }
    if (attach(meeting, card, reach) == COLLET_SUCCESS)
        return true;
    log_info(CONN, "rank %d cannot attach the window of rank %d: %s", owner->rank, rank, err_last());
    return false;
}

static bool detach(const struct chan *chan, struct window_reach *reach) {
    const struct gpu_rank *gpu = chan->owner.gpu;
    const bool was_attached = reach->attached != NULL;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    if (was_attached)
        gpu->driver->sharing->detach(reach->attached, &reach->name);
    reach->attached = reach->base = NULL;
    return was_attached;
}

/* Writes the table for blocks on the GPU: the difference to add to an address that another process has lent, and to an address for the
 * switch. */
static enum collet_result write_table(const struct gpu_window *window, const struct window_card *cards) {
    const struct conn_owner *owner = &window->chan->owner;
    GPU_ENTERED(owner->gpu->driver, owner->gpu->ordinal);
    for (int rank = 0; rank < owner->nranks; rank++) {
        const uint64_t add = (uint64_t)(uintptr_t)window->reach[rank].base - cards[rank].address;
        uint64_t *place = owner->windows + (size_t)rank * LOAN_WINDOWS + window->number;
        if (window->reach[rank].attached != NULL)
            COLLET_TRY(owner->gpu->driver->memory->write(place, &add, sizeof add));
    }
    const struct loan_team team = window_team_note(&window->team, window->buffer, window->number);
    return owner->gpu->driver->memory->write(owner->teams + window->number, &team, sizeof team);
}

/* ---- registration ---- */

/* True: something was detached. It now waits to be unmapped. */
static bool detach_all(struct gpu_window *window) {
    bool any = gpu_window_has_team(window);
    window_team_end(&window->chan->owner, &window->team);
    for (int rank = 0; rank < window->chan->owner.nranks; rank++)
        any |= detach(window->chan, &window->reach[rank]);
    return any;
}

static void window_free(struct gpu_window *window, bool closed) {
    detach_all(window);
    if (window->buffer != NULL)
        gpu_buffer_release(window->buffer, closed);
    free(window->reach);
    free(window);
}

static uint64_t numbers_taken(const struct chan *chan) {
    uint64_t taken = 1;
    SCOPED_LOCK(&windows_lock);
    for (const struct gpu_window *window = chan->windows; window != NULL; window = window->next)
        taken |= 1ull << window->number;
    return taken;
}
_Static_assert(LOAN_WINDOWS == 64, "bits of a word");

/* Chooses the lowest number that is free on all ranks. One rank may have left a window that others still have. */
static enum collet_result choose_number(const struct window_card *cards, int nranks, uint32_t *number_p) {
    uint64_t taken = 0;
    for (int rank = 0; rank < nranks; rank++)
        taken |= cards[rank].taken;
    if (~taken == 0)
        return err_set(COLLET_ERR_UNSUPPORTED, "the communicator has %u windows already: deregister one",
                       LOAN_WINDOWS - 1);
    *number_p = (uint32_t)__builtin_ctzll(~taken);
    return COLLET_SUCCESS;
}

static enum collet_result say_what(struct window_meeting *meeting, const struct gpu_window *window, void *buff,
                                   size_t bytes, struct window_card *card) {
    const struct gpu_buffer *buffer = window->buffer;
    *card = (struct window_card){.address = (uintptr_t)buff,
                                 .bytes = bytes,
                                 .taken = numbers_taken(window->chan),
                                 .is_buffer = bytes == 0 || buffer != NULL};
    if (buffer == NULL)
        return COLLET_SUCCESS;
    card->offset = (uint64_t)((char *)buff - buffer->memory);
    card->is_named = buffer->is_named;
    card->name = buffer->name;
    card->team_bytes = window_team_bytes(&meeting->chan->owner, buffer);
    return buffer->is_named && buffer->name.fd >= 0 ? window_give(meeting, buffer->name.fd, card->hand_over)
                                                    : COLLET_SUCCESS;
}

static enum collet_result check_cards(const struct window_card *cards, int nranks) {
    for (int rank = 0; rank < nranks; rank++)
        if (!cards[rank].is_buffer)
            return err_set(
                COLLET_ERR_INVALID_ARGUMENT,
                "buff of rank %d does not lie, with all its bytes, in one buffer of collet_mem_alloc() on the "
                "rank's GPU",
                rank);
    return COLLET_SUCCESS;
}

/* Why may streams of this rank not wait for other ranks? NULL: they may. A waiting stream blocks its whole queue. Another stream of the
 * process may share that queue: even the stream of the very rank for which it waits. */
static const char *why_no_waits(const struct conn_owner *owner) {
    if (!owner->gpu->driver->streams->has_words())
        return "its driver has no stream memory operations of CUDA 11.7";
    for (int rank = 0; rank < owner->nranks; rank++)
        if (rank != owner->rank && process_is_here(owner->peers[rank].process) &&
            transport_shares_device(&owner->peers[rank], &owner->peers[owner->rank]))
            return "another rank of its process is on its GPU";
    return NULL;
}

bool gpu_policy_is_zero(const struct config *config) {
    char words[CONFIG_TEXT_BYTES], *rest = words;
    snprintf(words, sizeof(words), "%s", config->cta_policy);
    for (const char *word; (word = strsep(&rest, "|")) != NULL;)
        if (name_is_listed(word, "zero 2 3"))
            return true;
    return false;
}

static bool can_wait(const struct conn_owner *owner) {
    const char *why = why_no_waits(owner);
    if (why != NULL && gpu_policy_is_zero(owner->config))
        log_info(CONN, "rank %d: kernels fill windows, and not copy engines: %s", owner->rank, why);
    return why == NULL;
}

/* Reaches the buffers of all ranks, as far as it can, and hears whether all ranks could. */
static enum collet_result reach_all(struct window_meeting *meeting, struct gpu_window *window,
                                    const struct window_card *cards) {
    const int nranks = meeting->chan->owner.nranks;
    struct window_finding mine = {true, true, can_wait(&meeting->chan->owner)};
    SCOPED_FREE struct window_finding *findings = NULL;
    COLLET_TRY(memory_get(&findings, (size_t)nranks, sizeof *findings, "no memory for %d ranks", nranks));
    for (int rank = 0; rank < nranks; rank++) {
        mine.attached &= reach_buffer(meeting, window, rank, &cards[rank]);
        mine.reaches_all &= window->reach[rank].base != NULL;
    }
    COLLET_TRY(window_agree(meeting, "collet_win_register()", &mine, sizeof mine, findings));
    window->is_lent = window->is_symmetric = window->may_wait = true;
    for (int rank = 0; rank < nranks; rank++) {
        window->is_lent &= findings[rank].attached != 0;
        window->is_symmetric &= findings[rank].reaches_all != 0;
        window->may_wait &= findings[rank].may_wait != 0;
    }
    return COLLET_SUCCESS;
}

/* All ranks have the same cards. So all ranks try to make the team, or no rank does. */
static enum collet_result make_team(struct window_meeting *meeting, struct gpu_window *window,
                                    const struct window_card *cards) {
    uint64_t longest = 0;
    for (int rank = 0; rank < meeting->chan->owner.nranks; rank++) {
        if (cards[rank].team_bytes == 0)
            return COLLET_SUCCESS;
        longest = cards[rank].team_bytes > longest ? cards[rank].team_bytes : longest;
    }
    return window_team_make(meeting, window->buffer, longest, &window->team);
}

/* To attach memory may wait for kernels, and the kernels may wait for ranks. */
static enum collet_result await_own_work(const struct chan *chan) {
    while (!gpu_rank_wait(chan->owner.gpu, 1000000))
        COLLET_TRY(boot_check(chan->owner.boot));
    return boot_check(chan->owner.boot);
}

static enum collet_result window_ranks_meet(struct window_meeting *meeting, struct gpu_window *window, void *buff,
                                            size_t bytes) {
    const struct conn_owner *owner = &meeting->chan->owner;
    struct window_card mine;
    SCOPED_FREE struct window_card *cards = NULL;
    COLLET_TRY(memory_get(&cards, (size_t)owner->nranks, sizeof *cards, "no memory for %d ranks", owner->nranks));
    COLLET_TRY(await_own_work(meeting->chan));
    COLLET_TRY(say_what(meeting, window, buff, bytes, &mine));
    COLLET_TRY(window_agree(meeting, "collet_win_register()", &mine, sizeof mine, cards));
    COLLET_TRY(check_cards(cards, owner->nranks));
    COLLET_TRY(choose_number(cards, owner->nranks, &window->number));
    COLLET_TRY(reach_all(meeting, window, cards));
    COLLET_TRY(make_team(meeting, window, cards));
    return write_table(window, cards);
}

static enum collet_result gpu_window_create(struct chan *chan, const void *buff, size_t bytes,
                                            struct gpu_window **window_p) {
    struct gpu_window *window;
    COLLET_TRY(memory_get(&window, 1, sizeof *window, "no memory for a window"));
    *window = (struct gpu_window){.chan = chan};
    enum collet_result result = memory_get(&window->reach, (size_t)chan->owner.nranks, sizeof *window->reach,
                                           "no memory for a window of %d ranks", chan->owner.nranks);
    if (result != COLLET_SUCCESS) {
        free(window);
        return result;
    }
    window->buffer = bytes > 0 ? gpu_buffer_hold(chan->owner.gpu->ordinal, buff, bytes) : NULL;
    *window_p = window;
    return COLLET_SUCCESS;
}

enum collet_result gpu_window_register(struct chan *chan, void *buff, size_t bytes, struct gpu_window **window_p) {
    struct gpu_window *window = NULL;
    enum collet_result result = gpu_window_create(chan, buff, bytes, &window);
    if (result == COLLET_ERR_NO_MEMORY)
        boot_fail(chan->owner.boot, result, err_last());
    COLLET_TRY(result);
    struct window_meeting meeting = window_meeting_begin(chan);
    result = window_ranks_meet(&meeting, window, buff, bytes);
    window_meeting_end(&meeting);
    if (result != COLLET_SUCCESS) {
        const bool alike = result == COLLET_ERR_INVALID_ARGUMENT || result == COLLET_ERR_UNSUPPORTED; /* on all ranks */
        if (!alike)
            boot_fail(chan->owner.boot, result, err_last());
        window_free(window, alike);
        return result;
    }
    log_info(CONN, "window %u of rank %d: payloads in it %s lent between processes; switches %s its sums",
             window->number, chan->owner.rank, window->is_lent ? "are" : "are not",
             window->team.address != NULL ? "make" : "do not make");
    SCOPED_LOCK(&windows_lock);
    window->next = chan->windows;
    *window_p = chan->windows = window;
    chan->had_team |= gpu_window_has_team(window);
    chan->had_lent |= window->is_lent;
    return COLLET_SUCCESS;
}

static void window_unlist(struct gpu_window *window) {
    SCOPED_LOCK(&windows_lock);
    struct gpu_window **link = &window->chan->windows;
    while (*link != window)
        link = &(*link)->next;
    *link = window->next;
}

/* *closed_p: no rank has the buffer of another rank mapped any more. */
static enum collet_result agree_that_all_detached(struct window_meeting *meeting, bool is_unmapped, bool *closed_p) {
    const int nranks = meeting->chan->owner.nranks;
    const char mine = is_unmapped;
    SCOPED_FREE char *all = NULL;
    COLLET_TRY(memory_get(&all, (size_t)nranks, sizeof *all, "no memory for %d ranks", nranks));
    COLLET_TRY(window_agree(meeting, "collet_win_deregister()", &mine, sizeof mine, all));
    *closed_p = true;
    for (int rank = 0; rank < nranks; rank++)
        *closed_p &= all[rank] != 0;
    return COLLET_SUCCESS;
}

enum collet_result gpu_window_deregister(struct chan *chan, struct gpu_window *window) {
    struct window_meeting meeting = window_meeting_begin(chan);
    COLLET_TRY(await_own_work(chan));
    window_unlist(window);
    const bool is_unmapped = !detach_all(window) || gpu_rank_detach_all(chan->owner.gpu);
    bool closed = false;
    enum collet_result result = agree_that_all_detached(&meeting, is_unmapped, &closed);
    if (result != COLLET_SUCCESS)
        boot_fail(chan->owner.boot, result, err_last());
    window_free(window, closed);
    return result;
}

enum collet_result gpu_window_leave(struct chan *chan, struct gpu_window *window) {
    COLLET_TRY(await_own_work(chan));
    window_unlist(window);
    window_free(window, false);
    gpu_rank_detach_all(chan->owner.gpu); /* if that is impossible now, it is done later */
    return COLLET_SUCCESS;
}

void gpu_windows_end(struct chan *chan) {
    for (struct gpu_window *next; chan->windows != NULL; chan->windows = next) {
        next = chan->windows->next;
        window_free(chan->windows, false);
    }
}

/* ---- what others ask ---- */

bool gpu_window_find(const struct chan *chan, const void *address, size_t bytes, struct gpu_window_place *place) {
    SCOPED_LOCK(&windows_lock);
    for (const struct gpu_window *window = chan->windows; window != NULL; window = window->next) {
        const struct window_reach *own = &window->reach[chan->owner.rank];
        const size_t at = (uintptr_t)address - (uintptr_t)own->base;
        if (own->base == NULL || at >= own->bytes || bytes > own->bytes - at)
            continue;
        *place = (struct gpu_window_place){window, window->number, at};
        return true;
    }
    return false;
}

uint32_t gpu_window_number(const struct gpu_window *window) { return window->number; }
size_t gpu_window_bytes(const struct gpu_window *window, int rank) { return (size_t)window->reach[rank].bytes; }
void *gpu_window_base(const struct gpu_window *window, int rank) { return window->reach[rank].base; }
bool gpu_window_is_lent(const struct gpu_window *window) { return window->is_lent; }
bool gpu_window_is_symmetric(const struct gpu_window *window) { return window->is_symmetric; }
bool gpu_window_may_wait(const struct gpu_window *window) { return window->may_wait; }
bool gpu_window_has_team(const struct gpu_window *window) { return window->team.address != NULL; }

bool gpu_windows_had_team(const struct chan *chan) {
    SCOPED_LOCK(&windows_lock);
    return chan->had_team;
}

bool gpu_windows_had_lent(const struct chan *chan) {
    SCOPED_LOCK(&windows_lock);
    return chan->had_lent;
}
