/* SPDX-License-Identifier: Apache-2.0
 *
 * The lives of a rail.
 *
 *     a connection is made
 *            │
 *            ▼
 *     tested (TESTED) ── all greetings are acknowledged ──────────────────────▶ in use (UP)
 *        ▲     │                                                                  │
 *        │     │ a greeting fails                                                 │ a send fails, its port goes down,
 *        │     ▼                                                                  │ the other end says so …
 *        │   failed (LOST) ◀──────────────────────────────────────────────────────┘
 *        │     │
 *        │     │ its queue pairs are destroyed, and both ends know what has come
 *        │     ▼
 *        └── settled (DOWN)
 *     both ports are up, and its wait is over (verbs_lost.c)
 *
 *    producer                                        consumer
 *                                                    connects; greets: an empty write on each queue pair
 *    sends slots through it  ◀─────────────────── UP all greetings are acknowledged, so the path carries both ways
 *    …
 *    destroys its queue pairs
 *    LOST ──────────────────────────────────────────▶ destroys its queue pairs: nothing that is still in the network can be
 *                                                    written any more. Takes all completions that are there
 *                            ◀────────────── SETTLED tail, head, steps beyond tail that have arrived
 *    sends again, over rails that are up, the steps
 *    that went through this one and are not there
 *    …
 *    CAN: port is up, wait is over ─────────────────▶ new queue pairs, when its own port is up and its wait is over
 *    new queue pairs; connects ◀──────────────── OPEN where they are
 *    OPENED, where they are ────────────────────────▶ a new life: as from the top
 *
 * Why is this order safe? If a slot were sent again while its first write may still be executed, that write could come
 * when the slot already holds a later step. The producer still has the memory of the lost steps, because it has got no
 * credit for them. A step may be sent again although it had come. That does no harm: its bytes are the same, and its first completion
 * was discarded with the queue pairs.
 *
 * Only destroyed queue pairs prove that no more writes come. The event that a device has failed proves nothing, because the
 * device might still write the data that it has. For a failed device, a driver may report that a queue pair is destroyed
 * without asking the device. Then the driver's next action is the proof: it resets the device, and that ends all writes.
 *
 * A rail in reserve has no life until it is needed. It is needed if the home rail is lost, or is down when the connection begins. Then
 * the producer sends CAN at once. A consumer that cannot open the rail answers SETTLED. So both ends know when no rail is
 * left.
 *
 * Either end may begin: it notices a loss by itself, or hears of the loss from the other end. Letters about one rail come in the
 * order in which they were sent. Each has the number of its life of the rail, so both ends count lives alike. A letter that
 * comes late in its life, such as UP for a rail that has been lost since, changes nothing. A letter about another life is
 * an error, and breaks the connection. The first life of a rail that is not in reserve begins with the connection
 * (verbs_setup.c).
 */
#include "base/os.h"
#include "transport/verbs/verbs_direct.h"
#include "transport/verbs/verbs_end.h"

enum about { NEWS_CAN, NEWS_OPEN, NEWS_OPENED, NEWS_UP, NEWS_LOST, NEWS_SETTLED };

/* A letter about a rail. */
struct news {
    uint8_t about, rail;
    uint32_t life;                /* OPEN: the life that begins. CAN: the life that is over */
    uint32_t arrived;             /* SETTLED: bit k: step tail + k has come */
    uint64_t tail, head;          /* SETTLED */
    struct verbs_address address; /* OPEN, OPENED */
};

static enum collet_result send_news(struct conn *conn, int r, enum about about, struct news news) {
    const struct verbs_end *end = conn->impl;
    news.about = (uint8_t)about;
    news.rail = (uint8_t)r;
    news.life = end->rails[r].life;
    return boot_send(conn->owner->boot, conn->peer, transport_key(conn, VERBS_NEWS + conn->side), &news, sizeof(news));
}

void verbs_rail_test(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    rail->state = VERBS_RAIL_TESTED;
    if (verbs_rail_connect(conn, r) != COLLET_SUCCESS)
        verbs_rail_lost(conn, r, "is unreachable: %.150s", err_last());
    for (int q = 0; q < end->nqps && conn->side == CONN_CONSUMER && rail->state == VERBS_RAIL_TESTED; q++)
        if (!verbs_post_counter(conn, r * VERBS_QPS_MAX + q, wire_head(conn)))
            verbs_rail_lost(conn, r, "could not be sent to: the device takes no sends");
}

/* May the rail be tested, as far as this end knows? A rail in reserve may, as soon as the producer needs it. */
static bool is_due(const struct verbs_end *end, int r) {
    const struct verbs_rail *rail = &end->rails[r];
    if (rail->state != VERBS_RAIL_DOWN)
        return false;
    if (rail->untried)
        return rail->invited || verbs_rail_is_needed(end, r);
    return end->stage == VERBS_READY && verbs_rail_usable(end, r) && os_now_ns() >= rail->due_ns;
}

