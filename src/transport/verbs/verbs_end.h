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
 *    rails[r]    a port here and its partner there; one registration of the FIFO; and for each life of the rail a completion
 *                queue, with the queue pairs qps[r][q]
 *    live[]      the queue pairs that slots and credits use in turn. If the channel is tied to a NIC (verbs_rail.c), they are
 *                those of the home rail as long as that is up
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_END_H
#define COLLET_TRANSPORT_VERBS_VERBS_END_H

#include "base/crc32c.h"
#include "base/err.h"
#include "base/log.h"
#include "transport/transport.h"
#include "transport/verbs/verbs_qp.h"
#include "transport/wire.h"

#define VERBS_RAILS_MAX 4

#define STEP_WRITES 3         /* maximum number of writes per step */
#define LISTEN_EVERY_TURNS 64 /* turns between two checks for letters about rails */
#define VERBS_LIVE_MAX (VERBS_RAILS_MAX * VERBS_QPS_MAX)

/* The changing part of a slot's header. It follows the payload, in the same write. But if the payload is lent, or the slot is in GPU memory
 * at either end, where no CPU reads, the frame has its own write before the payload's write. */
struct verbs_frame {
    uint64_t sequence;
    uint32_t signature;
    uint32_t crc;   /* COLLET_CHECKSUM: verbs_crc(); else 0 */
    uint32_t bytes; /* bytes of the payload */
    uint32_t none;  /* unused, 0 */
};

/* An immediate has a counter, the place of the slot's frame (if there is a frame), and the slot's protocol as in its header's word. */
#define VERBS_FRAME_BEHIND (1u << (FIFO_WORD_SHIFT - 1)) /* the frame follows the payload in the same write */
#define VERBS_FRAME_AHEAD (1u << (FIFO_WORD_SHIFT - 2))  /* the frame has its own write, before the payload's */
#define VERBS_FRAMED (VERBS_FRAME_BEHIND | VERBS_FRAME_AHEAD)
#define VERBS_LANDED                                                                                                   \
    (1u << (FIFO_WORD_SHIFT - 3)) /* the payload is at its landing. From a consumer: a landing has come */
#define VERBS_COUNTER_MASK (VERBS_LANDED - 1)

/* The consumer's place for the payload of a step. */
struct verbs_landing {
    uint64_t step, address;
    uint32_t bytes;
    uint32_t rails; /* bits by rail: that rail has a key */
    uint32_t keys[VERBS_RAILS_MAX];
    uint32_t check; /* CRC of the fields above: a later landing may overwrite this one while it is read */
};

/* One end's description for the other end: addresses of its memory, of its Simple slots, and of frames with their own write. */
struct verbs_hello {
    uint64_t memory, slots, frames;
    uint8_t nrails, direct; /* direct: its Simple slots are in GPU memory */
    uint8_t takes_landings; /* producer: the end has receives for landings */
    uint8_t home;           /* 1 + number of the pair of ports to which this end is tied; 0: it is not tied */
    struct verbs_address rails[VERBS_RAILS_MAX];
};
_Static_assert(sizeof(struct verbs_hello) <= CONN_BLOB_BYTES, "it travels in the connection's blob");

/* Messages on the control plane between the two ends. Two ranks may have a connection in each direction; only the sides differ. */
enum verbs_letter {
    VERBS_ANSWER, /* the producer's verbs_hello */
    /* News of a rail, from a producer. VERBS_NEWS + 1: from a consumer (enum conn_side). See verbs_failover.c. */
    VERBS_NEWS
};

/* States of a rail; verbs_failover.c has a picture. */
enum verbs_rail_state {
    VERBS_RAIL_DOWN,   /* no queue pairs: settled, in reserve, or never up */
    VERBS_RAIL_TESTED, /* connecting, or greeting */
    VERBS_RAIL_UP,     /* in use, or ready for use */
    VERBS_RAIL_LOST,   /* no more data go by the rail; both ends settle which sent data have come */
};

