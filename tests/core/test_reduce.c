/* SPDX-License-Identifier: Apache-2.0
 *
 * The reductions, in every variant that this CPU can run, against a reference that takes one element at a time and knows
 * floating-point types only by their definition: sign · fraction · 2^exponent (common/numbers.h). All types of the table
 * are tested; no type is named where it need not be.
 */
#include "common/numbers.h"
#include "kernels/reduce.h"
#include "kernels/reduce_host.c"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

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
        return type_bits_float((uint32_t)(random_bits() >> 32));
    return (float)(int64_t)random_bits() * 0x1p-60f;
}

/* ------------------------------------------------------------------------------------------------------ the reference */

static uint64_t bits_at(const struct type_format *format, const void *memory, size_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)memory + i * format->bytes, format->bytes);
    return bits;
}

static int is_nan_of(const struct type_format *format, uint64_t bits) {
    return format->fraction_bits > 0 && isnan(numbers_decode(format, bits));
}

/* A number is preferred to a NaN, −0 is below +0. */
static bool is_below(double a, double b) { return a < b || isnan(b) || (a == b && signbit(a)); }

#define FLOAT_OP(op, a, b)                                                                                             \
    ((op) == COLLET_PROD  ? (a) * (b)                                                                                  \
     : (op) == COLLET_MIN ? (is_below(a, b) ? (a) : (b))                                                               \
     : (op) == COLLET_MAX ? (is_below(-(a), -(b)) ? (a) : (b))                                                         \
                          : (a) + (b))

/* In the arithmetic of `real`: that of the type's accumulator. */
#define REFERENCE_IN(real)                                                                                             \
    static uint64_t reference_in_##real(const struct type_format *format, enum collet_op op, const void *const *src,   \
                                        int nsrc, size_t i, uint32_t divisor) {                                        \
        real v = (real)numbers_decode(format, bits_at(format, src[0], i));                                             \
        for (int k = 1; k < nsrc; k++) {                                                                               \
            real next = (real)numbers_decode(format, bits_at(format, src[k], i));                                      \
            v = FLOAT_OP(op, v, next);                                                                                 \
        }                                                                                                              \
        uint32_t shift = type_average_shift(format->exponent_bits, divisor); /* elements were multiplied before */     \
        return numbers_encode(format, divisor > 1 ? v / ((real)divisor / (real)(1u << shift)) : v);                    \
    }
REFERENCE_IN(float)
REFERENCE_IN(double)

static uint64_t reference_in_integers(const struct type_format *format, enum collet_op op, const void *const *src,
                                      int nsrc, size_t i, uint32_t divisor) {
    __int128 v = numbers_integer(format, bits_at(format, src[0], i));
    for (int k = 1; k < nsrc; k++)
        v = numbers_integer(format,
                            (uint64_t)numbers_integer_op(op, v, numbers_integer(format, bits_at(format, src[k], i))));
    return (uint64_t)(divisor > 1 ? v / divisor : v);
}

static void reference_element(enum collet_type type, enum collet_op op, void *to, const void *const *src, int nsrc,
                              size_t i, uint32_t divisor) {
    const struct type_format *format = type_format(type);
    uint64_t bits = nsrc == 1 && divisor == 1    ? bits_at(format, src[0], i)
                    : format->fraction_bits == 0 ? reference_in_integers(format, op, src, nsrc, i, divisor)
                    : format->bytes == 8         ? reference_in_double(format, op, src, nsrc, i, divisor)
                                                 : reference_in_float(format, op, src, nsrc, i, divisor);
    memcpy((char *)to + i * format->bytes, &bits, format->bytes);
}

