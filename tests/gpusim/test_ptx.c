/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated machine on small kernels: each instruction's arithmetic against C's, lanes that part and join, barriers, what a
 * lane may touch, and the patterns of memory ordering: each shows its weak outcome under some seed, and with the fence
 * under none.
 */
#include "gpusim/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD ".version 9.0\n.target sm_75\n.address_size 64\n"
#define ENTRY HEAD ".visible .entry k(.param .u64 k_param_0)\n{\n"
#define REGISTERS                                                                                                      \
    ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .b64 %d<16>;\n.reg .f32 %f<8>;\n.reg .f64 %g<8>;\n"

static const struct gpusim_device_limits small = {
    .sms = 2,
    .sm_blocks = 8,
    .sm_threads = 1024,
    .sm_registers = 65536,
    .sm_shared_bytes = 65536,
    .max_block_threads = 1024,
};

struct run {
    struct gpusim_module *module;
    const struct gpusim_kernel *kernel;
    struct gpusim_grid *grid;
};

static struct run run_begin(const char *ptx, uint32_t device, uint32_t blocks, uint32_t lanes, void *argument) {
    struct run run = {.module = gpusim_module_load(ptx)};
    run.kernel = gpusim_kernel(run.module, "k");
    if (run.kernel == NULL)
        fail_msg("%s\n%s", gpusim_error(), ptx);
    run.grid = gpusim_grid_start(device, run.kernel, (struct gpusim_dim){blocks, 1, 1},
                                 (struct gpusim_dim){lanes, 1, 1}, 0, &argument);
    assert_non_null(run.grid);
    return run;
}

static void run_end(struct run *run) {
    gpusim_grid_free(run->grid);
    gpusim_module_unload(run->module);
}

static void run_wait(const struct run *run) {
    for (int k = 0; k < 100000 && !gpusim_grid_done(run->grid); k++)
        gpusim_run(1000);
    assert_true(gpusim_grid_done(run->grid));
}

/* Runs a kernel to its end; its fault is returned, which the caller frees, or NULL. */
static char *run_whole(const char *ptx, uint32_t blocks, uint32_t lanes, void *argument) {
    struct run run = run_begin(ptx, 0, blocks, lanes, argument);
    run_wait(&run);
    char *fault = gpusim_grid_fault(run.grid) != NULL ? strdup(gpusim_grid_fault(run.grid)) : NULL;
    run_end(&run);
    return fault;
}

static void run_well(const char *ptx, uint32_t blocks, uint32_t lanes, void *argument) {
    char *fault = run_whole(ptx, blocks, lanes, argument);
    if (fault != NULL)
        fail_msg("%s", fault);
}

/* ---- arithmetic ---- */

#define VALUES 12
static const uint64_t interesting[VALUES] = {
    0,
    1,
    2,
    7,
    31,
    0x7fffffff,
    0x80000000,
    0xffffffff,
    0x3f800000 /* 1.0f */,
    0xc0490fdb /* −π */,
    0x7fffffffffffffff,
    0x8000000000000001,
};

static float as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return value;
}
static uint64_t of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
static uint64_t of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/* X(instruction, result, operands, how many, value by a, b, c): r, h, d, f, g are registers' kinds, p a predicate. */
#define CASES(X)                                                                                                       \
    X("add.s32", "r", "r", 2, (uint32_t)(a + b))                                                                       \
    X("sub.s64", "d", "d", 2, a - b)                                                                                   \
    X("add.s16", "h", "h", 2, (uint16_t)(a + b))                                                                       \
    X("mul.lo.s32", "r", "r", 2, (uint32_t)(a * b))                                                                    \
    X("mul.lo.s16", "h", "h", 2, (uint16_t)(a * b))                                                                    \
    X("mul.wide.u32", "d", "r", 2, (uint64_t)(uint32_t)a *(uint32_t)b)                                                 \
    X("mul.wide.s32", "d", "r", 2, (uint64_t)((int64_t)(int32_t)a * (int32_t)b))                                       \
    X("mul.wide.u16", "r", "h", 2, (uint32_t)(uint16_t)a *(uint16_t)b)                                                 \
    X("mad.lo.s32", "r", "r", 3, (uint32_t)(a * b + c))                                                                \
    X("div.u32", "r", "r", 2, (uint32_t)b == 0 ? 0xffffffff : (uint32_t)a / (uint32_t)b)                               \
    X("rem.u64", "d", "d", 2, b == 0 ? a : a % b)                                                                      \
    X("min.s32", "r", "r", 2, (uint32_t)((int32_t)a < (int32_t)b ? a : b))                                             \
    X("max.u64", "d", "d", 2, a > b ? a : b)                                                                           \
    X("min.u16", "h", "h", 2, (uint16_t)a < (uint16_t)b ? (uint16_t)a : (uint16_t)b)                                   \
    X("max.s64", "d", "d", 2, (int64_t)a > (int64_t)b ? a : b)                                                         \
    X("neg.s64", "d", "d", 1, 0 - a)                                                                                   \
    X("and.b64", "d", "d", 2, a &b)                                                                                    \
    X("or.b32", "r", "r", 2, (uint32_t)(a | b))                                                                        \
    X("xor.b16", "h", "h", 2, (uint16_t)(a ^ b))                                                                       \
    X("not.b32", "r", "r", 1, (uint32_t)~a)                                                                            \
    X("shl.b32", "r", "r", 2, (uint32_t)b > 31 ? 0 : (uint32_t)a << (b & 31))                                          \
    X("shr.u32", "r", "r", 2, (uint32_t)b > 31 ? 0 : (uint32_t)a >> (b & 31))                                          \
    X("shr.s32", "r", "r", 2, (uint32_t)((int32_t)a >> ((uint32_t)b > 31 ? 31 : b & 31)))                              \
    X("setp.lt.u32", "p", "r", 2, (uint32_t)a < (uint32_t)b)                                                           \
    X("setp.lt.s32", "p", "r", 2, (int32_t)a < (int32_t)b)                                                             \
    X("setp.ge.u64", "p", "d", 2, a >= b)                                                                              \
    X("setp.gt.s64", "p", "d", 2, (int64_t)a > (int64_t)b)                                                             \
    X("setp.ne.s16", "p", "h", 2, (uint16_t)a != (uint16_t)b)                                                          \
    X("setp.gt.f32", "p", "f", 2, as_float(a) > as_float(b))                                                           \
    X("setp.nan.f32", "p", "f", 2, as_float(a) != as_float(a) || as_float(b) != as_float(b))                           \
    X("setp.le.f64", "p", "g", 2, as_double(a) <= as_double(b))                                                        \
    X("add.rn.f32", "f", "f", 2, of_float(as_float(a) + as_float(b)))                                                  \
    X("mul.rn.f32", "f", "f", 2, of_float(as_float(a) * as_float(b)))                                                  \
    X("div.rn.f32", "f", "f", 2, of_float(as_float(a) / as_float(b)))                                                  \
    X("add.rn.f64", "g", "g", 2, of_double(as_double(a) + as_double(b)))                                               \
    X("mul.rn.f64", "g", "g", 2, of_double(as_double(a) * as_double(b)))                                               \
    X("cvt.u64.u32", "d", "r", 1, (uint32_t)a)                                                                         \
    X("cvt.s64.s32", "d", "r", 1, (uint64_t)(int64_t)(int32_t)a)                                                       \
    X("cvt.u32.u64", "r", "d", 1, (uint32_t)a)                                                                         \
    X("cvt.s32.s8", "r", "r", 1, (uint32_t)(int32_t)(int8_t)a)                                                         \
    X("cvt.s16.s8", "h", "h", 1, (uint16_t)(int16_t)(int8_t)a)                                                         \
    X("cvt.u32.u16", "r", "h", 1, (uint16_t)a)                                                                         \
    X("cvt.s32.s16", "r", "h", 1, (uint32_t)(int32_t)(int16_t)a)                                                       \
    X("cvt.rn.f32.u32", "f", "r", 1, of_float((float)(uint32_t)a))                                                     \
    X("cvt.rn.f32.s32", "f", "r", 1, of_float((float)(int32_t)a))                                                      \
    X("cvt.rn.f64.u32", "g", "r", 1, of_double((uint32_t)a))                                                           \
    X("cvt.rn.f32.f64", "f", "g", 1, of_float((float)as_double(a)))

