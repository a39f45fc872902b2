/* SPDX-License-Identifier: Apache-2.0
 *
 * Types × operators for the loops of a block: reduction<type, op> is how one element is loaded, combined, divided and
 * stored, with the arithmetic of reduce.h; `copying` moves bytes.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_OPS_CUH
#define COLLET_KERNELS_CUDA_BLOCK_OPS_CUH

#include "kernels/cuda/port.h"
#include "kernels/reduce.h"

#if defined(__CUDACC__)
#define BLOCK_FN static __device__ __forceinline__
#define BLOCK_METHOD static __device__ __forceinline__
#define BLOCK_SELDOM static __device__ __noinline__ /* long, and not often run: there is one copy of it in the code */
typedef uint4 block_vector;
#else
#define BLOCK_FN static inline
#define BLOCK_METHOD static inline
#define BLOCK_SELDOM static inline
struct alignas(16) block_vector {
    uint32_t x, y, z, w;
};
#endif

template <int type, int op> struct reduction;

struct copying {
    typedef uint8_t element;
    typedef uint8_t sum;
    enum { reduces = 0, sums = 0, mirrors = 0, unroll = 4, in_teams = 0 };
    BLOCK_METHOD sum load(element e) { return e; }
    BLOCK_METHOD sum combine(sum a, sum) { return a; }
    BLOCK_METHOD sum divide(sum a, uint32_t) { return a; }
    BLOCK_METHOD element multiply(element e, element) { return e; }
    BLOCK_METHOD element store(sum a) { return a; }
};

/* The GPU's own conversions. They give the same numbers as base/types.h, but a stored NaN may be another NaN. */
BLOCK_FN float block_load_half(uint16_t half) {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#else
    return type_load_half(half);
#endif
}

BLOCK_FN uint16_t block_store_half(float value) {
#if defined(__CUDA_ARCH__)
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    return type_store_half(value);
#endif
}

#define BLOCK_DEFINE_DIVIDE(ENUM, type, kind, element, accumulator, ...)                                               \
    BLOCK_SELDOM accumulator block_divide_##type(accumulator sum, uint32_t divisor) {                                  \
        return reduce_divide_##type(sum, reduce_rest_##type(divisor));                                                 \
    }
COLLET_TYPES(BLOCK_DEFINE_DIVIDE, )

/* As in base/types.h, except if the GPU has an instruction for it. */
#define BLOCK_LOAD_SAME TYPE_LOAD_SAME
#define BLOCK_LOAD_UPPER TYPE_LOAD_UPPER
#define BLOCK_LOAD_SMALL TYPE_LOAD_SMALL
#define BLOCK_LOAD_CHIP(type, e) block_load_##type(e)
#define BLOCK_STORE_SAME TYPE_STORE_SAME
#define BLOCK_STORE_UPPER TYPE_STORE_UPPER
#define BLOCK_STORE_SMALL TYPE_STORE_SMALL
#define BLOCK_STORE_CHIP(type, e) block_store_##type(e)

/* unroll: number of vectors that a lane loads at once from each source. It is smaller if sums take many registers. */
#define BLOCK_DEFINE(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion, \
                     OP, op, types)                                                                                    \
    TYPE_IF_##types##_##kind(BLOCK_REDUCTION, TYPE_NOTHING)(ENUM, type, element, accumulator, conversion, OP, op)