/* Opens a rail for a new life. False: this end cannot do it now. */
static bool open_again(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    if (verbs_rail_open(conn, r) == COLLET_SUCCESS && verbs_direct_renew(conn, r))
        return true;
    log_info(NET, "rank %d: rail %d to rank %d cannot be tested now: %s", conn->owner->rank, r, conn->peer, err_last());
    verbs_rail_close(end, r);
    return false;
}

/* Makes sure that a lost rail moves no more data. False: the device cannot promise that, so steps are not sent again, and loans stay. */
static bool silence(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    const bool silent = verbs_rail_silence(end, r);
    if (!silent)
        verbs_set_broken(conn, "%s does not destroy the queue pairs of a rail that is lost",
                         end->rails[r].port->device->name);
    return silent;
}

/* ----------------------------------------------------------------------------------------------------------- the consumer */

static bool is_greeted(const struct verbs_end *end, int r) {
    for (int q = 0; q < end->nqps; q++)
        if (end->qps[r][q].posted == 0 || end->qps[r][q].posted != end->qps[r][q].completed)
            return false;
    return true;
}

static enum collet_result settle(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    if (!silence(conn, r))
        return COLLET_SUCCESS;
    verbs_poll(conn, r);
    if (!verbs_direct_settled(end, r))
        return COLLET_SUCCESS; /* a later turn settles the rail */
    verbs_rail_close(end, r);
    struct news news = {.tail = *conn->end.tail, .head = wire_head(conn)};
    for (uint32_t k = 0; k < conn->end.nslots; k++)
        if (end->arrived[(news.tail + k) & (conn->end.nslots - 1)] != 0)
            news.arrived |= 1u << k;
    end->rails[r].state = VERBS_RAIL_DOWN;
    end->credit = news.head;
    verbs_rail_is_out(conn, r);
    return send_news(conn, r, NEWS_SETTLED, news);
}

/* This end cannot open the rail now. If the rail was in reserve, the producer waits for it. So the producer is told. */
static enum collet_result refuse_to_open(struct conn *conn, int r) {
    const struct verbs_end *end = conn->impl;
    if (!end->rails[r].untried) {
        verbs_rail_waits(conn, r);
        return COLLET_SUCCESS;
    }
    verbs_rail_refused(conn, r);
    return send_news(conn, r, NEWS_SETTLED, (struct news){.tail = *conn->end.tail, .head = wire_head(conn)});
}

static enum collet_result consumer_turn(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    if (rail->state == VERBS_RAIL_LOST)
        return settle(conn, r);
    if (rail->state == VERBS_RAIL_TESTED && is_greeted(end, r)) {
        verbs_rail_up(conn, r);
        return send_news(conn, r, NEWS_UP, (struct news){0});
    }
    if (!rail->invited || !is_due(end, r))
        return COLLET_SUCCESS;
    if (!verbs_rail_usable(end, r) || !open_again(conn, r))
        return refuse_to_open(conn, r);
    rail->invited = false;
    rail->life++;
    rail->state = VERBS_RAIL_TESTED;
    return send_news(conn, r, NEWS_OPEN, (struct news){.address = end->mine.rails[r]});
}

static bool consumer_takes(struct conn *conn, const struct news *news) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[news->rail];
    if (news->life != rail->life)
        return false;
    if (news->about == NEWS_LOST)
        verbs_rail_lost(conn, news->rail, "says that this rail is lost");
    else if (news->about == NEWS_CAN)
        rail->invited = true;
    else if (news->about == NEWS_OPENED && rail->state == VERBS_RAIL_TESTED) {
        end->theirs.rails[news->rail] = news->address;
        verbs_rail_test(conn, news->rail);
    }
    return news->about == NEWS_LOST || news->about == NEWS_CAN || news->about == NEWS_OPENED;
}

/* ----------------------------------------------------------------------------------------------------------- the producer */

/* Had the step come when the lost rail was settled? Steps beyond the letter's bits were sent later, and are lost. */
static bool had_arrived(const struct conn *conn, const struct news *settled, uint64_t step) {
    uint64_t ahead = step - settled->tail;
    return (int64_t)ahead < 0 || (ahead < conn->end.nslots && (settled->arrived & 1u << ahead));
}

