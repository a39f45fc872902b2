/* SPDX-License-Identifier: Apache-2.0
 *
 * What users of the perf programs rely on: the layout of the table, the flags, and that the data check sees every fault.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

/* The programs' own sources: they are not part of any library. */
#include "../../examples/perf/device.c"
#include "../../examples/perf/format.c"
#include "../../examples/perf/options.c"
#include "../../examples/perf/pattern.c"
#include "../../examples/perf/probe.c"
#include "../../examples/perf/progress.c"
#include "../../examples/perf/span.c"
#include "../../examples/perf/stats.c"
#include "../../examples/perf/table.c"
#include "../../examples/perf/team.c"
#include "../../examples/perf/verify.c"
#include "../../src/layers/tools/common/arguments.c"

/* ------------------------------------------------------------------------------------------------ numbers and lines */

static void assert_number(double value, int width, const char *expected) {
    char text[FORMAT_WIDTH];
    format_number(value, width, text);
    assert_string_equal(text, expected);
}

static void a_number_gives_up_decimals_before_its_column(void **state) {
    (void)state;
    assert_number(0, 6, "  0.00");
    assert_number(123.456, 6, "123.46");
    assert_number(1234.56, 6, "1234.6");
    assert_number(123456.7, 6, "123457");
    assert_number(12345678, 6, " 1e+07");
    assert_number(99999.96, 7, " 100000");
    assert_number(1234567, 7, "1234567");
    assert_number(123456789, 7, "1.2e+08");
}

static void sizes_are_multiples_of_1024(void **state) {
    (void)state;
    size_t bytes = 1;
    assert_true(format_parse_size("0", &bytes));
    assert_int_equal(bytes, 0);
    assert_true(format_parse_size("8K", &bytes));
    assert_int_equal(bytes, 8192);
    assert_true(format_parse_size("1.5m", &bytes));
    assert_int_equal(bytes, 3 << 19);
    assert_true(format_parse_size("4G", &bytes));
    assert_int_equal(bytes, (size_t)4 << 30);
    for (const char *const *bad = (const char *const[]){"", "K", "-1", "8X", "8KB", "nan", "1e30", NULL}; *bad; bad++)
        assert_false(format_parse_size(*bad, &bytes));
}

/* Standard output or error of what runs between begin and end, as text. */
static int saved_descriptor;
static FILE *captured;

static void capture_begin(FILE *stream) {
    fflush(stream);
    saved_descriptor = dup(fileno(stream));
    captured = tmpfile();
    assert_non_null(captured);
    assert_true(dup2(fileno(captured), fileno(stream)) >= 0);
}

static void capture_end(FILE *stream, char *text, size_t room) {
    fflush(stream);
    assert_true(dup2(saved_descriptor, fileno(stream)) >= 0);
    close(saved_descriptor);
    rewind(captured);
    size_t length = fread(text, 1, room - 1, captured);
    text[length] = '\0';
    fclose(captured);
}

static void a_row_lies_in_the_columns_of_nccl_tests(void **state) {
    (void)state;
    struct perf_options options = defaults;
    struct perf_row row = {.bytes = 33554432, .count = 8388608, .type = "float", .op = "sum", .root = -1};
    row.halves[0] =
        (struct perf_half){.ran = true, .checked = true, .time_us = 123.45, .algbw = 271.8, .busbw = 271.8, .wrong = 0};
    row.halves[1] =
        (struct perf_half){.ran = true, .checked = true, .time_us = 1229000, .algbw = 0.5, .busbw = 1e9, .wrong = 12};
    char text[512];
    capture_begin(stdout);
    table_row(&options, &row);
    capture_end(stdout, text, sizeof(text));
    assert_string_equal(text, "    33554432       8388608     float     sum      -1   123.45  271.80  271.80       0"
                              "  1229000    0.50   1e+09      12\n");
}

static void a_half_that_did_not_run_shows_na(void **state) {
    (void)state;
    struct perf_options options = defaults;
    struct perf_row row = {.bytes = 0, .count = 0, .type = "half", .op = "none", .root = 3};
    row.halves[0] = (struct perf_half){.ran = true, .time_us = 1};
    char text[512];
    capture_begin(stdout);
    table_row(&options, &row);
    capture_end(stdout, text, sizeof(text));
    assert_string_equal(text, "           0             0      half    none       3     1.00    0.00    0.00     N/A"
                              "      N/A     N/A     N/A     N/A\n");
}

