/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's options, and the environment variables of NCCL that are options here, as options of collet.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CONFIG_H
#define COLLET_LAYERS_NCCL_NCCL_CONFIG_H

#include "collet.h"

#include <stdbool.h>

/* Are buffers in host memory (COLLET_DEVICE=host), and not on the current GPU? */
bool nccl_on_host(void);

/* The value of a variable that is a number, as NCCL reads it; `otherwise` where it is unset or no number. */
int nccl_env_int(const char *name, int otherwise);

/* config: an ncclConfig_t of any version, or NULL. INVALID_ARGUMENT names the field that is wrong. */
enum collet_result nccl_config_read(const void *config, struct collet_config *options);

#endif
