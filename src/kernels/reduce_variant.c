/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops around the functions of reduce.h. This file is compiled once for each variant of reduce_variant.h, with
 * -DREDUCE_VARIANT=<name> and flags for its CPUs. Code that no compiler makes from plain loops is in reduce_<name>.h.
 *
 *    src[0] ─┐
 *    src[1] ─┴ pair ─▶ block ─┐                                    ┌─▶ dst[0]
 *    src[2] ──────────────────┴ pair ─▶ block ─▶ … ─▶ (divide) ─▶ ─┼─▶ dst[1]
 *                                                                  └─▶ …
 *
 * Each loop reads two sources, and compilers vectorise it. More sources and places are reduced block by block, with intermediate
 * results in a block that stays in the first-level cache. Floats of 16 and 8 bits are widened into such blocks, and rounded once at
 * the end. Two sources of such floats are reduced in one loop (`fused`, below). The commonest cases, two sources into one or two
 * places, need no block.
 * A place may also be a source: within a block, every source is read before a place is written, or at the same index.
 */
#include "kernels/reduce_variant.h"
#include "kernels/reduce.h"

/* Size of a block of elements, or of accumulators. */
#define BLOCK_BYTES 4096
/* Size of the blocks of a copy: each is read once, and written to several places. */
#define COPY_BLOCK_BYTES 16384
/* Longer blocks are copied to the second place by memcpy(), because it often lies in another CPU's cache. */
#define TWIN_MAX_BYTES 2048
#define CPU_LINE_BYTES 64
#define FUSED_ELEMS 32 /* 16-bit floats per block, which stays in vector registers */

#define UNUSED __attribute__((unused))

/* A loop whose iterations are independent, even if `to` is one of the sources. */
#if defined(__clang__)
#define EACH_ELEMENT(i, n) _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < (n); i++)
#else
#define EACH_ELEMENT(i, n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#include TEXT(JOIN(reduce, REDUCE_VARIANT).h)

/* ------------------------------------------------------------------------------- the inner loops of one type, one op */

struct loops {
    size_t elem_bytes, accumulator_bytes;
    void (*pair)(void *to, const void *a, const void *b, size_t n);             /* to = a op b, on accumulators */
    void (*twin)(void *to, void *also, const void *a, const void *b, size_t n); /* to = also = a op b */
    void (*divide)(void *to, const void *from, size_t n, uint32_t divisor);
    /* These three are NULL if elements and accumulators have the same type. */
    void (*load)(void *to, const void *from, size_t n);
    void (*store)(void *to, const void *from, size_t n);
    void (*fused)(void *to, const void *a, const void *b, size_t n); /* load, pair, store */
};

#define DEFINE_DIVIDE(ENUM, type, kind, element, accumulator, wrap, divisor_type, ...)                                 \
    static void divide_##type(void *to_, const void *from_, size_t n, uint32_t divisor) {                              \
        accumulator *to = to_;                                                                                         \
        const accumulator *from = from_;                                                                               \
        const divisor_type rest = reduce_rest_##type(divisor);                                                         \
        EACH_ELEMENT(i, n) to[i] = reduce_divide_##type(from[i], rest);                                                \
    }
COLLET_TYPES(DEFINE_DIVIDE, )

/* load_<type> converts elements to accumulators, and store_<type> converts them back. The table's conversion column chooses their code. */
#define CONVERT_SAME(type, element, accumulator)
#define CONVERT_UPPER(type, element, accumulator)                                                                      \
    static void load_##type(void *to_, const void *from_, size_t n) {                                                  \
        accumulator *to = to_;                                                                                         \
        const element *from = from_;                                                                                   \
        EACH_ELEMENT(i, n) to[i] = type_load_##type(from[i]);                                                          \
    }                                                                                                                  \
    static void store_##type(void *to_, const void *from_, size_t n) {                                                 \
        element *to = to_;                                                                                             \
        const accumulator *from = from_;                                                                               \
        EACH_ELEMENT(i, n) to[i] = type_store_##type(from[i]);                                                         \
    }
#define CONVERT_SMALL CONVERT_UPPER
#define CONVERT_CHIP(type, element, accumulator)                                                                       \
    static void load_##type(void *to, const void *from, size_t n) { cpu_load_##type(to, from, n); }                    \
    static void store_##type(void *to, const void *from, size_t n) { cpu_store_##type(to, from, n); }
