/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/table.h"

#include "base/cpus.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/remedy.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RANKS_IN_TEXT 16

static void host_key(const struct config *config, uint8_t key[HOST_KEY_BYTES]) {
    char text[CONFIG_TEXT_BYTES + 16];
    if (config->hostid[0] != '\0')
        snprintf(text, sizeof text, "hostid %s", config->hostid);
    else
        snprintf(text, sizeof text, "boot %s", os_boot_id());
    if (config->hostid[0] == '\0' && os_boot_id()[0] == '\0') /* unknown: then only this process is known to be here */
        memcpy(key, process_identity(), HOST_KEY_BYTES);
    else
        crypto_generichash(key, HOST_KEY_BYTES, (const uint8_t *)text, strlen(text), NULL, 0);
}

void card_fill(struct card *card, int nranks, int rank, const struct boot_self *self, const struct config *config) {
    *card = (struct card){.rank = rank, .nranks = nranks, .pid = os_pid(), .probe.fd = -1, .self = *self};
    memcpy(card->process, process_identity(), sizeof card->process);
    snprintf(card->host, sizeof card->host, "%s", os_host_name());
    os_cpu_set_get(&card->cpus);
    host_key(config, card->host_key);
}

void card_text(const struct card *card, char text[CARD_TEXT_BYTES]) {
    snprintf(text, CARD_TEXT_BYTES, "rank %d (host %s, pid %d)", card->rank, card->host, card->pid);
}

/* May this card's probe be opened? False, without an error, where os_shared_open() would set one: here an unreachable process is
 * an answer, not a failure. */
static bool may_be_probe(const struct card *card) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", card->pid, card->probe.fd);
    return card->probe.fd >= 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == PROBE_BYTES;
}

/* Tests whether memory is shared. Without a descriptor it fails: if it answered no, one host would look like two. */
static enum collet_result look_for_memory(const struct card *other, bool *shares) {
    void *memory;
    *shares = false;
    if (!may_be_probe(other))
        return COLLET_SUCCESS;
    enum collet_result result = os_shared_open(other->pid, other->probe.fd, PROBE_BYTES, &memory);
    if (result != COLLET_SUCCESS)
        return os_is_short() ? result : COLLET_SUCCESS;
    *shares = memcmp(memory, other->probe.nonce, PROBE_NONCE_BYTES) == 0;
    os_memory_destroy(memory, PROBE_BYTES);
    return COLLET_SUCCESS;
}

enum collet_result card_find_node(const struct card *cards, int rank, int32_t *node) {
    const struct card *self = &cards[rank], *unreachable = NULL;
    *node = rank;
    for (int other = 0; other < rank && *node == rank; other++) {
        const struct card *card = &cards[other];
        if (memcmp(card->host_key, self->host_key, HOST_KEY_BYTES) != 0)
            continue;
        bool shares = memcmp(card->process, self->process, sizeof self->process) == 0;
        /* Ranks of one process often follow each other: if one failed, the next is not tried. */
        if (!shares && (unreachable == NULL || memcmp(card->process, unreachable->process, sizeof card->process) != 0))
            COLLET_TRY(look_for_memory(card, &shares));
        if (shares)
            *node = other;
        unreachable = card;
    }
    return COLLET_SUCCESS;
}

void ranks_text(const uint8_t *have, int nranks, char *text, size_t room) {
    int missing = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < nranks; rank++) {
        if (!have[rank] && missing++ < RANKS_IN_TEXT && used < room)
            used += (size_t)snprintf(text + used, room - used, "%s%d", used ? ", " : "", rank);
    }
    if (missing > RANKS_IN_TEXT && used < room)
        snprintf(text + used, room - used, " … (%d in all)", missing);
}

/* ------------------------------------------------------------------------------------------- what other processes sent */

bool card_read(const void *data, struct card *card) {
    memcpy(card, data, sizeof *card);
    return card->nranks >= 1 && card->nranks <= BOOT_RANKS_MAX && card->rank >= 0 && card->rank < card->nranks &&
           memchr(card->host, '\0', sizeof card->host) != NULL && address_set_valid(&card->listener);
}

bool seat_read(const void *data, size_t bytes, int nranks, struct seat *seat) {
    if (bytes != sizeof *seat)
        return false;
    memcpy(seat, data, sizeof *seat);
    const bool is_first = seat->place == 0;
    return seat->nplaces >= 1 && seat->nplaces <= nranks && seat->place >= 0 && seat->place < seat->nplaces &&
           memchr(seat->meeting, '\0', sizeof seat->meeting) != NULL &&
           (is_first || (card_read(&seat->parent, &seat->parent) && seat->parent.nranks == nranks));
}

void seat_secret(const struct seat *seat, const uint8_t id_secret[SECRET_BYTES], uint8_t secret[SECRET_BYTES]) {
    id_key(id_secret, "communicator", seat->nonce, sizeof seat->nonce, secret);
}

