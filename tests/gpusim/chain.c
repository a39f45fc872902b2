/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the loads of a block make it wait, and how many instructions, if a test asks (gpusim_chains()).
 *
 * A dependent load is one whose address, or a store, branch or barrier before it, needs the value of an earlier load: so the two
 * cannot be on their way at once. What is counted is the longest chain of such loads, through all lanes: at a barrier they go on with
 * the longest. The same of instructions: those of the lane that the others wait for, from barrier to barrier.
 *
 *    ld r1 ← [a]        1st of a chain
 *    ld r2 ← [b]        1st too: on its way beside that one
 *    ld r3 ← [r1 + 8]   2nd
 *    st [c] ← r3        what comes after it waits for r3, for it may be about the same memory
 *    ld r4 ← [d]        3rd
 *
 * Of a wait only the look counts that finds what it waits for. A kernel's arguments are no loads: they lie in the constant bank.
 * The order is that of the PTX; ptxas may do better where it knows more.
 */
#include "gpusim/state.h"

#include <stdlib.h>
#include <string.h>

/* A lane's. */
struct line {
    struct chain begins; /* when its next instruction does */
    struct lane_work work;
    bool passes; /* a barrier: what comes behind it begins when the last lane has come */
    /* Before the look at `polls`: */
    uint64_t polls; /* the address that it looks at until something has come; 0: it does not wait */
    struct chain began;
    struct lane_work worked;
};

struct chains {
    struct line lines[PTX_LANES];
    struct chain *last; /* the block's: of the lanes that came to the barrier */
    uint32_t nrows;
    struct chain rows[]; /* [lane][row]: when its value is there; and behind them, as they were before that look */
};

static bool wanted;

void gpusim_chains(bool counts) { wanted = counts; }

struct chains *chains_create(const struct ptx_function *f, struct chain *last) {
    struct chains *chains;
    if (!wanted)
        return NULL;
    chains = calloc(1, sizeof(*chains) + 2 * PTX_LANES * f->all_rows * sizeof(*chains->rows));
    if (chains == NULL)
        abort();
    chains->nrows = f->all_rows;
    chains->last = last;
    return chains;
}

static struct chain longer(struct chain a, struct chain b) {
    return (struct chain){a.all > b.all ? a.all : b.all, a.far > b.far ? a.far : b.far,
                          a.instructions > b.instructions ? a.instructions : b.instructions};
}

static void work_add(struct lane_work *sum, const struct lane_work *work) {
    sum->instructions += work->instructions;
    sum->loads += work->loads;
    sum->load_bytes += work->load_bytes;
}

void chains_count(const struct block *block, struct gpusim_counts *counts) {
    struct chain longest = {0, 0, 0};
    for (uint32_t w = 0; w < block->nwarps && block->warps[w].chains != NULL; w++)
        for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
            longest = longer(longest, block->warps[w].chains->lines[lane].begins);
            work_add(&counts->lane_work, &block->warps[w].chains->lines[lane].work);
        }
    counts->chain.all += longest.all;
    counts->chain.far += longest.far;
    counts->chain.instructions += longest.instructions;
}

static bool is_row(int32_t row) { return row >= 0 && row != PTX_NO_ROW; }

static struct chain *rows_of(struct chains *chains, uint32_t lane) { return chains->rows + lane * chains->nrows; }

/* When all that the instruction reads is there. */
static struct chain begins(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn,
                           uint32_t lane) {
    const struct chain *rows = rows_of(chains, lane) + frame->row;
    struct chain at = chains->lines[lane].begins;
    for (uint32_t k = 0; k < sizeof(insn->src) / sizeof(*insn->src); k++)
        if (is_row(insn->src[k]))
            at = longer(at, rows[insn->src[k]]);
    return is_row(insn->guard) ? longer(at, rows[insn->guard]) : at;
}

static void make(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn, uint32_t lane,
                 struct chain at) {
    struct chain *rows = rows_of(chains, lane) + frame->row;
    for (uint32_t k = 0; k < sizeof(insn->dst) / sizeof(*insn->dst); k++)
        if (is_row(insn->dst[k]))
            rows[insn->dst[k]] = at;
}

static bool is_barrier(const struct ptx_insn *insn) { return insn->op == OP_BARRIER || insn->op == OP_BARRIER_REDUCE; }

/* In order: does what is behind it wait for its operands, too? */
static bool holds_up(const struct ptx_insn *insn) {
    return insn->op == OP_STORE || insn->op == OP_ATOMIC || insn->op == OP_BRANCH || insn->op == OP_EXIT ||
           is_barrier(insn);
}

static void step(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn, uint32_t lane,
                 bool executes) {
    struct line *line = &chains->lines[lane];
    if (line->passes)
        line->begins = longer(line->begins, *chains->last);
    line->passes = is_barrier(insn);
    line->begins.instructions += insn->op != OP_JOIN;
    struct chain at = begins(chains, frame, insn, lane);
    line->work.instructions += insn->op != OP_JOIN;
    if (holds_up(insn))
        line->begins = at;
    if (is_barrier(insn)) {
        *chains->last = longer(*chains->last, at);
        line->polls = 0; /* the next look at that address is for something else */
    }
    if (executes && insn->op != OP_LOAD)
        make(chains, frame, insn, lane, at);
}

void chains_step(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn, uint32_t mask,
                 uint32_t executing) {
    FOR_LANES(lane, mask)
    step(chains, frame, insn, lane, executing >> lane & 1);
}

/* Looks again at what it waits for: as if it had not looked before. */
static void look(struct chains *chains, uint32_t lane, uint64_t address) {
    struct line *line = &chains->lines[lane];
    struct chain *rows = rows_of(chains, lane), *before = rows + PTX_LANES * chains->nrows;
    if (line->polls == address) {
        line->begins = line->began;
        line->work = line->worked;
        memcpy(rows, before, chains->nrows * sizeof(*rows));
    }
    line->began = line->begins;
    line->worked = line->work;
    memcpy(before, rows, chains->nrows * sizeof(*rows));
    line->polls = address;
}

void chains_load(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn, uint32_t lane,
                 enum loaded_from from, uint64_t address) {
    if (from == FROM_MEMORY && insn->order != ORDER_WEAK && insn->flight_polls > 0)
        look(chains, lane, address);
    struct chain at = begins(chains, frame, insn, lane);
    if (from == FROM_MEMORY)
        work_add(&chains->lines[lane].work, &(struct lane_work){0, 1, (uint64_t)insn->bytes * insn->words});
    at.all += from != FROM_ARGUMENTS;
    at.far += from == FROM_MEMORY;
    make(chains, frame, insn, lane, at);
}
