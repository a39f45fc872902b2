/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL_ALGO and NCCL_PROTO in collet's words. Where all names are unknown, to NCCL too, the text is the value as it is: it will be refused.
 */
#ifndef COLLET_LAYERS_NCCL_WORDS_CHOICE_H
#define COLLET_LAYERS_NCCL_WORDS_CHOICE_H

#include "layers/nccl/wording.h"

void words_of_algorithms(const char *value, struct words *words);
void words_of_protocols(const char *value, struct words *words);

#endif
