/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of PTX that only compute: one row each. X(name, result, operands, value): the name with points for the
 * underscores, the type of the result, the type of operands, and the value of one lane from its operands A, B, C and D, of that
 * type (a, b, c, d: their 64 bits).
 */
#ifndef COLLET_GPUSIM_PTX_OPS_H
#define COLLET_GPUSIM_PTX_OPS_H

#define PTX_INTEGER(X, bits)                                                                                           \
    X(add_s##bits, u##bits, u##bits, A + B)                                                                            \
    X(add_u##bits, u##bits, u##bits, A + B)                                                                            \
    X(sub_s##bits, u##bits, u##bits, A - B)                                                                            \
    X(sub_u##bits, u##bits, u##bits, A - B)                                                                            \
    X(mul_lo_s##bits, u##bits, u##bits, (uint64_t)A *B)                                                                \
    X(mul_lo_u##bits, u##bits, u##bits, (uint64_t)A *B)                                                                \
    X(mad_lo_s##bits, u##bits, u##bits, (uint64_t)A *B + C)                                                            \
    X(mad_lo_u##bits, u##bits, u##bits, (uint64_t)A *B + C)                                                            \
    X(div_s##bits, s##bits, s##bits, ptx_divide_signed(A, B))                                                          \
    X(div_u##bits, u##bits, u##bits, B == 0 ? ~0ull : A / B)                                                           \
    X(rem_s##bits, s##bits, s##bits, ptx_rest_signed(A, B))                                                            \
    X(rem_u##bits, u##bits, u##bits, B == 0 ? A : A % B)                                                               \
    X(neg_s##bits, u##bits, u##bits, 0 - A)                                                                            \
    X(abs_s##bits, u##bits, s##bits, A < 0 ? 0 - (uint64_t)A : (uint64_t)A)                                            \
    X(min_s##bits, s##bits, s##bits, A < B ? A : B)                                                                    \
    X(min_u##bits, u##bits, u##bits, A < B ? A : B)                                                                    \
    X(max_s##bits, s##bits, s##bits, A > B ? A : B)                                                                    \
    X(max_u##bits, u##bits, u##bits, A > B ? A : B)                                                                    \
    X(and_b##bits, u##bits, u##bits, A &B)                                                                             \
    X(or_b##bits, u##bits, u##bits, A | B)                                                                             \
    X(xor_b##bits, u##bits, u##bits, A ^ B)                                                                            \
    X(not_b##bits, u##bits, u##bits, ~A)                                                                               \
    X(shl_b##bits, u##bits, u##bits, (uint32_t)b >= bits ? 0 : (uint64_t)A << (uint32_t)b)                             \
    X(shr_u##bits, u##bits, u##bits, (uint32_t)b >= bits ? 0 : A >> (uint32_t)b)                                       \
    X(shr_b##bits, u##bits, u##bits, (uint32_t)b >= bits ? 0 : A >> (uint32_t)b)                                       \
    X(shr_s##bits, s##bits, s##bits, A >> ((uint32_t)b >= bits ? bits - 1 : (uint32_t)b))                              \
    X(selp_b##bits, u##bits, u##bits, c ? A : B)                                                                       \
    X(selp_u##bits, u##bits, u##bits, c ? A : B)                                                                       \
    X(selp_s##bits, u##bits, u##bits, c ? A : B)                                                                       \
    X(mov_b##bits, u##bits, u##bits, A)                                                                                \
    X(mov_u##bits, u##bits, u##bits, A)                                                                                \
    X(mov_s##bits, u##bits, u##bits, A)                                                                                \
    PTX_ORDERED(X, s##bits)                                                                                            \
    X(setp_eq_u##bits, pred, u##bits, A == B)                                                                          \
    X(setp_ne_u##bits, pred, u##bits, A != B)                                                                          \
    X(setp_eq_b##bits, pred, u##bits, A == B)                                                                          \
    X(setp_ne_b##bits, pred, u##bits, A != B)                                                                          \
    X(setp_lt_u##bits, pred, u##bits, A < B)                                                                           \
    X(setp_le_u##bits, pred, u##bits, A <= B)                                                                          \
    X(setp_gt_u##bits, pred, u##bits, A > B)                                                                           \
    X(setp_ge_u##bits, pred, u##bits, A >= B)

#define PTX_ORDERED(X, type)                                                                                           \
    X(setp_eq_##type, pred, type, A == B)                                                                              \
    X(setp_ne_##type, pred, type, A<B || A> B)                                                                         \
    X(setp_lt_##type, pred, type, A < B)                                                                               \
    X(setp_le_##type, pred, type, A <= B)                                                                              \
    X(setp_gt_##type, pred, type, A > B)                                                                               \
    X(setp_ge_##type, pred, type, A >= B)

#define PTX_FLOAT(X, type, suffix)                                                                                     \
    X(add_rn_##type, type, type, A + B)                                                                                \
    X(add_##type, type, type, A + B)                                                                                   \
    X(sub_rn_##type, type, type, A - B)                                                                                \
    X(sub_##type, type, type, A - B)                                                                                   \
    X(mul_rn_##type, type, type, A *B)                                                                                 \
    X(mul_##type, type, type, A *B)                                                                                    \
    X(div_rn_##type, type, type, A / B)                                                                                \
    X(fma_rn_##type, type, type, fma##suffix(A, B, C))                                                                 \
    X(neg_##type, type, type, -A)                                                                                      \
    X(abs_##type, type, type, fabs##suffix(A))                                                                         \
    X(min_##type, type, type, fmin##suffix(A, B))                                                                      \
    X(max_##type, type, type, fmax##suffix(A, B))                                                                      \
    X(selp_##type, type, type, c ? A : B)                                                                              \
    X(mov_##type, type, type, A)                                                                                       \
    PTX_ORDERED(X, type)                                                                                               \
    X(setp_nan_##type, pred, type, A != A || B != B)                                                                   \
    X(setp_num_##type, pred, type, A == A && B == B)                                                                   \
    X(setp_neu_##type, pred, type, A != B)                                                                             \
    X(setp_equ_##type, pred, type, !(A < B || A > B))                                                                  \
    X(setp_ltu_##type, pred, type, !(A >= B))                                                                          \
    X(setp_leu_##type, pred, type, !(A > B))                                                                           \
    X(setp_gtu_##type, pred, type, !(A <= B))                                                                          \
    X(setp_geu_##type, pred, type, !(A < B))

/* From one integer type to another. */
#define PTX_CONVERT(X, from)                                                                                           \
    X(cvt_u8_##from, u8, from, A)                                                                                      \
    X(cvt_s8_##from, s8, from, A)                                                                                      \
    X(cvt_u16_##from, u16, from, A)                                                                                    \
    X(cvt_s16_##from, s16, from, A)                                                                                    \
    X(cvt_u32_##from, u32, from, A)                                                                                    \
    X(cvt_s32_##from, s32, from, A)                                                                                    \
    X(cvt_u64_##from, u64, from, A)                                                                                    \
    X(cvt_s64_##from, s64, from, A)                                                                                    \
    X(cvt_rn_f32_##from, f32, from, (float)A)                                                                          \
    X(cvt_rn_f64_##from, f64, from, (double)A)

#define PTX_ARITHMETIC(X)                                                                                              \
    PTX_INTEGER(X, 16)                                                                                                 \
    PTX_INTEGER(X, 32)                                                                                                 \
    PTX_INTEGER(X, 64)                                                                                                 \
    PTX_FLOAT(X, f32, f)                                                                                               \
    PTX_FLOAT(X, f64, )                                                                                                \
    PTX_CONVERT(X, u8)                                                                                                 \
    PTX_CONVERT(X, s8)                                                                                                 \
    PTX_CONVERT(X, u16)                                                                                                \
    PTX_CONVERT(X, s16)                                                                                                \
    PTX_CONVERT(X, u32)                                                                                                \
    PTX_CONVERT(X, s32)                                                                                                \
    PTX_CONVERT(X, u64)                                                                                                \
    PTX_CONVERT(X, s64)                                                                                                \
    X(cvt_rn_f32_f64, f32, f64, (float)A)                                                                              \
    X(cvt_f64_f32, f64, f32, (double)A)                                                                                \
    X(cvt_f32_f16, f32, u16, type_load_half(A))                                                                        \
    X(cvt_rn_f16_f32, u16, f32, type_store_half(A))                                                                    \
    X(cvt_f32_bf16, f32, u16, ptx_f32_of((uint32_t)A << 16))                                                           \
    X(cvt_rn_f16_u64, u16, u64, type_store_half((float)A))                                                             \
    X(add_f16, u16, u16, type_store_half(type_load_half(A) + type_load_half(B)))                                       \
    X(mul_f16, u16, u16, type_store_half(type_load_half(A) * type_load_half(B)))                                       \
    X(setp_lt_f16, pred, u16, type_load_half(A) < type_load_half(B))                                                   \
    X(setp_gt_f16, pred, u16, type_load_half(A) > type_load_half(B))                                                   \
    X(rcp_rn_f64, f64, f64, 1 / A)                                                                                     \
    X(cvt_rzi_s64_f32, s64, f32, ptx_integer(A, INT64_MIN, 0x1p63))                                                    \
    X(cvt_rzi_u64_f32, u64, f32, A >= 0x1p63f ? (uint64_t)A : (uint64_t)ptx_integer(A, 0, 0x1p63))                     \
    X(cvt_rzi_s32_f32, s32, f32, ptx_integer(A, INT32_MIN, INT32_MAX))                                                 \
    X(cvt_rzi_u32_f32, u32, f32, ptx_integer(A, 0, UINT32_MAX))                                                        \
    X(cvt_rzi_s64_f64, s64, f64, ptx_integer(A, INT64_MIN, 0x1p63))                                                    \
    X(cvt_rzi_s32_f64, s32, f64, ptx_integer(A, INT32_MIN, INT32_MAX))                                                 \
    X(mul_wide_s16, s32, s16, A *B)                                                                                    \
    X(mul_wide_u16, u32, u16, (uint32_t)A *B)                                                                          \
    X(mul_wide_s32, s64, s32, (int64_t)A *B)                                                                           \
    X(mul_wide_u32, u64, u32, (uint64_t)A *B)                                                                          \
    X(mul_hi_u32, u32, u32, (uint64_t)A *B >> 32)                                                                      \
    X(mul_hi_s32, s32, s32, (int64_t)A *B >> 32)                                                                       \
    X(mul_hi_u64, u64, u64, (unsigned __int128)A *B >> 64)                                                             \
    X(mul_hi_s64, s64, s64, (__int128)A *B >> 64)                                                                      \
    X(mad_wide_u32, u64, u32, (uint64_t)A *B + c)                                                                      \
    X(mad_wide_s32, u64, s32, (uint64_t)((int64_t)A * B) + c)                                                          \
    X(bfi_b32, u32, u32, ptx_insert(A, B, (uint32_t)c, (uint32_t)d, 32))                                               \
    X(bfi_b64, u64, u64, ptx_insert(A, B, (uint32_t)c, (uint32_t)d, 64))                                               \
    X(bfe_u32, u32, u32, ptx_extract(A, B, C, 32))                                                                     \
    X(bfe_u64, u64, u64, ptx_extract(A, (uint32_t)b, (uint32_t)c, 64))                                                 \
    X(prmt_b32, u32, u32, ptx_permute(A, B, C))                                                                        \
    X(popc_b32, u32, u32, (uint32_t)__builtin_popcount(A))                                                             \
    X(popc_b64, u32, u64, (uint32_t)__builtin_popcountll(A))                                                           \
    X(clz_b32, u32, u32, A == 0 ? 32 : (uint32_t)__builtin_clz(A))                                                     \
    X(clz_b64, u32, u64, A == 0 ? 64 : (uint32_t)__builtin_clzll(A))                                                   \
    X(shf_l_wrap_b32, u32, u32, ((uint64_t)B << 32 | A) << (c & 31) >> 32)                                             \
    X(shf_r_wrap_b32, u32, u32, ((uint64_t)B << 32 | A) >> (c & 31))                                                   \
    X(and_pred, pred, pred, A &B)                                                                                      \
    X(or_pred, pred, pred, A | B)                                                                                      \
    X(xor_pred, pred, pred, A ^ B)                                                                                     \
    X(not_pred, pred, pred, !A)                                                                                        \
    X(mov_pred, pred, pred, A)                                                                                         \
    X(cvta_global_u64, u64, u64, A)                                                                                    \
    X(cvta_to_global_u64, u64, u64, A)                                                                                 \
    X(cvta_local_u64, u64, u64, A)                                                                                     \
    X(cvta_to_local_u64, u64, u64, A)                                                                                  \
    X(cvta_param_u64, u64, u64, A)                                                                                     \
    X(cvta_const_u64, u64, u64, A)

#endif
