/* SPDX-License-Identifier: Apache-2.0
 *
 * What a value of NCCL's is in collet's words.
 */
#ifndef COLLET_LAYERS_NCCL_WORDING_H
#define COLLET_LAYERS_NCCL_WORDING_H

#include "base/config.h"

struct words {
    char text[CONFIG_TEXT_BYTES]; /* as the COLLET_ variable has it; "": its default */
    char loss[CONFIG_TEXT_BYTES]; /* what the warning says; "": nothing is lost */
};

/* Appends to a text of CONFIG_TEXT_BYTES; what does not fit is cut off. */
void words_add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to the loss, with a semicolon in front if there is one already. */
void words_lose(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