struct instruction_case {
    const char *name, *result, *operands;
    int n;
};

#define CASE_ROW(name, result, operands, n, value) {name, result, operands, n},
static const struct instruction_case cases[] = {CASES(CASE_ROW)};

static uint64_t expected_of(size_t which, uint64_t a, uint64_t b, uint64_t c) {
    size_t k = 0;
    (void)c;
#define CASE_VALUE(name, result, operands, n, value)                                                                   \
    if (k++ == which)                                                                                                  \
        return (uint64_t)(value);
    CASES(CASE_VALUE)
    return 0;
}

/* From the 64 bits of %d<k> to a register of this kind, and back into %d10. */
static const char *to_kind(char kind) {
    return kind == 'r'   ? "cvt.u32.u64 %%r%d, %%d%d;\n"
           : kind == 'h' ? "cvt.u16.u64 %%h%d, %%d%d;\n"
           : kind == 'f' ? "{ .reg .b32 %%t; cvt.u32.u64 %%t, %%d%2$d; mov.b32 %%f%1$d, %%t; }\n"
           : kind == 'g' ? "mov.b64 %%g%d, %%d%d;\n"
                         : "mov.u64 %%d%d, %%d%d;\n";
}
static const char *from_kind(char kind) {
    return kind == 'r'   ? "cvt.u64.u32 %d10, %r7;\n"
           : kind == 'h' ? "cvt.u64.u16 %d10, %h7;\n"
           : kind == 'f' ? "{ .reg .b32 %t; mov.b32 %t, %f7; cvt.u64.u32 %d10, %t; }\n"
           : kind == 'g' ? "mov.b64 %d10, %g7;\n"
           : kind == 'p' ? "selp.u64 %d10, 1, 0, %p7;\n"
                         : "mov.u64 %d10, %d7;\n";
}

/* Lane i has (a, b, c) at in[3 i …] and leaves its result at out[i], behind them. */
static void make_case(char *text, const struct instruction_case *row) {
    char *end = text;
    end += sprintf(end, "%s%s%s", ENTRY, REGISTERS,
                   "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r8, %tid.x;\nmul.wide.u32 %d9, %r8, 24;\n"
                   "add.s64 %d9, %d8, %d9;\nld.global.u64 %d1, [%d9];\nld.global.u64 %d2, [%d9+8];\n"
                   "ld.global.u64 %d3, [%d9+16];\n");
    for (int k = 4; k < 4 + row->n; k++)
        end += sprintf(end, to_kind(*row->operands), k, k - 3);
    end += sprintf(end, "%s %%%s7", row->name, row->result);
    for (int k = 4; k < 4 + row->n; k++)
        end += sprintf(end, ", %%%s%d", row->operands, k);
    sprintf(end, ";\n%s%s", from_kind(*row->result),
            "mul.wide.u32 %d11, %r8, 8;\nadd.s64 %d11, %d8, %d11;\nst.global.u64 [%d11+24576], %d10;\nret;\n}\n");
}

#define CASE_LANES 1024u /* of the triples */

static bool is_nan(char kind, uint64_t bits) {
    return (kind == 'f' && as_float(bits) != as_float(bits)) || (kind == 'g' && as_double(bits) != as_double(bits));
}

