/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "many", its algorithms apply to no shape. So none of them is ever built.
 */
#include "seams/many.h"

#include "program/registry.h"

bool many_apply(const struct prog_shape *shape) {
    (void)shape;
    return false;
}

bool rails_apply(const struct prog_shape *shape) {
    (void)shape;
    return false;
}

struct prog;
#define NOT_HERE(name)                                                                                                 \
    void name##_build(struct prog *prog);                                                                              \
    void name##_build(struct prog *prog) { (void)prog; }
NOT_HERE(allreduce_nvls)
NOT_HERE(allreduce_halving)
NOT_HERE(allreduce_hier)
NOT_HERE(allreduce_hiertree)
NOT_HERE(allgather_pat)
NOT_HERE(reducescatter_pat)
NOT_HERE(alltoall_hier)
NOT_HERE(gather_tree)
NOT_HERE(scatter_tree)