struct verbs_rail {
    struct verbs_port *port;
    struct ibv_mr *mr;
    struct verbs_depths depths;
    struct ibv_cq *cq; /* completion queue of this life of the rail; NULL: none */
    int cq_failed;     /* the queue failed, as an event said; set by the thread that reads events */
    enum verbs_rail_state state;
    uint32_t life; /* number of this life, or of the last life; equal at both ends */
    bool told;     /* producer: the consumer knows that the rail is lost, or that it may be tested */
    bool invited;  /* consumer: the producer says that the rail may be tested */
    bool untried;  /* in reserve since the connection began: neither up nor lost so far */
    uint32_t losses, returns;
    uint32_t doublings; /* number of times that the wait after the rail's next loss is doubled */
    uint64_t since_ns;  /* time at which the rail came up, or was last lost */
    uint64_t due_ns;    /* no test before this time */
};

/* Slots in memory of a GPU: verbs_direct.h. */
enum verbs_flush { VERBS_FLUSH_NONE, VERBS_FLUSH_READ, VERBS_FLUSH_DRIVER };

struct verbs_direct_rail {
    struct ibv_mr *slots;
    /* Fields of a consumer with VERBS_FLUSH_READ: */
    struct ibv_mr *target; /* destination of the reads' bytes, which nobody uses */
    struct ibv_cq *cq;
    struct verbs_qp loop;
    /* Numbers of slots. landed: they have come by this rail. asked: they came before the newest read. flushed: they came
     * before the newest complete read. */
    uint32_t landed, asked, flushed;
};

struct verbs_direct {
    char *memory; /* memory of the GPU; NULL: all slots are in host memory */
    size_t bytes;
    void *scratch; /* pinned memory, for the reads */
    enum verbs_flush flush;
    struct verbs_direct_rail rails[VERBS_RAILS_MAX];
    uint32_t landed[FIFO_MAX_SLOTS]; /* [slot] number of the slot among the slots of its rail … */
    int8_t rail[FIFO_MAX_SLOTS];     /* [slot] … and that rail; −1: no flush needed */
};

enum verbs_stage { VERBS_OFFERED, VERBS_GREETING, VERBS_READY };

struct verbs_end {
    struct verbs_host *host;
    void *memory; /* host memory: the FIFO, without Simple slots if these are in `direct` */
    size_t bytes;
    struct verbs_frame *frames; /* [slot], after the FIFO */
    /* [slot], after the frames. Consumer: landings to send. Producer: landings that have come. */
    struct verbs_landing *landings;
    struct verbs_direct direct;
    enum verbs_kind kind;
    enum verbs_stage stage;
    int nrails, nqps;
    int home; /* rail of the NIC to which the channel is tied; −1: none */
    struct verbs_rail rails[VERBS_RAILS_MAX];
    struct verbs_qp qps[VERBS_RAILS_MAX][VERBS_QPS_MAX];
    uint8_t live[VERBS_LIVE_MAX]; /* rail · VERBS_QPS_MAX + queue pair */
    int nlive;
    struct verbs_hello mine, theirs;
    uint32_t turns; /* number of calls of progress() */

    /* Producer: */
    uint32_t spread_bytes;                      /* longer payloads go as plain writes, followed by a notification */
    uint64_t sent;                              /* the next step that has not been given to a queue pair */
    uint32_t again;                             /* bits by slot: steps before `sent` that must be sent again */
    uint32_t framed;                            /* bits by slot: the slot was sent with a frame */
    uint8_t carrier[FIFO_MAX_SLOTS];            /* [slot] entry of live[] by which the slot's step went */
    struct verbs_landing known[FIFO_MAX_SLOTS]; /* [slot] the landing that came last */
    /* Statistics for the log: bytes of all payloads; bytes from the program's memory; bytes into the consumer program's memory. */
    struct verbs_tally {
        uint64_t bytes, lent, landed;
    } tally;

    /* Consumer: */
    uint32_t arrived[FIFO_MAX_SLOTS];   /* [slot] 1 + header.word of a step that came and is not delivered; 0: none */
    uint32_t frames_of[FIFO_MAX_SLOTS]; /* [slot] VERBS_FRAMED and VERBS_LANDED, if it arrived */
    uint8_t came_by[FIFO_MAX_SLOTS];    /* [slot] rail by which the slot came */
    uint64_t credit;                    /* the last head that was sent */
    uint64_t told;                      /* the producer knows the landings of all steps before this one */

