/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks and the meeting point tell each other at init: cards, tables, nodes, failures, rejections, agreed knobs.
 */
#include "boot/places.h"
#include "boot/table.h"
#include "fuzz.h"

#include <stdlib.h>

#define RANKS 5

/* A card that is right but for some bytes. */
static void make_card(struct fuzz_input *input, int rank, struct card *card) {
    memset(card, 0, sizeof *card);
    card->rank = rank;
    card->nranks = RANKS;
    card->pid = 1000 + rank;
    card->process[0] = (uint64_t)rank / 2;
    card->probe.fd = -1;
    memcpy(card->host, "host", 5);
    card->listener.count = 1;
    card->listener.port = 4711;
    card->listener.addresses[0] = (struct address){.family = 4, .ip = {127, 0, 0, 1}};
    fuzz_patch(input, card, sizeof *card);
}

static void use_card(const struct card *card) {
    char text[CARD_TEXT_BYTES], address[ADDRESS_TEXT_BYTES];
    card_text(card, text);
    for (int k = 0; k < card->listener.count; k++)
        address_text(&card->listener.addresses[k], card->listener.port, address);
}

static void read_table(struct fuzz_input *input) {
    struct card sent[RANKS], cards[RANKS];
    struct places places = {0};
    for (int rank = 0; rank < RANKS; rank++)
        make_card(input, rank, &sent[rank]);
    if (!table_read(sent, RANKS, cards))
        return;
    for (int rank = 0; rank < RANKS; rank++) {
        use_card(&cards[rank]);
        (void)card_find_node(cards, rank);
    }
    if (places_create(&places, cards, RANKS) == COLLET_SUCCESS)
        for (int k = 0; k < places.count; k++)
            (void)places_next_hop(&places, places_choose_parent(&places, places.self), k);
    places_destroy(&places);
}

static void read_nodes(const uint8_t *data, size_t size) {
    int32_t nodes[RANKS];
    if (nodes_read(data, size, RANKS, nodes))
        for (int rank = 0; rank < RANKS; rank++)
            if (nodes[rank] < 0 || nodes[rank] > rank)
                abort();
}

static void read_config(struct fuzz_input *input) {
    static struct config config, adopted;
    struct config_value value;
    if (config_read(&config) != COLLET_SUCCESS)
        return;
    fuzz_patch(input, &config, sizeof config);
    if (!config_agreed_valid(&config))
        return;
    config_adopt(&adopted, &config);
    for (size_t k = 0; config_value(&adopted, k, &value); k++)
        if (memchr(value.text, '\0', sizeof value.text) == NULL)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct card card;
    struct failure failure = {.code = COLLET_ERR_REMOTE, .rank = -1, .text = "why"};
    struct rejection rejection = {.code = COLLET_ERR_INVALID_ARGUMENT, .text = "why"};
    switch (fuzz_byte(&input) % 6) {
    case 0: read_table(&input); break;
    case 1: read_nodes(input.data, input.size); break;
    case 2: read_config(&input); break;
    case 3:
        fuzz_patch(&input, &failure, sizeof failure);
        (void)failure_read(&failure, sizeof failure - fuzz_byte(&input) % 2, &failure);
        break;
    case 4:
        fuzz_patch(&input, &rejection, sizeof rejection);
        (void)rejection_read(&rejection, sizeof rejection, &rejection);
        break;
    default:
        if (input.size >= sizeof card && card_read(input.data, &card))
            use_card(&card);
    }
    return 0;
}