static void instructions_compute_what_c_does(void **state) {
    (void)state;
    static uint64_t memory[4 * CASE_LANES];
    char text[4096];
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        gpusim_reset(1, &small, k);
        gpusim_range_add(memory, sizeof(memory), GPUSIM_DEVICE_MEMORY, 0);
        for (uint32_t lane = 0; lane < CASE_LANES; lane++) {
            memory[3 * lane] = interesting[lane % VALUES];
            memory[3 * lane + 1] = interesting[lane / VALUES % VALUES];
            memory[3 * lane + 2] = interesting[lane / VALUES / VALUES];
        }
        make_case(text, &cases[k]);
        run_well(text, 1, CASE_LANES, memory);
        for (uint32_t lane = 0; lane < CASE_LANES; lane++) {
            uint64_t a = memory[3 * lane], b = memory[3 * lane + 1], c = memory[3 * lane + 2];
            uint64_t expected = expected_of(k, a, b, c), got = memory[3 * CASE_LANES + lane];
            if (got != expected && !(is_nan(*cases[k].result, got) && is_nan(*cases[k].result, expected)))
                fail_msg("%s of %llx, %llx, %llx: %llx, expected %llx", cases[k].name, (unsigned long long)a,
                         (unsigned long long)b, (unsigned long long)c, (unsigned long long)got,
                         (unsigned long long)expected);
        }
    }
}

static void vectors_are_packed_and_bits_inserted(void **state) {
    (void)state;
    static uint64_t memory[8] __attribute__((aligned(16)));
    memory[0] = 0x1122334455667788;
    gpusim_reset(1, &small, 1);
    gpusim_range_add(memory, sizeof(memory), GPUSIM_DEVICE_MEMORY, 0);
    run_well(ENTRY REGISTERS "ld.param.u64 %d8, [k_param_0];\nld.global.u64 %d1, [%d8];\n"
                             "mov.b64 {%r1, %r2}, %d1;\nmov.b64 %d2, {%r2, %r1};\nst.global.u64 [%d8+8], %d2;\n"
                             "mov.b32 {%h1, %h2}, %r1;\nst.global.u16 [%d8+16], %h2;\n"
                             "bfi.b64 %d3, %d1, %d1, 32, 32;\nst.global.u64 [%d8+24], %d3;\n"
                             "prmt.b32 %r3, %r1, %r2, 29170;\nst.global.u32 [%d8+32], %r3;\n"
                             "ld.global.v2.u32 {%r4, %r5}, [%d8];\nst.global.v2.u32 [%d8+48], {%r5, %r4};\nret;\n}\n",
             1, 1, memory);
    assert_int_equal(memory[1], 0x5566778811223344);
    assert_int_equal((uint16_t)memory[2], 0x5566);
    assert_int_equal(memory[3], 0x5566778855667788);
    assert_int_equal((uint32_t)memory[4], 0x11770066); /* bytes 2, the sign of 7, 1, 7 of %r2:%r1 */
    assert_int_equal(memory[6], 0x5566778811223344);
}

/* ---- lanes that part ---- */

/* A loop of as many turns as the lane's number, a function call in it, and a sum at the end. */
static const char loops[] = HEAD
    ".func (.param .b32 r0) twice(.param .b32 p0)\n{\n.reg .b32 %r<4>;\nld.param.u32 %r1, [p0];\nadd.s32 %r2, %r1, %r1;\n"
    "st.param.b32 [r0+0], %r2;\nret;\n}\n"
    ".visible .entry k(.param .u64 k_param_0)\n{\n" REGISTERS
    "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\n"
    "setp.eq.s32 %p1, %r1, 0;\n@%p1 bra $L2;\n"
    "$L1:\n{\n.param .b32 a;\nst.param.b32 [a+0], %r2;\n.param .b32 r;\ncall.uni (r), twice, (a);\nld.param.b32 %r4, [r+0];\n}\n"
    "add.s32 %r3, %r3, %r4;\nadd.s32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, %r1;\n@%p2 bra $L1;\n"
    "$L2:\nmul.wide.u32 %d1, %r1, 4;\nadd.s64 %d2, %d8, %d1;\nst.global.u32 [%d2], %r3;\nret;\n}\n";

static void lanes_loop_as_long_as_each_must(void **state) {
    (void)state;
    static uint32_t sums[96];
    for (uint64_t seed = 0; seed < 20; seed++) {
        gpusim_reset(1, &small, seed);
        memset(sums, 0, sizeof(sums));
        gpusim_range_add(sums, sizeof(sums), GPUSIM_DEVICE_MEMORY, 0);
        run_well(loops, 1, 96, sums);
        for (uint32_t lane = 0; lane < 96; lane++)
            assert_int_equal(sums[lane], lane == 0 ? 0 : lane * (lane - 1));
    }
}

/* Lane 0 waits for a word that lane 1 of its warp writes behind the branch: no lane may starve another. */
static void a_lane_that_spins_lets_its_neighbours_go_on(void **state) {
    (void)state;
    static uint32_t words[2];
    gpusim_reset(1, &small, 3);
    words[0] = words[1] = 0;
    gpusim_range_add(words, sizeof(words), GPUSIM_DEVICE_MEMORY, 0);
    run_well(ENTRY REGISTERS
             "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r1, %tid.x;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra $L2;\n"
             "$L1:\nld.relaxed.sys.global.u32 %r2, [%d8];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra $L1;\n"
             "bra.uni $L3;\n"
             "$L2:\nst.relaxed.sys.global.u32 [%d8], 1;\n$L3:\nret;\n}\n",
             1, 2, words);
    assert_int_equal(words[0], 1);
}

/* ---- barriers ---- */

/* Each lane stores its number in shared memory, and behind a barrier takes its neighbour's. */
#define NEIGHBOURS(barrier)                                                                                            \
    ENTRY ".shared .align 4 .b8 box[512];\n" REGISTERS                                                                 \
          "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, box;\nshl.b32 %r3, %r1, 2;\n"            \
          "add.s32 %r4, %r2, %r3;\nst.shared.u32 [%r4], %r1;\n" barrier "xor.b32 %r5, %r3, 256;\n"                     \
          "add.s32 %r6, %r2, %r5;\nld.shared.u32 %r7, [%r6];\ncvt.u64.u32 %d1, %r3;\nadd.s64 %d2, %d8, %d1;\n"         \
          "st.global.u32 [%d2], %r7;\nret;\n}\n"

