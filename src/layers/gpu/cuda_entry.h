/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_CUDA_ENTRY_H
#define COLLET_LAYERS_GPU_CUDA_ENTRY_H

/* A function of the machine's driver that the runtime has no name for, as CUDA `version` (12030 is 12.3) defines it; asked
 * for by name, so that an old driver is a reason and not a program that does not start. NULL: this driver has none. */
void *cuda_entry(const char *name, unsigned version);

#endif
