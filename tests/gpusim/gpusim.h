/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test asks the simulated machine, beside what it asks CUDA.
 */
#ifndef COLLET_GPUSIM_GPUSIM_H
#define COLLET_GPUSIM_GPUSIM_H

#include <stdint.h>

/* Calls of the runtime and the driver by this thread, of one name or (NULL) of all, since they were last forgotten. */
uint64_t gpusim_calls(const char *name);
void gpusim_forget_calls(void);
void gpusim_print_calls(uint64_t divisor); /* how often each was made, divided; those of at least 1 */

uint64_t gpusim_loads(void); /* of kernels, by first uses: each has waited for what was under way on its GPU */

uint64_t gpusim_switches(void); /* how often this process got a GPU from another one (cuda_slices.c) */

uint32_t gpusim_contexts(void); /* by bits: the ordinals on which this process has one */

#endif
