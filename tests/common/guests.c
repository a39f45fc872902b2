/* SPDX-License-Identifier: Apache-2.0 */
#include "common/guests.h"

#include "base/config_read.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/dial.h"
#include "boot/tree.h"
#include "boot/table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROUND_NS 20000ull /* between the first attempts of two guests */

struct crowd;

struct guest {
    struct crowd *crowd;
    int rank;
    struct dial dial;
    struct wire *root, *parent;
    struct seat seat;
    struct table table; /* of those below rank 0 */
};

struct crowd {
    struct watch_task start;
    struct id id;
    struct config agreed;
    int nranks, asks;
    struct guest *guests; /* by rank; that of rank 0 is not used */
    pthread_mutex_t lock;
    struct guests_result result;
};

static void trouble(struct crowd *crowd, const char *text) {
    pthread_mutex_lock(&crowd->lock);
    if (crowd->result.trouble == NULL)
        crowd->result.trouble = text;
    pthread_mutex_unlock(&crowd->lock);
}

static void count(struct crowd *crowd, int *counter) {
    pthread_mutex_lock(&crowd->lock);
    ++*counter;
    pthread_mutex_unlock(&crowd->lock);
}

/* As random as a process's own. */
static void identity_of(int rank, uint64_t process[2]) {
    process[0] = (uint64_t)rank * 0x9e3779b97f4a7c15u;
    process[1] = (uint64_t)rank;
}

/* --------------------------------------------------------------------------------------------------------------- the tree */

static void say_ready(struct guest *guest) {
    const struct node_report report = {guest->rank, guest->rank};
    wire_send(guest->root, TABLE_READY, &report, sizeof report, NULL, 0);
}

static void on_table(struct guest *guest, const struct frame *frame) {
    if (frame->type < TABLE_KNOBS) /* a heartbeat */
        return;
    switch (table_take(&guest->table, frame)) {
    case TABLE_NONSENSE: trouble(guest->crowd, "rank 0 sent what is no table"); break;
    case TABLE_KNOWN: say_ready(guest); break;
    case TABLE_COMPLETE:
        table_free(&guest->table);
        count(guest->crowd, &guest->crowd->result.tables);
        break;
    case TABLE_PART: break;
    }
}

static void parent_ready(struct wire *wire) {
    struct guest *guest = wire->owner;
    struct frame frame;
    const bool open = wire_fill(wire, wire_room(TABLE_PART_BYTES));
    while (wire_next(wire, TABLE_PART_BYTES, &frame) > 0)
        on_table(guest, &frame);
    if (!open) {
        wire_destroy(wire);
        guest->parent = NULL;
    }
}

static void on_parent(struct dial *dial, struct wire *wire) {
    struct guest *guest = WATCH_OWNER(dial, struct guest, dial);
    struct {
        int32_t place, zero;
        uint64_t process[2];
    } hello = {.place = guest->seat.place};
    identity_of(guest->rank, hello.process);
    guest->parent = wire;
    wire->ready = parent_ready;
    wire->owner = guest;
    wire_send(wire, 1, &hello, sizeof hello, NULL, 0); /* TREE_HELLO */
    parent_ready(wire);
}

static void round_failed(struct dial *dial) {
    if (dial->exhausted)
        trouble(WATCH_OWNER(dial, struct guest, dial)->crowd, "the guests have too few descriptors");
}

/* ------------------------------------------------------------------------------------------------------ the meeting point */

static void on_seat(struct guest *guest, const struct frame *frame) {
    const struct crowd *crowd = guest->crowd;
    uint8_t secret[SECRET_BYTES], key[SECRET_BYTES];
    if (!seat_read(frame->data, frame->bytes, crowd->nranks, &guest->seat) || guest->seat.rank != guest->rank) {
        trouble(guest->crowd, "a guest got a seat that is not its own");
        return;
    }
    if (places_parent(guest->seat.place) != 0) {
        say_ready(guest);
        return;
    }
    if (table_create(&guest->table, crowd->nranks) != COLLET_SUCCESS)
        trouble(guest->crowd, "no memory for a table");
    seat_secret(&guest->seat, crowd->id.secret, secret);
    id_key(secret, "tree", guest->seat.parent.process, sizeof guest->seat.parent.process, key);
    dial_start(&guest->dial, &guest->seat.parent.listener, key, 0, on_parent, round_failed);
}

static void on_done(struct guest *guest) {
    wire_finish(guest->root);
    guest->root = NULL;
    count(guest->crowd, &guest->crowd->result.done);
}

static void bring(struct crowd *crowd, int rank);

static bool asks(const struct guest *guest) {
    return guest->crowd->asks > 0 && guest->rank == guest->crowd->nranks / 2;
}

/* The answer to the last question lets the last guest set out. */
static void on_news(struct guest *guest) {
    struct crowd *crowd = guest->crowd;
    count(crowd, &crowd->result.news);
    if (crowd->result.news < crowd->asks)
        wire_send(guest->root, TABLE_ASK, NULL, 0, NULL, 0);
    else
        bring(crowd, crowd->nranks - 1);
}