static void a_row_ends_with_its_plan_where_one_was_asked_for(void **state) {
    (void)state;
    struct perf_options options = defaults;
    struct perf_row row = {.type = "half", .op = "none", .plan = "ring, Simple, predicted 1.0 us"};
    char text[512];
    capture_begin(stdout);
    table_row(&options, &row);
    capture_end(stdout, text, sizeof(text));
    assert_non_null(strstr(text, "     N/A  ring, Simple, predicted 1.0 us\n"));
}

static void percentiles_are_of_the_nearest_rank(void **state) {
    (void)state;
    double samples[200];
    struct perf_stats stats;
    for (int i = 0; i < 200; i++)
        samples[i] = 200 - i;
    stats_compute(samples, 200, &stats);
    assert_true(stats.min == 1 && stats.max == 200 && stats.p95 == 190 && stats.p99 == 198 && stats.average == 100.5);
    stats_compute(samples, 1, &stats);
    assert_true(stats.min == 200 && stats.p99 == 200 && stats.deviation == 0);
}

/* ------------------------------------------------------------------------------------------------------------ flags */

static bool parse(char **argv, struct perf_options *options, char *complaint, size_t room) {
    int argc = 0;
    while (argv[argc])
        argc++;
    optind = 0; /* getopt starts anew */
    capture_begin(stderr);
    bool runs = options_parse(argc, argv, options);
    capture_end(stderr, complaint, room);
    return runs;
}

static void flags_have_the_defaults_of_nccl_tests(void **state) {
    (void)state;
    struct perf_options options;
    char complaint[256];
    assert_true(parse((char *[]){"perf", NULL}, &options, complaint, sizeof(complaint)));
    assert_int_equal(options.min_bytes, 32 << 20);
    assert_int_equal(options.max_bytes, 32 << 20);
    assert_true(options.iters == 20 && options.warmup_iters == 1 && options.check == 1 && options.average == 1);
    assert_string_equal(options.type->name, "float");
    assert_string_equal(options.op->name, "sum");
    assert_true(parse((char *[]){"perf", "-d", "all", "-o", "all", "-r", "-1", "--minbytes", "8", "-G", "0", NULL},
                      &options, complaint, sizeof(complaint)));
    assert_true(!options.type && !options.op && options.root == PERF_ALL_ROOTS && options.min_bytes == 8);
}

static void assert_refused(char *flag, char *value, const char *complaint_expected) {
    struct perf_options options;
    char complaint[256];
    assert_false(parse((char *[]){"perf", flag, value, NULL}, &options, complaint, sizeof(complaint)));
    assert_string_equal(complaint, complaint_expected);
}

static void a_flag_that_cannot_be_obeyed_is_named(void **state) {
    (void)state;
    assert_refused("-y", "1", "-y 1: only the default is supported: each rank has a stream of its own\n");
    assert_refused("-d", "float128", "-d float128: not a data type of collet; -h lists them; did you mean float?\n");
    assert_refused("-o", "sumsum", "-o sumsum: not an operation of collet; -h lists them; did you mean mulsum?\n");
    assert_refused("-n", "0", "-n 0: must be 1 to 2147483647\n");
    assert_refused("-n", "9x", "-n 9x: not a whole number\n");
    assert_refused("-b", "64M", "-b 67108864: more than -e 33554432\n");
    assert_refused("--procs", "0", "--procs 0: must be 1 to 512\n");
}

/* ------------------------------------------------------------------------------------------------------- data check */

static const struct type_format *find_type(const char *name) {
    const struct type_format *type = perf_types;
    while (strcmp(type->name, name) != 0)
        type++;
    return type;
}

static const struct perf_op *find_op(const char *name) {
    const struct perf_op *op = perf_ops;
    while (strcmp(op->name, name) != 0)
        op++;
    return op;
}

static struct perf_pattern pattern_for(const char *type, int op, int nranks) {
    return pattern_make(find_type(type), op, nranks, 5);
}

static uint64_t bits_of(const char *type, double value) {
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    struct perf_pattern pattern = pattern_for(type, COLLET_SUM, 1);
    return pattern_real_bits(&pattern, (struct pattern_real){value < 0, (uint64_t)ldexp(fraction, 53), exponent - 53});
}

