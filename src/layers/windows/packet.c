/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/windows/packet.h"

#include <string.h>

#define ALIGN 8u

#define HAS_DATA(kind, has_data) [PACKET_##kind] = has_data,
static const char has_data[PACKET_KIND_COUNT] = {PACKET_KINDS(HAS_DATA)};

static size_t aligned(size_t at) { return (at + ALIGN - 1) / ALIGN * ALIGN; }

size_t packet_room(const struct packets *packets) {
    const size_t head = packets->at + sizeof(struct packet);
    return head < packets->bytes ? packets->bytes - head : 0;
}

char *packet_add(struct packets *packets, const struct packet *packet) {
    char *at = packets->slot + packets->at;
    const size_t data_bytes = has_data[packet->kind] ? (size_t)packet->bytes : 0;
    memcpy(at, packet, sizeof *packet);
    packets->at = aligned(packets->at + sizeof *packet + data_bytes);
    return at + sizeof *packet;
}

const char *packet_take(struct packets *packets, struct packet *packet, const char **data) {
    const size_t left = packets->bytes - packets->at;
    if (left < sizeof *packet)
        return "a part of a packet";
    memcpy(packet, packets->slot + packets->at, sizeof *packet);
    if (packet->kind >= PACKET_KIND_COUNT)
        return "a packet of an unknown kind";
    const uint64_t data_bytes = has_data[packet->kind] ? packet->bytes : 0;
    if (data_bytes > left - sizeof *packet)
        return "a packet that is longer than its slot";
    if (packet->kind == PACKET_NOTE && data_bytes > PACKET_NOTE_BYTES)
        return "a note that is too long";
    *data = packets->slot + packets->at + sizeof *packet;
    const size_t next = aligned(packets->at + sizeof *packet + (size_t)data_bytes);
    packets->at = next < packets->bytes ? next : packets->bytes;
    return NULL;
}
