/* SPDX-License-Identifier: Apache-2.0
 *
 * The reduction of a step by all lanes of a block: any number of sources into any number of places.
 *
 *    elements    │ head │          vectors of 16 bytes          │ tail │
 *    lanes        0 1 2   0   1   2  …   0   1   2  …             0 1
 *                         └ unroll vectors of every source in flight a lane ┘
 *
 * Vectors are as wide as all sources and places allow: 16 bytes if they lie alike modulo 16, else 4 if that is wider than
 * an element and they lie alike modulo 4, else single elements. A place may be a source: a lane reads an element of all
 * sources before it writes it anywhere.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_REDUCE_CUH
#define COLLET_KERNELS_CUDA_BLOCK_REDUCE_CUH

#include "kernels/cuda/block_ops.cuh"
#include "kernels/cuda/block_own.cuh"

template <class V, int unroll>
BLOCK_FN void vectors_load(V *bits, const void *source, uint64_t first, uint64_t stride) {
    const char *from = (const char *)port_global((const char *)source + first);
#pragma unroll
    for (int u = 0; u < unroll; u++)
        bits[u] = *(const V *)(from + u * stride);
}

template <class V, int unroll>
BLOCK_FN void vectors_store(const V *bits, void *place, uint64_t first, uint64_t stride) {
    char *to = (char *)port_global((char *)place + first);
#pragma unroll
    for (int u = 0; u < unroll; u++)
        *(V *)(to + u * stride) = bits[u];
}

/* Multiplies vectors of the k-th source by the factor, if that source has one. */
template <class R, class V, int unroll> BLOCK_FN void vectors_scale(const struct block_lists *l, uint32_t k, V *bits) {
    if constexpr (R::sums) {
#pragma unroll
        for (int u = 0; u < unroll && l->scaled == (int32_t)k; u++)
            bits[u] = pack_multiply<R, V>(bits[u], l->factor);
    }
}

/* bits: the vectors of the first source; at the end, the result. While the vectors of one source are added, those of the next source
 * are being loaded. */
template <class R, class V, int unroll>
BLOCK_FN void vectors_reduce(const struct block_lists *l, V *bits, uint64_t first, uint64_t stride) {
    typename R::sum sums[unroll][block_pack<R, V>::count];
    V next[unroll];
    vectors_load<V, unroll>(next, l->src[l->nsrc > 1], first, stride);
#pragma unroll
    for (int u = 0; u < unroll; u++)
        pack_load<R, V>(bits[u], sums[u], l->mirror);
#pragma unroll 1
    for (uint32_t k = 1; k < l->nsrc; k++) {
        vectors_scale<R, V, unroll>(l, k, next);
#pragma unroll
        for (int u = 0; u < unroll; u++)
            pack_combine<R, V>(next[u], sums[u], l->mirror);
        if (k + 1 < l->nsrc)
            vectors_load<V, unroll>(next, l->src[k + 1], first, stride);
    }
#pragma unroll
    for (int u = 0; u < unroll; u++)
        bits[u] = pack_store<R, V>(sums[u], l->divisor, l->mirror);
}

/* The same for so many sources, as most steps have: the vectors of all are loaded before the first is used. */
template <class R, class V, int unroll, int nsrc>
BLOCK_FN void vectors_sum(const struct block_lists *l, V *bits, uint64_t first, uint64_t stride) {
    typename R::sum sums[unroll][block_pack<R, V>::count];
    V others[nsrc - 1][unroll];
    vectors_load<V, unroll>(bits, l->src[0], first, stride);
#pragma unroll
    for (int k = 1; k < nsrc; k++)
        vectors_load<V, unroll>(others[k - 1], l->src[k], first, stride);
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        pack_load<R, V>(bits[u], sums[u], l->mirror);
#pragma unroll
        for (int k = 1; k < nsrc; k++)
            pack_combine<R, V>(others[k - 1][u], sums[u], l->mirror);
        bits[u] = pack_store<R, V>(sums[u], l->divisor, l->mirror);
    }
}

