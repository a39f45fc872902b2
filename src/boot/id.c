/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/id.h"

#include "base/config.h"
#include "base/err.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define ID_MAGIC "clID"
#define ID_VERSION 8 /* changes with the handshake and the frames, too (auth.c) */
#define SECRET_MIN_CHARACTERS 16
#define STRETCH_PASSES 2
#define STRETCH_BYTES (16 << 20)

struct packed_id {
    char magic[4];
    uint16_t version;
    uint8_t listed;
    uint8_t naddresses;
    uint16_t port, zero;
    uint32_t check; /* checksum of the rest, with this field 0: shows damage, as opposed to a wrong secret */
    struct address addresses[ADDRESS_MAX];
    uint8_t secret[SECRET_BYTES];
};
_Static_assert(sizeof(struct packed_id) == COLLET_UNIQUE_ID_BYTES, "fills the id exactly");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "all that travels is little-endian and copied as it is");

void id_wipe_key(uint8_t (*key)[SECRET_BYTES]) { sodium_memzero(*key, sizeof *key); }

void id_wipe(struct id *id) { sodium_memzero(id->secret, sizeof id->secret); }

static void wipe_packed(struct packed_id *packed) { sodium_memzero(packed, sizeof *packed); }
#define SCOPED_PACKED __attribute__((cleanup(wipe_packed)))

static uint32_t check_of(const struct packed_id *of) {
    SCOPED_PACKED struct packed_id packed = *of;
    uint8_t hash[crypto_generichash_BYTES];
    uint32_t check;
    packed.check = 0;
    crypto_generichash(hash, sizeof hash, (const uint8_t *)&packed, sizeof packed, NULL, 0);
    memcpy(&check, hash, sizeof check);
    return check;
}

void id_pack(const struct id *id, struct collet_unique_id *unique_id) {
    SCOPED_PACKED struct packed_id packed = {
        .magic = ID_MAGIC,
        .version = ID_VERSION,
        .listed = id->listed,
        .naddresses = (uint8_t)id->set.count,
        .port = id->set.port,
    };
    memcpy(packed.addresses, id->set.addresses, sizeof packed.addresses);
    memcpy(packed.secret, id->secret, SECRET_BYTES);
    packed.check = check_of(&packed);
    memcpy(unique_id->bytes, &packed, sizeof packed);
}

enum collet_result id_unpack(const struct collet_unique_id *unique_id, struct id *id) {
    SCOPED_PACKED struct packed_id packed;
    memcpy(&packed, unique_id->bytes, sizeof packed);
    if (memcmp(packed.magic, ID_MAGIC, sizeof packed.magic) != 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "id: not a unique id; make one with collet_get_unique_id() on one "
                                                    "rank and copy its bytes to the others");
    if (packed.version != ID_VERSION)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "id: made by another version of collet (format %d, here %d)",
                       packed.version, ID_VERSION);
    if (packed.check != check_of(&packed) || packed.naddresses > ADDRESS_MAX)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "id: damaged on its way; copy all %d bytes of it, zero bytes included", COLLET_UNIQUE_ID_BYTES);
    *id = (struct id){.listed = packed.listed};
    id->set = (struct address_set){.count = packed.naddresses, .port = packed.port};
    memcpy(id->set.addresses, packed.addresses, sizeof packed.addresses);
    memcpy(id->secret, packed.secret, SECRET_BYTES);
    return COLLET_SUCCESS;
}

static enum collet_result check_secret(const char *secret) {
    const size_t length = strlen(secret);
    if (length > 0 && length < SECRET_MIN_CHARACTERS)
        return err_set(
            COLLET_ERR_INVALID_USAGE,
            "COLLET_SECRET has %zu characters: use %d or more, for example `head -c 32 /dev/urandom | base64`", length,
            SECRET_MIN_CHARACTERS);
    return COLLET_SUCCESS;
}

/* Derives a secret from text, slowly: each guess of the text takes as long. An empty text is not guessed, so it is fast. */
static enum collet_result stretch(const char *where, const char *text, uint8_t secret[SECRET_BYTES]) {
    uint8_t salt[crypto_pwhash_SALTBYTES];
    crypto_generichash(salt, sizeof salt, (const uint8_t *)where, strlen(where), NULL, 0);
    crypto_generichash(secret, SECRET_BYTES, salt, sizeof salt, NULL, 0);
    if (text[0] == '\0')
        return COLLET_SUCCESS;
    if (sodium_init() < 0 || crypto_pwhash(secret, SECRET_BYTES, text, strlen(text), salt, STRETCH_PASSES,
                                           STRETCH_BYTES, crypto_pwhash_ALG_ARGON2ID13) != 0)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to stretch COLLET_SECRET: it takes %d MiB",
                       STRETCH_BYTES >> 20);
    return COLLET_SUCCESS;
}

enum collet_result boot_unique_id_at(const char *host, int port, const char *secret_text, struct collet_unique_id *id) {
    if (port < 1 || port > 65535)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "port is %d: it must be between 1 and 65535", port);
    int family;
    SCOPED_ID struct id made = {.listed = true};
    COLLET_TRY(address_family(config_process()->socket_family, &family));
    COLLET_TRY(address_resolve(host, family, &made.set));
    made.set.port = (uint16_t)port;

    COLLET_TRY(check_secret(config_process()->secret));
    /* Hashes the text, not the addresses: ranks may resolve the host differently. The restart count changes the secret, so processes from
     * before a restart do not know it. */
    const char *restart = config_env("SLURM_RESTART_COUNT");
    char where[ADDRESS_HOST_BYTES + 32];
    int length = snprintf(where, sizeof where, "%s:%d/%.8s", host, port, restart != NULL ? restart : "");
    if (length >= (int)sizeof where)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "host is longer than %d characters", ADDRESS_HOST_BYTES);
    COLLET_TRY(stretch(where, secret_text != NULL ? secret_text : "", made.secret));
    id_pack(&made, id);
    return COLLET_SUCCESS;
}

void id_key(const uint8_t secret[SECRET_BYTES], const char *what, const void *whom, size_t whom_bytes,
            uint8_t key[SECRET_BYTES]) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, secret, SECRET_BYTES, SECRET_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)what, strlen(what) + 1);
    crypto_generichash_update(&state, whom, whom_bytes);
    crypto_generichash_final(&state, key, SECRET_BYTES);
}

#define HIDDEN_BYTES 8 /* bytes of the hash */

enum collet_result boot_hide_name(const char *secret_text, char *name, size_t room) {
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    char hidden[2 * HIDDEN_BYTES + 1];
    if (secret_text[0] == '\0')
        return COLLET_SUCCESS;
    COLLET_TRY(check_secret(secret_text));
    COLLET_TRY(stretch(name, secret_text, key));
    const size_t length = strlen(name);
    snprintf(name + length, room - length, ".%s", sodium_bin2hex(hidden, sizeof hidden, key, HIDDEN_BYTES));
    return COLLET_SUCCESS;
}
