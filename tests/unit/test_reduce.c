/* SPDX-License-Identifier: Apache-2.0
 *
 * The reductions, in every variant that this CPU can run, against a reference that takes one element at a time and knows
 * 16-bit floats only by their definition: sign · mantissa · 2^exponent.
 */
#include "kernels/reduce.h"
#include "kernels/reduce_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---------------------------------------------------------------------------------------------------- random elements */

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1dull;
}

/* Any bits at all one time in eight, so that NaNs, infinities and subnormals occur; otherwise a number of moderate size. */
static float random_float(void) {
    if (random_bits() % 8 == 0)
        return reduce_bits_float((uint32_t)(random_bits() >> 32));
    return (float)(int64_t)random_bits() * 0x1p-60f;
}

/* --------------------------------------------------------------------------------------- 16-bit floats, by definition */

struct format {
    int exponent_bits, mantissa_bits;
};
static const struct format half_format = {5, 10}, bfloat16_format = {8, 7};

static float decode(const struct format *format, uint16_t bits) {
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    int exponent = bits >> format->mantissa_bits & ((1 << format->exponent_bits) - 1);
    int mantissa = bits & ((1 << format->mantissa_bits) - 1);
    double magnitude;
    if (exponent == (1 << format->exponent_bits) - 1)
        magnitude = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(mantissa, 1 - bias - format->mantissa_bits);
    else
        magnitude = ldexp(mantissa + (1 << format->mantissa_bits), exponent - bias - format->mantissa_bits);
    return (float)copysign(magnitude, bits >> 15 ? -1.0 : 1.0);
}

static uint16_t encode(const struct format *format, float value) {
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)(((1 << format->exponent_bits) - 1) << format->mantissa_bits);
    if (isnan(value))
        return sign | infinity | 1;
    if (isinf(value))
        return sign | infinity;
    int exponent = value == 0 ? -200 : ilogb((double)value);
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    /* In units of the last place; nearbyint() rounds ties to even. A carry moves into the exponent by itself. */
    double units = nearbyint(ldexp(fabs((double)value), format->mantissa_bits - exponent));
    double bits = units + (double)(exponent + bias - 1) * (1 << format->mantissa_bits);
    return sign | (bits >= infinity ? infinity : (uint16_t)bits);
}

static int is_nan16(const struct format *format, uint16_t bits) { return isnan(decode(format, bits)); }

/* ------------------------------------------------------------------------------------------------------ the reference */

#define FLOAT_OP(op, a, b)                                                                                             \
    ((op) == COLLET_PROD  ? (a) * (b)                                                                                  \
     : (op) == COLLET_MIN ? (isnan(a) || (a) < (b) ? (a) : (b))                                                        \
     : (op) == COLLET_MAX ? (isnan(a) || (a) > (b) ? (a) : (b))                                                        \
                          : (a) + (b))
#define INTEGER_OP(op, a, b, wide)                                                                                     \
    ((op) == COLLET_PROD  ? (wide)(a) * (wide)(b)                                                                      \
     : (op) == COLLET_MIN ? (wide)((a) < (b) ? (a) : (b))                                                              \
     : (op) == COLLET_MAX ? (wide)((a) > (b) ? (a) : (b))                                                              \
                          : (wide)(a) + (wide)(b))

#define AT(T, memory, i) (((const T *)(memory))[i])

