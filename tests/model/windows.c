/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of one-sided operations (src/layers/windows): put, signal, wait, get and flush, by address and by packets.
 *
 *      by address    thread 0, rank 0          thread 2, another rank         thread 1, the owner
 *                    copies, adds 1            copies, adds 1                 waits for both, reads
 *
 *      by packets    thread 0, rank 0          thread 2, collet-rma           thread 1, the owner
 *                    fills slots ────────────▶ copies into the window,        waits and moves its RMA engine, too, reads
 *                                              adds 1
 *
 * What was put must be there after its signal, what was got after the call, and what was flushed after the flush. An operation lies on the
 * stack of its caller, which is done with it when the call returns: whoever touched it later would race. An RMA engine is moved by one
 * thread at a time.
 *
 * Left out are other rooms: windows, connections, failures. They are stood in for below.
 */
#include "base/call_lock.h"
#include "explore.h"
#include "model.h"

#include <pthread.h>

/* The lock of an RMA engine is a mutex here: wake.c has the lock itself. Who would find it taken waits for it; or it always finds it taken, in
 * scenarios in which collet-rma moves everything. */
static pthread_mutex_t *mutex_of(const struct call_lock *lock);
static bool finds_taken(const struct call_lock *lock);
#define call_lock_try(lock) (!finds_taken(lock) && pthread_mutex_lock(mutex_of(lock)) == 0)
#define call_lock_acquire(lock, limit_ns) ((void)pthread_mutex_lock(mutex_of(lock)))
#define call_lock_release(lock) ((void)pthread_mutex_unlock(mutex_of(lock)))
#include "layers/windows/await.c"
#include "layers/windows/onesided.c"
#include "layers/windows/packet.c"
#include "layers/windows/receive.c"
#include "layers/windows/rma.c"
#include "layers/windows/send.c"

#define ROUNDS 2      /* at most */
#define SLOTS 2       /* at most */
#define SLOT_BYTES 64 /* a packet with a word, and another one */
#define RANKS 3

enum asks { PUTS_AND_SIGNALS, PUT_SIGNALS, GETS, FLUSHES };

struct scenario {
    const char *name;
    enum asks asks;
    int rounds;
    uint32_t slots;
    bool by_packets;
    bool alone;  /* who waits finds its RMA engine taken, so collet-rma moves it */
    bool beside; /* thread 1 is the owner's collet-rma, and thread 2 that of rank 0 */
};

static const struct scenario scenarios[] = {
    {"by address: puts, then signals, of two ranks", PUTS_AND_SIGNALS, 2, 1, false, false, false},
    {"by address: puts with signals, of two ranks", PUT_SIGNALS, 1, 1, false, false, false},
    {"by packets: puts with signals, 1 slot", PUT_SIGNALS, 2, 1, true, false, false},
    {"by packets: a put with a signal, collet-rma stores it", PUT_SIGNALS, 1, 1, true, true, false},
    {"by packets: a get", GETS, 1, 1, true, true, false},
    {"by packets: gets, collet-rma brings them", GETS, 2, 1, true, true, true},
    {"by packets: a put and a flush, 2 slots", FLUSHES, 1, 2, true, true, false},
    {"by packets: puts and a flush, 1 slot", FLUSHES, 2, 1, true, true, false},
};

static const struct scenario *now; /* the scenario of the execution */

struct way { /* a connection, from one rank to the other */
    uint64_t tail, head;
    struct fifo_slot_header headers[SLOTS];
    char slots[SLOTS * SLOT_BYTES] __attribute__((aligned(8)));
    struct conn producer, consumer;
};

struct shared {
    struct collet_comm comms[2]; /* of ranks 0 and 1 */
    struct windows windows[2];
    struct rma rmas[2];
    pthread_mutex_t locks[2];
    struct endpoint *tables[2][RANKS];
    struct endpoint endpoints[2];
    struct collet_window window; /* rank 1's view of its own; others look at its number only */
    struct chan chan;
    struct conn_owner owner;
    struct transport transport;
    struct way ways[2]; /* 0 → 1, 1 → 0 */
    uint64_t signals[RANKS], waited[RANKS];
    uint64_t buff[RANKS][ROUNDS]; /* the window, a row for each rank that writes */
    uint64_t got[ROUNDS];
    int over;    /* threads 0 and 1 that have ended */
    int flushed; /* thread 0 has flushed, and says so by other means */
};
_Static_assert(sizeof(struct shared) <= MODEL_ARENA_BYTES, "all fits");

static struct shared *shared(void) { return (struct shared *)(void *)model_arena; }
static pthread_mutex_t *mutex_of(const struct call_lock *lock) {
    return &shared()->locks[lock == &shared()->rmas[1].lock];
}
static bool finds_taken(const struct call_lock *lock) {
    const int rank = lock == &shared()->rmas[1].lock, thread = explore_thread();
    return rank == 1 ? now->alone && thread == 1 && !now->beside : now->beside && thread == 0;
}