static uint32_t neighbours_wrong(const char *text, uint64_t seed) {
    static uint32_t got[128];
    uint32_t wrong = 0;
    gpusim_reset(1, &small, seed);
    gpusim_range_add(got, sizeof(got), GPUSIM_DEVICE_MEMORY, 0);
    run_well(text, 1, 128, got);
    for (uint32_t lane = 0; lane < 128; lane++)
        wrong += got[lane] != (lane ^ 64);
    return wrong;
}

static void a_barrier_lets_lanes_see_each_other(void **state) {
    (void)state;
    uint32_t without = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(neighbours_wrong(NEIGHBOURS("bar.sync 0;\n"), seed), 0);
        without += neighbours_wrong(NEIGHBOURS(""), seed) > 0;
    }
    assert_true(without >= 19);
}

static void a_barrier_reduces_and_a_vote_counts(void **state) {
    (void)state;
    static uint32_t got[64];
    for (uint64_t seed = 0; seed < 20; seed++) {
        gpusim_reset(1, &small, seed);
        gpusim_range_add(got, sizeof(got), GPUSIM_DEVICE_MEMORY, 0);
        run_well(ENTRY REGISTERS
                 "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r1, %tid.x;\nsetp.eq.s32 %p1, %r1, 40;\n"
                 "bar.red.or.pred %p2, 0, %p1;\nselp.u32 %r2, 1, 0, %p2;\n"
                 "and.b32 %r9, %r1, 24;\nmov.u32 %r8, 255;\nshl.b32 %r8, %r8, %r9;\n"
                 "vote.sync.any.pred %p3, %p1, %r8;\nselp.u32 %r3, 2, 0, %p3;\nadd.s32 %r2, %r2, %r3;\n"
                 "mul.wide.u32 %d1, %r1, 4;\nadd.s64 %d2, %d8, %d1;\nst.global.u32 [%d2], %r2;\nret;\n}\n",
                 1, 64, got);
        for (uint32_t lane = 0; lane < 64; lane++)
            assert_int_equal(got[lane], 1 + (lane / 8 == 5 ? 2 : 0));
    }
}

static void lanes_that_wait_for_each_other_are_told(void **state) {
    (void)state;
    gpusim_reset(1, &small, 1);
    char *fault = run_whole(ENTRY REGISTERS "mov.u32 %r1, %tid.x;\nbar.sync 1, 64;\nret;\n}\n", 1, 32, NULL);
    assert_non_null(fault);
    assert_non_null(strstr(fault, "wait for each other"));
    free(fault);
}

/* ---- what may be touched ---- */

static void touch(const char *instruction, void *address, const char *expected) {
    char text[1024];
    strcpy(text, ENTRY REGISTERS "ld.param.u64 %d8, [k_param_0];\n");
    strcat(strcat(text, instruction), "\nret;\n}\n");
    char *fault = run_whole(text, 1, 1, address);
    if (expected == NULL ? fault != NULL : fault == NULL || strstr(fault, expected) == NULL)
        fail_msg("%s: %s; expected %s", instruction, fault, expected);
    free(fault);
}

static void what_a_lane_may_not_touch_is_a_fault_that_says_why(void **state) {
    (void)state;
    static uint64_t own[4], peers[4], granted[4], host[4], freed[4];
    gpusim_reset(2, &small, 1);
    gpusim_range_add(own, sizeof(own), GPUSIM_DEVICE_MEMORY, 0);
    gpusim_range_add(peers, sizeof(peers), GPUSIM_DEVICE_MEMORY, 1);
    gpusim_range_add(granted, sizeof(granted), GPUSIM_GRANTED, 1);
    gpusim_range_add(host, sizeof(host), GPUSIM_HOST_MEMORY, 0);
    gpusim_range_add(freed, sizeof(freed), GPUSIM_DEVICE_MEMORY, 0);
    gpusim_range_free(freed);
    assert_int_equal((uint8_t)freed[0], 0xdb);
    touch("ld.global.u64 %d1, [%d8];", own, NULL);
    touch("ld.global.u64 %d1, [%d8];", host, NULL);
    touch("ld.global.u32 %r1, [%d8+2];", own, "not aligned");
    touch("ld.global.u64 %d1, [%d8+32];", own, "no memory");
    touch("st.global.u64 [%d8], %d1;", freed, "was freed");
    touch("ld.global.u64 %d1, [%d8];", peers, "without the right");
    touch("ld.shared.u64 %d1, [64];", NULL, "shared memory");
    gpusim_peer_access(1, 0, true); /* the other way round */
    touch("ld.global.u64 %d1, [%d8];", peers, "without the right");
    gpusim_peer_access(0, 1, true);
    touch("ld.global.u64 %d1, [%d8];", peers, NULL);
    touch("ld.global.u64 %d1, [%d8];", granted, "without the right");
    gpusim_range_grant(granted, 0, true, false);
    touch("ld.global.u64 %d1, [%d8];", granted, NULL);
    touch("st.global.u64 [%d8], %d1;", granted, "without the right");
}

/* ---- multimem ---- */

/* A team of two GPUs: its address, and 16 bytes of each. */
struct team {
    uint8_t address[64], replica[2][64];
};

static void team_begin(struct team *team) {
    gpusim_reset(2, &small, 1);
    gpusim_range_add(team->address, sizeof(team->address), GPUSIM_MULTICAST, 0);
    gpusim_range_grant(team->address, 0, true, true);
    for (uint32_t k = 0; k < 2; k++) {
        gpusim_range_add(team->replica[k], sizeof(team->replica[k]), GPUSIM_DEVICE_MEMORY, k);
        gpusim_range_bind(team->address, k, 2, team->replica[k]);
    }
}