#define BLOCK_REDUCTION(ENUM, type, storage, accumulator, conversion, OP, op)                                          \
    template <> struct reduction<COLLET_##ENUM, COLLET_##OP> {                                                         \
        typedef storage element;                                                                                       \
        typedef accumulator sum;                                                                                       \
        enum { reduces = 1, sums = COLLET_##OP == COLLET_SUM, unroll = sizeof(storage) < 4 ? sizeof(storage) : 4 };    \
        enum { mirrors = COLLET_##OP == COLLET_MIN || COLLET_##OP == COLLET_BAND, in_teams = 0 };                      \
        BLOCK_METHOD sum load(element e) { return BLOCK_LOAD_##conversion(type, e); }                                  \
        BLOCK_METHOD sum combine(sum a, sum b) { return reduce_##op##_##type(a, b); }                                  \
        BLOCK_METHOD sum divide(sum a, uint32_t divisor) { return block_divide_##type(a, divisor); }                   \
        BLOCK_METHOD element multiply(element e, element factor) { return reduce_multiply_##type(e, factor); }         \
        BLOCK_METHOD element store(sum a) { return BLOCK_STORE_##conversion(type, a); }                                \
    };
#define BLOCK_DEFINE_OP(OP, op, runs, kernel, types, sign) COLLET_TYPES(BLOCK_DEFINE, OP, op, types)
COLLET_OPS(BLOCK_DEFINE_OP)

/* KERNELS(kernel, op, types, sign): for each type a kernel of the reduction by an operator, which has that row of the table:
 * kernel(reduction<type, operator>), NULL if there is none. */
#define BLOCK_KERNEL(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion, \
                     kernel, op, types, sign)                                                                          \
    TYPE_IF_##types##_##kind(BLOCK_KERNEL_##sign, BLOCK_NO_KERNEL)(kernel, type, alike, op)
#define BLOCK_KERNEL_FREE(kernel, type, alike, op) kernel<reduction<TYPE_##alike, OP_##op>>,
#define BLOCK_KERNEL_ORDER BLOCK_KERNEL_FREE
#define BLOCK_KERNEL_BOUND(kernel, type, alike, op) kernel<reduction<TYPE_##type, OP_##op>>,
#define BLOCK_NO_KERNEL(kernel, type, alike, op) NULL,
#define BLOCK_KERNELS(kernel, op, types, sign) COLLET_TYPES(BLOCK_KERNEL, kernel, op, types, sign)

template <unsigned bytes> struct block_word { typedef uint32_t type; };
template <> struct block_word<1> { typedef uint8_t type; };
template <> struct block_word<2> { typedef uint16_t type; };

/* N elements in the bits of a V, as they lie in memory. */
template <class R, class V> union block_pack {
    typedef typename block_word<sizeof(V)>::type word;
    enum { count = sizeof(V) / sizeof(typename R::element), words = sizeof(V) / sizeof(word) };
    V bits;
    typename R::element elements[count];
    word turned[words];
};

/* Inverts the bits of a mirror (type_mirror()) in all elements. */
template <class R, class V> BLOCK_FN void pack_turn(block_pack<R, V> *pack, uint64_t mirror) {
    typedef typename block_pack<R, V>::word word;
#pragma unroll
    for (int i = 0; R::mirrors && i < block_pack<R, V>::words; i++)
        pack->turned[i] ^= (word)(mirror >> i % 2 * 32);
}

template <class R, class V> BLOCK_FN void pack_load(const V &bits, typename R::sum *sums, uint64_t mirror) {
    block_pack<R, V> pack;
    pack.bits = bits;
    pack_turn(&pack, mirror);
#pragma unroll
    for (int i = 0; i < block_pack<R, V>::count; i++)
        sums[i] = R::load(pack.elements[i]);
}

template <class R, class V> BLOCK_FN void pack_combine(const V &bits, typename R::sum *sums, uint64_t mirror) {
    block_pack<R, V> pack;
    pack.bits = bits;
    pack_turn(&pack, mirror);
#pragma unroll
    for (int i = 0; i < block_pack<R, V>::count; i++)
        sums[i] = R::combine(sums[i], R::load(pack.elements[i]));
}

/* Multiplies every element by a factor. `factor` has the bits of one element. */
template <class R, class V> BLOCK_SELDOM V pack_multiply(const V &bits, uint64_t factor) {
    block_pack<R, V> pack;
    block_pack<R, uint64_t> by;
    pack.bits = bits;
    by.bits = factor;
#pragma unroll
    for (int i = 0; i < block_pack<R, V>::count; i++)
        pack.elements[i] = R::multiply(pack.elements[i], by.elements[0]);
    return pack.bits;
}

template <class R, class V> BLOCK_FN V pack_store(typename R::sum *sums, uint32_t divisor, uint64_t mirror) {
    block_pack<R, V> pack;
    if (R::sums && divisor > 1) {
#pragma unroll
        for (int i = 0; i < block_pack<R, V>::count; i++)
            sums[i] = R::divide(sums[i], divisor);
    }
#pragma unroll
    for (int i = 0; i < block_pack<R, V>::count; i++)
        pack.elements[i] = R::store(sums[i]);
    pack_turn(&pack, mirror);
    return pack.bits;
}

#endif
