/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of kinds of GPUs. The constants of a card, with the kernels of one version, are a file in src/plan/cards, in the
 * format of tuning files (costs_file.h); the library has its text. Its first line says how the numbers came about.
 *
 *      defaults (costs.c) ─▶ those of the generation ─▶ the file of its card, for the kernels of this library ─▶ COLLET_TUNER_FILE
 *
 * A card is told by its compute capability: others of the same one get the same file.
 */
#ifndef COLLET_LAYERS_TUNER_CARDS_H
#define COLLET_LAYERS_TUNER_CARDS_H

#include "layers/gpu/kernels_version.h"
#include "layers/tuner/costs.h"

#include "collet.h"

struct card {
    const char *file; /* in src/plan/cards */
    int sm;           /* compute capability × 10 */
    uint32_t kernels; /* GPU_KERNELS_VERSION that it is of */
    const char *text;
};

/* The last one has no file. */
extern const struct card cards[];

/* The file for GPUs of this capability, with kernels of this version; NULL: there is none. */
const struct card *card_find(int sm, uint32_t kernels);

#define CARD_KERNELS GPU_KERNELS_VERSION /* those of this library */

/* From the defaults to the constants of such GPUs, with kernels of this version. sm 0: unknown; then nothing changes. */
enum collet_result card_suit(int sm, uint32_t kernels, struct cost_table *costs);

#define CARD_NOTE_BYTES 240
/* Where these constants come from, in a line. */
const char *card_note(int sm, uint32_t kernels, char text[CARD_NOTE_BYTES]);

#endif
