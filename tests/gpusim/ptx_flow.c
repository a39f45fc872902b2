/* SPDX-License-Identifier: Apache-2.0
 *
 * What is to be known of a function's flow before it runs:
 *
 *    rows       nvcc gives every value a register of its own, thousands of them. Those that are never alive together share a row,
 *               so that the rows of a warp stay in the cache
 *    joins      where lanes that went different ways at a branch come together again: the first block that all ways from there
 *               pass (its immediate post-dominator)
 *    flights    loads of which none is used before the last one was issued
 */
#include "gpusim/ptx.h"

#include <stdlib.h>
#include <string.h>

struct block {
    uint32_t first, end; /* instructions */
    uint32_t next[2], nnext;
    uint32_t order;  /* in reverse post-order from the entry */
    uint32_t behind; /* its immediate post-dominator */
};

struct flow {
    struct ptx_function *f;
    uint32_t nregisters, words; /* of a set of registers */
    struct block *blocks;
    uint32_t nblocks, *block_of; /* of an instruction */
    uint64_t *in, *out, *made, *used;
};

static void *zeroed(size_t n, size_t size) {
    void *memory = calloc(n == 0 ? 1 : n, size);
    if (memory == NULL)
        abort();
    return memory;
}

static bool ends_block(const struct ptx_insn *insn) {
    return insn->op == OP_BRANCH || insn->op == OP_EXIT || insn->op == OP_RETURN || insn->op == OP_TRAP;
}

static void find_blocks(struct flow *flow) {
    struct ptx_function *f = flow->f;
    bool *leads = zeroed(f->ncode + 1, sizeof(*leads));
    leads[0] = true;
    for (uint32_t k = 0; k < f->ncode; k++) {
        if (f->code[k].op == OP_BRANCH)
            leads[f->code[k].target] = true;
        if (ends_block(&f->code[k]))
            leads[k + 1] = true;
    }
    flow->blocks = zeroed(f->ncode + 2, sizeof(*flow->blocks));
    flow->block_of = zeroed(f->ncode + 1, sizeof(*flow->block_of));
    for (uint32_t k = 0; k < f->ncode; k++) {
        if (leads[k])
            flow->blocks[flow->nblocks++].first = k;
        flow->blocks[flow->nblocks - 1].end = k + 1;
        flow->block_of[k] = flow->nblocks - 1;
    }
    for (uint32_t b = 0; b < flow->nblocks; b++) {
        struct block *block = &flow->blocks[b];
        const struct ptx_insn *last = &f->code[block->end - 1];
        if (last->op == OP_BRANCH)
            block->next[block->nnext++] = flow->block_of[last->target];
        if ((!ends_block(last) || last->guard != PTX_NO_ROW) && b + 1 < flow->nblocks)
            block->next[block->nnext++] = b + 1;
    }
    free(leads);
}

/* ---- what is alive ---- */

static void set_put(uint64_t *set, uint32_t k) { set[k / 64] |= 1ull << k % 64; }
static bool set_has(const uint64_t *set, uint32_t k) { return set[k / 64] >> k % 64 & 1; }
static bool is_register(int32_t row) { return row >= 0 && row != PTX_NO_ROW; }

static void block_uses(struct flow *flow, uint32_t b) {
    uint64_t *made = flow->made + (size_t)b * flow->words, *used = flow->used + (size_t)b * flow->words;
    for (uint32_t k = flow->blocks[b].first; k < flow->blocks[b].end; k++) {
        const struct ptx_insn *insn = &flow->f->code[k];
        for (int s = 0; s < 5; s++)
            if (is_register(insn->src[s]) && !set_has(made, (uint32_t)insn->src[s]))
                set_put(used, (uint32_t)insn->src[s]);
        if (is_register(insn->guard) && !set_has(made, (uint32_t)insn->guard))
            set_put(used, (uint32_t)insn->guard);
        for (int d = 0; d < 4; d++)
            if (is_register(insn->dst[d]) && insn->guard == PTX_NO_ROW)
                set_put(made, (uint32_t)insn->dst[d]);
    }
}