static void reals_are_rounded_to_nearest_even(void **state) {
    (void)state;
    assert_int_equal(bits_of("half", 1), 0x3c00);
    assert_int_equal(bits_of("half", -2048), 0xe800);
    assert_int_equal(bits_of("half", 2049), 0x6800);
    assert_int_equal(bits_of("half", 2051), 0x6802);
    assert_int_equal(bits_of("half", 2047.9), 0x6800);
    assert_int_equal(bits_of("bfloat16", 257), 0x4380);
    assert_int_equal(bits_of("bfloat16", 0), 0);
    assert_int_equal(bits_of("f8e4m3", -448), 0xfe);
    assert_int_equal(bits_of("f8e4m3", 0.01), 0x05);
    assert_int_equal(bits_of("f8e4m3", 0x1p-11), 0);
    assert_int_equal(bits_of("f8e5m2", -0x1.8p-16), 0x82);
    float third = 1.0f / 3;
    uint32_t third_bits;
    memcpy(&third_bits, &third, sizeof(third_bits));
    assert_int_equal(bits_of("float", 1.0 / 3), third_bits);
    double tenth = -0.1;
    uint64_t tenth_bits;
    memcpy(&tenth_bits, &tenth, sizeof(tenth_bits));
    assert_true(bits_of("double", tenth) == tenth_bits);
}

/* A whole number of the type's fraction, as it is and divided by numbers of ranks. */
static void averages_are_rounded_once(void **state) {
    (void)state;
    static const int64_t sums[] = {0, 1, -1, 3, 1023, -12345, 16777215, INT64_C(9007199254740991)};
    static const int nranks[] = {1, 2, 3, 7, 16, 255, 1000003};
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
        for (size_t k = 0; k < sizeof(nranks) / sizeof(nranks[0]); k++) {
            struct perf_pattern pattern = pattern_for("double", COLLET_AVG, nranks[k]);
            double average = (double)sums[i] / nranks[k];
            uint64_t bits;
            memcpy(&bits, &average, sizeof(bits));
            assert_true(pattern_average(&pattern, sums[i]) == bits);
        }
}

/* However the operands are grouped, a partial sum is no larger than the sum of their magnitudes. */
static void no_partial_sum_can_be_rounded(void **state) {
    (void)state;
    for (const struct type_format *type = perf_types; type->name; type++)
        for (const int *nranks = (const int[]){1, 2, 3, 8, 255, 257, 3000, 0}; *nranks && type->fraction_bits;
             nranks++) {
            struct perf_pattern pattern = pattern_make(type, COLLET_SUM, *nranks, 5);
            bool any = false;
            for (size_t element = 0; element < 50; element++) {
                uint32_t hash = pattern_hash(&pattern, element);
                int64_t magnitudes = 0;
                for (int rank = 0; rank < *nranks; rank++) {
                    int64_t addend = pattern_difference(&pattern, hash, pattern_place(&pattern, hash, rank));
                    any = any || addend != 0;
                    magnitudes += addend < 0 ? -addend : addend;
                }
                assert_true(magnitudes <= pattern_exact_limit(type->fraction_bits));
            }
            assert_true(any);
        }
}

static void no_partial_product_leaves_the_type(void **state) {
    (void)state;
    struct perf_pattern pattern = pattern_for("half", COLLET_PROD, 9);
    for (size_t element = 0; element < 1000; element++) {
        uint32_t hash = pattern_hash(&pattern, element);
        double largest = 1, smallest = 1;
        for (int rank = 0; rank < 9; rank++) {
            struct pattern_real factor = pattern_factor(&pattern, hash, pattern_place(&pattern, hash, rank));
            double magnitude = ldexp((double)factor.mantissa, factor.exponent);
            *(magnitude > 1 ? &largest : &smallest) *= magnitude;
        }
        assert_true(largest <= 65504 && smallest >= 0x1p-14);
    }
}

static void min_and_max_get_finite_numbers_that_are_not_zero(void **state) {
    (void)state;
    struct perf_pattern pattern = pattern_for("half", COLLET_MAX, 2);
    for (size_t element = 0; element < 10000; element++) {
        uint64_t bits = pattern_input(&pattern, 1, element) & 0x7fff;
        assert_true(bits != 0 && bits < 0x7c00);
    }
}