static void reference_element(enum collet_type type, enum collet_op op, void *to, const void *const *src, int nsrc,
                              size_t i, uint32_t divisor) {
    const struct format *format = type == COLLET_FLOAT16 ? &half_format : &bfloat16_format;
    if (nsrc == 1 && divisor == 1) {
        size_t bytes = collet_type_size(type);
        memcpy((char *)to + i * bytes, (const char *)src[0] + i * bytes, bytes);
    } else if (type == COLLET_FLOAT32) {
        float v = AT(float, src[0], i);
        for (int k = 1; k < nsrc; k++)
            v = FLOAT_OP(op, v, AT(float, src[k], i));
        ((float *)to)[i] = divisor > 1 ? v / (float)divisor : v;
    } else if (type == COLLET_FLOAT64) {
        double v = AT(double, src[0], i);
        for (int k = 1; k < nsrc; k++)
            v = FLOAT_OP(op, v, AT(double, src[k], i));
        ((double *)to)[i] = divisor > 1 ? v / (double)divisor : v;
    } else if (type == COLLET_INT32) {
        int32_t v = AT(int32_t, src[0], i);
        for (int k = 1; k < nsrc; k++)
            v = (int32_t)INTEGER_OP(op, v, AT(int32_t, src[k], i), uint32_t);
        ((int32_t *)to)[i] = divisor > 1 ? v / (int32_t)divisor : v;
    } else if (type == COLLET_INT64) {
        int64_t v = AT(int64_t, src[0], i);
        for (int k = 1; k < nsrc; k++)
            v = (int64_t)INTEGER_OP(op, v, AT(int64_t, src[k], i), uint64_t);
        ((int64_t *)to)[i] = divisor > 1 ? v / (int64_t)divisor : v;
    } else if (type == COLLET_UINT8) {
        uint8_t v = AT(uint8_t, src[0], i);
        for (int k = 1; k < nsrc; k++)
            v = (uint8_t)INTEGER_OP(op, v, AT(uint8_t, src[k], i), uint32_t);
        ((uint8_t *)to)[i] = divisor > 1 ? (uint8_t)(v / divisor) : v;
    } else {
        float v = decode(format, AT(uint16_t, src[0], i));
        for (int k = 1; k < nsrc; k++) {
            float next = decode(format, AT(uint16_t, src[k], i));
            v = FLOAT_OP(op, v, next);
        }
        ((uint16_t *)to)[i] = encode(format, divisor > 1 ? v / (float)divisor : v);
    }
}

/* The same bits, or both a NaN: where two of them meet, the machine chooses the payload. */
static int same_element(enum collet_type type, const void *a, const void *b, size_t i) {
    size_t bytes = collet_type_size(type);
    if (memcmp((const char *)a + i * bytes, (const char *)b + i * bytes, bytes) == 0)
        return 1;
    switch (type) {
    case COLLET_FLOAT32: return isnan(AT(float, a, i)) && isnan(AT(float, b, i));
    case COLLET_FLOAT64: return isnan(AT(double, a, i)) && isnan(AT(double, b, i));
    case COLLET_FLOAT16:
        return is_nan16(&half_format, AT(uint16_t, a, i)) && is_nan16(&half_format, AT(uint16_t, b, i));
    case COLLET_BFLOAT16:
        return is_nan16(&bfloat16_format, AT(uint16_t, a, i)) && is_nan16(&bfloat16_format, AT(uint16_t, b, i));
    default: return 0;
    }
}

/* --------------------------------------------------------------------------------------------------- one call, checked */

#define MAX_COUNT 5000
#define MAX_BUFFERS 64
#define CANARY_BYTES 128
#define BUFFER_BYTES (CANARY_BYTES + 22 * 8 + MAX_COUNT * 8 + CANARY_BYTES)

/* Each buffer starts at another distance from a cache line, aligned to its elements only. */
struct buffer {
    char memory[BUFFER_BYTES] __attribute__((aligned(64)));
};
static struct buffer sources[MAX_BUFFERS], places[MAX_BUFFERS];
static struct buffer expected;

static size_t shift_of(int k, size_t elem_bytes) { return (size_t)(k * 5 % 23) * elem_bytes; }

static void *start_of(struct buffer *buffer, int k, size_t elem_bytes) {
    return buffer->memory + CANARY_BYTES + shift_of(k, elem_bytes);
}

static void fill(enum collet_type type, void *to, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (type == COLLET_FLOAT32)
            ((float *)to)[i] = random_float();
        else if (type == COLLET_FLOAT64)
            ((double *)to)[i] = (double)random_float();
        else if (type == COLLET_BFLOAT16)
            ((uint16_t *)to)[i] = encode(&bfloat16_format, random_float());
        else {
            uint64_t bits = random_bits();
            memcpy((char *)to + i * collet_type_size(type), &bits, collet_type_size(type));
        }
    }
}