static bool block_flows(struct flow *flow, uint32_t b) {
    size_t words = flow->words, at = b * words;
    bool changed = false;
    for (size_t w = 0; w < words; w++) {
        uint64_t out = 0;
        for (uint32_t n = 0; n < flow->blocks[b].nnext; n++)
            out |= flow->in[flow->blocks[b].next[n] * words + w];
        uint64_t in = flow->used[at + w] | (out & ~flow->made[at + w]);
        changed |= in != flow->in[at + w];
        flow->in[at + w] = in;
        flow->out[at + w] = out;
    }
    return changed;
}

static void find_alive(struct flow *flow) {
    flow->words = (flow->nregisters + 63) / 64;
    uint64_t **sets[] = {&flow->in, &flow->out, &flow->made, &flow->used};
    for (int s = 0; s < 4; s++)
        *sets[s] = zeroed((size_t)flow->nblocks * flow->words, sizeof(uint64_t));
    for (uint32_t b = 0; b < flow->nblocks; b++)
        block_uses(flow, b);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = flow->nblocks; b-- > 0;)
            changed |= block_flows(flow, b);
    }
}

/* ---- rows ---- */

struct life {
    uint32_t first, last, number;
};

static void life_extend(struct life *life, uint32_t at) {
    if (life->first > at)
        life->first = at;
    if (life->last < at || life->last == UINT32_MAX)
        life->last = at;
}

static void find_lives(const struct flow *flow, struct life *lives) {
    for (uint32_t r = 0; r < flow->nregisters; r++)
        lives[r] = (struct life){UINT32_MAX, UINT32_MAX, r};
    for (uint32_t b = 0; b < flow->nblocks; b++) {
        const struct block *block = &flow->blocks[b];
        for (uint32_t r = 0; r < flow->nregisters; r++) {
            if (set_has(flow->in + (size_t)b * flow->words, r))
                life_extend(&lives[r], block->first);
            if (set_has(flow->out + (size_t)b * flow->words, r))
                life_extend(&lives[r], block->end - 1);
        }
    }
    for (uint32_t k = 0; k < flow->f->ncode; k++) {
        const struct ptx_insn *insn = &flow->f->code[k];
        const int32_t rows[] = {insn->src[0], insn->src[1], insn->src[2], insn->src[3], insn->src[4],
                                insn->dst[0], insn->dst[1], insn->dst[2], insn->dst[3], insn->guard};
        for (int s = 0; s < 10; s++)
            if (is_register(rows[s]))
                life_extend(&lives[rows[s]], k);
    }
}

static int compare_lives(const void *a, const void *b) {
    const struct life *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : (int)x->number - (int)y->number;
}

/* In the order of their beginnings each takes a row whose last life has ended. */
static void give_rows(struct flow *flow) {
    struct life *lives = zeroed(flow->nregisters, sizeof(*lives));
    int32_t *row_of = zeroed(flow->nregisters, sizeof(*row_of));
    uint32_t *busy_until = zeroed(flow->nregisters, sizeof(*busy_until)), nrows = 0;
    find_lives(flow, lives);
    qsort(lives, flow->nregisters, sizeof(*lives), compare_lives);
    for (uint32_t k = 0; k < flow->nregisters && lives[k].first != UINT32_MAX; k++) {
        uint32_t row = 0;
        while (row < nrows && busy_until[row] >= lives[k].first)
            row++;
        nrows += row == nrows;
        busy_until[row] = lives[k].last;
        row_of[lives[k].number] = (int32_t)row;
    }
    for (uint32_t k = 0; k < flow->f->ncode; k++) {
        struct ptx_insn *insn = &flow->f->code[k];
        int32_t *rows[] = {&insn->src[0], &insn->src[1], &insn->src[2], &insn->src[3], &insn->src[4],
                           &insn->dst[0], &insn->dst[1], &insn->dst[2], &insn->dst[3], &insn->guard};
        for (int s = 0; s < 10; s++)
            if (is_register(*rows[s]))
                *rows[s] = row_of[*rows[s]];
    }
    flow->f->nrows = nrows;
    free(lives);
    free(row_of);
    free(busy_until);
}

/* ---- joins ---- */

