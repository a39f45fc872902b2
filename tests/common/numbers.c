/* SPDX-License-Identifier: Apache-2.0 */
#include "common/numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {"float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16"};
static const char *const op_names[] = {"sum", "prod", "min", "max", "avg"};

const char *numbers_type_name(enum collet_type type) { return type_names[type]; }
const char *numbers_op_name(enum collet_op op) { return op_names[op]; }

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

struct format {
    int precision; /* bits of the significand, the hidden one included */
    int least;     /* exponent of the smallest normal number */
};

static bool is_float(enum collet_type type) {
    return type == COLLET_FLOAT32 || type == COLLET_FLOAT64 || type == COLLET_FLOAT16 || type == COLLET_BFLOAT16;
}

static struct format format_of(enum collet_type type) {
    switch (type) {
    case COLLET_FLOAT64: return (struct format){53, -1022};
    case COLLET_FLOAT16: return (struct format){11, -14};
    case COLLET_BFLOAT16: return (struct format){8, -126};
    default: return (struct format){24, -126};
    }
}

/* The distance between neighbouring numbers of the format around value. */
static long double ulp_at(long double value, struct format format) {
    int exponent = format.least;
    if (value != 0) {
        frexpl(value, &exponent);
        exponent -= 1;
    }
    return ldexpl(1, (exponent < format.least ? format.least : exponent) - format.precision + 1);
}

static long double round_to(long double value, struct format format) {
    long double ulp = ulp_at(value, format);
    return rintl(value / ulp) * ulp; /* to nearest, ties to even */
}

/* Only finite numbers occur. */
static long double load_half(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    long double fraction = bits & 1023;
    long double magnitude = exponent == 0 ? ldexpl(fraction, -24) : ldexpl(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t store_half(long double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    long double magnitude = fabsl(round_to(value, format_of(COLLET_FLOAT16)));
    if (magnitude < ldexpl(1, -14))
        return sign | (uint16_t)ldexpl(magnitude, 24);
    int exponent;
    frexpl(magnitude, &exponent);
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexpl(magnitude, 11 - exponent) & 1023));
}

static long double load_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static uint16_t store_bfloat16(long double value) {
    float rounded = (float)round_to(value, format_of(COLLET_BFLOAT16));
    uint32_t wide;
    memcpy(&wide, &rounded, sizeof(wide));
    return (uint16_t)(wide >> 16);
}

static long double load_float(const void *from, enum collet_type type) {
    union {
        float f;
        double d;
        uint16_t h;
    } u;
    memcpy(&u, from, collet_type_size(type));
    switch (type) {
    case COLLET_FLOAT32: return u.f;
    case COLLET_FLOAT64: return u.d;
    case COLLET_FLOAT16: return load_half(u.h);
    default: return load_bfloat16(u.h);
    }
}

static void store_float(void *to, enum collet_type type, long double value) {
    union {
        float f;
        double d;
        uint16_t h;
    } u;
    switch (type) {
    case COLLET_FLOAT32: u.f = (float)value; break;
    case COLLET_FLOAT64: u.d = (double)value; break;
    case COLLET_FLOAT16: u.h = store_half(value); break;
    default: u.h = store_bfloat16(value);
    }
    memcpy(to, &u, collet_type_size(type));
}

/* ---- operands ---- */

/* Whether the elements at index are whole numbers, whose sums and products are exact in every format. */
static bool is_whole(uint64_t seed, size_t index) { return numbers_hash(seed, 1000, index) & 1; }

static long double float_operand(enum collet_type type, enum collet_op op, uint64_t seed, int rank, size_t index) {
    uint64_t bits = numbers_hash(seed, (uint64_t)rank, index);
    long double sign = bits & 1 ? -1 : 1;
    if (is_whole(seed, index))
        return op == COLLET_PROD ? sign * (1 + (int)(bits >> 1 & 1)) : (long double)(int)(bits >> 1 & 15) - 8;
    double fraction = (double)(bits >> 12) * 0x1p-52;
    return round_to(op == COLLET_PROD ? sign * (0.5 + fraction) : sign * fraction, format_of(type));
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
    size_t size = collet_type_size(type);
    if (!is_float(type)) {
        numbers_fill(to, type, seed, rank, first, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        store_float((char *)to + i * size, type, float_operand(type, op, seed, rank, first + i));
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

/* The value of an integer type's bits. */
static int64_t widen(uint64_t bits, enum collet_type type) {
    return type == COLLET_INT32 ? (int32_t)bits : type == COLLET_UINT8 ? (uint8_t)bits : (int64_t)bits;
}

static int64_t integer_reference(enum collet_type type, enum collet_op op, int nranks, uint64_t seed, size_t index) {
    int64_t result = widen(numbers_hash(seed, 0, index), type);
    for (int rank = 1; rank < nranks; rank++) {
        int64_t x = widen(numbers_hash(seed, (uint64_t)rank, index), type);
        switch (op) {
        case COLLET_PROD: result = widen((uint64_t)result * (uint64_t)x, type); break;
        case COLLET_MIN: result = x < result ? x : result; break;
        case COLLET_MAX: result = x > result ? x : result; break;
        default: result = widen((uint64_t)result + (uint64_t)x, type);
        }
    }
    return op == COLLET_AVG ? result / nranks : result;
}

static long double float_reference(enum collet_type type, enum collet_op op, int nranks, uint64_t seed, size_t index,
                                   long double *tolerance) {
    struct format format = format_of(type);
    long double result = float_operand(type, op, seed, 0, index), magnitudes = fabsl(result);
    for (int rank = 1; rank < nranks; rank++) {
        long double x = float_operand(type, op, seed, rank, index);
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
    if (is_whole(seed, index))
        return round_to(result, format);
    /* Half a unit in the last place of a partial result for each operation, and a little for errors of errors. Products and
     * averages may meet the other end of the binade, where that unit is twice as much of the value. */
    long double largest = op == COLLET_PROD ? 2 * fabsl(result) : op == COLLET_AVG ? 2 * magnitudes : magnitudes;
    *tolerance = nranks * 0.55L * ulp_at(largest, format);
    return result;
}

bool numbers_reduced(const void *from, enum collet_type type, enum collet_op op, int nranks, uint64_t seed,
                     size_t first, size_t count, char why[NUMBERS_WHY_BYTES]) {
    size_t size = collet_type_size(type);
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)from + i * size;
        if (!is_float(type)) {
            uint64_t bits = 0;
            memcpy(&bits, at, size);
            int64_t wanted = integer_reference(type, op, nranks, seed, first + i);
            if (widen(bits, type) == wanted)
                continue;
            snprintf(why, NUMBERS_WHY_BYTES, "element %zu of %zu is %lld, should be %lld", i, count,
                     (long long)widen(bits, type), (long long)wanted);
            return false;
        }
        long double tolerance, is = load_float(at, type);
        long double wanted = float_reference(type, op, nranks, seed, first + i, &tolerance);
        if (fabsl(is - wanted) <= tolerance)
            continue;
        snprintf(why, NUMBERS_WHY_BYTES, "element %zu of %zu is %.20Lg, should be %.20Lg ± %.2Lg", i, count, is, wanted,
                 tolerance);
        return false;
    }
    return true;
}