static uint64_t word_of(int rank, int round) { return (uint64_t)(10 * (rank + 1) + round); }

/* ---- rooms that are stood in for ---- */

enum collet_result window_enter(struct collet_comm *comm, const struct collet_window *window, int peer) {
    return comm && window && peer >= 0 ? COLLET_SUCCESS : COLLET_ERR_INTERNAL;
}
enum collet_result window_check_no_stream(const void *stream) {
    return stream == NULL ? COLLET_SUCCESS : COLLET_ERR_INTERNAL;
}
enum collet_result window_check(const struct collet_window *window, int peer, const struct window_target *target) {
    const bool fits = target->bytes <= sizeof shared()->buff && target->offset <= sizeof shared()->buff - target->bytes;
    return window && peer >= 0 && fits ? COLLET_SUCCESS : COLLET_ERR_INTERNAL;
}
struct piece window_piece(const struct collet_comm *comm, const struct collet_window *window, int peer, void *here,
                          size_t offset, size_t bytes) {
    (void)comm, (void)window, (void)peer;
    char *there = now->by_packets || bytes == 0 ? NULL : (char *)shared()->buff + offset;
    return (struct piece){.here = here, .there = there, .window = 0, .offset = offset, .bytes = bytes};
}
uint64_t *window_signal_at(const struct collet_comm *comm, const struct collet_window *window, int peer) {
    (void)window, (void)peer;
    return now->by_packets ? NULL : &shared()->signals[comm->rank];
}

bool wait_pause_slowly(struct waiter *waiter) {
    (void)waiter;
    model_wait();
    return false;
}
void comm_leave(struct collet_comm *comm) { (void)comm; }
enum collet_result boot_failed(const struct boot *boot) { return boot ? COLLET_ERR_INTERNAL : COLLET_SUCCESS; }
void boot_fail(struct boot *boot, enum collet_result result, const char *text) {
    (void)boot, (void)result;
    model_fail("the communicator fails: %s", text);
}
enum collet_result err_set_at(enum collet_result result, const char *format, ...) {
    (void)result;
    model_fail("an error: %s", format);
}
const char *err_last(void) { return "an error"; }
void chan_attend(struct chan *chan, uint64_t idle_ns, uint64_t now_ns) { (void)chan, (void)idle_ns, (void)now_ns; }
uint64_t os_now_ns(void) { return 0; }

/* ---- an execution begins ---- */

static void prepare_end(struct conn *conn, struct way *way) {
    conn->end.tail = &way->tail;
    conn->end.head = &way->head;
    conn->end.headers = way->headers;
    conn->end.slots[PROTOCOL_SIMPLE] = way->slots;
    conn->end.strides[PROTOCOL_SIMPLE] = SLOT_BYTES;
    conn->end.nslots = now->slots;
    conn->owner = &shared()->owner;
    conn->transport = &shared()->transport;
}

static void prepare_rank(int rank) {
    struct shared *s = shared();
    struct endpoint *endpoint = &s->endpoints[rank];
    s->comms[rank].rank = rank;
    s->comms[rank].nranks = 2;
    s->comms[rank].windows = &s->windows[rank];
    s->windows[rank].rma = &s->rmas[rank];
    endpoint->peer = 1 - rank;
    endpoint->out = &s->ways[rank].producer;
    endpoint->in = &s->ways[1 - rank].consumer;
    endpoint->ready = true;
    endpoint->last = &endpoint->first;
    endpoint->last_note = &endpoint->first_note;
    s->tables[rank][1 - rank] = endpoint;
    s->rmas[rank].comm = &s->comms[rank];
    s->rmas[rank].chan = &s->chan;
    s->rmas[rank].endpoints = s->tables[rank];
    s->rmas[rank].first = endpoint;
    model_name(&s->locks[rank], 4, "lock of rank %d", rank);
}

static void prepare(const struct model *model) {
    const struct scenario *scenario = model->facts;
    struct shared *s = shared();
    now = scenario;
    for (int k = 0; k < PROG_CONNECTS_COUNT; k++)
        s->owner.layouts[k].sizes = (struct protocol_sizes){SLOT_BYTES, SLOT_BYTES, SLOT_BYTES};
    for (int k = 0; k < 2; k++) {
        prepare_end(&s->ways[k].producer, &s->ways[k]);
        prepare_end(&s->ways[k].consumer, &s->ways[k]);
        prepare_rank(k);
        model_name(&s->ways[k].tail, 8, "tail of %d→%d", k, 1 - k);
        model_name(&s->ways[k].head, 8, "head of %d→%d", k, 1 - k);
    }
    s->window.waited = s->waited;
    s->window.here = (struct rma_window){.buff = (char *)s->buff, .bytes = sizeof s->buff, .signals = s->signals};
    s->rmas[1].windows = &s->window.here;
    for (int rank = 0; rank < RANKS; rank++)
        model_name(&s->signals[rank], 8, "signals of %d", rank);
    for (int round = 0; round < scenario->rounds && scenario->asks == GETS; round++)
        s->buff[0][round] = word_of(0, round);
}

