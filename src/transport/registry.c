/* SPDX-License-Identifier: Apache-2.0
 *
 * The transports, in order of preference. A new transport needs its file, and a line here.
 */
#include "transport/transport.h"

#include <string.h>
#include <strings.h>

#define TRANSPORTS(X)                                                                                                  \
    X(self)   /* one process: plain memory */                                                                          \
    X(ipc)    /* GPUs of one host: the consumer's memory, or pinned host memory */                                     \
    X(shm)    /* one host: a memfd mapped by both */                                                                   \
    X(plugin) /* hosts with the same plugin of NCCL's kind, where COLLET_NET_PLUGIN asks for it */                     \
    X(verbs)  /* hosts with RDMA: the NIC writes into the other's memory */                                            \
    X(tcp)    /* anything IP reaches */

#define X(name) extern const struct transport transport_##name;
TRANSPORTS(X)
#undef X

const struct transport *const transports[] = {
#define X(name) &transport_##name,
    TRANSPORTS(X)
#undef X
        NULL,
};

const struct transport *transport_named(const char *name) {
    for (const struct transport *const *t = transports; *t != NULL; t++)
        if (strcasecmp((*t)->name, name) == 0)
            return *t;
    return NULL;
}

bool transport_shares_device(const struct peer_info *a, const struct peer_info *b) {
    bool same = a->node == b->node;
    for (const struct transport *const *t = transports; *t != NULL; t++)
        same &= !(*t)->card_is_device || transport_card(*t, a) == transport_card(*t, b);
    return same;
}

void transport_cards(int device, uint64_t cards[BOOT_CARDS]) {
    memset(cards, 0, BOOT_CARDS * sizeof(*cards));
    for (const struct transport *const *t = transports; *t != NULL; t++)
        if ((*t)->card != NULL)
            cards[transport_number(*t)] = (*t)->card(device);
}
