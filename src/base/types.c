/* SPDX-License-Identifier: Apache-2.0 */
#include "base/types.h"

static const char *const TYPE_NAMES[COLLET_TYPE_COUNT] = {
#define X(suffix, name, storage, accumulator) [COLLET_##suffix] = #name,
    COLLET_TYPES(X)
#undef X
};

static const char *const OP_NAMES[COLLET_OP_COUNT] = {
#define X(suffix, name) [COLLET_##suffix] = #name,
    COLLET_OPS(X)
#undef X
};

const char *type_name(enum collet_type type) { return type_valid(type) ? TYPE_NAMES[type] : "?"; }

const char *op_name(enum collet_op op) { return op_valid(op) ? OP_NAMES[op] : "?"; }

size_t collet_type_size(enum collet_type type) {
    static const size_t sizes[] = {
#define X(upper, name, storage, accumulator) [COLLET_##upper] = sizeof(storage),
        COLLET_TYPES(X)
#undef X
    };
    return type_valid(type) ? sizes[type] : 0;
}
