/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets for windows, as another rank may send them: slots of good packets with bytes changed, or of noise. Whatever comes, no byte
 * outside of the windows, and of the memory that a get named, is touched. (The sanitizer watches their edges.)
 */
#include "base/config_read.h"
#include "fuzz.h"
#include "layers/windows/receive.h"
#include "transport/wire.h"

#include <stdlib.h>

#define SLOTS 4
#define SLOT_BYTES 256
#define WINDOW_BYTES 100
#define GET_BYTES 50

/* Packets that are right, mostly. */
static size_t write_packets(struct fuzz_input *input, char slot[SLOT_BYTES]) {
    struct packets packets = {.slot = slot, .bytes = SLOT_BYTES};
    for (int n = fuzz_byte(input) % 8; n > 0 && packet_room(&packets) > 0; n--) {
        struct packet packet = {.kind = fuzz_byte(input) % PACKET_KIND_COUNT, .window = fuzz_byte(input) % 3};
        packet.offset = fuzz_byte(input) % (WINDOW_BYTES + 1);
        packet.bytes = fuzz_byte(input) % (packet_room(&packets) < WINDOW_BYTES ? packet_room(&packets) : WINDOW_BYTES);
        packet_add(&packets, &packet);
    }
    fuzz_patch(input, slot, SLOT_BYTES);
    return packets.at;
}

static void publish(struct fifo_end *end, uint32_t word) {
    fifo_header(end)->word = word;
    fifo_publish(end);
}

/* An endpoint that has asked for two gets and a flush. */
static void unload(struct fuzz_input *input, struct conn *in, struct fifo_end *producer, struct rma_window *windows) {
    char *got = malloc(GET_BYTES);
    struct rma_op op = {.missing = 2 * (uint64_t)GET_BYTES};
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    bool moved;
    endpoint->in = in;
    endpoint->peer = 1;
    endpoint->last_note = &endpoint->first_note;
    endpoint->flushes = 1;
    for (int k = 0; k < 2; k++)
        endpoint->fetches[endpoint->fetches_made++] = (struct fetch){got, GET_BYTES, &op};
    enum collet_result result = COLLET_SUCCESS;
    while (input->size > 0 && result == COLLET_SUCCESS) {
        uint32_t bytes = (uint32_t)write_packets(input, fifo_slot_at(producer, PROTOCOL_SIMPLE, producer->position));
        const uint8_t kind = fuzz_byte(input);
        publish(producer, kind < 250 ? fifo_word(PROTOCOL_SIMPLE, bytes) : kind * 0x1010101u);
        result = endpoint_receive(endpoint, windows, &moved);
        if (endpoint->replies_made - endpoint->replies_done > ENDPOINT_FETCHES || endpoint->flushed > endpoint->flushes)
            abort();
    }
    for (struct note *note = endpoint->first_note, *next; note != NULL; note = next) {
        next = note->next;
        free(note);
    }
    free(endpoint);
    free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct config config;
    const struct fifo_layout layout = fifo_layout_of(SLOTS, (struct protocol_sizes){SLOT_BYTES, 64, 64}, 0);
    struct conn_owner owner = {.config = &config, .nranks = 2, .layouts[PROG_TO_FEW] = layout};
    struct conn in = {.side = CONN_CONSUMER, .peer = 1, .owner = &owner};
    struct fifo_end producer;
    struct rma_window windows[2];
    void *memory;
    if (config_read(&config) != COLLET_SUCCESS ||
        wire_memory_create(&owner, layout.total_bytes, &memory) != COLLET_SUCCESS)
        abort();
    fifo_memory_init(memory, &layout, &config);
    fifo_end_init(&in.end, memory, &layout, &config);
    fifo_end_init(&producer, memory, &layout, &config);
    for (uint32_t k = 0; k < 2; k++)
        windows[k] = (struct rma_window){.next = k == 0 ? &windows[1] : NULL,
                                         .number = k,
                                         .buff = malloc(WINDOW_BYTES),
                                         .bytes = WINDOW_BYTES,
                                         .signals = calloc(2, sizeof(uint64_t))};
    unload(&input, &in, &producer, windows);
    for (int k = 0; k < 2; k++) {
        free(windows[k].buff);
        free(windows[k].signals);
    }
    wire_memory_destroy(&owner, memory, layout.total_bytes);
    return 0;
}
