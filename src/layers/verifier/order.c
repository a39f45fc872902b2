/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector clocks.
 * After: L. Lamport, "Time, clocks, and the ordering of events in a distributed system", Comm. ACM 21 (1978), and
 * C. Fidge, "Timestamps in message-passing systems that preserve the partial ordering", Proc. ACSC 11 (1988).
 */
#include "layers/verifier/order.h"

#include "base/grow.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

bool order_create(struct order *order, size_t nworkers, size_t group, size_t nslots, size_t nplaces) {
    *order = (struct order){
        .nworkers = nworkers,
        .group = group,
        .nplaces = nplaces,
    };
    order->clocks = arena_get(&order->arena, nworkers * nworkers, sizeof(uint32_t));
    order->carried = arena_get(&order->arena, nslots * nworkers, sizeof(uint32_t));
    order->places = arena_get(&order->arena, nplaces, sizeof(struct order_place));
    order->read_at = arena_get(&order->arena, nplaces * group, sizeof(uint32_t));
    if (order->arena.failed)
        return false;
    for (size_t p = 0; p < nplaces; p++)
        order->places[p] = (struct order_place){.writer = -1, .loan = -1};
    return true;
}

void order_destroy(struct order *order) {
    free(order->loans);
    arena_free(&order->arena);
}

static uint32_t *clock_of(struct order *order, int worker) { return order->clocks + (size_t)worker * order->nworkers; }

void order_step(struct order *order, int worker) { clock_of(order, worker)[worker]++; }

void order_receive(struct order *order, int worker, size_t slot) {
    uint32_t *clock = clock_of(order, worker);
    const uint32_t *carried = order->carried + slot * order->nworkers;
    for (size_t w = 0; w < order->nworkers; w++)
        clock[w] = clock[w] > carried[w] ? clock[w] : carried[w];
}

void order_send(struct order *order, int worker, size_t slot) {
    memcpy(order->carried + slot * order->nworkers, clock_of(order, worker), order->nworkers * sizeof(uint32_t));
}

/* ---- accesses ---- */

static int unknown_writer(const struct order *order, const uint32_t *clock, size_t place) {
    struct order_place last = order->places[place];
    return last.writer >= 0 && clock[last.writer] < last.wrote ? last.writer : -1;
}

static int unknown_reader(const struct order *order, const uint32_t *clock, int first, size_t place) {
    for (size_t w = 0; w < order->group && (size_t)first + w < order->nworkers; w++)
        if (order->read_at[place * order->group + w] > clock[(size_t)first + w])
            return first + (int)w;
    return -1;
}

static bool is_known(const uint32_t *clock, const struct order_loan *loan) {
    return loan->read_at > 0 && clock[loan->reader] >= loan->read_at;
}

static int unknown_borrower(const struct order *order, const uint32_t *clock, size_t place) {
    for (int i = order->places[place].loan; i >= 0; i = order->loans[i].older)
        if (!is_known(clock, &order->loans[i]))
            return order->loans[i].reader;
    return -1;
}

/* A worker that uses the place, or whose use of the place is not over as far as the clock knows. −1: there is none. */
static int unknown_user(const struct order *order, const uint32_t *clock, int first, size_t place) {
    int user = unknown_writer(order, clock, place);
    user = user >= 0 ? user : unknown_reader(order, clock, first, place);
    return user >= 0 ? user : unknown_borrower(order, clock, place);
}

int order_read(struct order *order, int worker, int first, size_t place) {
    const uint32_t *clock = clock_of(order, worker);
    order->read_at[place * order->group + (size_t)(worker - first)] = clock[worker];
    return unknown_writer(order, clock, place);
}

int order_write(struct order *order, int worker, int first, size_t place) {
    const uint32_t *clock = clock_of(order, worker);
    int user = unknown_user(order, clock, first, place);
    order->places[place].writer = worker;
    order->places[place].wrote = clock[worker];
    return user;
}

int order_land(const struct order *order, size_t slot, int first, size_t place) {
    return unknown_user(order, order->carried + slot * order->nworkers, first, place);
}

bool order_has_heard(struct order *order, int worker, size_t slot, int sender) {
    return clock_of(order, worker)[sender] >= order->carried[slot * order->nworkers + (size_t)sender];
}

/* ---- loans ---- */

int order_lend(struct order *order, size_t place, int reader) {
    if (!grow(&order->loans, (size_t)order->nloans, 1, &order->loans_room, sizeof(*order->loans)))
        return -1;
    order->loans[order->nloans] = (struct order_loan){place, reader, 0, order->places[place].loan};
    return order->places[place].loan = order->nloans++;
}

void order_take(struct order *order, int loan) {
    int reader = order->loans[loan].reader;
    order->loans[loan].read_at = clock_of(order, reader)[reader];
}

bool order_is_over(struct order *order, int loan, int first, int count) {
    bool known = false;
    for (int worker = first; worker < first + count; worker++)
        known |= is_known(clock_of(order, worker), &order->loans[loan]);
    return known;
}
