/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a verbs connection, as its files share it. Each calls only those below it:
 *
 *    verbs.c                                      the transport's table
 *    verbs_setup.c                                how ends come to be and go
 *    verbs_failover.c                             the lives of a rail: it is tested, used, lost, settled, and tested again
 *    verbs_send.c, verbs_receive.c                slots and heads
 *    verbs_land.c                                 slots whose payloads go into memory of the program
 *    verbs_direct.c                               slots in memory of a GPU
 *    verbs_lost.c                                 a rail is lost, or the connection is broken
 *    verbs_open.c                                 what a rail has for one life
 *    verbs_rail.c                                 which ports are the rails
 *    verbs_qp.c, verbs_memory.c, verbs_device.c   queue pairs, registrations, devices: know nothing of connections
 *
 *    rails[r] = a port here and the port that it is paired with there; one registration of the FIFO; for each life of the rail
 *    a completion queue, and qps[r][q] = the queue pairs on it;  live[] = those that slots and credits go through, rail by turns: where the channel is
 *    tied to a NIC (verbs_rail.c) those of that one, as long as it is up
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_END_H
#define COLLET_TRANSPORT_VERBS_VERBS_END_H

#include "base/crc32c.h"
#include "base/err.h"
#include "base/log.h"
#include "transport/transport.h"
#include "transport/verbs/verbs_direct.h"
#include "transport/verbs/verbs_qp.h"
#include "transport/wire.h"

#define STEP_WRITES 3         /* of one step, at most */
#define LISTEN_EVERY_TURNS 64 /* looks for letters about rails */
#define VERBS_LIVE_MAX (VERBS_RAILS_MAX * VERBS_QPS_MAX)

/* The rest of a slot's header, where it changes. It lies behind the payload, in the same write. Or it is in a write of its own
 * before that: where the payload is lent, or where the slot is in memory of a GPU at either end, since no CPU looks there. */
struct verbs_frame {
    uint64_t sequence;
    uint32_t signature;
    uint32_t crc;   /* with COLLET_CHECKSUM: verbs_crc(); else 0 */
    uint32_t bytes; /* of the payload */
    uint32_t none;  /* 0 */
};

/* An immediate: a counter, where the slot's frame is, if it has one, and the slot's protocol as in its header's word. */
#define VERBS_FRAME_BEHIND (1u << (FIFO_WORD_SHIFT - 1)) /* in the same write, behind the payload */
#define VERBS_FRAME_AHEAD (1u << (FIFO_WORD_SHIFT - 2))  /* in a write of its own, before that of the payload */
#define VERBS_FRAMED (VERBS_FRAME_BEHIND | VERBS_FRAME_AHEAD)
#define VERBS_LANDED                                                                                                   \
    (1u << (FIFO_WORD_SHIFT - 3)) /* the payload is at its landing. From a consumer: a landing has come */
#define VERBS_COUNTER_MASK (VERBS_LANDED - 1)

/* Where the payload of a step is to go, in the consumer's memory. */
struct verbs_landing {
    uint64_t step, address;
    uint32_t bytes;
    uint32_t rails; /* bits by rail: there is a key */
    uint32_t keys[VERBS_RAILS_MAX];
    uint32_t
        check; /* verbs_landing_check(): a later landing for the same slot may overwrite this one while it is read */
};

/* What an end must know of the other: where its memory is, that of Simple slots, and frames that come by themselves. */
struct verbs_hello {
    uint64_t memory, slots, frames;
    uint8_t nrails, direct; /* direct: its Simple slots are in memory of a GPU */
    uint8_t takes_landings; /* a producer: it has receives for them */
    uint8_t home;           /* 1 + the number of the pair of ports that it is tied to; 0: it is to none */
    struct verbs_address rails[VERBS_RAILS_MAX];
};
_Static_assert(sizeof(struct verbs_hello) <= CONN_BLOB_BYTES, "it travels in the connection's blob");

