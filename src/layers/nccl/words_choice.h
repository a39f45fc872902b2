/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates NCCL_ALGO and NCCL_PROTO. If neither NCCL nor collet knows any of the names, the text is the unchanged value,
 * which is refused later.
 */
#ifndef COLLET_LAYERS_NCCL_WORDS_CHOICE_H
#define COLLET_LAYERS_NCCL_WORDS_CHOICE_H

#include "layers/nccl/wording.h"
#include "program/program.h"

#include <stdbool.h>
#include <stdint.h>

void words_of_algorithms(const char *value, struct words *words);
void words_of_protocols(const char *value, struct words *words);

/* The selection of one call (algSelection): NCCL_ALGO's notation for the call's collective, which may also list names of
 * protocols. */
struct selection {
    uint32_t algorithms, protocols;  /* sets of bits, as in struct call_options; 0: any */
    char missing[CONFIG_TEXT_BYTES]; /* names that mean nothing for this collective in collet */
    bool is_empty;                   /* no algorithm or no protocol is left */
};
void words_of_selection(const char *value, enum prog_collective collective, struct selection *selection);

#endif
