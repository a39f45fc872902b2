/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks and the meeting point tell each other at init: cards, tables, nodes, failures, rejections, agreed knobs.
 */
#include "base/config_read.h"
#include "boot/tree.h"
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

static void use_table(const struct table *table) {
    struct places places = {0};
    int32_t node;
    for (int rank = 0; rank < RANKS; rank++) {
        use_card(&table->cards[rank]);
        (void)card_find_node(table->cards, rank, &node);
        if (table->nodes[rank] < 0 || table->nodes[rank] > rank)
            abort();
    }
    if (places_create(&places, table->cards, RANKS) == COLLET_SUCCESS)
        for (int k = 0; k < places.count; k++)
            if (places_choose_parent(&places, k) >= k)
                abort();
    places_destroy(&places);
}

/* In parts, as it comes down the tree: cards that are right but for some bytes, then whatever is left. */
static void read_table(struct fuzz_input *input) {
    struct table table;
    struct card cards[RANKS];
    enum table_step step = TABLE_PART;
    if (table_create(&table, RANKS) != COLLET_SUCCESS)
        abort();
    for (int rank = 0; rank < RANKS; rank++)
        make_card(input, rank, &cards[rank]);
    for (int rank = 0; rank < RANKS && step != TABLE_NONSENSE;) {
        int count = 1 + fuzz_byte(input) % (RANKS - rank);
        step = table_take(&table, &(struct frame){TABLE_CARDS, (size_t)count * sizeof *cards, (void *)&cards[rank]});
        rank += count;
    }
    while (step != TABLE_NONSENSE && step != TABLE_COMPLETE && input->size > 0) {
        size_t bytes;
        uint32_t type = fuzz_byte(input) % 2 ? TABLE_NODES : fuzz_byte(input);
        const uint8_t *data = fuzz_bytes(input, fuzz_byte(input), &bytes);
        step = table_take(&table, &(struct frame){type, bytes, (const char *)data});
    }
    if (step == TABLE_COMPLETE)
        use_table(&table);
    table_free(&table);
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
    case 0:
    case 1: read_table(&input); break;
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
