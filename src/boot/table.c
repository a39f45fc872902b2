/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/table.h"

#include "base/os.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RANKS_IN_TEXT 16

static void host_key(const struct config *config, uint8_t key[HOST_KEY_BYTES]) {
    char text[CONFIG_TEXT_BYTES + 16];
    if (config->hostid[0] != '\0')
        snprintf(text, sizeof text, "hostid %s", config->hostid);
    else
        snprintf(text, sizeof text, "boot %s", os_boot_id());
    if (config->hostid[0] == '\0' && os_boot_id()[0] == '\0') /* unknown: no other process can be known to be here */
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

/* Quietly false where os_shared_open() would report an error: that the other process is out of reach is an answer here,
 * not a failure. */
static bool may_be_probe(const struct card *card) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", card->pid, card->probe.fd);
    return card->probe.fd >= 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == PROBE_BYTES;
}

static bool shares_memory(const struct card *other) {
    void *memory;
    if (!may_be_probe(other) || os_shared_open(other->pid, other->probe.fd, PROBE_BYTES, &memory) != COLLET_SUCCESS)
        return false;
    bool same = memcmp(memory, other->probe.nonce, PROBE_NONCE_BYTES) == 0;
    os_memory_destroy(memory, PROBE_BYTES);
    return same;
}

int card_find_node(const struct card *cards, int rank) {
    const struct card *self = &cards[rank], *unreachable = NULL;
    for (int other = 0; other < rank; other++) {
        const struct card *card = &cards[other];
        if (memcmp(card->host_key, self->host_key, HOST_KEY_BYTES) != 0)
            continue;
        if (memcmp(card->process, self->process, sizeof self->process) == 0)
            return other;
        /* Ranks of one process follow each other: what failed for one fails for the next. */
        if (unreachable != NULL && memcmp(card->process, unreachable->process, sizeof card->process) == 0)
            continue;
        if (shares_memory(card))
            return other;
        unreachable = card;
    }
    return rank;
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
    return card->nranks >= 1 && card->nranks <= NRANKS_MAX && card->rank >= 0 && card->rank < card->nranks &&
           memchr(card->host, '\0', sizeof card->host) != NULL && address_set_valid(&card->listener);
}

bool table_read(const void *data, int nranks, struct card *cards) {
    for (int rank = 0; rank < nranks; rank++)
        if (!card_read((const char *)data + (size_t)rank * sizeof *cards, &cards[rank]) || cards[rank].rank != rank ||
            cards[rank].nranks != nranks)
            return false;
    return true;
}

bool nodes_read(const void *data, size_t bytes, int nranks, int32_t *nodes) {
    if (bytes != (size_t)nranks * sizeof *nodes)
        return false;
    memcpy(nodes, data, bytes);
    for (int rank = 0; rank < nranks; rank++)
        if (nodes[rank] < 0 || nodes[rank] > rank || nodes[nodes[rank]] != nodes[rank])
            return false;
    return true;
}

static bool is_failure(int32_t code, const char *text) {
    return code < 0 && code >= COLLET_ERR_INTERNAL && memchr(text, '\0', ERR_TEXT_BYTES) != NULL;
}

bool failure_read(const void *data, size_t bytes, struct failure *failure) {
    if (bytes != sizeof *failure)
        return false;
    memcpy(failure, data, sizeof *failure);
    return is_failure(failure->code, failure->text) && failure->rank >= -1 && failure->rank < NRANKS_MAX;
}

bool rejection_read(const void *data, size_t bytes, struct rejection *rejection) {
    if (bytes != sizeof *rejection)
        return false;
    memcpy(rejection, data, sizeof *rejection);
    return is_failure(rejection->code, rejection->text);
}
