/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/patience.h"

void *patient_malloc(size_t bytes) {
    static _Thread_local int naps; /* number of naps since this thread last got memory */
    void *memory;
    while ((memory = malloc(bytes)) == NULL && patience_left(&naps))
        ;
    if (memory != NULL)
        naps = 0;
    return memory;
}
