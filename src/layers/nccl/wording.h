/* SPDX-License-Identifier: Apache-2.0
 *
 * A value of one of NCCL's environment variables, translated for the COLLET_ variable of the same knob.
 */
#ifndef COLLET_LAYERS_NCCL_WORDING_H
#define COLLET_LAYERS_NCCL_WORDING_H

#include "base/config.h"

struct words {
    char text[CONFIG_TEXT_BYTES]; /* value for the COLLET_ variable; "": its default */
    char loss[CONFIG_TEXT_BYTES]; /* text of the warning about what the translation loses; "": nothing is lost */
};

/* Appends to an array of CONFIG_TEXT_BYTES. A text that does not fit is cut off. */
void words_add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to the loss, after a semicolon if it is not empty. */
void words_lose(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