/* Reduces `unroll` vectors. Vector u starts at byte first + u · stride of every source and place. */
template <class R, class V, int unroll>
BLOCK_FN void reduce_some(const struct block_lists *l, uint64_t first, uint64_t stride) {
    V bits[unroll];
    const uint32_t nsrc = R::reduces && unroll > 1 && l->scaled < 0 ? l->nsrc : 0;
    if (nsrc == 2) {
        vectors_sum<R, V, unroll, 2>(l, bits, first, stride);
    } else if (nsrc == 3) {
        vectors_sum<R, V, unroll, 3>(l, bits, first, stride);
    } else if (nsrc == 4) {
        vectors_sum<R, V, unroll, 4>(l, bits, first, stride);
    } else {
        vectors_load<V, unroll>(bits, l->src[0], first, stride);
        vectors_scale<R, V, unroll>(l, 0, bits);
        if (R::reduces && (l->nsrc > 1 || l->divisor > 1))
            vectors_reduce<R, V, unroll>(l, bits, first, stride);
    }
#pragma unroll 1
    for (uint32_t k = 0; k < l->ndst; k++)
        vectors_store<V, unroll>(bits, l->dst[k], first, stride);
}

/* Reduces the vectors from the i-th on, one by one. */
template <class R, class V>
BLOCK_SELDOM void reduce_rest(const struct block_lists *l, uint64_t first, uint64_t i, uint64_t count) {
    l = (const struct block_lists *)port_shared(l);
#pragma unroll 1
    for (; i < count; i += port_lanes())
        reduce_some<R, V, 1>(l, first + i * sizeof(V), 0);
}

template <class R, class V> BLOCK_FN void reduce_span(const struct block_lists *l, uint64_t first, uint64_t count) {
    uint64_t lanes = port_lanes(), i = port_lane();
#pragma unroll 1
    for (; i + (R::unroll - 1) * lanes < count; i += R::unroll * lanes)
        reduce_some<R, V, R::unroll>(l, first + i * sizeof(V), lanes * sizeof(V));
    reduce_rest<R, V>(l, first, i, count);
}

/* The bits in which the address of any source or place differs from the address of the first place. */
BLOCK_FN uint32_t block_skew(const struct block_lists *l) {
    uintptr_t base = (uintptr_t)l->dst[0], skew = 0;
#pragma unroll 1
    for (uint32_t k = 0; k < l->nsrc; k++)
        skew |= base ^ (uintptr_t)l->src[k];
#pragma unroll 1
    for (uint32_t k = 1; k < l->ndst; k++)
        skew |= base ^ (uintptr_t)l->dst[k];
    return (uint32_t)skew;
}

template <class R, class V> BLOCK_FN void reduce_aligned(const struct block_lists *l, uint64_t count) {
    const uint64_t size = sizeof(typename R::element), per_vector = sizeof(V) / size;
    uint64_t head = (sizeof(V) - (uintptr_t)l->dst[0] % sizeof(V)) % sizeof(V) / size;
    if (head > count)
        head = count;
    uint64_t vectors = (count - head) / per_vector, tail_at = head + vectors * per_vector;
    reduce_rest<R, typename R::element>(l, 0, port_lane(), head);
    reduce_span<R, V>(l, head * size, vectors);
    reduce_rest<R, typename R::element>(l, tail_at * size, port_lane(), count - tail_at);
}

/* count is in elements of R. */
template <class R> BLOCK_FN void block_reduce(const struct block_lists *l, uint64_t count) {
    uint32_t skew = block_skew(l);
    if (skew % 16 == 0) {
        reduce_aligned<R, block_vector>(l, count);
        return;
    }
    if constexpr (sizeof(typename R::element) < 4) {
        if (skew % 4 == 0) {
            reduce_aligned<R, uint32_t>(l, count);
            return;
        }
    }
    reduce_span<R, typename R::element>(l, 0, count);
}

#endif