struct call {
    enum collet_type type;
    enum collet_op op;
    int nsrc, ndst;
    size_t count;
    uint32_t divisor, stream_mask;
    int in_place; /* dst[0] is this source; −1: none */
};

static void check_place(const struct call *call, const char *variant, const char *start, int k) {
    size_t bytes = call->count * collet_type_size(call->type);
    for (size_t i = 0; i < call->count; i++)
        if (!same_element(call->type, start, expected.memory, i))
            fail_msg(
                "%s %s %s: nsrc %d ndst %d count %zu divisor %u stream %x in place %d: place %d element %zu is wrong",
                variant, type_name(call->type), op_name(call->op), call->nsrc, call->ndst, call->count, call->divisor,
                call->stream_mask, call->in_place, k, i);
    for (const char *at = start - CANARY_BYTES; at < start + bytes + CANARY_BYTES; at++)
        if ((at < start || at >= start + bytes) && *at != 0x5a)
            fail_msg("%s %s %s: count %zu: written outside of place %d", variant, type_name(call->type),
                     op_name(call->op), call->count, k);
}

/* Room for count elements with canaries around. */
static void *cleared(struct buffer *buffer, int k, size_t elem_bytes, size_t count) {
    char *start = start_of(buffer, k, elem_bytes);
    memset(start - CANARY_BYTES, 0x5a, count * elem_bytes + 2 * CANARY_BYTES);
    return start;
}

static void run_in_variant(const struct call *call, const struct reduce_variant *variant) {
    size_t elem_bytes = collet_type_size(call->type);
    const void *src[MAX_BUFFERS];
    void *dst[MAX_BUFFERS];
    for (int k = 0; k < call->nsrc; k++)
        src[k] = start_of(&sources[k], k, elem_bytes);
    for (int k = 0; k < call->ndst; k++)
        dst[k] = cleared(&places[k], k + 7, elem_bytes, call->count);
    if (call->in_place >= 0) { /* a copy of that source is both source and place */
        memcpy(dst[0], src[call->in_place], call->count * elem_bytes);
        src[call->in_place] = dst[0];
    }
    variant->fn[call->op][call->type](dst, call->ndst, src, call->nsrc, call->count, call->divisor, call->stream_mask);
    for (int k = 0; k < call->ndst; k++)
        check_place(call, variant->name, dst[k], k);
}

static void run(const struct call *call) {
    size_t elem_bytes = collet_type_size(call->type);
    const void *src[MAX_BUFFERS];
    for (int k = 0; k < call->nsrc; k++)
        src[k] = start_of(&sources[k], k, elem_bytes);
    for (size_t i = 0; i < call->count; i++)
        reference_element(call->type, call->op, expected.memory, src, call->nsrc, i, call->divisor);
    for (int n = 0; reduce_host_nth(n); n++)
        run_in_variant(call, reduce_host_nth(n));
}

static void refill(enum collet_type type, int nsrc, size_t count) {
    for (int k = 0; k < nsrc; k++)
        fill(type, start_of(&sources[k], k, collet_type_size(type)), count);
}

/* All places × in place × streaming of one (type, op, nsrc, count). */
static void run_shapes(enum collet_type type, enum collet_op op, int nsrc, size_t count) {
    static const int ndsts[] = {1, 2, 3};
    static const uint32_t masks[] = {0, ~0u, 2};
    refill(type, nsrc, count);
    for (int d = 0; d < 3; d++)
        for (int in_place = -1; in_place<nsrc; in_place += nsrc> 3 ? nsrc / 2 : 1)
            for (int m = 0; m < 3; m++) {
                uint32_t divisor = op == COLLET_AVG ? 3 : 1;
                struct call call = {type, op, nsrc, ndsts[d], count, divisor, masks[m], in_place};
                run(&call);
            }
}

/* ----------------------------------------------------------------------------------------------------------------- cases */

