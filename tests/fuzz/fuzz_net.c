/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of the network plugin for NCCL, with a peer that says anything of messages and of what it asks for.
 *
 *      receiver    ◀── slots: for a place that was asked for, or not; as long as was said, or not
 *      sender      ◀── asks: of many tags, for any place
 */
#include "layers/nccl/nccl_net.c"

#include "fuzz.h"

#define SLOTS 2
#define SLOT_BYTES 64
#define ROOM_MOST 200
#define TURNS_MOST 100

static struct fuzz_input *said;
static struct net_line *line;
static char memory[2][16384] __attribute__((aligned(4096)));

/* A slot as the peer might fill it. The transports look at nothing but its length. */
static void come(struct conn *conn) {
    struct fifo_end *end = &conn->end;
    const uint64_t at = *end->tail & (end->nslots - 1);
    const uint32_t bytes = fuzz_byte(said) % (SLOT_BYTES + 1);
    if (*end->tail - *end->head >= end->nslots)
        return;
    end->headers[at] = (struct fifo_slot_header){.word = fifo_word(PROTOCOL_SIMPLE, bytes),
                                                 .signature = fuzz_byte(said),
                                                 .sequence = fuzz_byte(said) & 1 ? bytes : fuzz_byte(said)};
    if (fuzz_byte(said) % 16 == 0)
        end->headers[at].signature = UINT32_MAX - fuzz_byte(said);
    char *slot = fifo_slot_at(end, PROTOCOL_SIMPLE, at);
    for (uint32_t k = 0; k < bytes; k++)
        slot[k] = k % 4 == 0 ? (char)(fuzz_byte(said) % 4) : 0; /* asks: a few tags, and places */
    ++*end->tail;
}

static enum collet_result fake_progress(struct conn *conn) {
    if (conn->side == CONN_CONSUMER)
        come(conn);
    else if (fuzz_byte(said) & 1)
        *conn->end.head = *conn->end.tail;
    return COLLET_SUCCESS;
}
static bool fake_idle(const struct conn *conn) {
    (void)conn;
    return fuzz_byte(said) & 1;
}
static const struct transport fake = {.name = "fake", .progress = fake_progress, .idle = fake_idle};

static void make_conn(struct conn *conn, enum conn_side side, char *room, const struct conn_owner *owner) {
    const struct fifo_layout *layout = &owner->layouts[PROG_TO_FEW];
    static struct config config;
    *conn = (struct conn){.side = side, .transport = &fake, .owner = owner};
    if (layout->total_bytes > sizeof memory[0])
        abort();
    memset(room, 0, sizeof memory[0]);
    fifo_memory_init(room, layout, &config);
    fifo_end_init(&conn->end, room, layout, &config);
}

/* A message's bytes lie alone, so that a byte too far is found. */
static struct net_request *sent[PLUG_REQUESTS_MAX];
static char *places[PLUG_REQUESTS_MAX * PLUG_RECEIVES_MAX];
static int nplaces;

static char *new_place(size_t bytes) {
    char *place = calloc(1, bytes + 1);
    if (nplaces == PLUG_REQUESTS_MAX * PLUG_RECEIVES_MAX || place == NULL)
        abort();
    return places[nplaces++] = place;
}

static void *begin_request(uint8_t kind) {
    void *data[PLUG_RECEIVES_MAX + 1], *request = NULL;
    size_t bytes[PLUG_RECEIVES_MAX + 1];
    int tags[PLUG_RECEIVES_MAX + 1], n = line->sends ? 1 : kind / 8 % (PLUG_RECEIVES_MAX + 2);
    for (int k = 0; k < n; k++) {
        bytes[k] = fuzz_byte(said) % ROOM_MOST;
        data[k] = n > PLUG_RECEIVES_MAX ? NULL : new_place(bytes[k]);
        tags[k] = fuzz_byte(said) % 4;
    }
    if (line->sends)
        net_isend(line, data[0], bytes[0], tags[0], &request);
    else
        net_irecv(line, n, data, bytes, tags, &request);
    return request;
}

static void live(void) {
    int done, bytes[PLUG_RECEIVES_MAX];
    for (int turn = 0; turn < TURNS_MOST && said->size > 0; turn++) {
        const uint8_t kind = fuzz_byte(said);
        struct net_request **at = &sent[kind % PLUG_REQUESTS_MAX];
        if (*at == NULL && nplaces <= (PLUG_REQUESTS_MAX - 1) * PLUG_RECEIVES_MAX)
            *at = begin_request(fuzz_byte(said));
        else if (*at != NULL && (net_test(*at, &done, bytes) != PLUG_SUCCESS || done))
            *at = NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct peer_info peers[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "b"}};
    struct conn_owner owner = {.peers = peers, .nranks = 2};
    struct conn conns[2];
    said = &input;
    line = calloc(1, sizeof *line);
    line->sends = fuzz_byte(&input) & 1;
    owner.layouts[PROG_TO_FEW] = fifo_layout_of(SLOTS, (struct protocol_sizes){SLOT_BYTES, 64, 64}, 0);
    make_conn(line->conn = &conns[0], line->sends ? CONN_PRODUCER : CONN_CONSUMER, memory[0], &owner);
    make_conn(line->asking = &conns[1], line->sends ? CONN_CONSUMER : CONN_PRODUCER, memory[1], &owner);
    nplaces = 0;
    memset(sent, 0, sizeof sent);
    live();
    while (nplaces > 0)
        free(places[--nplaces]);
    free(line);
    return 0;
}