#define FOUR(kind) "{" kind "1, " kind "2, " kind "3, " kind "4}"
/* Reduces the first 16 bytes and stores the result 16 bytes further. */
static const void *team_reduces(struct team *team, const char *how, const void *first, const void *second) {
    const char *type = strrchr(how, '.'), *values = strstr(how, "f32") == type + 1 ? FOUR("%f") : FOUR("%r");
    char text[1024], body[256];
    snprintf(body, sizeof(body),
             "multimem.ld_reduce.relaxed.sys.global.%s %s, [%%d8];\n"
             "multimem.st.relaxed.sys.global.v4%s [%%d8+16], %s;\nret;\n}\n",
             how, values, type, values);
    strcpy(text, ENTRY REGISTERS "ld.param.u64 %d8, [k_param_0];\n");
    strcat(text, body);
    team_begin(team);
    memcpy(team->replica[0], first, 16);
    memcpy(team->replica[1], second, 16);
    run_well(text, 1, 1, team->address);
    assert_memory_equal(team->replica[0] + 16, team->replica[1] + 16, 16);
    return team->replica[0] + 16;
}

static void a_multicast_address_is_that_of_all_replicas(void **state) {
    (void)state;
    static struct team team;
    static const float a[] = {1, 2, -3, 0.5f}, b[] = {10, 20, 30, 40}, sum[] = {11, 22, 27, 40.5f};
    static const uint16_t c[] = {0x3c00, 0x4000, 0xc000, 0, 0x3c00, 0, 0, 0x7c00}; /* 1, 2, −2, 0, 1, 0, 0, ∞ */
    static const uint16_t d[] = {0x4000, 0x4000, 0x4000, 0, 0, 0, 0x3c00, 0};
    static const uint16_t added[] = {0x4200, 0x4400, 0, 0, 0x3c00, 0, 0x3c00, 0x7c00};
    static const uint16_t least[] = {0x3c00, 0x4000, 0xc000, 0, 0, 0, 0, 0};
    static const uint16_t most[] = {0x4000, 0x4000, 0x4000, 0, 0x3c00, 0, 0x3c00, 0x7c00};
    static const uint16_t e[8] = {0x3f80, 0x4000}, f[8] = {0x4000, 0x4000}, brains[8] = {0x4040, 0x4080};
    assert_memory_equal(team_reduces(&team, "add.v4.f32", a, b), sum, 16);
    assert_memory_equal(team_reduces(&team, "add.acc::f32.v4.f16x2", c, d), added, 16);
    assert_memory_equal(team_reduces(&team, "min.v4.f16x2", c, d), least, 16);
    assert_memory_equal(team_reduces(&team, "max.v4.f16x2", c, d), most, 16);
    assert_memory_equal(team_reduces(&team, "add.acc::f32.v4.bf16x2", e, f), brains, 16);
}

static void what_is_no_multicast_access_is_a_fault(void **state) {
    (void)state;
    static struct team team;
    team_begin(&team);
    touch("multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%d8];", team.address, NULL);
    touch("ld.global.f32 %f1, [%d8];", team.address, "is a multicast address");
    touch("multimem.st.relaxed.sys.global.f32 [%d8], %f1;", team.replica[0], "is no multicast address");
    gpusim_range_bind(team.address, 1, 2, NULL);
    touch("multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%d8];", team.address, "GPU 1 of the team has no memory");
    gpusim_range_grant(team.address, 0, true, false);
    touch("multimem.st.relaxed.sys.global.f32 [%d8], %f1;", team.address, "without the right");
}

/* As ptxas has it. */
static void a_reduction_that_no_switch_does_is_named(void **state) {
    (void)state;
    static const char *const none[] = {"ld_reduce.relaxed.sys.global.min.f32", "ld_reduce.relaxed.sys.global.add.f64",
                                       "ld_reduce.relaxed.sys.global.min.acc::f32.f16x2",
                                       "ld_reduce.relaxed.sys.global.f32"};
    gpusim_reset(1, &small, 1);
    for (size_t k = 0; k < sizeof(none) / sizeof(*none); k++) {
        char text[512];
        strcpy(text, ENTRY REGISTERS "multimem.");
        strcat(strcat(text, none[k]), " %r1, [%d1];\nret;\n}\n");
        struct gpusim_module *module = gpusim_module_load(text);
        assert_null(gpusim_kernel(module, "k"));
        assert_non_null(strstr(gpusim_error(), none[k]));
        gpusim_module_unload(module);
    }
}

static void an_unknown_instruction_is_named(void **state) {
    (void)state;
    gpusim_reset(1, &small, 1);
    struct gpusim_module *module = gpusim_module_load(ENTRY REGISTERS "frobnicate.u32 %r1, %r2;\nret;\n}\n");
    assert_null(gpusim_kernel(module, "k"));
    assert_non_null(strstr(gpusim_error(), "frobnicate.u32"));
    gpusim_module_unload(module);
}

/* ---- order of memory ---- */

/* Two blocks, of GPUs 0 and 1: one stores data and then a flag, the other waits for the flag and takes the data, again and
 * again at the same addresses. A taker that saw an older turn's data says so. words: flag, flag back, data, wrong. */
#define TURNS "40"
#define PASSING(store_data, store_flag, load_flag, load_data)                                                          \
    ENTRY REGISTERS                                                                                                    \
        "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r1, 1;\nld.global.u64 %d9, [%d8+1024];\nsetp.eq.s64 %p1, %d9, 0;\n"  \
        "@%p1 bra $TAKER;\n"                                                                                           \
        "$STORE:\n" store_data store_flag                                                                              \
        "$BACK:\nld.acquire.sys.global.u32 %r2, [%d8+128];\nsetp.ne.s32 %p2, %r2, %r1;\n@%p2 bra $BACK;\n"             \
        "add.s32 %r1, %r1, 1;\nsetp.le.u32 %p3, %r1, " TURNS ";\n@%p3 bra $STORE;\nret;\n"                             \
        "$TAKER:\n" load_flag "setp.ne.s32 %p2, %r2, %r1;\n@%p2 bra $TAKER;\n" load_data                               \
        "setp.eq.s32 %p4, %r3, %r1;\n@%p4 bra $GOOD;\nst.global.u32 [%d8+768], %r1;\n$GOOD:\n"                         \
        "st.release.sys.global.u32 [%d8+128], %r1;\nadd.s32 %r1, %r1, 1;\nsetp.le.u32 %p3, %r1, " TURNS ";\n"          \
        "@%p3 bra $TAKER;\nret;\n}\n"