static void every_type_and_operator_gives_the_reference_in_every_shape(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 5, 15, 33, 100, 1031};
    static const int nsrcs[] = {1, 2, 3, 5};
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        for (int op = 0; op < COLLET_OP_COUNT; op++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                for (size_t n = 0; n < sizeof nsrcs / sizeof nsrcs[0]; n++)
                    run_shapes((enum collet_type)type, (enum collet_op)op, nsrcs[n], counts[c]);
}

static void counts_beyond_one_block_give_the_reference(void **state) {
    (void)state;
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        for (int nsrc = 1; nsrc <= 3; nsrc++)
            run_shapes((enum collet_type)type, COLLET_SUM, nsrc, MAX_COUNT - 41);
}

static void every_count_up_to_three_vectors_is_right(void **state) {
    (void)state;
    for (int type = 0; type < COLLET_TYPE_COUNT; type++) {
        refill((enum collet_type)type, 3, 200);
        for (size_t count = 0; count < 200; count++)
            for (int nsrc = 2; nsrc <= 3; nsrc++) {
                struct call call = {(enum collet_type)type, COLLET_SUM, nsrc, 2, count, 1, 0, -1};
                run(&call);
            }
    }
}

static void sixty_four_sources_reach_sixty_four_places(void **state) {
    (void)state;
    for (int type = 0; type < COLLET_TYPE_COUNT; type++) {
        refill((enum collet_type)type, 64, 77);
        struct call call = {(enum collet_type)type, COLLET_SUM, 64, 64, 77, 1, ~0u, 40};
        run(&call);
    }
}

static void divisions_by_large_numbers_of_ranks_go_toward_zero(void **state) {
    (void)state;
    static const uint32_t divisors[] = {2, 255, 256, 131072, INT32_MAX};
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        for (int d = 0; d < 5; d++) {
            refill((enum collet_type)type, 2, 50);
            struct call call = {(enum collet_type)type, COLLET_AVG, 2, 1, 50, divisors[d], 0, -1};
            run(&call);
        }
}

static void copying_a_buffer_onto_itself_leaves_it_alone(void **state) {
    (void)state;
    static const char constant[8] = "read me";
    void *dst[1] = {(void *)(uintptr_t)constant};
    const void *src[1] = {constant};
    for (int n = 0; reduce_host_nth(n); n++)
        reduce_host_nth(n)->fn[COLLET_SUM][COLLET_UINT8](dst, 1, src, 1, sizeof constant, 1, 1);
}

static void every_half_and_bfloat16_becomes_its_float_and_comes_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        uint16_t b = (uint16_t)bits;
        float half = reduce_load_half(b), bfloat16 = reduce_load_bfloat16(b);
        if (is_nan16(&half_format, b)) {
            assert_true(isnan(half));
            assert_int_equal(reduce_store_half(half), b | 0x200);
            assert_int_equal(reduce_float_bits(half), (uint32_t)(b & 0x8000) << 16 | 0x7fc00000 | (b & 0x3ffu) << 13);
        } else {
            assert_int_equal(reduce_float_bits(half), reduce_float_bits(decode(&half_format, b)));
            assert_int_equal(reduce_store_half(half), b);
        }
        if (is_nan16(&bfloat16_format, b))
            assert_int_equal(reduce_store_bfloat16(bfloat16), b | 0x40);
        else {
            assert_int_equal(reduce_float_bits(bfloat16), reduce_float_bits(decode(&bfloat16_format, b)));
            assert_int_equal(reduce_store_bfloat16(bfloat16), b);
        }
    }
}

static void check_rounding(uint32_t bits) {
    float value = reduce_bits_float(bits);
    if (isnan(value)) {
        assert_true(is_nan16(&half_format, reduce_store_half(value)));
        assert_true(is_nan16(&bfloat16_format, reduce_store_bfloat16(value)));
        return;
    }
    assert_int_equal(reduce_store_half(value), encode(&half_format, value));
    assert_int_equal(reduce_store_bfloat16(value), encode(&bfloat16_format, value));
}

