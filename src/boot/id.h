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
    bool listed;            /* 1: rank 0 opens the meeting point; 0: it was open before the id was made */
    struct address_set set; /* addresses of the meeting point; empty: all ranks are in the process that made the id */
    uint8_t secret[SECRET_BYTES];
};

/* Variables with secrets are wiped at the end of their block: SCOPED_KEY uint8_t key[SECRET_BYTES]; SCOPED_ID struct id id; */
#define SCOPED_KEY __attribute__((cleanup(id_wipe_key)))
#define SCOPED_ID __attribute__((cleanup(id_wipe)))
void id_wipe_key(uint8_t (*key)[SECRET_BYTES]);
void id_wipe(struct id *id);

void id_pack(const struct id *id, struct collet_unique_id *packed);
/* INVALID_ARGUMENT: packed is no id, is of another version, or is damaged. */
enum collet_result id_unpack(const struct collet_unique_id *packed, struct id *id);

/* Derives the key of one use of a secret: `what`, for `whom` (any bytes). A key says nothing about keys of other
 * uses. */
void id_key(const uint8_t secret[SECRET_BYTES], const char *what, const void *whom, size_t whom_bytes,
            uint8_t key[SECRET_BYTES]);

/* Makes an id that every rank can compute: rank 0 will listen on host:port. Its secret is
 * derived from secret_text. For COLLET_COMM_ID and MASTER_ADDR. */
enum collet_result boot_unique_id_at(const char *host, int port, const char *secret_text, struct collet_unique_id *id);
/* Appends a hash of secret_text to a name: only processes that know the text can compute it. "": appends nothing. */
enum collet_result boot_hide_name(const char *secret_text, char *name, size_t room);

#endif