#define DEFINE_CONVERSION(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest,        \
                          conversion, ...)                                                                             \
    CONVERT_##conversion(type, element, accumulator)
COLLET_TYPES(DEFINE_CONVERSION, )

/* ------------------------------------------------------------------------------ two sources of a type that is widened
 *
 * There are two ways, and the type's conversion chooses one. Both give the same bits.
 *
 *   blocks   load, combine, store
 *   uppers   two elements in a word, the lower one shifted up */

#define FUSE_SAME(...)
#define FUSE_CHIP FUSE_BLOCKS
#define FUSE_SMALL FUSE_BLOCKS
#define FUSE_UPPER FUSE_UPPERS

#define FUSE_BLOCKS(op, type, element, accumulator)                                                                    \
    static inline void fuse_##op##_##type(element *to, const element *a, const element *b, size_t n) {                 \
        accumulator x[FUSED_ELEMS], y[FUSED_ELEMS];                                                                    \
        load_##type(x, a, n);                                                                                          \
        load_##type(y, b, n);                                                                                          \
        EACH_ELEMENT(i, n) x[i] = reduce_##op##_##type(x[i], y[i]);                                                    \
        store_##type(to, x, n);                                                                                        \
    }                                                                                                                  \
    UNUSED static void fused_##op##_##type(void *to_, const void *a_, const void *b_, size_t n) {                      \
        element *to = to_;                                                                                             \
        const element *a = a_, *b = b_;                                                                                \
        size_t i = 0;                                                                                                  \
        for (; i + FUSED_ELEMS <= n; i += FUSED_ELEMS)                                                                 \
            fuse_##op##_##type(to + i, a + i, b + i, FUSED_ELEMS);                                                     \
        if (i < n)                                                                                                     \
            fuse_##op##_##type(to + i, a + i, b + i, n - i);                                                           \
    }

typedef uint32_t __attribute__((aligned(2), may_alias)) two_uppers; /* two elements, aligned like one */

/* Rounds to the upper half, to nearest even. NaNs keep their bits: a NaN made of two such operands has a lower half of 0. */
static inline uint32_t rounded_upper(float value) {
    uint32_t bits = type_float_bits(value);
    return bits + 0x7fffu + (bits >> 16 & 1);
}

#define FUSE_UPPERS(op, type, element, accumulator)                                                                    \
    UNUSED static void fused_##op##_##type(void *to_, const void *a_, const void *b_, size_t n) {                      \
        two_uppers *to = to_;                                                                                          \
        const two_uppers *a = a_, *b = b_;                                                                             \
        EACH_ELEMENT(i, n / 2) {                                                                                       \
            float low = reduce_##op##_##type(type_bits_float(a[i] << 16), type_bits_float(b[i] << 16));                \
            float high = reduce_##op##_##type(type_bits_float(a[i] & ~0xffffu), type_bits_float(b[i] & ~0xffffu));     \
            to[i] = rounded_upper(low) >> 16 | (rounded_upper(high) & ~0xffffu);                                       \
        }                                                                                                              \
        if (n % 2)                                                                                                     \
            ((element *)to_)[n - 1] = type_store_##type(reduce_##op##_##type(                                          \
                type_load_##type(((const element *)a_)[n - 1]), type_load_##type(((const element *)b_)[n - 1])));      \
    }

#define WIDER_SAME(op, type) NULL, NULL, NULL
#define WIDER_UPPER(op, type) load_##type, store_##type, fused_##op##_##type
#define WIDER_CHIP WIDER_UPPER
#define WIDER_SMALL WIDER_UPPER

/* ---------------------------------------------------------------------------------------------- copies of equal bytes */

static int streamed(uint32_t stream_mask, int place) { return place < 32 && (stream_mask >> place & 1); }

/* A place that is also a source is already in the cache. Writing past the cache would be slower there. */
static uint32_t worth_streaming(uint32_t stream_mask, void *const *dst, int ndst, const void *const *src, int nsrc) {
    if (!CPU_STREAMS)
        return 0;
    for (int k = 0; k < ndst && k < 32; k++)
        for (int j = 0; j < nsrc; j++)
            if (dst[k] == src[j])
                stream_mask &= ~(1u << k);
    return stream_mask;
}