    struct verbs_frame frame;    /* frame of the last step that was sent, or delivered */
    char lost[ERR_TEXT_BYTES];   /* why the last lost rail is lost; "": no rail is lost */
    char broken[ERR_TEXT_BYTES]; /* why the connection is over; "": it is not over */
};

static inline struct verbs_qp *verbs_qp_at(struct verbs_end *end, int index) {
    return &end->qps[index / VERBS_QPS_MAX][index % VERBS_QPS_MAX];
}

/* Do frames of Simple slots have their own write? */
static inline bool verbs_frames_apart(const struct verbs_end *end) { return end->mine.direct || end->theirs.direct; }

/* The address of a step's frame, at either end. word: first word of the slot's header. framed: VERBS_FRAME_BEHIND or _AHEAD. */
static inline void *verbs_frame_at(const struct conn *conn, uint64_t step, uint32_t word, uint32_t framed) {
    const struct verbs_end *end = conn->impl;
    if (framed & VERBS_FRAME_AHEAD)
        return &end->frames[step & (conn->end.nslots - 1)];
    return fifo_slot_at(&conn->end, fifo_word_protocol(word), step) + fifo_word_bytes(word);
}

/* Does the rail carry data as long as nothing fails? Otherwise it is in reserve. */
static inline bool verbs_rail_carries(const struct verbs_end *end, int r) { return end->home < 0 || r == end->home; }

/* Is the rail needed now, in reserve or not? */
static inline bool verbs_rail_is_needed(const struct verbs_end *end, int r) {
    return verbs_rail_carries(end, r) || end->rails[end->home].state == VERBS_RAIL_DOWN ||
           end->rails[end->home].state == VERBS_RAIL_LOST;
}

/* The CRC of a step: of its payload, and of the facts in its frame and immediate. */
static inline uint32_t verbs_crc(const char *payload, uint64_t step, uint32_t word, uint64_t sequence,
                                 uint32_t signature) {
    const uint64_t said[] = {step, (uint64_t)word << 32 | signature, sequence};
    return crc32c(crc32c(0, payload, fifo_word_bytes(word)), said, sizeof(said));
}

extern const struct transport transport_verbs;
/* The card of a rank's process for RDMA (verbs_device.h); 0: none. */
static inline uint64_t verbs_card_of(const struct peer_info *peer) {
    return peer->cards[__builtin_ctz(COLLET_TRANSPORT_VERBS)];
}

/* verbs_setup.c: transport.offer, accept and close, and part of ready. */
enum collet_result verbs_offer(struct conn *conn, struct conn_blob *blob);
enum collet_result verbs_accept(struct conn *conn, const struct conn_blob *blob);
enum collet_result verbs_connect(struct conn *conn); /* consumer: IN_PROGRESS until the producer has answered */
void verbs_free(struct conn *conn);

/* verbs_rail.c: chooses the ports of the rails, and the home rail. offer: the consumer's offer, with which a producer must agree; NULL
 * for the consumer. */
void verbs_rails_choose(struct conn *conn, const struct verbs_hello *offer);
void verbs_rails_agree(struct conn *conn); /* the other end is known: are both ends tied to the same ports? */
/* Updates live[]: all rails that are up, or only the home rail. */
void verbs_update_live(struct verbs_end *end);

/* verbs_open.c: the objects of a rail for one life. plan: the lengths of its queues, for all lives, and whether it accepts landings. */
enum collet_result verbs_rail_plan(struct conn *conn, int rail);
enum collet_result verbs_rail_open(struct conn *conn, int rail);    /* stores its address in mine.rails[] */
enum collet_result verbs_rail_connect(struct conn *conn, int rail); /* connects to the address in theirs.rails[] */
/* From now on no data go by the rail. False: the device cannot promise that. */
bool verbs_rail_silence(struct verbs_end *end, int rail);
void verbs_rail_close(struct verbs_end *end, int rail);
/* May this end use the rail now? */
bool verbs_rail_usable(const struct verbs_end *end, int rail);

/* verbs_land.c: the consumer tells the producer its landings. */
void verbs_tell_landings(struct conn *conn);
/* Consumer: may a later payload still be written into the program's memory, or may that memory still be offered? */
bool verbs_may_land(const struct conn *conn);
/* Producer: handles the landing of a step. */
void verbs_take_landing(struct conn *conn, uint64_t step);

