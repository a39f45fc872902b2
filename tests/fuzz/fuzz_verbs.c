/* SPDX-License-Identifier: Apache-2.0
 *
 * What the other end of a verbs connection sends: immediates of any kind and length, with anything in the memory that its NIC may
 * write. The NIC itself is not here: completions are made up.
 *
 *      consumer ◀── slots: immediates; frames and payloads in its memory        producer ◀── credits, landings
 */
#include "base/config_read.h"
#include "layers/memory/loan.h"
#include "transport/verbs/verbs_land.c"
#include "transport/verbs/verbs_receive.c"

#include "fuzz.h"

#include <stdlib.h>

#define SLOTS 4
#define SLOT_BYTES 256
#define ROOM (SLOT_BYTES + sizeof(struct verbs_frame))
#define TURNS_MOST 64

struct ends {
    struct verbs_end end;
    struct conn conn;
    struct conn_owner owner;
    struct fifo_layout layout;
    struct verbs_frame frames[SLOTS];
    struct verbs_landing landings[SLOTS];
};

/* As verbs_setup.c makes it, of one queue pair. */
static void end_create(struct ends *ends, enum conn_side side, const struct config *config) {
    static const struct peer_info peers[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "b"}};
    static struct verbs_device device;
    static struct verbs_port port = {.device = &device};
    memset(ends, 0, sizeof *ends);
    ends->layout = fifo_layout_of(SLOTS, (struct protocol_sizes){SLOT_BYTES, 64, 64}, 0);
    const struct fifo_layout roomy = fifo_layout_of(
        SLOTS, (struct protocol_sizes){ROOM, 64 + sizeof(struct verbs_frame), 64 + sizeof(struct verbs_frame)}, 0);
    ends->owner =
        (struct conn_owner){.config = config, .peers = peers, .nranks = 2, .layouts[PROG_TO_FEW] = ends->layout};
    ends->conn = (struct conn){
        .side = side, .peer = 1, .owner = &ends->owner, .impl = &ends->end, .transport = &transport_verbs};
    ends->end = (struct verbs_end){
        .nrails = 1, .nqps = 1, .home = -1, .stage = VERBS_READY, .frames = ends->frames, .landings = ends->landings};
    ends->end.rails[0].port = &port;
    ends->end.rails[0].state = VERBS_RAIL_UP;
    if (wire_memory_create(&ends->owner, ends->end.bytes = roomy.total_bytes, &ends->end.memory) != COLLET_SUCCESS)
        abort();
    fifo_memory_init(ends->end.memory, &roomy, config);
    fifo_end_init(&ends->conn.end, ends->end.memory, &roomy, config);
    ends->end.sent = ends->end.told = ends->conn.end.position;
}

static void complete(struct ends *ends, uint32_t immediate, uint32_t length) {
    const struct ibv_wc wc = {
        .wr_id = verbs_receive_id(0), .status = IBV_WC_SUCCESS, .imm_data = htonl(immediate), .byte_len = length};
    take_completion(&ends->conn, &wc);
}

/* Slots in the order of steps, changed; an executor consumes what is delivered, and wants some of it in memory of its own. */
static void with_slots(struct ends *ends, struct fuzz_input *input) {
    static char landing[SLOT_BYTES];
    struct conn *conn = &ends->conn;
    uint64_t step = conn->end.position;
    for (int k = 0; k < TURNS_MOST && input->size > 0 && ends->end.broken[0] == '\0'; k++) {
        const uint8_t kind = fuzz_byte(input);
        uint32_t bytes = fuzz_byte(input), immediate = (uint32_t)step & VERBS_COUNTER_MASK;
        char *slot = fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, step);
        struct verbs_frame frame = {.sequence = step, .signature = 7, .bytes = bytes};
        frame.crc = verbs_crc(slot, step, fifo_word(PROTOCOL_SIMPLE, bytes), frame.sequence, frame.signature);
        memcpy(slot + bytes, &frame, sizeof frame); /* behind the payload, and ahead of it */
        ends->frames[step & (SLOTS - 1)] = frame;
        if (kind & 1) {
            loan_land(&conn->end.loans, (struct loan_landing){landing, step, bytes});
            ends->end.told = step + 1;
        }
        immediate |= kind & 2 ? VERBS_FRAME_BEHIND : VERBS_FRAME_AHEAD;
        bytes += kind & 2 ? (uint32_t)sizeof frame : 0;
        if (kind & 4)
            fuzz_patch(input, &ends->frames, sizeof ends->frames);
        if (kind & 8)
            fuzz_patch(input, slot, ROOM);
        if (kind & 0x10)
            fuzz_patch(input, &immediate, sizeof immediate);
        if (kind & 0x20)
            fuzz_patch(input, &bytes, sizeof bytes);
        complete(ends, immediate | (kind & 0x40 ? VERBS_LANDED : 0), bytes);
        for (; fifo_has_data(&conn->end); step++) {
            if (!fifo_header_fits(&ends->layout, wire_word(fifo_header(&conn->end))))
                abort();
            fifo_consumed(&conn->end);
        }
    }
}

/* Credits and landings; in between the executor publishes slots. */
static void with_credits(struct ends *ends, struct fuzz_input *input) {
    struct conn *conn = &ends->conn;
    for (int k = 0; k < TURNS_MOST && input->size > 0 && ends->end.broken[0] == '\0'; k++) {
        const uint8_t kind = fuzz_byte(input);
        uint64_t step = *conn->end.head + (kind >> 4 & 3);
        uint32_t immediate = (uint32_t)step & VERBS_COUNTER_MASK;
        struct verbs_landing landing = {.step = step, .address = 4096, .bytes = 16, .rails = 1};
        landing.check = verbs_landing_check(&landing);
        ends->landings[step & (SLOTS - 1)] = landing;
        if (kind & 1 && fifo_has_credit(&conn->end)) {
            fifo_publish(&conn->end);
            ends->end.sent = conn->end.position;
        }
        if (kind & 2)
            fuzz_patch(input, ends->landings, sizeof ends->landings);
        if (kind & 4)
            fuzz_patch(input, &immediate, sizeof immediate);
        complete(ends, immediate | (kind & 8 ? VERBS_LANDED : 0), 0);
        (void)verbs_landing_of(conn, step, 16, 0);
        if (*conn->end.head - *conn->end.tail - 1 < UINT64_MAX / 2)
            abort(); /* it believes that slots were consumed that were not published */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct ends ends;
    static struct config config;
    const uint8_t kind = fuzz_byte(&input);
    if (config_read(&config) != COLLET_SUCCESS)
        abort();
    config.checksum = kind & 1;
    end_create(&ends, kind & 2 ? CONN_PRODUCER : CONN_CONSUMER, &config);
    if (kind & 2)
        with_credits(&ends, &input);
    else
        with_slots(&ends, &input);
    wire_memory_destroy(&ends.owner, ends.end.memory, ends.end.bytes);
    return 0;
}
