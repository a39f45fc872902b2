/* SPDX-License-Identifier: Apache-2.0 */
#include "common/numbers.h"

#include "base/types.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

uint64_t numbers_hash(uint64_t seed, uint64_t rank, uint64_t index) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + rank * 0xd1b54a32d192ed03u + index * 0x8cb92ba72f3d8dd7u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

uint64_t numbers_digest(const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t digest = bytes, word = 0;
    for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    word = 0;
    for (size_t k = 0; k < bytes; k++)
        word = word << 8 | at[k];
    return (digest ^ word) * 0x9e3779b97f4a7c15u;
}

/* ---- floating-point formats ---- */

static bool is_float(const struct type_format *format) { return format->fraction_bits > 0; }

static int bias_of(const struct type_format *format) { return (1 << (format->exponent_bits - 1)) - 1; }

/* The distance between neighbouring numbers of the format around value. */
static long double ulp_at(long double value, const struct type_format *format) {
    int least = 1 - bias_of(format), exponent = least;
    if (value != 0) {
        frexpl(value, &exponent);
        exponent -= 1;
    }
    return ldexpl(1, (exponent < least ? least : exponent) - format->fraction_bits);
}

static long double round_to(long double value, const struct type_format *format) {
    long double ulp = ulp_at(value, format);
    return rintl(value / ulp) * ulp; /* to nearest, ties to even */
}

static uint64_t sign_of(const struct type_format *format) { return UINT64_C(1) << (8 * format->bytes - 1); }

long double numbers_decode(const struct type_format *format, uint64_t bits) {
    uint64_t magnitude = bits & (sign_of(format) - 1), hidden = UINT64_C(1) << format->fraction_bits;
    uint64_t fraction = magnitude & (hidden - 1);
    int exponent = (int)(magnitude >> format->fraction_bits);
    long double value;
    if (magnitude > format->largest)
        value = fraction == 0 ? (long double)INFINITY : (long double)NAN;
    else if (exponent == 0)
        value = ldexpl(fraction, 1 - bias_of(format) - format->fraction_bits);
    else
        value = ldexpl(fraction + hidden, exponent - bias_of(format) - format->fraction_bits);
    return bits & sign_of(format) ? -value : value;
}

uint64_t numbers_encode(const struct type_format *format, long double value) {
    uint64_t sign = signbit(value) ? sign_of(format) : 0, hidden = UINT64_C(1) << format->fraction_bits;
    if (isnan(value))
        return sign | (sign_of(format) - 1);
    uint64_t over = format->bytes == 1 ? format->largest : format->largest + 1; /* types of 8 bits saturate */
    if (isinf(value))
        return sign | over;
    long double ulp = ulp_at(value, format);
    uint64_t units = (uint64_t)rintl(fabsl(value) / ulp); /* of the last place; a carry moves into the exponent */
    uint64_t exponent = (uint64_t)(ilogbl(ulp) + format->fraction_bits + bias_of(format) - 1);
    uint64_t bits = units + exponent * hidden;
    return sign | (bits > format->largest ? over : bits);
}

/* The machine's own types need no decoding. */
static long double load_float(const void *from, const struct type_format *format) {
    uint64_t bits = 0;
    if (format->type == COLLET_FLOAT32)
        return *(const float *)from;
    if (format->type == COLLET_FLOAT64)
        return *(const double *)from;
    memcpy(&bits, from, format->bytes);
    return numbers_decode(format, bits);
}

static void store_float(void *to, const struct type_format *format, long double value) {
    if (format->type == COLLET_FLOAT32) {
        *(float *)to = (float)value;
    } else if (format->type == COLLET_FLOAT64) {
        *(double *)to = (double)value;
    } else {
        uint64_t bits = numbers_encode(format, value);
        memcpy(to, &bits, format->bytes);
    }
}

/* ---- operands ---- */