/* The landing for a step with this payload, by this rail; NULL: the payload goes into the slot. */
static inline const struct verbs_landing *verbs_landing_of(const struct conn *conn, uint64_t step, uint32_t bytes,
                                                           int rail) {
    const struct verbs_end *end = conn->impl;
    const struct verbs_landing *landing = &end->known[step & (conn->end.nslots - 1)];
    return landing->step == step && landing->bytes == bytes && (landing->rails & 1u << rail) ? landing : NULL;
}

/* verbs_receive.c: takes the completions of one rail. True: something came. */
bool verbs_poll(struct conn *conn, int rail);
/* Consumer: publishes visible slots that have arrived to the executor, in the order of steps. */
void verbs_deliver(struct conn *conn);
/* The wr_id of a queue pair's receives. */
uint64_t verbs_receive_id(int index);

/* verbs_send.c: posts published slots, and slots that must be sent again. True: there was such a slot. */
bool verbs_send_slots(struct conn *conn);
/* Consumer: sends the head, if it is due. */
void verbs_send_credit(struct conn *conn);
/* Has the other end acknowledged all posted writes on rails that are up? */
bool verbs_all_acknowledged(const struct conn *conn);
/* Has the other end acknowledged every lent payload? */
bool verbs_loans_acknowledged(const struct conn *conn);
/* Posts an empty write with a counter to queue pair `index` (of live[]). False: it failed. */
bool verbs_post_counter(struct conn *conn, int index, uint64_t counter);
/* Posts a landing, of end->landings, to queue pair `index`, which has room. */
void verbs_post_landing(struct conn *conn, int index, const struct verbs_landing *landing);

/* verbs_lost.c */
void verbs_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]);
void verbs_set_broken(struct conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Marks the rail as lost, with the reason. Another rail takes over, or the connection is broken. */
void verbs_rail_lost(struct conn *conn, int rail, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Asks the connection's devices for events. */
void verbs_look(struct conn *conn);
/* Is any rail in this state? (LOST: not settled yet.) */
bool verbs_any_rail(const struct verbs_end *end, enum verbs_rail_state state);
/* Sets the time before which the rail is not tested. The wait grows with each loss. */
void verbs_rail_waits(struct conn *conn, int rail);
/* A rail in reserve was needed, but one end cannot open it now. */
void verbs_rail_refused(struct conn *conn, int rail);
/* The rail is down, and both ends know or will know it. If no other rail may soon be up, the connection is broken. */
void verbs_rail_is_out(struct conn *conn, int rail);
/* Marks the rail as up: for the first time, or again. */
void verbs_rail_up(struct conn *conn, int rail);

/* verbs_failover.c: moves rails from state to state. */
void verbs_failover_progress(struct conn *conn);
/* Starts a new life: the rail is open here, and the other end has sent its address. */
void verbs_rail_test(struct conn *conn, int rail);

/* ---- credit ----
 *
 * The wire itself does not hold a producer up, so heads are sent back. A head is worth sending when half of the slots were consumed
 * since the last head. This cannot deadlock: fewer than nslots/2 credits are ever held back, so to the producer the FIFO looks like
 * one of more than nslots/2 slots whose credits come at once. That is at least two, and every program is verified to run with two. */

/* Consumer: is it time to send a new head? told: the head that was sent last. */
static inline bool wire_credit_is_due(const struct conn *conn, uint64_t told) {
    uint64_t half = conn->end.nslots > 1 ? conn->end.nslots / 2 : 1;
    return wire_head(conn) - told >= half;
}

/* Producer: takes a head that has come. Heads may come in another order; an older head is ignored. False: the head counts slots that
 * were never sent. */
static inline bool wire_take_head(struct conn *conn, uint64_t head) {
    uint64_t known = *conn->end.head;
    if ((int64_t)(head - known) <= 0)
        return true;
    if (head - known > wire_tail(conn) - known)
        return false;
    port_store_release(conn->end.head, head); /* Pairs with fifo_has_credit(). */
    return true;
}

#define WIRE_NOT_SENT "it returned credits for slots that were not sent"

#endif