static void root_ready(struct wire *wire) {
    struct guest *guest = wire->owner;
    struct frame frame;
    const bool open = wire_fill(wire, wire_room(TABLE_PART_BYTES));
    bool done = false;
    while (!done && wire_next(wire, TABLE_PART_BYTES, &frame) > 0) {
        done = frame.type == TABLE_DONE;
        if (frame.type == TABLE_SEAT)
            on_seat(guest, &frame);
        else if (frame.type == TABLE_NEWS && asks(guest))
            on_news(guest);
        else if (!done)
            trouble(guest->crowd, "a guest was told of a failure, or something that it did not ask");
    }
    if (done)
        on_done(guest);
    else if (!open) {
        trouble(guest->crowd, "the meeting point left a guest");
        wire_destroy(wire);
        guest->root = NULL;
    }
}

static void on_root(struct dial *dial, struct wire *wire) {
    struct guest *guest = WATCH_OWNER(dial, struct guest, dial);
    const struct crowd *crowd = guest->crowd;
    const struct boot_self self = {.device = COLLET_DEVICE_HOST};
    struct card card;
    card_fill(&card, crowd->nranks, guest->rank, &self, config_process());
    identity_of(guest->rank, card.process);
    memcpy(card.host_key, &guest->rank, sizeof guest->rank); /* a host of its own */
    card.listener = crowd->id.set;
    guest->root = wire;
    wire->ready = root_ready;
    wire->owner = guest;
    wire_send(wire, TABLE_JOIN, &card, sizeof card, NULL, 0);
    if (asks(guest))
        wire_send(wire, TABLE_ASK, NULL, 0, NULL, 0);
    root_ready(wire);
}

static void bring(struct crowd *crowd, int rank) {
    const struct id *id = &crowd->id;
    uint8_t key[SECRET_BYTES];
    id_key(id->secret, "meeting point", NULL, 0, key);
    crowd->guests[rank] = (struct guest){.crowd = crowd, .rank = rank};
    dial_start(&crowd->guests[rank].dial, &id->set, key, (uint64_t)crowd->nranks * ROUND_NS, on_root, round_failed);
}

static void bring_all(struct watch_task *task) {
    struct crowd *crowd = WATCH_OWNER(task, struct crowd, start);
    const int end = crowd->asks > 0 ? crowd->nranks - 1 : crowd->nranks;
    for (int rank = 1; rank < end; rank++)
        bring(crowd, rank);
}

struct guests_result guests_bring(const struct collet_unique_id *id, int nranks, int asks, int limit_s) {
    struct crowd *crowd = calloc(1, sizeof *crowd); /* the watch keeps it */
    struct watch *watch;
    *crowd = (struct crowd){.nranks = nranks, .asks = asks, .lock = PTHREAD_MUTEX_INITIALIZER};
    crowd->guests = calloc((size_t)nranks, sizeof *crowd->guests);
    if (id_unpack(id, &crowd->id) != COLLET_SUCCESS)
        return (struct guests_result){.trouble = "the id is none"};
    if (watch_start(&watch) != COLLET_SUCCESS)
        return (struct guests_result){.trouble = "there is no watch"};
    watch_task_init(&crowd->start, watch, bring_all);
    watch_post(&crowd->start);
    const uint64_t limit_ns = os_now_ns() + (uint64_t)limit_s * 1000000000u;
    const int tables = nranks - 1 < TREE_ARITY ? nranks - 1 : TREE_ARITY;
    struct guests_result result;
    do {
        usleep(2000);
        pthread_mutex_lock(&crowd->lock);
        result = crowd->result;
        pthread_mutex_unlock(&crowd->lock);
        if (os_now_ns() > limit_ns && result.trouble == NULL)
            result.trouble = "it takes too long";
    } while (result.trouble == NULL && (result.done < nranks - 1 || result.tables < tables));
    return result;
}

/* ------------------------------------------------------------------------------------------------------------------ rank 0 */

static double cpu_seconds(const struct rusage *usage) {
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

bool guests_host(const struct collet_unique_id *id, int nranks, struct guests_host_cost *cost) {
    const struct boot_self self = {.device = COLLET_DEVICE_HOST};
    static struct config config;
    struct boot *boot;
    struct rusage usage;
    const uint64_t begun_ns = os_now_ns();
    enum collet_result result = config_read(&config);
    config.init_timeout = 120;
    if (result == COLLET_SUCCESS)
        result = boot_join(id, nranks, 0, &self, &config, &boot);
    if (result != COLLET_SUCCESS)
        return false;
    *cost = (struct guests_host_cost){.seconds = 0};
    while ((result = boot_try_init(boot)) == COLLET_IN_PROGRESS) {
        const int lowest = dup(0); /* the lowest that is free: so many are in use */
        cost->descriptors = lowest > cost->descriptors ? lowest : cost->descriptors;
        close(lowest);
        usleep(1000);
    }
    getrusage(RUSAGE_SELF, &usage);
    cost->seconds = (double)(os_now_ns() - begun_ns) / 1e9;
    cost->cpu_seconds = cpu_seconds(&usage);
    cost->peak_bytes = (size_t)usage.ru_maxrss * 1024;
    return result == COLLET_SUCCESS; /* the guests are gone soon: no goodbye */
}