static void floats_round_to_the_nearest_sixteen_bits_and_ties_to_even(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits <= 0xffff;
         bits++) { /* around every half: the ties on both sides and their neighbours */
        float half = reduce_load_half((uint16_t)bits);
        for (int32_t d = -0x1001; d <= 0x1001; d += 0x1001 / 3)
            check_rounding(reduce_float_bits(half) + (uint32_t)d);
        check_rounding((bits << 16) + 0x7fff);
        check_rounding((bits << 16) + 0x8000);
        check_rounding((bits << 16) + 0x8001);
    }
    for (uint32_t tie = 0; tie < 1025; tie++) /* halfway between two subnormal halves */
        for (int d = -1; d <= 1; d++)
            check_rounding(reduce_float_bits(ldexpf((float)(2 * tie + 1), -25)) + (uint32_t)d);
    for (int i = 0; i < 300000; i++)
        check_rounding((uint32_t)(random_bits() >> 32));
    static const float edges[] = {65504,    65519.996f, 65520,     65536,    0x1p-24f,
                                  0x1p-25f, 0x1.8p-25f, 0x1p-126f, 0x1p-149f};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        check_rounding(reduce_float_bits(edges[i]));
        check_rounding(reduce_float_bits(-edges[i]));
    }
}

/* The vectorised conversions see every half (as a sum with −0) and many roundings (as products and quotients). */
static void all_variants_convert_sixteen_bits_alike(void **state) {
    (void)state;
    static uint16_t a[65536], b[65536], want[65536], got[65536];
    const void *src[2] = {a, b};
    void *dst[1] = {got};
    for (int type = COLLET_FLOAT16; type <= COLLET_BFLOAT16; type++)
        for (int pass = 0; pass < 8; pass++)
            for (int n = 0; reduce_host_nth(n); n++) {
                enum collet_op op = pass == 0 ? COLLET_SUM : COLLET_PROD;
                for (uint32_t i = 0; n == 0 && i <= 0xffff; i++) {
                    a[i] = (uint16_t)i;
                    b[i] = pass == 0 ? 0x8000 : (uint16_t)random_bits();
                    if (pass > 0 && is_nan16(type == COLLET_FLOAT16 ? &half_format : &bfloat16_format, b[i]))
                        b[i] = 0;
                }
                reduce_host_nth(n)->fn[op][type](dst, 1, src, 2, 65536, pass < 6 ? 1 : 3, 0);
                if (n == 0)
                    memcpy(want, got, sizeof want);
                assert_memory_equal(got, want, sizeof want);
            }
}

static void the_best_variant_is_handed_out(void **state) {
    (void)state;
    assert_string_equal(reduce_host_variant(), reduce_host_nth(0)->name);
    for (int type = 0; type < COLLET_TYPE_COUNT; type++) {
        for (int op = 0; op < COLLET_OP_COUNT; op++)
            assert_ptr_equal(reduce_host_get((enum collet_type)type, (enum collet_op)op),
                             reduce_host_nth(0)->fn[op][type]);
        assert_ptr_equal(reduce_host_get((enum collet_type)type, COLLET_AVG),
                         reduce_host_get((enum collet_type)type, COLLET_SUM));
    }
    int n = 0;
    while (reduce_host_nth(n))
        n++;
    assert_string_equal(reduce_host_nth(n - 1)->name, "plain");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_and_bfloat16_becomes_its_float_and_comes_back),
        cmocka_unit_test(floats_round_to_the_nearest_sixteen_bits_and_ties_to_even),
        cmocka_unit_test(all_variants_convert_sixteen_bits_alike),
        cmocka_unit_test(every_count_up_to_three_vectors_is_right),
        cmocka_unit_test(every_type_and_operator_gives_the_reference_in_every_shape),
        cmocka_unit_test(counts_beyond_one_block_give_the_reference),
        cmocka_unit_test(sixty_four_sources_reach_sixty_four_places),
        cmocka_unit_test(divisions_by_large_numbers_of_ranks_go_toward_zero),
        cmocka_unit_test(copying_a_buffer_onto_itself_leaves_it_alone),
        cmocka_unit_test(the_best_variant_is_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