/* The same bits, or both a NaN: where two of them meet, the machine chooses the payload. */
static int same_element(enum collet_type type, const void *a, const void *b, size_t i) {
    const struct type_format *format = type_format(type);
    uint64_t x = bits_at(format, a, i), y = bits_at(format, b, i);
    return x == y || (is_nan_of(format, x) && is_nan_of(format, y));
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

/* Integers and types of few exponents get any bits; of others these would hardly ever be numbers of similar size. */
static void fill(enum collet_type type, void *to, size_t count) {
    const struct type_format *format = type_format(type);
    for (size_t i = 0; i < count; i++) {
        bool any_bits = format->fraction_bits == 0 || format->exponent_bits < 8;
        uint64_t bits = any_bits ? random_bits() : numbers_encode(format, (long double)random_float());
        memcpy((char *)to + i * format->bytes, &bits, format->bytes);
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
            for (size_t c = 0; op_takes((enum collet_op)op, (enum collet_type)type) && c < LENGTH(counts); c++)
                for (size_t n = 0; n < LENGTH(nsrcs); n++)
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

static void only_averages_of_short_exponents_are_shifted(void **state) {
    (void)state;
    assert_int_equal(type_average_shift(0, 1000), 0);
    assert_int_equal(type_average_shift(8, 1000), 0);
    assert_int_equal(type_average_shift(5, 1), 0);
    assert_int_equal(type_average_shift(5, 2), 1);
    assert_int_equal(type_average_shift(5, 5), 3);
    assert_int_equal(type_average_shift(5, 8), 3);
    assert_int_equal(type_average_shift(5, UINT32_MAX), 14); /* 2^-14 and 2^-6 are the smallest normal numbers */
    assert_int_equal(type_average_shift(4, UINT32_MAX), 6);
    assert_true(reduce_rest_half(6) == 0.75f);
    assert_true(reduce_rest_f8e4m3(640) == 10.0f);
    assert_true(reduce_rest_float(6) == 6.0f);
    assert_int_equal(reduce_rest_int8(6), 6);
}

static void copying_a_buffer_onto_itself_leaves_it_alone(void **state) {
    (void)state;
    static const char constant[8] = "read me";
    void *dst[1] = {(void *)(uintptr_t)constant};
    const void *src[1] = {constant};
    for (int n = 0; reduce_host_nth(n); n++)
        reduce_host_nth(n)->fn[COLLET_SUM][COLLET_UINT8](dst, 1, src, 1, sizeof constant, 1, 1);
}

/* ------------------------------------------------------------------------------------------- conversions of the table */

#define WRAP_SAME(type, element)
#define WRAP_UPPER(type, element)                                                                                      \
    static float load_##type(uint64_t bits) { return type_load_##type((element)bits); }                                \
    static uint64_t store_##type(float value) { return type_store_##type(value); }
#define WRAP_CHIP WRAP_UPPER
#define WRAP_SMALL WRAP_UPPER
#define WRAP(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion, ...)    \
    WRAP_##conversion(type, element)
COLLET_TYPES(WRAP, )

struct conversion {
    float (*load)(uint64_t bits);
    uint64_t (*store)(float value);
};
#define CELLS_SAME(type) NULL, NULL
#define CELLS_UPPER(type) load_##type, store_##type
#define CELLS_CHIP CELLS_UPPER
#define CELLS_SMALL CELLS_UPPER
#define CONVERSION(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion,   \
                   ...)                                                                                                \
    {CELLS_##conversion(type)},
static const struct conversion conversions[] = {COLLET_TYPES(CONVERSION, )};

/* Runs check for each type that has conversions. */
static void for_conversions(void (*check)(const struct type_format *format, const struct conversion *conversion)) {
    int n = 0;
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        if (conversions[type].load) {
            check(type_format((enum collet_type)type), &conversions[type]);
            n++;
        }
    assert_true(n >= 2);
}

static uint64_t bits_end(const struct type_format *format) { return UINT64_C(1) << (8 * format->bytes); }

static void check_every_element(const struct type_format *format, const struct conversion *conversion) {
    uint64_t quiet = UINT64_C(1) << (format->fraction_bits - 1);
    for (uint64_t bits = 0; bits < bits_end(format); bits++) {
        float value = conversion->load(bits);
        if (is_nan_of(format, bits)) {
            assert_true(isnan(value));
            assert_int_equal(conversion->store(value), bits | quiet);
        } else {
            assert_int_equal(type_float_bits(value), type_float_bits((float)numbers_decode(format, bits)));
            assert_int_equal(conversion->store(value), numbers_encode(format, (long double)value)); /* or saturated */
        }
    }
}

static void every_element_becomes_its_float_and_comes_back(void **state) {
    (void)state;
    for_conversions(check_every_element);
}

static void check_rounding(const struct type_format *format, const struct conversion *conversion, uint32_t bits) {
    float value = type_bits_float(bits);
    uint64_t stored = conversion->store(value);
    if (isnan(value) ? !is_nan_of(format, stored) : stored != numbers_encode(format, (long double)value))
        fail_msg("%s: %a is stored as %llx", format->name, (double)value, (unsigned long long)stored);
}

static void check_roundings(const struct type_format *format, const struct conversion *conversion) {
    int32_t tie = 1 << (22 - format->fraction_bits); /* half of a unit in the last place */
    for (uint64_t bits = 0; bits < bits_end(format); bits++) {
        uint32_t value = type_float_bits(conversion->load(bits));
        for (int32_t d = -tie - 1; d <= tie + 1; d += d == -tie + 1 ? 2 * tie - 2 : 1)
            check_rounding(format, conversion, value + (uint32_t)d);
    }
    int subnormal_tie = 1 - (1 << (format->exponent_bits - 1)) + 1 - format->fraction_bits - 1;
    for (uint32_t k = 0; k < (2u << format->fraction_bits); k++) /* halfway between two subnormal numbers */
        for (int d = -1; d <= 1; d++)
            check_rounding(format, conversion,
                           type_float_bits(ldexpf((float)(2 * k + 1), subnormal_tie)) + (uint32_t)d);
    for (int i = 0; i < 300000; i++)
        check_rounding(format, conversion, (uint32_t)(random_bits() >> 32));
    static const float tiny[] = {0x1p-126f, 0x1p-149f, -0x1p-126f, -0x1p-149f};
    for (size_t i = 0; i < LENGTH(tiny); i++)
        check_rounding(format, conversion, type_float_bits(tiny[i]));
}

static void floats_round_to_the_nearest_element_and_ties_to_even(void **state) {
    (void)state;
    for_conversions(check_roundings);
}

/* The vectorised conversions see every element (as a sum with −0) and many roundings (as products and quotients). */
static void check_variants(const struct type_format *format, const struct conversion *conversion) {
    (void)conversion;
    static char a[4 * 65536], b[sizeof a], want[sizeof a], got[sizeof a];
    const void *src[2] = {a, b};
    void *dst[1] = {got};
    size_t count = (size_t)bits_end(format);
    assert_true(count * format->bytes <= sizeof a);
    for (int pass = 0; pass < 8; pass++) {
        for (uint64_t bits = 0; bits < count; bits++) {
            uint64_t other = pass == 0 ? bits_end(format) / 2 : random_bits() & (bits_end(format) - 1);
            if (is_nan_of(format, other))
                other = 0;
            memcpy(a + bits * format->bytes, &bits, format->bytes);
            memcpy(b + bits * format->bytes, &other, format->bytes);
        }
        for (int n = 0; reduce_host_nth(n); n++) {
            enum collet_op op = pass == 0 ? COLLET_SUM : COLLET_PROD;
            reduce_host_nth(n)->fn[op][format->type](dst, 1, src, 2, count, pass < 6 ? 1 : 3, 0);
            if (n == 0)
                memcpy(want, got, sizeof want);
            assert_memory_equal(got, want, count * format->bytes);
        }
    }
}

static void all_variants_convert_alike(void **state) {
    (void)state;
    for_conversions(check_variants);
}

/* Two sources have ways of their own: here a block of pairs against one conversion, operation and conversion back. */
enum { PAIRS = 65536, PAIR_ROUNDS = 16 };

static void check_pairs(const struct type_format *format, const struct conversion *conversion, enum collet_op op) {
    static uint8_t a[2 * PAIRS], b[2 * PAIRS], want[2 * PAIRS], got[2 * PAIRS];
    const void *src[2] = {a, b};
    void *dst[1] = {got};
    for (uint64_t i = 0; i < PAIRS; i++) { /* of 8 bits: every pair there is */
        uint64_t x = format->bytes == 1 ? i >> 8 : random_bits(), y = format->bytes == 1 ? i : random_bits();
        memcpy(a + i * format->bytes, &x, format->bytes);
        memcpy(b + i * format->bytes, &y, format->bytes);
        float v = conversion->load(bits_at(format, a, i)), w = conversion->load(bits_at(format, b, i));
        uint64_t result = conversion->store(FLOAT_OP(op, v, w));
        memcpy(want + i * format->bytes, &result, format->bytes);
    }
    for (int n = 0; reduce_host_nth(n); n++) {
        reduce_host_nth(n)->fn[op][format->type](dst, 1, src, 2, PAIRS, 1, 0);
        for (size_t i = 0; i < PAIRS; i++)
            if (!same_element(format->type, got, want, i))
                fail_msg("%s %s %s: of %llx and %llx: %llx, not %llx", reduce_host_nth(n)->name, format->name,
                         op_name(op), (unsigned long long)bits_at(format, a, i),
                         (unsigned long long)bits_at(format, b, i), (unsigned long long)bits_at(format, got, i),
                         (unsigned long long)bits_at(format, want, i));
    }
}

static void check_pairs_of_type(const struct type_format *format, const struct conversion *conversion) {
    static const enum collet_op ops[] = {COLLET_SUM, COLLET_PROD, COLLET_MIN, COLLET_MAX};
    for (size_t i = 0; i < LENGTH(ops); i++)
        for (int round = 0; round < (format->bytes == 1 ? 1 : PAIR_ROUNDS); round++)
            check_pairs(format, conversion, ops[i]);
}

static void two_small_floats_give_what_their_accumulators_give(void **state) {
    (void)state;
    for_conversions(check_pairs_of_type);
}

static void floats_of_8_bits_saturate_and_have_these_codes(void **state) {
    (void)state;
    static const struct {
        float value;
        uint8_t e4m3, e5m2;
    } codes[] = {{1, 0x38, 0x3c},        {-1.5f, 0xbc, 0xbe},     {448, 0x7e, 0x5f},       {465, 0x7e, 0x5f},
                 {57344, 0x7e, 0x7b},    {1e30f, 0x7e, 0x7b},     {-INFINITY, 0xfe, 0xfb}, {0x1p-9f, 0x01, 0x18},
                 {0x1p-10f, 0x00, 0x14}, {0x1.8p-9f, 0x02, 0x1a}, {-0x1p-17f, 0x80, 0x80}, {0x1.8p-16f, 0x00, 0x02}};
    for (size_t i = 0; i < LENGTH(codes); i++) {
        assert_int_equal(type_store_f8e4m3(codes[i].value), codes[i].e4m3);
        assert_int_equal(type_store_f8e5m2(codes[i].value), codes[i].e5m2);
    }
    assert_int_equal(type_store_f8e4m3(NAN) & 0x7f, 0x7f);
    assert_true(isinf(type_load_f8e5m2(0xfc)) && isnan(type_load_f8e5m2(0x7d)) && isnan(type_load_f8e4m3(0xff)));
}

static uint64_t one_result(const struct reduce_variant *variant, enum collet_type type, enum collet_op op, uint64_t a,
                           uint64_t b) {
    uint64_t result = 0; /* little-endian, as everything here */
    const void *src[2] = {&a, &b};
    void *dst[1] = {&result};
    variant->fn[op][type](dst, 1, src, 2, 1, 1, 0);
    return result;
}

static void check_order(const struct reduce_variant *variant, const struct type_format *format) {
    enum collet_type t = format->type;
    uint64_t minus = UINT64_C(1) << (8 * format->bytes - 1), nan = minus - 1, one = numbers_encode(format, 1);
    for (int op = COLLET_MIN; op <= COLLET_MAX; op++) {
        uint64_t zero = op == COLLET_MIN ? minus : 0;
        assert_int_equal(one_result(variant, t, (enum collet_op)op, nan, one), one);
        assert_int_equal(one_result(variant, t, (enum collet_op)op, one, nan), one);
        assert_int_equal(one_result(variant, t, (enum collet_op)op, minus, 0), zero);
        assert_int_equal(one_result(variant, t, (enum collet_op)op, 0, minus), zero);
        assert_true(is_nan_of(format, one_result(variant, t, (enum collet_op)op, nan, nan)));
    }
    assert_true(is_nan_of(format, one_result(variant, t, COLLET_SUM, nan, one)));
    assert_true(is_nan_of(format, one_result(variant, t, COLLET_PROD, one, nan)));
}

static void minima_leave_nans_out_and_order_zeros_by_their_sign(void **state) {
    (void)state;
    for (int n = 0; reduce_host_nth(n); n++)
        for (int type = 0; type < COLLET_TYPE_COUNT; type++)
            if (type_format((enum collet_type)type)->fraction_bits > 0)
                check_order(reduce_host_nth(n), type_format((enum collet_type)type));
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
        cmocka_unit_test(every_element_becomes_its_float_and_comes_back),
        cmocka_unit_test(floats_round_to_the_nearest_element_and_ties_to_even),
        cmocka_unit_test(all_variants_convert_alike),
        cmocka_unit_test(two_small_floats_give_what_their_accumulators_give),
        cmocka_unit_test(every_count_up_to_three_vectors_is_right),
        cmocka_unit_test(every_type_and_operator_gives_the_reference_in_every_shape),
        cmocka_unit_test(counts_beyond_one_block_give_the_reference),
        cmocka_unit_test(sixty_four_sources_reach_sixty_four_places),
        cmocka_unit_test(divisions_by_large_numbers_of_ranks_go_toward_zero),
        cmocka_unit_test(only_averages_of_short_exponents_are_shifted),
        cmocka_unit_test(copying_a_buffer_onto_itself_leaves_it_alone),
        cmocka_unit_test(floats_of_8_bits_saturate_and_have_these_codes),
        cmocka_unit_test(minima_leave_nans_out_and_order_zeros_by_their_sign),
        cmocka_unit_test(the_best_variant_is_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