/* Messages on the control plane, between the two ends. Two ranks may have a connection each way, which only the sides tell apart. */
enum verbs_letter {
    VERBS_ANSWER, /* a producer's verbs_hello */
    VERBS_NEWS    /* of a rail, from a producer; + 1: from a consumer (enum conn_side): verbs_failover.c */
};

/* verbs_failover.c has the picture. */
enum verbs_rail_state {
    VERBS_RAIL_DOWN,   /* settled, in reserve, or never up: it has no queue pairs */
    VERBS_RAIL_TESTED, /* connecting, or greeting */
    VERBS_RAIL_UP,     /* in use, or ready to be */
    VERBS_RAIL_LOST,   /* nothing goes by it any more; what went is being settled */
};

struct verbs_rail {
    struct verbs_port *port;
    struct ibv_mr *mr;
    struct verbs_depths depths;
    struct ibv_cq *cq; /* of this life; NULL: it has none */
    int cq_failed;     /* as an event said. Set by whoever reads the device's events */
    enum verbs_rail_state state;
    uint32_t life; /* the number of this life, or of the last one; equal at both ends */
    bool told;     /* producer: the consumer knows that it is lost; or that it may be tested */
    bool invited;  /* consumer: the producer says that it may be tested */
    bool untried;  /* left in reserve when the connection began, and neither up nor lost since */
    uint32_t losses, returns;
    uint32_t doublings; /* of the wait after its next loss */
    uint64_t since_ns;  /* when it came up, or was lost last */
    uint64_t due_ns;    /* not tested before */
};

enum verbs_stage { VERBS_OFFERED, VERBS_GREETING, VERBS_READY };

struct verbs_end {
    struct verbs_host *host;
    void *memory; /* of the host: all of the FIFO, but for Simple slots that are in `direct` */
    size_t bytes;
    struct verbs_frame *frames; /* by slot; behind the FIFO */
    struct verbs_landing
        *landings; /* by slot; behind the frames: as the consumer sends them, and the producer gets them */
    struct verbs_direct direct;
    enum verbs_kind kind;
    enum verbs_stage stage;
    int nrails, nqps;
    int home; /* the rail of the NIC that the channel is tied to; −1: there is none */
    struct verbs_rail rails[VERBS_RAILS_MAX];
    struct verbs_qp qps[VERBS_RAILS_MAX][VERBS_QPS_MAX];
    uint8_t live[VERBS_LIVE_MAX]; /* rail · VERBS_QPS_MAX + queue pair */
    int nlive;
    struct verbs_hello mine, theirs;
    uint32_t turns; /* of progress() */

    /* Producer. */
    uint32_t spread_bytes;           /* payloads that are longer go as plain writes, and then a notification */
    uint64_t sent;                   /* the next step that no queue pair has been given */
    uint32_t again;                  /* bits by slot: steps below `sent` that must be sent once more */
    uint32_t framed;                 /* bits by slot: it was sent with a frame */
    uint8_t carrier[FIFO_MAX_SLOTS]; /* by slot: the entry of live[] that its step went through */
    struct verbs_landing known[FIFO_MAX_SLOTS]; /* by slot: the landing that has come last */
    /* Payloads of slots, for the log: how many bytes were sent, from the program's memory, and into that of the consumer's. */
    struct verbs_tally {
        uint64_t bytes, lent, landed;
    } tally;

    /* Consumer. */
    uint32_t arrived[FIFO_MAX_SLOTS];   /* by slot: 1 + header.word of a step that came and is not delivered; 0: none */
    uint32_t frames_of[FIFO_MAX_SLOTS]; /* by slot that arrived: VERBS_FRAMED and VERBS_LANDED */
    uint8_t came_by[FIFO_MAX_SLOTS];    /* by slot: the rail */
    uint64_t credit;                    /* the head that was last sent */
    uint64_t told;                      /* behind the last step whose landing the producer was told, if it has one */