/* Whether the elements at index are whole numbers of −8 … 7, of which products are of ±1 and ±2. */
static bool is_whole(uint64_t seed, size_t index) { return numbers_hash(seed, 1000, index) & 1; }

/* Products stay among the normal numbers: ranks beyond the type's least exponent give ±1. */
static long double factor(const struct type_format *format, uint64_t bits, int rank, bool whole) {
    long double sign = bits & 1 ? -1 : 1;
    if (rank >= bias_of(format) - 1)
        return sign;
    return whole ? sign * (1 + (int)(bits >> 1 & 1)) : round_to(sign * (0.5 + (double)(bits >> 12) * 0x1p-52), format);
}

static long double addend(const struct type_format *format, uint64_t bits, bool whole) {
    double fraction = (double)(bits >> 12) * 0x1p-52;
    return whole ? (long double)(int)(bits >> 1 & 15) - 8 : round_to(bits & 1 ? -fraction : fraction, format);
}

static long double float_operand(const struct type_format *format, enum collet_op op, uint64_t seed, int rank,
                                 size_t index) {
    uint64_t bits = numbers_hash(seed, (uint64_t)rank, index);
    bool whole = is_whole(seed, index);
    return op == COLLET_PROD ? factor(format, bits, rank, whole) : addend(format, bits, whole);
}

/* Some change the sign, some need one more bit or two. */
static int scalar_of(int rank) { return (const int[]){2, -1, 1, 3}[rank % 4]; }

void numbers_scalar(void *to, enum collet_type type, int rank) {
    const struct type_format *format = type_format(type);
    int64_t whole = scalar_of(rank);
    if (is_float(format))
        store_float(to, format, whole);
    else
        memcpy(to, &whole, format->bytes);
}

/* What a rank adds to a reduction, from what is in its buffer. */
static long double float_contribution(const struct type_format *format, enum collet_op op, uint64_t seed, int rank,
                                      size_t index) {
    long double x = float_operand(format, op, seed, rank, index);
    return op == COLLET_PREMULSUM ? round_to(x * scalar_of(rank), format) : x;
}

void numbers_fill(void *to, enum collet_type type, uint64_t seed, int rank, size_t first, size_t count) {
    size_t size = collet_type_size(type);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = numbers_hash(seed, (uint64_t)rank, first + i);
        memcpy((char *)to + i * size, &bits, size);
    }
}

