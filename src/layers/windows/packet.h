/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot of an RMA engine (rma.h) carries packets, one behind the other, each with its data.
 *
 *    │ packet │ data │ packet │ packet │ data … │        a packet begins at a multiple of 8 bytes
 *
 * Both ends are machines of one byte order.
 */
#ifndef COLLET_LAYERS_WINDOWS_PACKET_H
#define COLLET_LAYERS_WINDOWS_PACKET_H

#include <stddef.h>
#include <stdint.h>

#define PACKET_KINDS(X)                                                                                                \
    /* kind, has data */                                                                                               \
    X(PUT, 1)    /* bytes for a window, from `offset` on */                                                            \
    X(GET, 0)    /* asks for `bytes` bytes of a window, from `offset` on */                                            \
    X(REPLY, 1)  /* bytes of a GET: the oldest bytes that have not come */                                             \
    X(SIGNAL, 0) /* adds 1 to the signals of a window */                                                               \
    X(NOTE, 1)   /* a note for the rank, of at most PACKET_NOTE_BYTES */                                               \
    X(FLUSH, 0)  /* asks for an answer when all packets before it have been worked off */                              \
    X(DONE, 0)   /* answers the oldest `bytes` flushes */

#define PACKET_KIND(kind, has_data) PACKET_##kind,
enum packet_kind { PACKET_KINDS(PACKET_KIND) PACKET_KIND_COUNT };

#define PACKET_NOTE_BYTES 64u /* longest note */

struct packet {
    uint32_t kind;   /* enum packet_kind */
    uint32_t window; /* the window's number at the receiving rank */
    uint64_t offset, bytes;
};

/* The packets of a slot, while they are written or read. */
struct packets {
    char *slot;
    size_t bytes; /* length of the slot */
    size_t at;    /* offset of the next packet */
};

/* Maximum data of the next packet; 0: there is room for none. A packet without data fits if the result is not 0. */
size_t packet_room(const struct packets *packets);

/* Appends a packet, for which there must be room. Returns the address for its data. */
char *packet_add(struct packets *packets, const struct packet *packet);

/* Is there another packet to read? */
static inline int packet_is_left(const struct packets *packets) { return packets->at < packets->bytes; }
/* Takes the next packet, and sets *data to its data. The bytes come from another rank, so they are checked. Returns NULL; or, if the packet
 * is wrong, a text that says why. */
const char *packet_take(struct packets *packets, struct packet *packet, const char **data);

#endif