/* Ways from block to block, forwards or backwards: those of b are to[first[b] … first[b + 1] − 1]. */
struct ways {
    uint32_t *first, *to;
};

static uint32_t next_of(const struct flow *flow, uint32_t b, uint32_t n) {
    return flow->blocks[b].nnext == 0 ? flow->nblocks : flow->blocks[b].next[n];
}

static uint32_t nnext_of(const struct flow *flow, uint32_t b) {
    return flow->blocks[b].nnext == 0 ? 1 : flow->blocks[b].nnext;
}

/* nblocks stands for the end of the function. */
static struct ways ways_of(const struct flow *flow, bool backwards) {
    struct ways ways = {zeroed(flow->nblocks + 3, sizeof(uint32_t)), zeroed(2 * flow->nblocks + 1, sizeof(uint32_t))};
    for (int fills = 0; fills < 2; fills++) {
        for (uint32_t b = 0; b < flow->nblocks; b++)
            for (uint32_t n = 0; n < nnext_of(flow, b); n++) {
                uint32_t from = backwards ? next_of(flow, b, n) : b, to = backwards ? b : next_of(flow, b, n);
                if (fills)
                    ways.to[ways.first[from + 1]++] = to;
                else
                    ways.first[from + 2]++;
            }
        for (uint32_t b = 0; b < flow->nblocks && !fills; b++)
            ways.first[b + 2] += ways.first[b + 1];
    }
    return ways;
}

/* Reverse post-order of a walk from `start`: how many blocks it comes to. */
static uint32_t walk(const struct flow *flow, const struct ways *ways, uint32_t start, uint32_t *order) {
    uint32_t all = flow->nblocks + 1, depth = 1, left = 0;
    uint32_t *stack = zeroed(all, sizeof(*stack)), *at = zeroed(all, sizeof(*at));
    bool *seen = zeroed(all, sizeof(*seen));
    seen[stack[0] = start] = true;
    while (depth > 0) {
        uint32_t b = stack[depth - 1];
        if (ways->first[b] + at[b] == ways->first[b + 1]) {
            order[left++] = b;
            depth--;
            continue;
        }
        uint32_t next = ways->to[ways->first[b] + at[b]++];
        if (!seen[next])
            seen[stack[depth++] = next] = true;
    }
    for (uint32_t k = 0; k < left / 2; k++) {
        uint32_t other = order[k];
        order[k] = order[left - 1 - k];
        order[left - 1 - k] = other;
    }
    free(stack);
    free(at);
    free(seen);
    return left;
}

static void find_order(struct flow *flow) {
    uint32_t *order = zeroed(flow->nblocks + 1, sizeof(*order));
    struct ways ways = ways_of(flow, false);
    uint32_t n = walk(flow, &ways, 0, order);
    for (uint32_t k = 0; k < n; k++)
        if (order[k] < flow->nblocks)
            flow->blocks[order[k]].order = k;
    free(ways.first);
    free(ways.to);
    free(order);
}

/* Immediate post-dominators by the method of Cooper, Harvey and Kennedy. rank: in a walk from the end backwards; what is passed
 * by all ways from a block has a lower one. */
static uint32_t meet(const struct flow *flow, const uint32_t *rank, uint32_t a, uint32_t b) {
    while (a != b) {
        while (rank[a] > rank[b])
            a = flow->blocks[a].behind;
        while (rank[b] > rank[a])
            b = flow->blocks[b].behind;
    }
    return a;
}

static void find_behind(struct flow *flow) {
    const uint32_t unknown = UINT32_MAX;
    uint32_t *order = zeroed(flow->nblocks + 1, sizeof(*order)), *rank = zeroed(flow->nblocks + 1, sizeof(*rank));
    struct ways ways = ways_of(flow, true);
    uint32_t n = walk(flow, &ways, flow->nblocks, order);
    for (uint32_t k = 0; k < n; k++)
        rank[order[k]] = k;
    for (uint32_t b = 0; b <= flow->nblocks; b++)
        flow->blocks[b].behind = unknown;
    flow->blocks[flow->nblocks].behind = flow->nblocks;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = 1; k < n; k++) {
            uint32_t b = order[k], behind = unknown;
            for (uint32_t w = 0; w < nnext_of(flow, b); w++) {
                uint32_t next = next_of(flow, b, w);
                if (flow->blocks[next].behind != unknown)
                    behind = behind == unknown ? next : meet(flow, rank, behind, next);
            }
            changed |= behind != flow->blocks[b].behind;
            flow->blocks[b].behind = behind;
        }
    }
    free(ways.first);
    free(ways.to);
    free(order);
    free(rank);
}

