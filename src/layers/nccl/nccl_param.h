/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs by name, for NCCL's functions that ask for parameters.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_PARAM_H
#define COLLET_LAYERS_NCCL_NCCL_PARAM_H

#include "base/config.h"

#include <stdbool.h>
#include <stdint.h>

struct nccl_param; /* The table's entries are never freed. */

/* The parameter of this key. NULL: there is none, or key is NULL. */
const struct nccl_param *nccl_param_find(const char *key);

/* Writes the parameter's present value. False: a value in the environment is refused; err_last() says which. */
bool nccl_param_text(const struct nccl_param *param, char text[CONFIG_TEXT_BYTES]);
/* Reads the parameter's present value as a number. False: as above, or the value is a text, or it is out of bounds. */
bool nccl_param_number(const struct nccl_param *param, int64_t least, int64_t most, int64_t *number);

int nccl_param_keys(const char ***keys_p); /* Returns the number of keys. The table *keys_p stays valid. */
void nccl_param_dump(void);                /* Writes all parameters to the log, whatever its level. */

#endif
