/* SPDX-License-Identifier: Apache-2.0
 *
 * How do bytes get from one process to another the soonest: through slots that both see, or copied once by the kernel?
 */
#ifndef COLLET_LAYERS_TUNER_COPY_PROBE_H
#define COLLET_LAYERS_TUNER_COPY_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* Median times of a payload of COPY_PROBE_BYTES, in ns. */
struct copy_times {
    double slots_ns, kernel_ns; /* slots: written through the caches or past them, whichever is faster */
    int refused;                /* errno with which the kernel refused to copy; 0: it did not */
};
#define COPY_PROBE_BYTES 65536u

/* As memcpy(). */
typedef void *copy_probe_fn(void *to, const void *from, size_t bytes);

/* Two threads pinned to the CPUs pass a payload each way in turns; past_caches copies so. False if that was not possible: no thread
 * may be started there, there is no memory, the kernel refused to copy (times->refused says why), or the answer took too long. */
bool copy_probe(int cpu_a, int cpu_b, copy_probe_fn *past_caches, struct copy_times *times);

#endif
