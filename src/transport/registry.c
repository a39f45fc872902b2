/* SPDX-License-Identifier: Apache-2.0
 *
 * The transports, in order of preference. A new one is its file and its line here, with a number that no other has.
 */
#include "transport/transport.h"

#include <string.h>
#include <strings.h>

/* The number is a transport's bit in collet_config.transports, so it stays what it is. */
#define TRANSPORTS(X)                                                                                                  \
    X(self, 0)  /* one process: plain memory */                                                                        \
    X(ipc, 4)   /* GPUs of one host: the consumer's memory, or pinned host memory */                                   \
    X(shm, 1)   /* one host: a memfd mapped by both */                                                                 \
    X(verbs, 3) /* hosts with RDMA: the NIC writes into the other's memory */                                          \
    X(tcp, 2)   /* anything IP reaches */

enum {
#define X(name, number) NUMBER_##name = (number),
    TRANSPORTS(X)
#undef X
#define X(name, number) +(1u << (number))
        SUM_OF_BITS = TRANSPORTS(X),
#undef X
#define X(name, number) | 1u << (number)
    ALL_BITS = 0 TRANSPORTS(X)
#undef X
};
_Static_assert((int)SUM_OF_BITS == (int)ALL_BITS, "no two transports have one number");
_Static_assert(ALL_BITS < 1 << BOOT_CARDS, "every transport has a card");
_Static_assert(COLLET_TRANSPORT_SELF == 1u << NUMBER_self && COLLET_TRANSPORT_SHM == 1u << NUMBER_shm &&
                   COLLET_TRANSPORT_TCP == 1u << NUMBER_tcp && COLLET_TRANSPORT_VERBS == 1u << NUMBER_verbs &&
                   COLLET_TRANSPORT_IPC == 1u << NUMBER_ipc,
               "collet.h has these bits");

#define X(name, number) extern const struct transport transport_##name;
TRANSPORTS(X)
#undef X

const struct transport *const transports[] = {
#define X(name, number) &transport_##name,
    TRANSPORTS(X)
#undef X
        NULL,
};

int transport_number(const struct transport *transport) {
    static const int numbers[] = {
#define X(name, number) number,
        TRANSPORTS(X)
#undef X
    };
    int k = 0;
    while (transports[k] != transport)
        k++;
    return numbers[k];
}

const struct transport *transport_named(const char *name) {
    for (const struct transport *const *t = transports; *t != NULL; t++)
        if (strcasecmp((*t)->name, name) == 0)
            return *t;
    return NULL;
}

void transport_cards(int device, uint64_t cards[BOOT_CARDS]) {
    memset(cards, 0, BOOT_CARDS * sizeof(*cards));
    for (const struct transport *const *t = transports; *t != NULL; t++)
        if ((*t)->card != NULL)
            cards[transport_number(*t)] = (*t)->card(device);
}