static bool is_failure(int32_t code, const char *text) {
    return code < 0 && code >= COLLET_ERR_INTERNAL && memchr(text, '\0', ERR_TEXT_BYTES) != NULL;
}

bool failure_read(const void *data, size_t bytes, struct failure *failure) {
    if (bytes != sizeof *failure)
        return false;
    memcpy(failure, data, sizeof *failure);
    return is_failure(failure->code, failure->text) && failure->rank >= -1 && failure->rank < BOOT_RANKS_MAX;
}

bool rejection_read(const void *data, size_t bytes, struct rejection *rejection) {
    if (bytes != sizeof *rejection)
        return false;
    memcpy(rejection, data, sizeof *rejection);
    return is_failure(rejection->code, rejection->text);
}

/* ----------------------------------------------------------------------------------------------------- a table in parts */

enum collet_result table_create(struct table *table, int nranks) {
    *table = (struct table){.nranks = nranks};
    COLLET_TRY(memory_get(&table->cards, (size_t)nranks, sizeof *table->cards, "no memory for the table of ranks"));
    return memory_get(&table->nodes, (size_t)nranks, sizeof *table->nodes, "no memory for the table of ranks");
}

void table_free(struct table *table) {
    free(table->cards);
    free(table->nodes);
    table->cards = NULL;
    table->nodes = NULL;
}

/* Copies the next entries into an array that already has `have` of them. */
static bool take_part(const struct table *table, void *entries, size_t entry_bytes, int *have,
                      const struct frame *frame) {
    const size_t count = frame->bytes / entry_bytes;
    if (count == 0 || frame->bytes % entry_bytes != 0 || count > (size_t)(table->nranks - *have))
        return false;
    memcpy((char *)entries + (size_t)*have * entry_bytes, frame->data, frame->bytes);
    *have += (int)count;
    return true;
}

static bool cards_valid(const struct table *table) {
    struct card card;
    for (int rank = 0; rank < table->nranks; rank++)
        if (!card_read(&table->cards[rank], &card) || card.rank != rank || card.nranks != table->nranks)
            return false;
    return true;
}

/* Checks that each node number is the node's lowest rank. */
static bool nodes_valid(const struct table *table) {
    const int32_t *nodes = table->nodes;
    for (int rank = 0; rank < table->nranks; rank++)
        if (nodes[rank] < 0 || nodes[rank] > rank || nodes[nodes[rank]] != nodes[rank])
            return false;
    return true;
}

static enum table_step take_cards(struct table *table, const struct frame *frame) {
    if (!take_part(table, table->cards, sizeof *table->cards, &table->ncards, frame))
        return TABLE_NONSENSE;
    if (table->ncards < table->nranks)
        return TABLE_PART;
    return cards_valid(table) && config_agreed_valid(&table->agreed) ? TABLE_KNOWN : TABLE_NONSENSE;
}

static enum table_step take_nodes(struct table *table, const struct frame *frame) {
    if (table->ncards < table->nranks || !take_part(table, table->nodes, sizeof *table->nodes, &table->nnodes, frame))
        return TABLE_NONSENSE;
    if (table->nnodes < table->nranks)
        return TABLE_PART;
    return nodes_valid(table) ? TABLE_COMPLETE : TABLE_NONSENSE;
}

enum table_step table_take(struct table *table, const struct frame *frame) {
    if (table->cards == NULL || table->nodes == NULL) /* not begun, or over */
        return TABLE_NONSENSE;
    switch (frame->type) {
    case TABLE_KNOBS:
        if (frame->bytes != sizeof table->agreed || table->ncards > 0)
            return TABLE_NONSENSE;
        memcpy(&table->agreed, frame->data, sizeof table->agreed);
        return TABLE_PART;
    case TABLE_CARDS: return take_cards(table, frame);
    case TABLE_NODES: return take_nodes(table, frame);
    default: return TABLE_NONSENSE;
    }
}

static void send_parts(struct wire *wire, enum table_frame type, const void *entries, size_t entry_bytes, int count) {
    const size_t bytes = (size_t)count * entry_bytes, part = TABLE_PART_BYTES / entry_bytes * entry_bytes;
    for (size_t at = 0; at < bytes; at += part)
        wire_send(wire, type, NULL, 0, (const char *)entries + at, bytes - at < part ? bytes - at : part);
}

void table_send_cards(const struct table *table, struct wire *wire) {
    wire_send(wire, TABLE_KNOBS, &table->agreed, sizeof table->agreed, NULL, 0);
    send_parts(wire, TABLE_CARDS, table->cards, sizeof *table->cards, table->nranks);
}

void table_send_nodes(const struct table *table, struct wire *wire) {
    send_parts(wire, TABLE_NODES, table->nodes, sizeof *table->nodes, table->nranks);
}