void numbers_fill_operands(void *to, enum collet_type type, enum collet_op op, uint64_t seed, int rank, size_t first,
                           size_t count) {
    const struct type_format *format = type_format(type);
    if (!is_float(format)) {
        numbers_fill(to, type, seed, rank, first, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        store_float((char *)to + i * format->bytes, format, float_operand(format, op, seed, rank, first + i));
}

bool numbers_moved(const void *from, enum collet_type type, uint64_t seed, int rank, size_t first, size_t count,
                   char why[NUMBERS_WHY_BYTES]) {
    size_t size = collet_type_size(type);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = numbers_hash(seed, (uint64_t)rank, first + i), is = 0, wanted = 0;
        memcpy(&wanted, &bits, size);
        memcpy(&is, (const char *)from + i * size, size);
        if (is == wanted)
            continue;
        snprintf(why, NUMBERS_WHY_BYTES, "element %zu of %zu has bits %llx, should have %llx (element %zu of rank %d)",
                 i, count, (unsigned long long)is, (unsigned long long)wanted, first + i, rank);
        return false;
    }
    return true;
}

/* ---- references ---- */

/* The value of an integer type's bits; wide enough for what two of them give. */
__int128 numbers_integer(const struct type_format *format, uint64_t bits) {
    int unused = 64 - 8 * (int)format->bytes;
    return format->is_signed ? (int64_t)(bits << unused) >> unused : (__int128)(bits << unused >> unused);
}

__int128 numbers_integer_op(enum collet_op op, __int128 a, __int128 b) {
    switch (op) {
    case COLLET_PROD: return (__int128)((unsigned __int128)a * (unsigned __int128)b);
    case COLLET_MIN: return a < b ? a : b;
    case COLLET_MAX: return a > b ? a : b;
    case COLLET_BAND: return a & b;
    case COLLET_BOR: return a | b;
    case COLLET_BXOR: return a ^ b;
    default: return a + b;
    }
}

static __int128 integer_reference(const struct type_format *format, enum collet_op op, int nranks, uint64_t seed,
                                  size_t index) {
    __int128 result = 0;
    for (int rank = 0; rank < nranks; rank++) {
        uint64_t factor = op == COLLET_PREMULSUM ? (uint64_t)(int64_t)scalar_of(rank) : 1;
        __int128 next = numbers_integer(format, numbers_hash(seed, (uint64_t)rank, index) * factor);
        result = rank == 0 ? next : numbers_integer(format, (uint64_t)numbers_integer_op(op, result, next));
    }
    return op == COLLET_AVG ? result / nranks : result;
}

/* Whether no partial result of whole numbers needs more bits than the type has. */
static bool is_exact(const struct type_format *format, enum collet_op op, int nranks) {
    int64_t largest = op == COLLET_PREMULSUM ? 24 : 8;
    return op == COLLET_PROD || largest * nranks <= INT64_C(2) << format->fraction_bits;
}

static long double float_reference(const struct type_format *format, enum collet_op op, int nranks, uint64_t seed,
                                   size_t index, long double *tolerance) {
    long double result = float_contribution(format, op, seed, 0, index), magnitudes = fabsl(result);
    for (int rank = 1; rank < nranks; rank++) {
        long double x = float_contribution(format, op, seed, rank, index);
        magnitudes += fabsl(x);
        switch (op) {
        case COLLET_PROD: result *= x; break;
        case COLLET_MIN: result = x < result ? x : result; break;
        case COLLET_MAX: result = x > result ? x : result; break;
        default: result += x;
        }
    }
    if (op == COLLET_AVG) {
        result /= nranks;
        magnitudes /= nranks;
    }
    *tolerance = 0;
    if (op == COLLET_MIN || op == COLLET_MAX)
        return result;
    if (is_whole(seed, index) && is_exact(format, op, nranks))
        return round_to(result, format);
    /* Half a unit in the last place of a partial result for each operation, and a little for errors of errors. Products and
     * averages may meet the other end of the binade, where that unit is twice as much of the value. */
    long double largest = op == COLLET_PROD ? 2 * fabsl(result) : op == COLLET_AVG ? 2 * magnitudes : magnitudes;
    *tolerance = nranks * 0.55L * ulp_at(largest, format);
    return result;
}

bool numbers_reduced(const void *from, enum collet_type type, enum collet_op op, int nranks, uint64_t seed,
                     size_t first, size_t count, char why[NUMBERS_WHY_BYTES]) {
    const struct type_format *format = type_format(type);
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)from + i * format->bytes;
        if (!is_float(format)) {
            uint64_t bits = 0;
            memcpy(&bits, at, format->bytes);
            __int128 wanted = integer_reference(format, op, nranks, seed, first + i);
            if (numbers_integer(format, bits) == wanted)
                continue;
            snprintf(why, NUMBERS_WHY_BYTES, "element %zu of %zu is %lld, should be %lld", i, count,
                     (long long)numbers_integer(format, bits), (long long)wanted);
            return false;
        }
        long double tolerance, is = load_float(at, format);
        long double wanted = float_reference(format, op, nranks, seed, first + i, &tolerance);
        if (fabsl(is - wanted) <= tolerance)
            continue;
        snprintf(why, NUMBERS_WHY_BYTES, "element %zu of %zu is %.20Lg, should be %.20Lg ± %.2Lg", i, count, is, wanted,
                 tolerance);
        return false;
    }
    return true;
}
