/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates NCCL's options (ncclConfig_t and environment variables of NCCL) into collet's options.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CONFIG_H
#define COLLET_LAYERS_NCCL_NCCL_CONFIG_H

#include "collet.h"

#include <stdbool.h>

/* Are buffers in host memory (COLLET_DEVICE=host), and not on the current GPU? */
bool nccl_on_host(void);

/* The value of an environment variable that is a number, in NCCL's notation. `otherwise` is returned if the variable is
 * unset or is no number. */
int nccl_env_int(const char *name, int otherwise);

/* Reads a communicator's options. config: an ncclConfig_t of any version, or NULL. INVALID_ARGUMENT: the error text
 * names the wrong field. */
enum collet_result nccl_config_read(const void *config, struct collet_config *options);

#endif
