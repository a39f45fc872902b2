/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/cards.h"

#include "layers/tuner/costs_file.h"

#include <stdio.h>
#include <string.h>

/* ---- the files ---- */

#define TEXT(symbol, path)                                                                                             \
    extern const char symbol[];                                                                                        \
    __asm__(".section .rodata\n"                                                                                       \
            ".globl " #symbol "\n"                                                                                     \
            ".hidden " #symbol "\n" #symbol ": .incbin \"src/layers/tuner/cards/" path "\"\n"                          \
            ".byte 0\n"                                                                                                \
            ".previous\n")

TEXT(card_h200_1, "h200-1.tuning");
TEXT(card_h200_2, "h200-2.tuning");
TEXT(card_h100_2, "h100-2.tuning");

/* The last entry has no file. */
static const struct measured_card cards[] = {
    {"h200-1.tuning", "H200", 90, 1, card_h200_1},
    {"h200-2.tuning", "H200", 90, 2, card_h200_2},
    {"h100-2.tuning", "H100", 90, 2, card_h100_2},
    {.file = NULL},
};

/* Finds the file of constants for this kind of GPU and for kernels of this version. NULL: there is no such file. */
static const struct measured_card *card_find(struct card_gpu gpu, uint32_t kernels) {
    const struct measured_card *nearest = NULL;
    for (const struct measured_card *card = cards; card->file != NULL; card++) {
        if (card->sm != gpu.sm || card->kernels != kernels)
            continue;
        if (gpu.name != NULL && strstr(gpu.name, card->model) != NULL)
            return card;
        nearest = nearest != NULL ? nearest : card;
    }
    return nearest;
}

/* ---- generations ---- */

/* Bandwidth of one block in a ring, in GB/s (from NCCL's tuning.cc of 2026). Below, gpu_blocks is the number of multiprocessors of the
 * largest card of a generation (from NVIDIA's architecture white papers), because each multiprocessor runs one block. */
static double block_gbps(int sm) { return sm >= 100 ? 40 : sm >= 90 ? 36.7 : 20; }

static void suit_generation(int sm, struct cost_table *costs) {
    double faster = block_gbps(sm) / block_gbps(0);
    if (sm > 0)
        costs->gpu_blocks = sm >= 100 ? 148 : sm >= 90 ? 132 : sm >= 80 ? 108 : 80;
    if (sm >= 100)
        costs->switched_share = 0.74;
    for (int class = LINK_GPU; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++)
            costs->step[class][p].byte_ns /= faster;
}

enum collet_result card_suit(struct card_gpu gpu, uint32_t kernels, struct cost_table *costs) {
    const struct measured_card *card = card_find(gpu, kernels);
    suit_generation(gpu.sm, costs);
    return card != NULL ? costs_read_text(card->text, card->file, costs) : COLLET_SUCCESS;
}

/* The note is the first line of the card's file. */
const char *card_note(struct card_gpu gpu, uint32_t kernels, char text[CARD_NOTE_BYTES]) {
    const struct measured_card *card = card_find(gpu, kernels);
    const char *line = card != NULL ? card->text + strspn(card->text, "# ") : "";
    snprintf(text, CARD_NOTE_BYTES, "those %s GPUs, assumed from data sheets, not measured%s%.*s",
             card != NULL ? "between" : "of", card != NULL ? "; within a GPU " : "", (int)strcspn(line, "\n"), line);
    return text;
}