/* Writes whole cache lines past the caches, and the incomplete lines at both ends through them. */
static void stream(char *to, const char *from, size_t bytes) {
    size_t head = -(uintptr_t)to % CPU_LINE_BYTES;
    size_t at = head < bytes ? head : bytes;
    memcpy(to, from, at);
    for (; at + CPU_LINE_BYTES <= bytes; at += CPU_LINE_BYTES)
        cpu_stream_line(to + at, from + at);
    memcpy(to + at, from + at, bytes - at);
}

static void put_run(char *to, const char *from, size_t bytes, int past_caches) {
    if (to == from)
        return;
    if (past_caches)
        stream(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void copy(void *const *dst, int ndst, const char *src, size_t bytes, uint32_t stream_mask) {
    size_t block = ndst == 1 ? bytes : COPY_BLOCK_BYTES;
    for (size_t at = 0; at < bytes; at += block) {
        size_t n = bytes - at < block ? bytes - at : block;
        for (int k = 0; k < ndst; k++)
            put_run((char *)dst[k] + at, src + at, n, streamed(stream_mask, k));
    }
    if (stream_mask)
        cpu_stream_fence();
}

/* ---------------------------------------------------------------------------------------------------------- reductions
 *
 * These functions are always inlined, with a constant `loops`: so calls through its pointers become the loops themselves. */
#define INLINE static inline __attribute__((always_inline))

/* Reduces elements at … at+n−1 of all sources into to[0 … n−1]. Here elements are their own accumulators. */
INLINE void reduce_same(const struct loops *loops, char *to, const void *const *src, int nsrc, size_t at, size_t n,
                        uint32_t divisor) {
    _Alignas(64) char block[BLOCK_BYTES];
    size_t offset = at * loops->elem_bytes;
    const char *left = (const char *)src[0] + offset;
    for (int k = 1; k < nsrc; k++) {
        char *into = k == nsrc - 1 && divisor <= 1 ? to : block;
        loops->pair(into, left, (const char *)src[k] + offset, n);
        left = into;
    }
    if (divisor > 1)
        loops->divide(to, left, n, divisor);
}

/* Does the same as reduce_same(), for elements that are loaded into wider accumulators. */
INLINE void reduce_wider(const struct loops *loops, char *to, const void *const *src, int nsrc, size_t at, size_t n,
                         uint32_t divisor) {
    _Alignas(64) char sum[BLOCK_BYTES], operand[BLOCK_BYTES];
    size_t offset = at * loops->elem_bytes;
    if (nsrc == 2 && divisor <= 1) {
        loops->fused(to, (const char *)src[0] + offset, (const char *)src[1] + offset, n);
        return;
    }
    loops->load(sum, (const char *)src[0] + offset, n);
    for (int k = 1; k < nsrc; k++) {
        loops->load(operand, (const char *)src[k] + offset, n);
        loops->pair(sum, sum, operand, n);
    }
    if (divisor > 1)
        loops->divide(sum, sum, n, divisor);
    loops->store(to, sum, n);
}

static void reduce_blocks(const struct loops *loops, void *const *dst, int ndst, const void *const *src, int nsrc,
                          size_t count, uint32_t divisor, uint32_t stream_mask) {
    _Alignas(64) char result[BLOCK_BYTES];
    size_t block_elems = BLOCK_BYTES / loops->accumulator_bytes;
    for (size_t at = 0; at < count; at += block_elems) {
        size_t n = count - at < block_elems ? count - at : block_elems;
        char *to = streamed(stream_mask, 0) ? result : (char *)dst[0] + at * loops->elem_bytes;
        if (loops->load)
            reduce_wider(loops, to, src, nsrc, at, n, divisor);
        else
            reduce_same(loops, to, src, nsrc, at, n, divisor);
        for (int k = to == result ? 0 : 1; k < ndst; k++)
            put_run((char *)dst[k] + at * loops->elem_bytes, to, n * loops->elem_bytes, streamed(stream_mask, k));
    }
    if (stream_mask)
        cpu_stream_fence();
}

INLINE void reduce(const struct loops *loops, void *const *dst, int ndst, const void *const *src, int nsrc,
                   size_t count, uint32_t divisor, uint32_t stream_mask) {
    if (stream_mask)
        stream_mask = worth_streaming(stream_mask, dst, ndst, src, nsrc);
    int simple_pair = nsrc == 2 && divisor <= 1 && stream_mask == 0;
    if (simple_pair && ndst == 1 && loops->fused)
        loops->fused(dst[0], src[0], src[1], count);
    else if (simple_pair && ndst == 1)
        loops->pair(dst[0], src[0], src[1], count);
    else if (simple_pair && ndst == 2 && count * loops->elem_bytes <= TWIN_MAX_BYTES && !loops->fused)
        loops->twin(dst[0], dst[1], src[0], src[1], count);
    else if (nsrc == 1 && divisor <= 1)
        copy(dst, ndst, src[0], count * loops->elem_bytes, stream_mask);
    else
        reduce_blocks(loops, dst, ndst, src, nsrc, count, divisor, stream_mask);
}

/* ------------------------------------------------------------------------------------------------- one for each, listed
 *
 * The compiler leaves out the functions that the table below does not name, for example products of signed integers. */

#define DEFINE_REDUCE(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest,            \
                      conversion, op, types)                                                                           \
    TYPE_IF_##types##_##kind(REDUCE_ALL, TYPE_NOTHING)(op, type, element, accumulator, conversion)
#define REDUCE_ALL(op, type, element, accumulator, conversion)                                                         \
    UNUSED static void pair_##op##_##type(void *to_, const void *a_, const void *b_, size_t n) {                       \
        accumulator *to = to_;                                                                                         \
        const accumulator *a = a_, *b = b_;                                                                            \
        EACH_ELEMENT(i, n) to[i] = reduce_##op##_##type(a[i], b[i]);                                                   \
    }                                                                                                                  \
    UNUSED static void twin_##op##_##type(void *to_, void *also_, const void *a_, const void *b_, size_t n) {          \
        accumulator *to = to_, *also = also_;                                                                          \
        const accumulator *a = a_, *b = b_;                                                                            \
        EACH_ELEMENT(i, n) to[i] = also[i] = reduce_##op##_##type(a[i], b[i]);                                         \
    }                                                                                                                  \
    FUSE_##conversion(op, type, element, accumulator)                                                                  \
        UNUSED static void reduce_all_##op##_##type(void *const *dst, int ndst, const void *const *src, int nsrc,      \
                                                    size_t count, uint32_t divisor, uint32_t stream_mask) {            \
        static const struct loops loops = {                                                                            \
            sizeof(element),    sizeof(accumulator), pair_##op##_##type,                                               \
            twin_##op##_##type, divide_##type,       WIDER_##conversion(op, type),                                     \
        };                                                                                                             \
        reduce(&loops, dst, ndst, src, nsrc, count, divisor, stream_mask);                                             \
    }
