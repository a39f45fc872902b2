/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of kinds of GPUs. The constants of a card, with the kernels of one version, are a file in src/layers/tuner/cards, in the
 * format of tuning files (costs_file.h); the library has its text. Its first line says how the numbers came about.
 *
 *      defaults (costs.c) ─▶ those of the generation ─▶ the file of its card, for the kernels of this library ─▶ COLLET_TUNER_FILE
 *
 * A card is told by its name. One whose name no file knows gets the first file of its compute capability.
 */
#ifndef COLLET_LAYERS_TUNER_CARDS_H
#define COLLET_LAYERS_TUNER_CARDS_H

#include "layers/gpu/kernels_version.h"
#include "layers/tuner/costs.h"

#include "collet.h"

struct card {
    const char *file;  /* in src/layers/tuner/cards */
    const char *model; /* a part of the name of such a GPU */
    int sm;            /* compute capability × 10 */
    uint32_t kernels;  /* the GPU_KERNELS_VERSION with which it was measured */
    const char *text;
};

/* A GPU, as its driver names it: "NVIDIA H200". "" or NULL: the name is unknown. sm 0: unknown. */
struct card_gpu {
    const char *name;
    int sm;
};

#define CARD_KERNELS GPU_KERNELS_VERSION /* those of this library */

/* Changes default constants to those of such a GPU, with kernels of this version. If nothing is known about it, nothing changes. */
enum collet_result card_suit(struct card_gpu gpu, uint32_t kernels, struct cost_table *costs);

#define CARD_NOTE_BYTES 240
/* Writes in one line where these constants come from. */
const char *card_note(struct card_gpu gpu, uint32_t kernels, char text[CARD_NOTE_BYTES]);

#endif
