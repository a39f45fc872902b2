/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a unique id: where the ranks meet, and the secret that they prove to each other.
 */
#ifndef COLLET_BOOT_ID_H
#define COLLET_BOOT_ID_H

#include "boot/address.h"

#include <stdbool.h>
#include <stdint.h>

#define SECRET_BYTES 32

struct id {
    bool listed; /* by host and port: rank 0 opens the meeting point; else it was open before the id was made */
    struct address_set set; /* where to look for it; empty: all ranks are in the process that made the id */
    uint8_t secret[SECRET_BYTES];
};

/* What knows a secret is wiped where its block ends: SCOPED_KEY uint8_t key[SECRET_BYTES]; SCOPED_ID struct id id; */
#define SCOPED_KEY __attribute__((cleanup(id_wipe_key)))
#define SCOPED_ID __attribute__((cleanup(id_wipe)))
void id_wipe_key(uint8_t (*key)[SECRET_BYTES]);
void id_wipe(struct id *id);

void id_pack(const struct id *id, struct collet_unique_id *packed);
/* INVALID_ARGUMENT if packed is no id, of another version, or damaged. */
enum collet_result id_unpack(const struct collet_unique_id *packed, struct id *id);

/* The key of one use of a secret: `what` for whom (bytes of any kind). Keys of different uses prove nothing about each
 * other. */
void id_key(const uint8_t secret[SECRET_BYTES], const char *what, const void *whom, size_t whom_bytes,
            uint8_t key[SECRET_BYTES]);

#endif