#define DEFINE_OP(OP, op, runs, kernel, types, sign) COLLET_TYPES(DEFINE_REDUCE, op, types)
COLLET_OPS(DEFINE_OP)

#define DEFINE_MULTIPLY(ENUM, type, kind, element, ...)                                                                \
    UNUSED static void multiply_##type(void *to_, const void *from_, size_t n, uint64_t factor) {                      \
        element *to = to_, by;                                                                                         \
        const element *from = from_;                                                                                   \
        memcpy(&by, &factor, sizeof by);                                                                               \
        EACH_ELEMENT(i, n) to[i] = reduce_multiply_##type(from[i], by);                                                \
    }
COLLET_TYPES(DEFINE_MULTIPLY, )

#define CELL(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion, runs,   \
             types, sign)                                                                                              \
    TYPE_IF_##types##_##kind(CELL_##sign, TYPE_NOTHING)(ENUM, runs, type, alike)
#define CELL_FREE(ENUM, op, type, alike) [COLLET_##ENUM] = reduce_all_##op##_##alike,
#define CELL_BOUND(ENUM, op, type, alike) [COLLET_##ENUM] = reduce_all_##op##_##type,
#define CELL_ORDER CELL_BOUND
#define ROW(OP, op, runs, kernel, types, sign) [COLLET_##OP] = {COLLET_TYPES(CELL, runs, types, sign)},
#define MULTIPLY(ENUM, type, kind, element, accumulator, wrap, divisor, alike, ...) [COLLET_##ENUM] = multiply_##alike,
const struct reduce_variant JOIN(reduce_variant, REDUCE_VARIANT) = {
    TEXT(REDUCE_VARIANT), {COLLET_OPS(ROW)}, {COLLET_TYPES(MULTIPLY, )}};
