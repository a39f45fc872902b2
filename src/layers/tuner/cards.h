/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of the cost model for kinds of GPUs. The constants of a card with the kernels of one version are a file in
 * src/layers/tuner/cards, in the format of tuning files (costs_file.h). The library contains the text of the file. Its first line says how
 * the numbers were found.
 *
 *      defaults (costs.c) ─▶ those of the generation ─▶ the file of its card, for the kernels of this library ─▶ COLLET_TUNER_FILE
 *
 * A card is recognized by its name. If no file knows its name, it gets the first file of its compute capability.
 */
#ifndef COLLET_LAYERS_TUNER_CARDS_H
#define COLLET_LAYERS_TUNER_CARDS_H

#include "layers/gpu/kernels_version.h"
#include "layers/tuner/costs.h"

#include "collet.h"

struct measured_card {
    const char *file;  /* Name of the file in src/layers/tuner/cards. */
    const char *model; /* Part of the GPU's name, such as "H200". */
    int sm;            /* Compute capability × 10. */
    uint32_t kernels;  /* The GPU_KERNELS_VERSION of the kernels with which the card was measured. */
    const char *text;
};

/* A kind of GPU. `name` comes from its driver, such as "NVIDIA H200"; "" or NULL: unknown. sm: compute capability × 10; 0: unknown. */
struct card_gpu {
    const char *name;
    int sm;
};

#define CARD_KERNELS GPU_KERNELS_VERSION /* Version of the kernels of this library. */

/* Changes default constants of the cost model to the constants of this kind of GPU, with kernels of this version. If nothing is known
 * about the GPU, nothing changes. */
enum collet_result card_suit(struct card_gpu gpu, uint32_t kernels, struct cost_table *costs);

#define CARD_NOTE_BYTES 240
/* Writes in one line where the constants for this kind of GPU come from. Returns `text`. */
const char *card_note(struct card_gpu gpu, uint32_t kernels, char text[CARD_NOTE_BYTES]);

#endif
