/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two ends of a verbs connection tell each other over the control plane: where they are, and news of their rails. Real ends
 * say it, over NICs that are none (common/fake_verbs.h), and somebody in between changes bytes.
 *
 *      consumer ── offer ──▶ producer ── answer ──▶ consumer        then slots go, rails fail and come back, and news go both ways
 */
#include "common/fake_verbs.h"

#include "base/config_read.h"
#include "common/local_boots.h"
#include "fuzz.h"
#include "transport/verbs/verbs_end.h"

#define SLOTS 4
#define SLOT_BYTES 256
#define TURNS_MOST 48
#define PROGRESS_PER_TURN 8
#define LETTERS_MOST 8

struct pair {
    struct config configs[2];
    struct boot *boots[2];
    struct peer_info peers[2];
    struct conn_owner owners[2];
    struct conn producer, consumer; /* of rank 0 and rank 1 */
};

static void pair_init(struct pair *pair) {
    struct verbs_host *host = verbs_host();
    memset(pair, 0, sizeof *pair);
    fake_repair();
    for (int k = 0; k < host->nports; k++)
        host->ports[k].down = host->ports[k].device->removed = 0;
    if (config_read(&pair->configs[0]) != COLLET_SUCCESS)
        abort();
    pair->configs[0].ib_qps_per_connection = 1;
    pair->configs[0].net_rail_wait = 0;
    pair->configs[1] = pair->configs[0];
    if (boot_join_local(2, NULL, pair->configs, pair->boots) != COLLET_SUCCESS)
        abort();
    for (int rank = 0; rank < 2; rank++) {
        if (boot_try_init(pair->boots[rank]) != COLLET_SUCCESS)
            abort();
        pair->peers[rank] = (struct peer_info){.rank = rank, .host = "host"};
        pair->peers[rank].cards[transport_number(&transport_verbs)] = verbs_host_card(host);
        pair->owners[rank] = (struct conn_owner){
            .config = &pair->configs[rank], .boot = pair->boots[rank], .peers = pair->peers, .nranks = 2, .rank = rank};
        pair->owners[rank].layouts[PROG_TO_FEW] = fifo_layout_of(SLOTS, (struct protocol_sizes){SLOT_BYTES, 64, 64}, 0);
    }
    pair->producer =
        (struct conn){.side = CONN_PRODUCER, .peer = 1, .transport = &transport_verbs, .owner = &pair->owners[0]};
    pair->consumer =
        (struct conn){.side = CONN_CONSUMER, .peer = 0, .transport = &transport_verbs, .owner = &pair->owners[1]};
}

static void pair_fini(struct pair *pair) {
    transport_verbs.close(&pair->producer);
    transport_verbs.close(&pair->consumer);
    for (int rank = 0; rank < 2; rank++)
        boot_destroy(pair->boots[rank]);
    fake.fault = NULL; /* an end that was told nonsense may ask its NIC for it */
    if (fake_leftover() != NULL)
        abort();
}

/* What is under way to an end comes as it was sent, changed, shorter or not. */
static void tamper(const struct conn *from, const struct conn *to, unsigned letter, struct fuzz_input *input) {
    static char data[LETTERS_MOST][BOOT_MESSAGE_BYTES];
    const uint64_t key = transport_key(to, letter);
    size_t bytes[LETTERS_MOST];
    int n = 0;
    while (n < LETTERS_MOST &&
           boot_try_recv(to->owner->boot, to->peer, key, data[n], sizeof data[n], &bytes[n]) == COLLET_SUCCESS)
        n++;
    for (int k = 0; k < n; k++) {
        const uint8_t kind = fuzz_byte(input);
        if (kind & 1)
            fuzz_patch(input, data[k], bytes[k]);
        if (kind & 2)
            bytes[k] -= 1;
        if ((kind & 12) != 12)
            (void)boot_send(from->owner->boot, from->peer, key, data[k], bytes[k]);
    }
}

static enum collet_result set_up(struct pair *pair, struct fuzz_input *input) {
    struct conn_blob blob = {0};
    enum collet_result mine = COLLET_IN_PROGRESS, theirs = COLLET_IN_PROGRESS;
    if (transport_verbs.offer(&pair->consumer, &blob) != COLLET_SUCCESS)
        abort();
    fuzz_patch(input, blob.data, blob.bytes);
    blob.bytes -= fuzz_byte(input) == 1;
    COLLET_TRY(transport_verbs.accept(&pair->producer, &blob));
    tamper(&pair->producer, &pair->consumer, VERBS_ANSWER, input);
    for (int k = 0; k < 400 && mine >= 0 && theirs >= 0 && (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS); k++) {
        mine = transport_verbs.ready(&pair->producer);
        theirs = transport_verbs.ready(&pair->consumer);
    }
    return mine < 0 ? mine : theirs;
}

/* A rail's device dies or is well again. */
static void meddle(uint8_t kind) { fake.devices[kind & 1].dying = kind >> 1 & 1; }

/* Nobody waits any longer, and the next turn looks for news. */
static void hurry(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (int r = 0; r < end->nrails; r++)
        end->rails[r].due_ns = 0;
    transport_verbs.attend(conn);
}

static void take_turn(struct pair *pair) {
    struct fifo_end *to = &pair->producer.end, *from = &pair->consumer.end;
    if (fifo_has_credit(to)) {
        *fifo_header(to) =
            (struct fifo_slot_header){.word = fifo_word(PROTOCOL_SIMPLE, (uint32_t)to->position % SLOT_BYTES)};
        fifo_publish(to);
    }
    (void)transport_verbs.progress(&pair->producer);
    (void)transport_verbs.progress(&pair->consumer);
    if (!fifo_has_data(from))
        return;
    if (!fifo_header_fits(conn_layout(&pair->consumer), from->headers[from->position & (SLOTS - 1)].word))
        abort();
    fifo_consumed(from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static bool opened;
    struct pair pair;
    if (!opened)
        fake_reset();
    opened = true;
    pair_init(&pair);
    if (set_up(&pair, &input) == COLLET_SUCCESS)
        for (int turn = 0; turn < TURNS_MOST && input.size > 0; turn++) {
            const uint8_t kind = fuzz_byte(&input);
            if (kind & 0x10)
                meddle(kind);
            hurry(&pair.producer);
            hurry(&pair.consumer);
            for (int k = 0; k < PROGRESS_PER_TURN; k++)
                take_turn(&pair);
            tamper(&pair.producer, &pair.consumer, VERBS_NEWS + CONN_PRODUCER, &input);
            tamper(&pair.consumer, &pair.producer, VERBS_NEWS + CONN_CONSUMER, &input);
        }
    fake.devices[0].dying = fake.devices[1].dying = false;
    pair_fini(&pair);
    return 0;
}
