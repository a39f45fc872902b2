/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_CUDA_ENTRY_H
#define COLLET_LAYERS_GPU_CUDA_ENTRY_H

/* Finds a function of the machine's driver that the runtime does not offer, as CUDA `version` (12030 is 12.3) defines it. It is looked up
 * by name at run time, so a program also starts on an old driver, and can say what is missing. NULL: this driver has no such function. */
void *cuda_entry(const char *name, unsigned version);

#endif
