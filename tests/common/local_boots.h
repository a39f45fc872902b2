/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane of a communicator whose ranks are all in the test's thread.
 */
#ifndef COLLET_TESTS_LOCAL_BOOTS_H
#define COLLET_TESTS_LOCAL_BOOTS_H

#include "boot/boot.h"

/* Fills boots[0 … nranks−1], ready at once. selves NULL: all on host memory, without cards. */
static inline enum collet_result boot_join_local(int nranks, const struct boot_self *selves, struct config *configs,
                                                 struct boot **boots) {
    static const struct boot_self on_host = {.device = COLLET_DEVICE_HOST};
    struct collet_unique_id id;
    enum collet_result result = boot_unique_id_fresh(true, &id);
    for (int rank = 0; rank < nranks && result == COLLET_SUCCESS; rank++)
        result = boot_join(&id, nranks, rank, selves != NULL ? &selves[rank] : &on_host, &configs[rank], &boots[rank]);
    return result;
}

#endif
