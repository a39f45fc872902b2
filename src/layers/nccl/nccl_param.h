/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs by name, for NCCL's functions that ask for parameters.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_PARAM_H
#define COLLET_LAYERS_NCCL_NCCL_PARAM_H

#include "base/config.h"

#include <stdbool.h>
#include <stdint.h>

struct nccl_param; /* never freed */

const struct nccl_param *nccl_param_find(const char *key); /* NULL: there is none, or key is NULL */

/* Its present value. False: the environment has a value that is refused, as err_last() says. */
bool nccl_param_text(const struct nccl_param *param, char text[CONFIG_TEXT_BYTES]);
/* False, too, if it is a text, or out of bounds. */
bool nccl_param_number(const struct nccl_param *param, int64_t least, int64_t most, int64_t *number);

int nccl_param_keys(const char ***keys_p); /* how many; the table stays */
void nccl_param_dump(void);                /* into the log, whatever its level */

#endif