static void insert_joins(struct flow *flow) {
    struct ptx_function *f = flow->f;
    bool *joins = zeroed(flow->nblocks + 1, sizeof(*joins));
    for (uint32_t b = 0; b < flow->nblocks; b++)
        if (flow->blocks[b].nnext == 2 && flow->blocks[b].behind < flow->nblocks)
            joins[flow->blocks[b].behind] = true;
    struct ptx_insn *code = zeroed(f->ncode + flow->nblocks, sizeof(*code));
    uint32_t *moved = zeroed(f->ncode, sizeof(*moved)), n = 0;
    for (uint32_t k = 0; k < f->ncode; k++) {
        const struct block *block = &flow->blocks[flow->block_of[k]];
        moved[k] = n;
        if (block->first == k && joins[flow->block_of[k]])
            code[n++] =
                (struct ptx_insn){.op = OP_JOIN, .guard = PTX_NO_ROW, .target = block->order, .line = f->code[k].line};
        code[n++] = f->code[k];
    }
    for (uint32_t k = 0; k < n; k++)
        if (code[k].op == OP_BRANCH)
            code[k].target = moved[code[k].target];
    free(f->code);
    f->code = code;
    f->ncode = n;
    free(moved);
    free(joins);
}

/* ---- flights ---- */

static bool touches(const struct ptx_insn *insn, const struct ptx_insn *load) {
    for (uint32_t d = 0; d < load->words; d++)
        for (int s = 0; s < 10; s++) {
            int32_t row = s < 5 ? insn->src[s] : s < 9 ? insn->dst[s - 5] : insn->guard;
            if (row == load->dst[d] && is_register(row))
                return true;
        }
    return false;
}

static bool flies(const struct ptx_insn *insn, bool polls) {
    return (insn->op == OP_LOAD || insn->op == OP_MULTI_LOAD) &&
           (insn->space == SPACE_GLOBAL || insn->space == SPACE_GENERIC) && (!polls || insn->order != ORDER_WEAK);
}

/* All loads, or polls alone. The end of the flight that begins at instruction `first`. */
static uint32_t fly(struct ptx_insn *code, uint32_t first, uint32_t end, bool polls) {
    uint32_t at = first + 1;
    for (; at < end && code[at].op != OP_BARRIER; at++) {
        for (uint32_t load = first; load < at; load++)
            if (flies(&code[load], polls) && touches(&code[at], &code[load]))
                return at;
        if (!flies(&code[at], polls))
            continue;
        if (polls)
            code[first].flight_polls++;
        else
            code[first].flight_bytes += (uint32_t)code[at].bytes * code[at].words;
    }
    return at;
}

static void find_flights(const struct flow *flow, bool polls) {
    struct ptx_insn *code = flow->f->code;
    for (uint32_t b = 0; b < flow->nblocks; b++)
        for (uint32_t k = flow->blocks[b].first; k < flow->blocks[b].end;) {
            if (!flies(&code[k], polls)) {
                k++;
                continue;
            }
            code[k].flight_polls += polls;
            code[k].flight_bytes += polls ? 0 : (uint32_t)code[k].bytes * code[k].words;
            k = fly(code, k, flow->blocks[b].end, polls);
        }
}

bool ptx_flow(struct ptx_function *f, uint32_t nregisters) {
    struct flow flow = {.f = f, .nregisters = nregisters};
    find_blocks(&flow);
    find_alive(&flow);
    find_flights(&flow, false);
    find_flights(&flow, true);
    give_rows(&flow);
    find_order(&flow);
    find_behind(&flow);
    insert_joins(&flow);
    free(flow.blocks);
    free(flow.block_of);
    free(flow.in);
    free(flow.out);
    free(flow.made);
    free(flow.used);
    return true;
}
