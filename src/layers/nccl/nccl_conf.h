/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of NCCL that set variables.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_CONF_H
#define COLLET_LAYERS_NCCL_NCCL_CONF_H

/* Tells the log which files were read when the library was loaded, and what in them is no setting. */
void nccl_conf_tell(void);

#endif