/* ---- threads ---- */

static size_t place_of(int rank, int round) { return (size_t)(rank * ROUNDS + round) * sizeof(uint64_t); }

static void put(const struct scenario *scenario, struct collet_comm *comm, int rank, int round) {
    uint64_t word = word_of(rank, round);
    if (scenario->asks == PUT_SIGNALS) {
        collet_put_signal(&word, sizeof word, 1, &shared()->window, place_of(rank, round), comm, NULL);
    } else {
        collet_put(&word, sizeof word, 1, &shared()->window, place_of(rank, round), comm, NULL);
        if (scenario->asks == PUTS_AND_SIGNALS)
            collet_signal(1, &shared()->window, comm, NULL);
    }
    word = 0; /* local completion: it is the caller's again */
}

static void ask(const struct scenario *scenario, struct collet_comm *comm, int rank) {
    for (int round = 0; round < scenario->rounds; round++)
        if (scenario->asks == GETS) {
            uint64_t word = 0;
            collet_get(&word, sizeof word, 1, &shared()->window, place_of(0, round), comm, NULL);
            if (word != word_of(0, round))
                model_fail("a get is done, and has %d", (int)word);
        } else {
            put(scenario, comm, rank, round);
        }
    if (scenario->asks == FLUSHES) {
        collet_win_flush(1, &shared()->window, comm, NULL);
        __atomic_store_n(&shared()->flushed, 1, __ATOMIC_RELEASE);
    }
}

static void expect(int rank, int round) {
    if (shared()->buff[rank][round] != word_of(rank, round))
        model_fail("word %d of rank %d is not there", round, rank);
}

/* The owner. It reads what was put, and writes there again. */
static void own(const struct scenario *scenario) {
    struct collet_comm *comm = &shared()->comms[1];
    const bool signals = scenario->asks == PUTS_AND_SIGNALS || scenario->asks == PUT_SIGNALS;
    for (int rank = 0; rank < RANKS; rank += 2)
        for (int round = 0; round < scenario->rounds && signals && (rank == 0 || !scenario->by_packets); round++) {
            collet_wait_signal(rank, 1, &shared()->window, comm, NULL);
            expect(rank, round);
            shared()->buff[rank][round] = 0;
        }
    while (scenario->asks == FLUSHES && !__atomic_load_n(&shared()->flushed, __ATOMIC_ACQUIRE))
        model_wait();
    for (int round = 0; round < scenario->rounds && scenario->asks == FLUSHES; round++)
        expect(0, round);
}

/* collet-rma of a rank makes a round for each slot that has come, until the others have ended. The loads put nothing in order. */
static void attend(int rank, int others) {
    for (uint64_t rounds = 0; __atomic_load_n(&shared()->over, __ATOMIC_RELAXED) < others;)
        if (rounds < __atomic_load_n(&shared()->ways[1 - rank].tail, __ATOMIC_RELAXED)) {
            rma_progress(&shared()->rmas[rank]);
            rounds++;
        } else {
            model_wait();
        }
}

static void thread_main(const struct model *model, int thread) {
    const struct scenario *scenario = model->facts;
    struct collet_comm other = {.rank = 2, .nranks = 3, .windows = &shared()->windows[0]};
    if (scenario->by_packets && thread == 2) {
        attend(scenario->beside ? 0 : 1, scenario->beside ? 1 : 2);
        return;
    }
    if (scenario->beside && thread == 1) {
        attend(1, 1);
        return;
    }
    if (thread == 1)
        own(scenario);
    else
        ask(scenario, thread == 2 ? &other : &shared()->comms[0], thread);
    __atomic_fetch_add(&shared()->over, 1, __ATOMIC_ACQ_REL);
}

static void check_end(const struct model *model) {
    (void)model;
    if (shared()->endpoints[0].first != NULL)
        model_fail("something is left");
}

#define STATES_MOST 5000

/* windows [quick | large] */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0, large = argc > 1 && strcmp(argv[1], "large") == 0;
    unsigned long long states = 0;
    int passed = 0, failed = 0;
    for (size_t k = 0; k < sizeof(scenarios) / sizeof(*scenarios) && !(quick && failed); k++) {
        struct model model = {scenarios[k].name, 3, prepare, thread_main, check_end, &scenarios[k], true};
        struct model_result result = model_explore(&model, large ? UINT64_MAX : STATES_MOST, quick);
        states += result.states;
        failed += result.failed;
        passed += !result.failed;
        model_print(&model, &result, quick);
    }
    if (!quick)
        printf("windows: %llu states\n%d passed, %d failed\n", states, passed, failed);
    return failed != 0;
}
