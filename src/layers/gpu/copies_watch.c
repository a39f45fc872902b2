/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream that waits for a word waits without end. So a thread of the process, collet-copies, looks now and then at what the
 * streams of its ranks wait for (exec_copies.h has the words):
 *
 *    `at` of the rank      the stream is                     the thread
 *    0                     not in a wait
 *    value                 in a wait that is new             marks it SEEN, and starts the clock
 *    value, SEEN           still in that wait                if longer than COLLET_TIMEOUT: the communicator fails, and names the
 *                                                            rank whose word has not come. If a word has come with another
 *                                                            value: the communicator fails at once
 *    either                in a wait of a communicator       writes the awaited words, wait after wait, until the stream is past
 *                          that has failed                   all waits
 *
 * The thread asks the driver nothing: the driver may not answer until that very stream goes on. After a failure the copies between the
 * waits still run, so nobody can tell what is in a window then.
 */
#include "base/err.h"
#include "base/os.h"
#include "layers/patrol/patrol.h"
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/exec_gpu.h"

#include <stdio.h>
#include <string.h>

#define LOOK_EVERY_NS 20000000u

static uint64_t look_at_waits(void);
static struct copies *all;
static struct patrol patrol = PATROL("collet-copies", look_at_waits, &all);
static uint64_t released_ns; /* time at which a wait was last released */

static uint32_t load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); } /* pairs with streams */

static uint32_t *own_word(const struct copies *copies, enum copies_word word) {
    return &copies->words[copies_row(copies, copies->chan->owner.rank) + word];
}

/* The word for which a stream waits. */
struct awaited {
    uint32_t *word; /* NULL: the stream waits for nothing */
    uint32_t value;
};

static struct awaited awaited_from(const struct copies *copies, uint32_t at, int from) {
    const int self = copies->chan->owner.rank;
    const uint32_t peer = load(own_word(copies, COPIES_PEER));
    const enum copies_stage stage = (enum copies_stage)((at & COPIES_BITS) >> COPIES_STAGE_SHIFT);
    if (peer == COPIES_ALL ? from == self : from != (int)peer)
        return (struct awaited){NULL, 0};
    if (stage == COPIES_ROOM)
        return (struct awaited){&copies->words[copies_at(copies, from, COPIES_MAIL, self)], 0};
    return (struct awaited){&copies->words[copies_at(copies, self, stage, from)], at & ~COPIES_SEEN};
}

/* ---- of one rank ---- */

static void release(struct copies *copies, uint32_t at) {
    for (int from = 0; from < copies->chan->owner.nranks; from++) {
        struct awaited awaited = awaited_from(copies, at, from);
        if (awaited.word != NULL)
            __atomic_store_n(awaited.word, awaited.value, __ATOMIC_RELEASE); /* pairs with the wait of the stream */
    }
}

static enum collet_result err_other_call(const struct copies *copies, uint32_t call, int from) {
    const enum prog_collective collective = (enum prog_collective)(call & ((1u << COPIES_CALL_SHIFT) - 1));
    return err_set(COLLET_ERR_MISMATCH, "rank %d is in its call %u, %s by copy engines, but rank %d %s",
                   copies->chan->owner.rank, call >> COPIES_CALL_SHIFT, prog_collective_name(collective), from,
                   prog_is_p2p(collective)
                       ? "has sent another number of bytes: a send and its receive must have equal byte counts"
                       : "is in another one, or its receive buffer lies elsewhere: all ranks must make the same calls, "
                         "into the same place of a window");
}

static enum collet_result err_late(const struct copies *copies, uint32_t call, const char *missing) {
    return exec_err_timeout(copies->chan, (uint64_t)copies->chan->timeout_ms * 1000000u,
                            (enum prog_collective)(call & ((1u << COPIES_CALL_SHIFT) - 1)), call >> COPIES_CALL_SHIFT,
                            missing, "");
}

/* Is something wrong with a wait that began so long ago? SUCCESS: not yet. */
static enum collet_result judge(const struct copies *copies, uint32_t at, uint64_t idle_ns) {
    uint32_t call = load(own_word(copies, COPIES_CALL));
    char missing[96] = "";
    int stray = -1;
    for (int from = 0; from < copies->chan->owner.nranks; from++) {
        struct awaited awaited = awaited_from(copies, at, from);
        size_t used = strlen(missing);
        if (awaited.word == NULL)
            continue;
        uint32_t word = load(awaited.word);
        if (word != awaited.value && (word == 0 || awaited.value == 0) && used + 12 < sizeof(missing))
            snprintf(missing + used, sizeof(missing) - used, "%s%d", used ? ", " : "", from);
        stray = word != awaited.value && word != 0 && awaited.value != 0 ? from : stray;
    }
    if (load(own_word(copies, COPIES_AT)) != at) /* the stream has gone on */
        return COLLET_SUCCESS;
    if (stray >= 0)
        return err_other_call(copies, call, stray);
    return idle_ns / 1000000u < (uint64_t)copies->chan->timeout_ms ? COLLET_SUCCESS : err_late(copies, call, missing);
}

/* Looks at a wait, and releases it if it has to end. True: the wait was released, and the stream may soon wait again. */
static bool look(struct copies *copies, uint64_t now_ns) {
    const struct conn_owner *owner = &copies->chan->owner;
    const struct work_status *status = owner->gpu->status;
    uint32_t *at_word = own_word(copies, COPIES_AT), at = load(at_word);
    if (at != 0 && __atomic_load_n(&status->abort, __ATOMIC_ACQUIRE)) { /* pairs with boot_end_word(), exec_gpu_end() */
        release(copies, at);
        return true;
    }
    if (at != 0 && !(at & COPIES_SEEN)) { /* a relaxed mark: only this thread reads it */
        __atomic_compare_exchange_n(at_word, &at, at | COPIES_SEEN, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        copies->since_ns = now_ns;
    } else if (at != 0) {
        enum collet_result result = judge(copies, at, now_ns - copies->since_ns);
        if (result != COLLET_SUCCESS)
            boot_fail(owner->boot, result, err_last());
    }
    return false;
}

/* ---- of all ---- */

/* Thousands of waits may stand behind the one that was released. So there is no sleep between them. */
static uint64_t look_at_waits(void) {
    uint64_t now_ns = os_now_ns();
    for (struct copies *copies = all; copies != NULL; copies = copies->next)
        if (look(copies, now_ns))
            released_ns = now_ns;
    if (all == NULL)
        return PATROL_OVER;
    return now_ns - released_ns < LOOK_EVERY_NS ? 0 : LOOK_EVERY_NS;
}

enum collet_result copies_watch(struct copies *copies) {
    patrol_lock(&patrol);
    enum collet_result result = patrol_start(&patrol);
    if (result == COLLET_SUCCESS) {
        copies->next = all;
        all = copies;
    }
    pthread_mutex_unlock(&patrol.lock);
    return result;
}

void copies_unwatch(const struct copies *copies) {
    pthread_mutex_lock(&patrol.lock);
    struct copies **link = &all;
    while (*link != NULL && *link != copies)
        link = &(*link)->next;
    if (*link != NULL)
        *link = copies->next;
    pthread_mutex_unlock(&patrol.lock);
}