static void take_settled(struct conn *conn, const struct news *settled) {
    struct verbs_end *end = conn->impl;
    int r = settled->rail;
    if (end->rails[r].untried && end->rails[r].state == VERBS_RAIL_DOWN) {
        verbs_rail_refused(conn, r);
        return;
    }
    verbs_rail_lost(conn, r, "says that this rail is lost");
    if (end->rails[r].state != VERBS_RAIL_LOST)
        return;
    if ((int64_t)(settled->head - *conn->end.head) > 0)    /* otherwise credits came earlier by another rail */
        port_store_release(conn->end.head, settled->head); /* Pairs with fifo_has_credit(). */
    for (uint64_t step = *conn->end.head; step != end->sent; step++) {
        uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
        if (end->carrier[slot] / VERBS_QPS_MAX == r && !had_arrived(conn, settled, step))
            end->again |= 1u << slot;
    }
    verbs_rail_close(end, r);
    end->rails[r].state = VERBS_RAIL_DOWN;
    end->rails[r].told = false;
    log_info(NET, "rank %d: rail %d to rank %d is settled, %d slot(s) are sent again", conn->owner->rank, r, conn->peer,
             __builtin_popcount(end->again));
    verbs_rail_is_out(conn, r);
}

/* Sends the letter that belongs to the rail's present state. Each letter is sent once. */
static enum collet_result producer_turn(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    const bool lost = rail->state == VERBS_RAIL_LOST, tested = rail->state == VERBS_RAIL_TESTED;
    if (rail->told || !(lost || tested || is_due(end, r)))
        return COLLET_SUCCESS;
    rail->told = true;
    if (lost && !silence(conn, r))
        return COLLET_SUCCESS;
    return send_news(conn, r,
                     lost     ? NEWS_LOST
                     : tested ? NEWS_OPENED
                              : NEWS_CAN,
                     (struct news){.address = end->mine.rails[r]});
}

/* The consumer tests a new life. If this end cannot go on, it tells the consumer that this life is over. */
static void take_open(struct conn *conn, const struct news *news) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[news->rail];
    const bool opened = verbs_rail_usable(end, news->rail) && open_again(conn, news->rail);
    end->theirs.rails[news->rail] = news->address;
    rail->life = news->life;
    rail->state = VERBS_RAIL_TESTED;
    rail->told = false;
    if (opened)
        verbs_rail_test(conn, news->rail);
    else
        verbs_rail_lost(conn, news->rail, "cannot be reached: this end's port does not work yet");
}

static bool producer_takes(struct conn *conn, const struct news *news) {
    const struct verbs_end *end = conn->impl;
    const struct verbs_rail *rail = &end->rails[news->rail];
    const bool sane = (int64_t)(end->sent - news->tail) >= 0 && news->tail - news->head <= conn->end.nslots;
    if (news->about == NEWS_OPEN && rail->state == VERBS_RAIL_DOWN && news->life == rail->life + 1)
        take_open(conn, news);
    else if (news->about == NEWS_UP && news->life == rail->life) {
        if (rail->state == VERBS_RAIL_TESTED)
            verbs_rail_up(conn, news->rail);
    } else if (news->about == NEWS_SETTLED && news->life == rail->life && sane)
        take_settled(conn, news);
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- both ends */

static enum collet_result take_news(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    struct news news;
    size_t bytes;
    enum collet_result result;
    const uint64_t key = transport_key(conn, conn->side == CONN_PRODUCER ? VERBS_NEWS + CONN_CONSUMER : VERBS_NEWS);
    while ((result = boot_try_recv(conn->owner->boot, conn->peer, key, &news, sizeof(news), &bytes)) ==
           COLLET_SUCCESS) {
        bool makes_sense = bytes == sizeof(news) && news.rail < end->nrails;
        if (makes_sense && (news.about == NEWS_OPEN || news.about == NEWS_OPENED))
            makes_sense = verbs_is_address(&news.address);
        if (makes_sense)
            makes_sense = conn->side == CONN_PRODUCER ? producer_takes(conn, &news) : consumer_takes(conn, &news);
        if (!makes_sense)
            verbs_set_broken(conn, "what it says of a rail cannot be");
    }
    return result == COLLET_IN_PROGRESS ? COLLET_SUCCESS : result;
}

static enum collet_result all_rails(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    COLLET_TRY(take_news(conn));
    for (int r = 0; r < end->nrails; r++)
        COLLET_TRY(conn->side == CONN_PRODUCER ? producer_turn(conn, r) : consumer_turn(conn, r));
    return COLLET_SUCCESS;
}

void verbs_failover_progress(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    const bool listens = end->stage == VERBS_GREETING || end->turns % LISTEN_EVERY_TURNS == 0;
    if (end->broken[0] != '\0' || !(listens || verbs_any_rail(end, VERBS_RAIL_LOST)))
        return;
    if (all_rails(conn) < 0)
        verbs_set_broken(conn, "%s", err_last());
}
