/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's configuration files, which set environment variables.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CONF_H
#define COLLET_LAYERS_NCCL_NCCL_CONF_H

/* Writes to the log which files were read when the library was loaded, and which of their lines set no variable. */
void nccl_conf_tell(void);

#endif
