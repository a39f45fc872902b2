/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL_ALGO and NCCL_PROTO in collet's words. Where all names are unknown, to NCCL too, the text is the value as it is: it will be refused.
 */
#ifndef COLLET_LAYERS_NCCL_WORDS_CHOICE_H
#define COLLET_LAYERS_NCCL_WORDS_CHOICE_H

#include "layers/nccl/wording.h"
#include "program/program.h"

#include <stdbool.h>
#include <stdint.h>

void words_of_algorithms(const char *value, struct words *words);
void words_of_protocols(const char *value, struct words *words);

/* What one call selects, as NCCL_ALGO would for its collective; names of protocols may be in the list, too. */
struct selection {
    uint32_t algorithms, protocols;  /* as in struct call_options; 0: any */
    char missing[CONFIG_TEXT_BYTES]; /* names that mean nothing for this collective here */
    bool is_empty;                   /* they leave nothing */
};
void words_of_selection(const char *value, enum prog_collective collective, struct selection *selection);

#endif