    struct verbs_frame frame;    /* of the step that was last sent, or delivered */
    char lost[ERR_TEXT_BYTES];   /* why the last rail that is lost is; "": none is */
    char broken[ERR_TEXT_BYTES]; /* why the connection is over; "": it is not */
};

static inline struct verbs_qp *verbs_qp_at(struct verbs_end *end, int index) {
    return &end->qps[index / VERBS_QPS_MAX][index % VERBS_QPS_MAX];
}

/* Are frames of Simple slots written by themselves? */
static inline bool verbs_frames_apart(const struct verbs_end *end) { return end->mine.direct || end->theirs.direct; }

/* Where the frame of a step is, at either end; word: of its slot's header; framed: VERBS_FRAME_BEHIND or _AHEAD. */
static inline void *verbs_frame_at(const struct conn *conn, uint64_t step, uint32_t word, uint32_t framed) {
    const struct verbs_end *end = conn->impl;
    if (framed & VERBS_FRAME_AHEAD)
        return &end->frames[step & (conn->end.nslots - 1)];
    return fifo_slot_at(&conn->end, fifo_word_protocol(word), step) + fifo_word_bytes(word);
}

/* Does a rail carry something while all is well? Else it is in reserve. */
static inline bool verbs_rail_carries(const struct verbs_end *end, int r) { return end->home < 0 || r == end->home; }

/* Is it time for it, in reserve or not? */
static inline bool verbs_rail_is_needed(const struct verbs_end *end, int r) {
    return verbs_rail_carries(end, r) || end->rails[end->home].state == VERBS_RAIL_DOWN ||
           end->rails[end->home].state == VERBS_RAIL_LOST;
}

/* Of a step: its payload, then what the frame and the immediate say of it. */
static inline uint32_t verbs_crc(const char *payload, uint64_t step, uint32_t word, uint64_t sequence,
                                 uint32_t signature) {
    const uint64_t said[] = {step, (uint64_t)word << 32 | signature, sequence};
    return crc32c(crc32c(0, payload, fifo_word_bytes(word)), said, sizeof(said));
}

/* Of all that is before it in the landing. */
uint32_t verbs_landing_check(const struct verbs_landing *landing);

extern const struct transport transport_verbs;
/* What a rank's process has of RDMA networks (verbs_device.h); 0: nothing. */
static inline uint64_t verbs_card_of(const struct peer_info *peer) { return transport_card(&transport_verbs, peer); }

/* verbs_setup.c: transport.offer, accept and close, and their part of ready. */
enum collet_result verbs_offer(struct conn *conn, struct conn_blob *blob);
enum collet_result verbs_accept(struct conn *conn, const struct conn_blob *blob);
enum collet_result verbs_connect(struct conn *conn); /* consumer: IN_PROGRESS until the producer has answered */
void verbs_free(struct conn *conn);

/* verbs_rail.c: the ports of the rails and the home among them; for a producer in accordance with the consumer's offer, NULL
 * for the consumer. */
void verbs_rails_choose(struct conn *conn, const struct verbs_hello *offer);
void verbs_rails_agree(struct conn *conn); /* the other end is known: are both tied to the same? */
/* Those that carry something now: all that are up, or the home rail alone. */
void verbs_update_live(struct verbs_end *end);

/* verbs_open.c: what a rail has for one life. plan: how long its queues are, in all lives; and whether it takes landings. */
enum collet_result verbs_rail_plan(struct conn *conn, int rail);
enum collet_result verbs_rail_open(struct conn *conn, int rail);    /* mine.rails[] says where it is */
enum collet_result verbs_rail_connect(struct conn *conn, int rail); /* to what theirs.rails[] says */
bool verbs_rail_silence(struct verbs_end *end, int rail);           /* false: the device does not promise that */
void verbs_rail_close(struct verbs_end *end, int rail);
/* Might this end use it now? */
bool verbs_rail_usable(const struct verbs_end *end, int rail);

