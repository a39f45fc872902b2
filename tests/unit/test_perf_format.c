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

/* The programs' own sources: they are not part of any library. */
#include "../../examples/perf/device.c"
#include "../../examples/perf/format.c"
#include "../../examples/perf/options.c"
#include "../../examples/perf/pattern.c"
#include "../../examples/perf/probe.c"
#include "../../examples/perf/progress.c"
#include "../../examples/perf/stats.c"
#include "../../examples/perf/table.c"
#include "../../examples/perf/team.c"
#include "../../examples/perf/verify.c"
#include "../../src/tools/common/arguments.c"

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
    assert_refused("-G", "1", "-G 1: needs a GPU communicator\n");
    assert_refused("-d", "float128", "-d float128: not a data type of collet, or not yet; see -h\n");
    assert_refused("-o", "sumsum", "-o sumsum: not an operation of collet, or not yet; see -h\n");
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

static void reals_are_rounded_to_nearest_even(void **state) {
    (void)state;
    assert_int_equal(pattern_real_bits(find_type("half"), 1), 0x3c00);
    assert_int_equal(pattern_real_bits(find_type("half"), -2048), 0xe800);
    assert_int_equal(pattern_real_bits(find_type("half"), 2049), 0x6800);
    assert_int_equal(pattern_real_bits(find_type("half"), 2051), 0x6802);
    assert_int_equal(pattern_real_bits(find_type("half"), 2047.9), 0x6800);
    assert_int_equal(pattern_real_bits(find_type("bfloat16"), 257), 0x4380);
    assert_int_equal(pattern_real_bits(find_type("bfloat16"), 0), 0);
    assert_int_equal(pattern_real_bits(find_type("f8e4m3"), -448), 0xfe);
    assert_int_equal(pattern_real_bits(find_type("f8e4m3"), 0.01), 0x05);
    assert_int_equal(pattern_real_bits(find_type("f8e5m2"), -0x1.8p-16), 0x82);
    float third = 1.0f / 3;
    uint32_t third_bits;
    memcpy(&third_bits, &third, sizeof(third_bits));
    assert_int_equal(pattern_real_bits(find_type("float"), 1.0 / 3), third_bits);
    double tenth = -0.1;
    uint64_t tenth_bits;
    memcpy(&tenth_bits, &tenth, sizeof(tenth_bits));
    assert_true(pattern_real_bits(find_type("double"), tenth) == tenth_bits);
}

/* However the operands are grouped, a partial sum is no larger than the sum of their magnitudes. */
static void no_partial_sum_can_be_rounded(void **state) {
    (void)state;
    for (const struct type_format *type = perf_types; type->name; type++)
        for (const int *nranks = (const int[]){1, 2, 3, 8, 255, 257, 3000, 0}; *nranks && !is_integer(type); nranks++) {
            struct perf_pattern pattern = pattern_make(type, find_op("sum"), *nranks, 5);
            bool any = false;
            for (size_t element = 0; element < 50; element++) {
                double magnitudes = 0;
                for (int rank = 0; rank < *nranks; rank++) {
                    struct perf_draw draw = draw_of(&pattern, rank, element_hash(&pattern, element));
                    double addend = draw_addend(&draw);
                    any = any || addend != 0;
                    magnitudes += addend < 0 ? -addend : addend;
                }
                assert_true(magnitudes <= (double)pattern.exact_limit);
            }
            assert_true(any);
        }
}

static void no_partial_product_leaves_the_type(void **state) {
    (void)state;
    struct perf_pattern pattern = pattern_make(find_type("half"), find_op("prod"), 9, 5);
    for (size_t element = 0; element < 1000; element++) {
        double largest = 1, smallest = 1;
        for (int rank = 0; rank < 9; rank++) {
            struct perf_draw draw = draw_of(&pattern, rank, element_hash(&pattern, element));
            double factor = fabs(draw_factor(&draw));
            *(factor > 1 ? &largest : &smallest) *= factor;
        }
        assert_true(largest <= 65504 && smallest >= 0x1p-14);
    }
}

static void min_and_max_get_finite_numbers_that_are_not_zero(void **state) {
    (void)state;
    const struct type_format *half = find_type("half");
    struct perf_pattern pattern = pattern_make(half, find_op("max"), 2, 5);
    for (size_t element = 0; element < 10000; element++) {
        uint64_t bits = pattern_input(&pattern, 1, element) & 0x7fff;
        assert_true(bits != 0 && bits < 0x7c00);
    }
}

static void only_averages_may_be_two_units_off(void **state) {
    (void)state;
    struct perf_pattern average = pattern_make(find_type("float"), find_op("avg"), 4, 0);
    assert_true(pattern_accepts(&average, 0x40000002, 0x40000000));
    assert_false(pattern_accepts(&average, 0x40000003, 0x40000000));
    assert_true(pattern_accepts(&average, 0x80000001, 0x00000001));
    struct perf_pattern sum = pattern_make(find_type("float"), find_op("sum"), 4, 0);
    assert_false(pattern_accepts(&sum, 0x40000001, 0x40000000));
}

static struct perf_origin sum_of_all(const struct perf_call *call, size_t element) {
    (void)call;
    return (struct perf_origin){PERF_ALL_RANKS, element};
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
    struct perf_buffers buffers;
    verify_allocate(&buffers, ELEMENTS * 4, 0, PERF_NOT_REGISTERED, NULL);
    verify_fill(&buffers, &call, 7);
    assert_true(verify_count_wrong(&buffers, &call, 7) > ELEMENTS / 2); /* nothing has been called yet */

    struct perf_pattern pattern = pattern_of(&call, 7);
    for (size_t element = 0; element < ELEMENTS; element++)
        store_element(buffers.recv + 4 * element, 4, pattern_reduced(&pattern, element));
    assert_int_equal(verify_count_wrong(&buffers, &call, 7), 0);
    assert_true(verify_count_wrong(&buffers, &call, 8) > ELEMENTS); /* other inputs, other results */

    unsigned char *const places[] = {buffers.recv,     buffers.recv + 399, buffers.send + 200,
                                     buffers.recv - 1, buffers.recv + 400, buffers.send - 256};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        *places[i] ^= 0x10;
        assert_int_equal(verify_count_wrong(&buffers, &call, 7), 1);
        *places[i] ^= 0x10;
    }
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
        cmocka_unit_test(no_partial_sum_can_be_rounded),
        cmocka_unit_test(no_partial_product_leaves_the_type),
        cmocka_unit_test(min_and_max_get_finite_numbers_that_are_not_zero),
        cmocka_unit_test(only_averages_may_be_two_units_off),
        cmocka_unit_test(the_check_counts_every_byte_that_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