#define DATA_STORE "st.global.u32 [%d8+512], %r1;\n"
#define DATA_LOAD "ld.global.u32 %r3, [%d8+512];\n"
#define FLAG_RELEASE "st.release.sys.global.u32 [%d8], %r1;\n"
#define FLAG_RELAXED "st.relaxed.sys.global.u32 [%d8], %r1;\n"
#define FLAG_ACQUIRE "ld.acquire.sys.global.u32 %r2, [%d8];\n"
#define FLAG_WEAKLY "ld.relaxed.sys.global.u32 %r2, [%d8];\n"

/* The same data through a multicast address, which lies at 1032 and has one replica. */
#define TEAM "ld.global.u64 %d10, [%d8+1032];\n"
#define ALIAS "fence.proxy.alias;\n"
#define MULTI_STORE TEAM "mov.b32 %f1, %r1;\nmultimem.st.relaxed.sys.global.f32 [%d10], %f1;\n"
#define MULTI_LOAD TEAM "multimem.ld_reduce.relaxed.sys.global.add.f32 %f2, [%d10];\nmov.b32 %r3, %f2;\n"
#define MULTI_WEAKLY TEAM "multimem.ld_reduce.weak.global.add.f32 %f2, [%d10];\nmov.b32 %r3, %f2;\n"

/* Who finds 1 in the word at 1024 gives; it has done so before the taker begins. */
static bool passes(const char *text, uint32_t taker, uint64_t seed) {
    static uint8_t memory[1024 + 128], multicast[128];
    memset(memory, 0, sizeof(memory));
    gpusim_reset(2, &small, seed);
    gpusim_range_add(memory, sizeof(memory), GPUSIM_DEVICE_MEMORY, 0);
    gpusim_peer_access(1, 0, true);
    gpusim_range_add(multicast, sizeof(multicast), GPUSIM_MULTICAST, 0);
    gpusim_range_bind(multicast, 0, 1, memory + 512);
    gpusim_range_grant(multicast, 0, true, true);
    gpusim_range_grant(multicast, 1, true, true);
    struct run give, take;
    uint64_t role = 1, team = (uintptr_t)multicast;
    memcpy(memory + 1024, &role, 8);
    memcpy(memory + 1032, &team, 8);
    give = run_begin(text, 0, 1, 1, memory);
    for (int k = 0; k < 200; k++)
        gpusim_run(10);
    memset(memory + 1024, 0, 8);
    take = run_begin(text, taker, 1, 1, memory);
    run_wait(&give);
    run_wait(&take);
    assert_null(gpusim_grid_fault(give.grid));
    assert_null(gpusim_grid_fault(take.grid));
    run_end(&give);
    run_end(&take);
    uint32_t wrong;
    memcpy(&wrong, memory + 768, 4);
    return wrong == 0;
}

static uint32_t passes_of_20(const char *text, uint32_t taker) {
    uint32_t n = 0;
    for (uint64_t seed = 0; seed < 20; seed++)
        n += passes(text, taker, seed);
    return n;
}

static void a_message_passes_with_release_and_acquire(void **state) {
    (void)state;
    assert_int_equal(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_ACQUIRE, DATA_LOAD), 1), 20);
    assert_int_equal(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_ACQUIRE, DATA_LOAD), 0), 20);
    assert_int_equal(passes_of_20(PASSING(DATA_STORE "fence.acq_rel.sys;\n", FLAG_RELAXED, FLAG_ACQUIRE, DATA_LOAD), 1),
                     20);
    assert_int_equal(
        passes_of_20(PASSING(DATA_STORE "membar.sys;\n", FLAG_RELAXED, FLAG_WEAKLY "membar.sys;\n", DATA_LOAD), 1), 20);
}

static void a_message_does_not_pass_without_a_release(void **state) {
    (void)state;
    assert_true(passes_of_20(PASSING(DATA_STORE, FLAG_RELAXED, FLAG_ACQUIRE, DATA_LOAD), 1) <= 1);
}

static void a_message_does_not_pass_without_an_acquire(void **state) {
    (void)state;
    assert_true(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_WEAKLY, DATA_LOAD), 1) <= 1);
}

static void a_fence_for_the_gpu_is_none_for_another_gpu(void **state) {
    (void)state;
    const char *text = PASSING(DATA_STORE "membar.gl;\n", FLAG_RELAXED, FLAG_ACQUIRE, DATA_LOAD);
    assert_int_equal(passes_of_20(text, 0), 20);
    assert_true(passes_of_20(text, 1) <= 1);
}

static void strong_data_needs_a_release_all_the_same(void **state) {
    (void)state;
    assert_true(
        passes_of_20(PASSING("st.relaxed.sys.global.u32 [%d8+512], %r1;\n", FLAG_RELAXED, FLAG_ACQUIRE, DATA_LOAD),
                     1) <= 1);
}

static void data_of_a_multicast_address_needs_a_fence_of_its_own_a_release_and_weak_data_an_acquire(void **state) {
    (void)state;
    assert_int_equal(passes_of_20(PASSING(MULTI_STORE ALIAS, FLAG_RELEASE, FLAG_ACQUIRE, DATA_LOAD), 1), 20);
    assert_int_equal(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_ACQUIRE, ALIAS MULTI_LOAD), 1), 20);
    assert_int_equal(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_ACQUIRE, ALIAS MULTI_WEAKLY), 1), 20);
    assert_true(passes_of_20(PASSING(MULTI_STORE, FLAG_RELEASE, FLAG_ACQUIRE, DATA_LOAD), 1) <= 1);
    assert_true(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_ACQUIRE, MULTI_LOAD), 1) <= 1);
    assert_true(passes_of_20(PASSING(MULTI_STORE ALIAS, FLAG_RELAXED, FLAG_ACQUIRE, DATA_LOAD), 1) <= 1);
    assert_true(passes_of_20(PASSING(DATA_STORE, FLAG_RELEASE, FLAG_WEAKLY, ALIAS MULTI_WEAKLY), 1) <= 1);
}