static void only_averages_may_be_two_units_off(void **state) {
    (void)state;
    struct perf_pattern average = pattern_for("float", COLLET_AVG, 4);
    assert_true(pattern_accepts(&average, 0x40000002, 0x40000000));
    assert_true(pattern_accepts(&average, 0x3ffffffe, 0x40000000));
    assert_false(pattern_accepts(&average, 0x40000003, 0x40000000));
    assert_false(pattern_accepts(&average, 0x3ffffffd, 0x40000000));
    assert_true(pattern_accepts(&average, 0x80000001, 0x00000001));
    struct perf_pattern sum = pattern_for("float", COLLET_SUM, 4);
    assert_false(pattern_accepts(&sum, 0x40000001, 0x40000000));
}

/* What a rank puts in, as the CPU's own types add and multiply it. */
static void results_are_those_of_floats(void **state) {
    (void)state;
    static const int ops[] = {COLLET_SUM, COLLET_PROD, COLLET_AVG, COLLET_PREMULSUM};
    enum { RANKS = 5 };
    for (int k = 0; k < 4; k++) {
        struct perf_pattern pattern = pattern_for("float", ops[k], RANKS);
        for (size_t element = 0; element < 1000; element++) {
            float result = ops[k] == COLLET_PROD, input;
            for (int rank = 0; rank < RANKS; rank++) {
                uint32_t bits = (uint32_t)pattern_input(&pattern, rank, element);
                memcpy(&input, &bits, sizeof(input));
                input *= ops[k] == COLLET_PREMULSUM ? 1 + rank % 2 : 1;
                result = ops[k] == COLLET_PROD ? result * input : result + input;
            }
            result /= ops[k] == COLLET_AVG ? RANKS : 1;
            uint32_t bits;
            memcpy(&bits, &result, sizeof(bits));
            assert_int_equal(pattern_reduced(&pattern, element), bits);
        }
    }
}

/* … and of integers, which wrap. */
static void results_are_those_of_integers(void **state) {
    (void)state;
    enum { RANKS = 6 };
    for (const struct perf_op *op = perf_ops; op->name; op++) {
        struct perf_pattern pattern = pattern_for("int8", op->op, RANKS);
        for (size_t element = 0; element < 1000; element++) {
            int8_t result = 0;
            for (int rank = 0; rank < RANKS; rank++) {
                int8_t input = (int8_t)pattern_input(&pattern, rank, element);
                if (op->op == COLLET_PREMULSUM)
                    input = (int8_t)(input * (1 + rank % 2));
                if (rank == 0)
                    result = input;
                else if (op->op == COLLET_PROD)
                    result = (int8_t)(result * input);
                else if (op->op == COLLET_MIN || op->op == COLLET_MAX)
                    result = (input < result) == (op->op == COLLET_MIN) ? input : result;
                else if (op->op == COLLET_BAND || op->op == COLLET_BOR)
                    result = op->op == COLLET_BAND ? result & input : result | input;
                else
                    result = op->op == COLLET_BXOR ? result ^ input : (int8_t)(result + input);
            }
            if (op->op == COLLET_AVG)
                result /= RANKS;
            assert_int_equal(pattern_reduced(&pattern, element), (uint8_t)result);
        }
    }
}

static struct perf_origin sum_of_all(const struct perf_call *call, size_t element) {
    (void)call;
    return (struct perf_origin){PERF_ALL_RANKS, element, SIZE_MAX};
}

static void the_check_counts_every_byte_that_is_wrong(void **state) {
    (void)state;
    enum { ELEMENTS = 100 };
    const struct perf_collective collective = {.reduces = true, .origin = sum_of_all};
    struct perf_call call = {
        .collective = &collective,
        .type = find_type("int32"),
        .op = find_op("sum"),
        .shape = {.count = ELEMENTS, .input = ELEMENTS, .output = ELEMENTS},
        .rank = 1,
        .nranks = 3,
    };
    struct perf_wrong wrong[2];
    struct perf_buffers buffers;
    verify_allocate(&buffers, ELEMENTS * 4, 0, PERF_NOT_REGISTERED, NULL);
    verify_fill(&buffers, &call, 7);
    assert_true(verify_check(&buffers, &call, 7, wrong) > ELEMENTS / 2); /* nothing has been called yet */

    struct perf_pattern pattern = pattern_of(&call, 7);
    for (size_t element = 0; element < ELEMENTS; element++)
        span_store(buffers.recv, element, 4, pattern_reduced(&pattern, element));
    assert_int_equal(verify_check(&buffers, &call, 7, wrong), 0);
    assert_true(verify_check(&buffers, &call, 8, wrong) > ELEMENTS); /* other inputs, other results */

    unsigned char *const places[] = {buffers.recv,     buffers.recv + 399, buffers.send + 200,
                                     buffers.recv - 1, buffers.recv + 400, buffers.send - 256};
    static const int numbers[] = {0, 99, 50, -1, 100, -64}; /* of the elements that these are in */
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        *places[i] ^= 0x10;
        assert_int_equal(verify_check(&buffers, &call, 7, wrong), 1);
        const struct perf_wrong *found = &wrong[wrong[1].count];
        assert_true(found->count == 1 && found->nplaces == 1);
        assert_int_equal((int)found->places[0] - 64, numbers[i]);
        *places[i] ^= 0x10;
    }

    char text[256], expected[256];
    unsigned right = (unsigned)pattern_reduced(&pattern, 41);
    buffers.recv[4 * 41] ^= 0x10;
    assert_int_equal(verify_check(&buffers, &call, 7, wrong), 1);
    capture_begin(stderr);
    verify_report(&buffers, &call, 7, wrong);
    capture_end(stderr, text, sizeof(text));
    snprintf(expected, sizeof(expected), "rank 1, 100 elements: element 41 of the receive buffer is 0x%x, not 0x%x\n",
             right ^ 0x10, right);
    assert_string_equal(text, expected);
    verify_free(&buffers);
}