/* verbs_land.c: the consumer tells the producer of its landings */
void verbs_tell_landings(struct conn *conn);
/* Consumer: may a payload of a step that has not come yet be written into memory of the program, or may that still be offered? */
bool verbs_may_land(const struct conn *conn);
/* Producer: the landing of a step has come. */
void verbs_take_landing(struct conn *conn, uint64_t step);
/* Where a step's payload of so many bytes is to go, by that rail; NULL: into its slot. */
const struct verbs_landing *verbs_landing_of(const struct conn *conn, uint64_t step, uint32_t bytes, int rail);

/* verbs_receive.c: takes completions of one rail. True if something came. */
bool verbs_poll(struct conn *conn, int rail);
/* Consumer: lets the executor see slots that have arrived, in the order of steps, as far as they are visible. */
void verbs_deliver(struct conn *conn);
/* The wr_id of receives of a queue pair. */
uint64_t verbs_receive_id(int index);

/* verbs_send.c: posts what was published, and what must be sent again. True if there was any. */
bool verbs_send_slots(struct conn *conn);
/* Consumer: sends the head, if that is due. */
void verbs_send_credit(struct conn *conn);
/* Has everything that was posted on rails that are up reached the other end? */
bool verbs_all_acknowledged(const struct conn *conn);
/* Has all of it that was lent? */
bool verbs_loans_acknowledged(const struct conn *conn);
/* Posts an empty write that carries a counter, through queue pair `index` (as in live[]). False: it takes none. */
bool verbs_post_counter(struct conn *conn, int index, uint64_t counter);
/* Sends a landing, of end->landings, through queue pair `index`, which has room. */
void verbs_post_landing(struct conn *conn, int index, const struct verbs_landing *landing);

/* verbs_lost.c */
void verbs_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]);
void verbs_set_broken(struct conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The rail cannot be used any more, because of what the text says. Another takes over, or the connection is broken. */
void verbs_rail_lost(struct conn *conn, int rail, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Asks the devices of the connection what has happened to them. */
void verbs_look(struct conn *conn);
/* Is a rail in this state? Lost: it is not settled yet. */
bool verbs_any_rail(const struct verbs_end *end, enum verbs_rail_state state);
/* It is not tested before a while has passed, which grows. */
void verbs_rail_waits(struct conn *conn, int rail);
/* One in reserve was needed, and an end cannot open it now. */
void verbs_rail_refused(struct conn *conn, int rail);
/* It is down, and the other end knows or will: if no other may be up soon, the connection is broken. */
void verbs_rail_is_out(struct conn *conn, int rail);
/* The rail is up: for the first time, or again. */
void verbs_rail_up(struct conn *conn, int rail);

/* verbs_failover.c: moves the rails from state to state. */
void verbs_failover_progress(struct conn *conn);
/* A life begins: the rail is open here, and the other end has said where it is there. */
void verbs_rail_test(struct conn *conn, int rail);

/* ---- credit ----
 *
 * The wire itself does not hold a producer up, so heads are sent back. A head is worth sending when half of the slots were consumed
 * since the last one. This cannot deadlock: fewer than nslots/2 credits are ever held back, so to the producer the FIFO looks like
 * one of more than nslots/2 slots whose credits come at once. That is at least two, and every program is verified to run with two. */

/* At a consumer that last sent the head `told`: is it time for a newer one? */
static inline bool wire_credit_is_due(const struct conn *conn, uint64_t told) {
    uint64_t half = conn->end.nslots > 1 ? conn->end.nslots / 2 : 1;
    return wire_head(conn) - told >= half;
}

/* At a producer: a head has come. One that is older than another that came first is of no interest. False: it is for slots
 * that were never sent. */
static inline bool wire_take_head(struct conn *conn, uint64_t head) {
    uint64_t known = *conn->end.head;
    if ((int64_t)(head - known) <= 0)
        return true;
    if (head - known > wire_tail(conn) - known)
        return false;
    port_store_release(conn->end.head, head); /* pairs with fifo_has_credit() */
    return true;
}

#define WIRE_NOT_SENT "it returned credits for slots that were not sent"

#endif