static void a_run_is_replayed_by_its_seed(void **state) {
    (void)state;
    struct gpusim_counts first, second, other;
    const char *text = PASSING(DATA_STORE, FLAG_RELAXED, FLAG_WEAKLY, DATA_LOAD);
    bool passed = passes(text, 1, 5);
    gpusim_counts(1, &first);
    assert_int_equal(passes(text, 1, 5), passed);
    gpusim_counts(1, &second);
    assert_memory_equal(&first, &second, sizeof(first));
    passes(text, 1, 6);
    gpusim_counts(1, &other);
    assert_memory_not_equal(&first, &other, sizeof(first));
}

/* ---- what need not stay together ---- */

/* All lanes go round a loop; the least that any of them saw of its warp is stored. */
#define LOOKING(sync)                                                                                                  \
    ENTRY REGISTERS                                                                                                    \
        "ld.param.u64 %d8, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\nmov.u32 %r3, 4294967295;\n"            \
        "$LOOP:\n" sync "activemask.b32 %r4;\nand.b32 %r3, %r3, %r4;\nadd.s32 %r2, %r2, 1;\n"                          \
        "setp.lt.u32 %p1, %r2, 600;\n@%p1 bra $LOOP;\n"                                                                \
        "mul.wide.u32 %d1, %r1, 4;\nadd.s64 %d2, %d8, %d1;\nst.global.u32 [%d2], %r3;\nret;\n}\n"

static uint32_t seeds_that_split(const char *text) {
    static uint32_t got[32];
    uint32_t seeds = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        bool splits = false;
        gpusim_reset(1, &small, seed);
        gpusim_range_add(got, sizeof(got), GPUSIM_DEVICE_MEMORY, 0);
        run_well(text, 1, 32, got);
        for (uint32_t lane = 0; lane < 32; lane++)
            splits |= got[lane] != UINT32_MAX;
        seeds += splits;
    }
    return seeds;
}

static void a_warp_splits_where_all_go_the_same_way(void **state) {
    (void)state;
    assert_true(seeds_that_split(LOOKING("")) >= 19);
    assert_int_equal(seeds_that_split(LOOKING("bar.warp.sync 4294967295;\n")), 0);
}

/* Each lane of GPU 0 stores two equal words of 8 bytes by one instruction, again and again; those of GPU 1 load them so. */
#define PAIRS                                                                                                          \
    ENTRY REGISTERS                                                                                                    \
        "ld.param.u64 %d8, [k_param_0];\nld.global.u64 %d9, [%d8+1024];\nmov.u32 %r1, %tid.x;\n"                       \
        "mul.wide.u32 %d1, %r1, 16;\nadd.s64 %d2, %d8, %d1;\nmov.u64 %d3, 1;\nsetp.eq.s64 %p1, %d9, 0;\n"              \
        "@%p1 bra $TAKER;\n"                                                                                           \
        "$STORE:\nbar.warp.sync 255;\nst.relaxed.sys.global.v2.u64 [%d2], {%d3, %d3};\n"                               \
        "add.s64 %d3, %d3, 1;\nsetp.lt.u64 %p2, %d3, 500;\n@%p2 bra $STORE;\nret;\n"                                   \
        "$TAKER:\nbar.warp.sync 255;\nld.relaxed.sys.global.v2.u64 {%d4, %d5}, [%d2];\nsetp.eq.s64 %p3, %d4, %d5;\n"   \
        "@%p3 bra $GOOD;\nst.global.u32 [%d8+768], %r1;\n$GOOD:\n"                                                     \
        "add.s64 %d3, %d3, 1;\nsetp.lt.u64 %p2, %d3, 500;\n@%p2 bra $TAKER;\nret;\n}\n"

static uint32_t seeds_that_tear(uint32_t lanes) {
    static _Alignas(128) uint8_t memory[1024 + 128];
    uint32_t seeds = 0, torn;
    for (uint64_t seed = 0, role = 1; seed < 20; seed++) {
        char text[2048];
        snprintf(text, sizeof(text), "%s", PAIRS);
        for (char *mask; (mask = strstr(text, "sync 255")) != NULL && lanes < 8;)
            memcpy(mask, "sync 001", 8);
        memset(memory, 0, sizeof(memory));
        memset(memory + 768, 0xff, 4);
        gpusim_reset(2, &small, seed);
        gpusim_range_add(memory, sizeof(memory), GPUSIM_DEVICE_MEMORY, 0);
        gpusim_peer_access(1, 0, true);
        memcpy(memory + 1024, &role, 8);
        struct run store = run_begin(text, 0, 1, lanes, memory);
        gpusim_run(100);
        memset(memory + 1024, 0, 8);
        struct run load = run_begin(text, 1, 1, lanes, memory);
        run_wait(&store);
        run_wait(&load);
        run_end(&store);
        run_end(&load);
        memcpy(&torn, memory + 768, 4);
        seeds += torn != UINT32_MAX;
    }
    return seeds;
}

static void sixteen_bytes_may_be_torn_and_a_line_of_eight_lanes_is_whole(void **state) {
    (void)state;
    assert_true(seeds_that_tear(1) >= 19);
    assert_int_equal(seeds_that_tear(8), 0);
}

static void fences_are_counted_by_scope(void **state) {
    (void)state;
    struct gpusim_counts counts;
    gpusim_reset(1, &small, 1);
    gpusim_counts_clear();
    run_well(ENTRY REGISTERS "membar.sys;\nmembar.gl;\nfence.acq_rel.gpu;\nmembar.cta;\nret;\n}\n", 2, 32, NULL);
    gpusim_counts(0, &counts);
    assert_int_equal(counts.fences[0], 64);
    assert_int_equal(counts.fences[1], 128);
    assert_int_equal(counts.fences[2], 64);
}

/* ---- where blocks go ---- */

