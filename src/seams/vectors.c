/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "vectors" there are no operators of programs, and no probes.
 */
#include "seams/vectors.h"

enum collet_result probe_try(struct collet_comm *comm, struct post *probe, uint64_t *idle_since_ns) {
    (void)comm, (void)probe, (void)idle_since_ns;
    return err_set(COLLET_ERR_UNSUPPORTED, "this build has no probes");
}
