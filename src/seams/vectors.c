/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "vectors": no operator was ever created, and nobody probes.
 */
#include "seams/vectors.h"

enum collet_result op_resolve_created(const struct collet_comm *comm, struct exec_request *request) {
    (void)comm;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "op is %d: none of enum collet_op", (int)request->op);
}

enum collet_result probe_try(struct collet_comm *comm, struct post *probe) {
    (void)comm, (void)probe;
    return err_set(COLLET_ERR_UNSUPPORTED, "this build has no probes");
}

enum collet_result probe_look(const struct collet_comm *comm, uint64_t *idle_since_ns, uint64_t now_ns) {
    (void)comm, (void)idle_since_ns, (void)now_ns;
    return COLLET_SUCCESS;
}