static void blocks_wait_for_room(void **state) {
    (void)state;
    const struct gpusim_device_limits tiny = {.sms = 1,
                                              .sm_blocks = 2,
                                              .sm_threads = 64,
                                              .sm_registers = 65536,
                                              .sm_shared_bytes = 1024,
                                              .max_block_threads = 64};
    gpusim_reset(1, &tiny, 1);
    static uint32_t count;
    count = 0;
    gpusim_range_add(&count, sizeof(count), GPUSIM_DEVICE_MEMORY, 0);
    const char *text = ENTRY REGISTERS "ld.param.u64 %d8, [k_param_0];\natom.global.add.u32 %r1, [%d8], 1;\nret;\n}\n";
    run_well(text, 10, 32, &count);
    assert_int_equal(count, 320);
    struct gpusim_module *module = gpusim_module_load(text);
    const struct gpusim_kernel *kernel = gpusim_kernel(module, "k");
    assert_int_equal(gpusim_kernel_blocks_per_sm(kernel, 32, 0), 2);
    assert_int_equal(gpusim_kernel_blocks_per_sm(kernel, 64, 0), 1);
    assert_int_equal(gpusim_kernel_blocks_per_sm(kernel, 32, 600), 1);
    assert_int_equal(gpusim_kernel_blocks_per_sm(kernel, 96, 0), 0);
    gpusim_module_unload(module);
}

/* 65536 registers are room for 9 blocks of 64 lanes with 97 registers, which take 104 each. */
static void registers_as_ptxas_says_them_limit_how_many_blocks_have_room(void **state) {
    (void)state;
    char path[] = "/tmp/collet-registers-XXXXXX", lines[] = "another 8\nk 97\n";
    struct gpusim_module *module = gpusim_module_load(ENTRY REGISTERS "ret;\n}\n");
    const struct gpusim_kernel *kernel = gpusim_kernel(module, "k");
    struct gpusim_kernel_info info;
    int fd = mkstemp(path);
    gpusim_reset(1, NULL, 1);
    assert_int_equal(write(fd, lines, strlen(lines)), strlen(lines));
    close(fd);
    gpusim_module_registers(module, NULL);
    gpusim_kernel_info(kernel, &info);
    assert_int_equal(info.registers, 64); /* the largest block fits */
    gpusim_module_registers(module, path);
    gpusim_kernel_info(kernel, &info);
    assert_int_equal(info.registers, 104);
    assert_int_equal(gpusim_kernel_blocks_per_sm(kernel, 64, 0), 9);
    gpusim_module_unload(module);
    unlink(path);
}

/* Each kernel has a variable of its own outside functions; a kernel of the module occupies only what it, or what it calls, names. */
static void a_kernel_occupies_the_shared_memory_that_it_names(void **state) {
    (void)state;
    const char *text = ".version 8.0\n.target sm_75\n.address_size 64\n"
                       ".shared .align 8 .b8 mine[600];\n.shared .align 8 .b8 another[900];\n"
                       ".func f ()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 1;\nst.shared.u32 [mine], %r1;\nret;\n}\n"
                       ".visible .entry k (.param .u64 k_param_0)\n{\n{\ncall.uni f, ();\n}\nret;\n}\n"
                       ".visible .entry other (.param .u64 other_param_0)\n{\nret;\n}\n";
    gpusim_reset(1, &small, 1);
    struct gpusim_module *module = gpusim_module_load(text);
    struct gpusim_kernel_info info;
    gpusim_kernel_info(gpusim_kernel(module, "k"), &info);
    assert_int_equal(info.shared_bytes, 600);
    gpusim_kernel_info(gpusim_kernel(module, "other"), &info);
    assert_int_equal(info.shared_bytes, 0);
    gpusim_module_unload(module);
}

static void a_mutation_changes_what_is_loaded(void **state) {
    (void)state;
    static uint32_t word;
    gpusim_reset(1, &small, 1);
    gpusim_range_add(&word, sizeof(word), GPUSIM_DEVICE_MEMORY, 0);
    gpusim_mutate("[%d8], 1;", "[%d8], 2;");
    run_well(ENTRY REGISTERS "ld.param.u64 %d8, [k_param_0];\nst.global.u32 [%d8], 1;\nret;\n}\n", 1, 1, &word);
    gpusim_mutate(NULL, NULL);
    assert_int_equal(word, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_compute_what_c_does),
        cmocka_unit_test(vectors_are_packed_and_bits_inserted),
        cmocka_unit_test(lanes_loop_as_long_as_each_must),
        cmocka_unit_test(a_lane_that_spins_lets_its_neighbours_go_on),
        cmocka_unit_test(a_barrier_lets_lanes_see_each_other),
        cmocka_unit_test(a_barrier_reduces_and_a_vote_counts),
        cmocka_unit_test(lanes_that_wait_for_each_other_are_told),
        cmocka_unit_test(what_a_lane_may_not_touch_is_a_fault_that_says_why),
        cmocka_unit_test(a_multicast_address_is_that_of_all_replicas),
        cmocka_unit_test(what_is_no_multicast_access_is_a_fault),
        cmocka_unit_test(a_reduction_that_no_switch_does_is_named),
        cmocka_unit_test(an_unknown_instruction_is_named),
        cmocka_unit_test(a_message_passes_with_release_and_acquire),
        cmocka_unit_test(a_message_does_not_pass_without_a_release),
        cmocka_unit_test(a_message_does_not_pass_without_an_acquire),
        cmocka_unit_test(a_fence_for_the_gpu_is_none_for_another_gpu),
        cmocka_unit_test(strong_data_needs_a_release_all_the_same),
        cmocka_unit_test(data_of_a_multicast_address_needs_a_fence_of_its_own_a_release_and_weak_data_an_acquire),
        cmocka_unit_test(a_run_is_replayed_by_its_seed),
        cmocka_unit_test(a_warp_splits_where_all_go_the_same_way),
        cmocka_unit_test(sixteen_bytes_may_be_torn_and_a_line_of_eight_lanes_is_whole),
        cmocka_unit_test(fences_are_counted_by_scope),
        cmocka_unit_test(blocks_wait_for_room),
        cmocka_unit_test(registers_as_ptxas_says_them_limit_how_many_blocks_have_room),
        cmocka_unit_test(a_kernel_occupies_the_shared_memory_that_it_names),
        cmocka_unit_test(a_mutation_changes_what_is_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
