/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX as the machine executes it: a function is an array of decoded instructions.
 *
 *    text      setp.lt.u32 %p4, %r2250, %r5;      @%p4 bra $L__BB3_4;
 *    decoded   {op, dst row, src rows}            {bra, guard row, index of the target}
 *
 * A row is one register of 32 lanes, 64 bits each, whatever its type: narrower values are zero-extended. Rows ≥ 0 belong to the
 * warp, from its frame's first row on. Rows < 0 are constants of the function: immediate operands cost nothing extra.
 * Read next: ptx_ops.h, ptx_parse.c, ptx_flow.c, warp.c.
 */
#ifndef COLLET_GPUSIM_PTX_H
#define COLLET_GPUSIM_PTX_H

#include "gpusim/machine.h"
#include "gpusim/ptx_ops.h"

#define PTX_LANES 32u
#define PTX_NO_ROW INT32_MAX

enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM };
enum ptx_order { ORDER_WEAK, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_ACQ_REL };
enum ptx_scope { SCOPE_CTA, SCOPE_GPU, SCOPE_SYS };

/* Instructions that are more than arithmetic; those follow them, one per row of PTX_ARITHMETIC. */
enum ptx_op {
    OP_LOAD,
    OP_STORE,
    OP_ATOMIC,
    OP_MULTI_LOAD, /* multimem: of all replicas at once */
    OP_MULTI_STORE,
    OP_FENCE,
    OP_ALIAS_FENCE,
    OP_BRANCH,
    OP_JOIN, /* not in the text: here lanes that went different ways may come together again */
    OP_CALL,
    OP_RETURN,
    OP_EXIT,
    OP_TRAP,
    OP_BARRIER,
    OP_BARRIER_ARRIVE,
    OP_BARRIER_REDUCE,
    OP_WARP_SYNC,
    OP_VOTE,
    OP_SHUFFLE,
    OP_ACTIVE_MASK,
    OP_SLEEP,
    OP_SPECIAL,   /* mov of a special register */
    OP_SHARED_AT, /* address of shared memory, generic → in its window, and back */
    OP_SHARED_TO,
    OP_LOCAL_AT, /* address of a variable of the frame */
    OP_PARAM_AT, /* address of a kernel's parameter */
    OP_PACK,
    OP_UNPACK,
    OP_ARITHMETIC,
};
enum {
    PTX_BEFORE_ARITHMETIC = OP_ARITHMETIC - 1,
#define PTX_NUMBER(name, ...) ARITH_##name,
    PTX_ARITHMETIC(PTX_NUMBER) PTX_OPS
};

enum ptx_vote { VOTE_ANY, VOTE_ALL, VOTE_UNI, VOTE_BALLOT };
enum ptx_shuffle { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };
enum ptx_reduce { REDUCE_AND, REDUCE_OR, REDUCE_POPC };
enum ptx_atomic {
    ATOMIC_EXCH,
    ATOMIC_ADD,
    ATOMIC_CAS,
    ATOMIC_MIN,
    ATOMIC_MAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_INC
};
enum ptx_floats { FLOATS_ONE, FLOATS_HALVES, FLOATS_UPPERS }; /* f32; two of f16 or bf16 in 32 bits */
enum ptx_special {
    SPECIAL_TID,
    SPECIAL_NTID,
    SPECIAL_CTAID,
    SPECIAL_NCTAID,
    SPECIAL_LANE,
    SPECIAL_WARP,
    SPECIAL_SM,
    SPECIAL_TIMER,
    SPECIAL_CLOCK,
    SPECIAL_LANEMASK_LT
};

struct ptx_insn {
    uint16_t op;
    uint8_t space, order, scope; /* of memory */
    uint8_t kind;                /* enum ptx_vote, _shuffle, _reduce, _atomic, _special (its dimension is in `words`) */
    uint8_t bytes, words;        /* of a memory element, and how many */
    uint8_t floats;              /* enum ptx_floats, of multimem */
    bool is_signed;
    bool guard_not;
    int32_t guard;          /* PTX_NO_ROW: always */
    int32_t dst[4], src[5]; /* an address is src[0], and what is stored begins at src[1] */
    int64_t offset;         /* of an address */
    uint32_t target;        /* of a branch: an instruction; of a call: one of the function's calls */
    uint32_t flight_bytes;  /* a load that begins a flight: bytes of all loads before the first use of one */
    uint32_t flight_polls;  /* the same of strong loads alone: how many */
    uint32_t line;
};

struct ptx_function;
/* Where arguments are copied from and to, in the frames of caller and callee. */
struct ptx_call {
    struct ptx_function *callee;
    uint32_t nargs, from[GPUSIM_PARAMS_MAX];
    uint32_t result_to; /* where the result is in the caller's frame */
};

struct ptx_variable {
    char *name;
    enum ptx_space space;
    uint32_t at, bytes;
};

struct gpusim_kernel {
    const struct ptx_function *f;
};

struct ptx_function {
    struct gpusim_kernel kernel; /* of this function, if it is an entry */
    char *name;
    bool entry, parsed;
    const char *text; /* from the head on */
    uint32_t line;
    struct ptx_insn *code;
    uint32_t ncode;
    uint64_t *constants; /* rows */
    uint32_t nconstants;
    struct ptx_call *calls;
    uint32_t ncalls;
    uint32_t nrows, all_rows; /* of a frame; with the deepest callees */
    uint32_t nparams, param_at[GPUSIM_PARAMS_MAX], param_bytes[GPUSIM_PARAMS_MAX], params_end;
    uint32_t result_at, result_bytes; /* in the frame */
    uint32_t local_bytes, all_local_bytes;
    uint32_t shared_bytes;           /* with all variables of the module */
    uint32_t occupied_bytes;         /* with those that it, or what it calls, names: as ptxas counts it */
    uint64_t names_of_module;        /* bit k: it, or what it calls, names the module's k-th variable */
    uint32_t max_threads, registers; /* 0: not said */
};

#define GPUSIM_SHARED_MAX 64

struct gpusim_module {
    char *text;
    struct ptx_function *functions; /* a fixed array, since calls point into it */
    uint32_t nfunctions;
    const char *
        shared[GPUSIM_SHARED_MAX]; /* declarations of .shared variables outside functions: kernels and what they call */
    uint32_t nshared;
};

/* ptx_parse.c. False: gpusim_error() says what is not understood. */
bool ptx_function_parse(struct gpusim_module *module, struct ptx_function *function);
/* ptx_flow.c: gives virtual registers rows that are free, and marks where lanes join. nregisters: virtual ones. */
bool ptx_flow(struct ptx_function *function, uint32_t nregisters);

bool gpusim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
