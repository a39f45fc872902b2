/* SPDX-License-Identifier: Apache-2.0 */
#include "base/types.h"

static const struct type_format TYPES[] = {TYPE_FORMATS};
_Static_assert(sizeof TYPES / sizeof *TYPES == COLLET_TYPE_COUNT, "one row for each enumerator of enum collet_type");

#define X(ENUM, name, runs, kernel, types, sign) [COLLET_##ENUM] = {#name, ONLY_##types},
enum { ONLY_ANY, ONLY_WHOLE };
static const struct {
    const char *name;
    int only;
} OPS[COLLET_OP_COUNT] = {COLLET_OPS(X)};
#undef X

/* The order of the table's rows, as an enum. Assertions compare it with enum collet_type, because tables in C++ have no designators. */
#define X(ENUM, ...) ROW_##ENUM,
enum { COLLET_TYPES(X, ) };
#undef X
#define X(ENUM, ...) _Static_assert((int)ROW_##ENUM == (int)COLLET_##ENUM, "rows are in the order of enum collet_type");
COLLET_TYPES(X, )
#undef X

#define X(ENUM, name, kind, element, ...) sizeof(element),
const uint8_t type_bytes[] = {COLLET_TYPES(X, )};
#undef X

const struct type_format *type_format(enum collet_type type) { return &TYPES[type]; }

const char *type_name(enum collet_type type) { return type_valid(type) ? TYPES[type].name : "?"; }

const char *op_name(enum collet_op op) { return op_valid(op) ? OPS[op].name : "?"; }

uint64_t type_average_factor(enum collet_type type, uint32_t nranks) {
    const struct type_format *format = &TYPES[type];
    uint32_t shift = type_average_shift(format->exponent_bits, nranks);
    uint64_t bias = shift > 0 ? (1u << (format->exponent_bits - 1)) - 1 : 0;
    return (bias - shift) << format->fraction_bits;
}

int op_takes(enum collet_op op, enum collet_type type) {
    return OPS[op].only == ONLY_ANY || TYPES[type].fraction_bits == 0;
}

size_t collet_type_size(enum collet_type type) { return type_valid(type) ? type_size(type) : 0; }
