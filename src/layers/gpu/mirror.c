/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/mirror.h"

#define X(ENUM, name, runs, kernel, types, sign)                                                                       \
    [COLLET_##ENUM] = {OP_##runs != OP_##kernel, SIGN_##sign == SIGN_ORDER},
enum { SIGN_FREE, SIGN_BOUND, SIGN_ORDER };
static const struct { int mirrored, compares; } OPS[COLLET_OP_COUNT] = {COLLET_OPS(X)};
#undef X

uint64_t type_mirror(enum collet_op op, enum collet_type type) {
    const struct type_format *format = type_format(type);
    int width = 8 * (int)format->bytes, whole = format->fraction_bits == 0;
    uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1);
    uint64_t turned = OPS[op].mirrored ? (whole ? all : sign) : 0;
    if (OPS[op].compares && whole && format->is_signed)
        turned ^= sign;
    for (; width < 64; width *= 2)
        turned |= turned << width;
    return turned;
}
