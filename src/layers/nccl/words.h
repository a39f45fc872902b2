/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's variables in collet's words. A value that NCCL takes ends no job: the nearest one counts, and a warning says what is lost.
 */
#ifndef COLLET_LAYERS_NCCL_WORDS_H
#define COLLET_LAYERS_NCCL_WORDS_H

#include "base/config.h"

struct words {
    char text[CONFIG_TEXT_BYTES]; /* as the COLLET_ variable has it; "": its default */
    char loss[CONFIG_TEXT_BYTES]; /* what the warning says; "": nothing is lost */
};

/* NCCL_ALGO and NCCL_PROTO. Where all names are unknown, to NCCL too, the text is the value as it is. (words_choice.c) */
void words_of_algorithms(const char *value, struct words *words);
void words_of_protocols(const char *value, struct words *words);

/* Appends to a text of CONFIG_TEXT_BYTES; what does not fit is cut off. */
void words_add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a sentence, with a semicolon in front where there is one already. */
void words_lose(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