/* A block from each rank, of which this rank's is where it is already. */
static struct perf_origin gathered(const struct perf_call *call, size_t element) {
    size_t block = call->shape.count;
    return (struct perf_origin){(int)(element / block), element % block, block - element % block};
}

static void spans_follow_blocks_and_borders(void **state) {
    (void)state;
    const struct perf_collective collective = {.origin = gathered};
    struct perf_call call = {.collective = &collective, .type = find_type("int64"), .rank = 1, .nranks = 3};
    call.shape = (struct perf_shape){.count = 10, .input = 10, .output = 30, .in_place_input = 10};
    call.in_place = true;
    struct perf_buffers buffers;
    struct area areas[2];
    verify_allocate(&buffers, 240, 1, PERF_NOT_REGISTERED, NULL);
    describe_areas(&buffers, &call, areas);
    static const struct perf_span before[] = {{0, 42, 0, PERF_FILLER}, {42, 10, 0, 1}, {52, 42, 0, PERF_FILLER}};
    static const struct perf_span after[] = {
        {0, 32, 0, PERF_FILLER}, {32, 10, 0, 0}, {42, 10, 0, 1}, {52, 10, 0, 2}, {62, 32, 0, PERF_FILLER}};
    uint64_t at = 0;
    for (size_t i = 0; i < 3; i++, at += before[i - 1].count) {
        struct perf_span span = span_before(&call, &areas[1], at);
        assert_memory_equal(&span, &before[i], offsetof(struct perf_span, rank) + sizeof(span.rank));
    }
    at = 0;
    for (size_t i = 0; i < 5; i++, at += after[i - 1].count) {
        struct perf_span span = span_after(&call, &areas[1], at);
        assert_memory_equal(&span, &after[i], offsetof(struct perf_span, rank) + sizeof(span.rank));
    }
    assert_int_equal(areas[0].elements, 64); /* two guards */
    assert_int_equal(at, areas[1].elements);
    verify_free(&buffers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_gives_up_decimals_before_its_column),
        cmocka_unit_test(sizes_are_multiples_of_1024),
        cmocka_unit_test(a_row_lies_in_the_columns_of_nccl_tests),
        cmocka_unit_test(a_half_that_did_not_run_shows_na),
        cmocka_unit_test(a_row_ends_with_its_plan_where_one_was_asked_for),
        cmocka_unit_test(percentiles_are_of_the_nearest_rank),
        cmocka_unit_test(flags_have_the_defaults_of_nccl_tests),
        cmocka_unit_test(a_flag_that_cannot_be_obeyed_is_named),
        cmocka_unit_test(reals_are_rounded_to_nearest_even),
        cmocka_unit_test(averages_are_rounded_once),
        cmocka_unit_test(no_partial_sum_can_be_rounded),
        cmocka_unit_test(no_partial_product_leaves_the_type),
        cmocka_unit_test(min_and_max_get_finite_numbers_that_are_not_zero),
        cmocka_unit_test(only_averages_may_be_two_units_off),
        cmocka_unit_test(results_are_those_of_floats),
        cmocka_unit_test(results_are_those_of_integers),
        cmocka_unit_test(the_check_counts_every_byte_that_is_wrong),
        cmocka_unit_test(spans_follow_blocks_and_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
