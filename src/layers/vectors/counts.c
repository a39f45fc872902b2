/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/vectors/counts.h"

#include "api/overlap.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count_blocks(enum prog_layout layout, int nranks) { return layout == PROG_COUNTS ? nranks : 1; }

/* ---- reading ---- */

/* Reads the extents of a buffer with one block per rank. */
static enum collet_result read_blocks(const struct exec_request *request, int nranks, const struct counts *arguments,
                                      struct span *spans) {
    size_t next = 0, bytes;
    if (arguments->counts == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL: it has a count per rank", arguments->name);
    for (int r = 0; r < nranks; r++) {
        size_t first = arguments->displs != NULL ? arguments->displs[r] : next, count = arguments->counts[r];
        if (__builtin_add_overflow(first, count, &next) ||
            __builtin_mul_overflow(next, 4 * collet_type_size(request->type), &bytes))
            return err_set(COLLET_ERR_INVALID_ARGUMENT,
                           "%s[%d] is %zu, from element %zu on: that many %s elements do not fit into memory",
                           arguments->name, r, count, first, type_name(request->type));
        spans[r] = (struct span){first, count};
    }
    return COLLET_SUCCESS;
}

static int by_first(const void *a_, const void *b_) {
    const struct span *a = a_, *b = b_;
    return (a->first > b->first) - (a->first < b->first);
}

/* Received blocks may be in any order, but must not overlap. */
static enum collet_result check_apart(const struct counts *arguments, const struct span *spans, int nranks) {
    SCOPED_FREE struct span *sorted = NULL;
    uint64_t end = 0;
    if (arguments->displs == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&sorted, (size_t)nranks, sizeof(*sorted), "no memory for the counts of %d ranks", nranks));
    memcpy(sorted, spans, (size_t)nranks * sizeof(*sorted));
    qsort(sorted, (size_t)nranks, sizeof(*sorted), by_first);
    for (int k = 0; k < nranks; k++) {
        if (sorted[k].count > 0 && sorted[k].first < end)
            return err_set(COLLET_ERR_INVALID_ARGUMENT,
                           "%s and their displacements put two blocks over element %ju of recvbuff: they must be apart",
                           arguments->name, (uintmax_t)sorted[k].first);
        end = sorted[k].count > 0 ? sorted[k].first + sorted[k].count : end;
    }
    return COLLET_SUCCESS;
}

/* Sets the request's count and hash from counts that all ranks know. */
static void sum_up(struct exec_request *request, int nranks, const struct span *spans) {
    size_t total = 0;
    request->counts_hash = 1;
    for (int r = 0; r < nranks; r++) {
        total += spans[r].count;
        request->counts_hash = hash_mix(request->counts_hash, spans[r].count);
    }
    request->count = total / (size_t)nranks + (total % (size_t)nranks != 0);
}

static enum collet_result err_own_count(const struct counts *in, bool in_blocks, size_t in_count,
                                        const struct counts *out, size_t out_count, int rank) {
    char index[16] = "";
    if (in_blocks)
        snprintf(index, sizeof index, "[%d]", rank);
    return err_set(COLLET_ERR_INVALID_ARGUMENT,
                   "%s%s is %zu, but %s[%d] is %zu: both say how long this rank's own block is, so they must be equal",
                   in->name, index, in_count, out->name, rank, out_count);
}

enum collet_result counts_read(struct exec_request *request, int rank, int nranks, const struct counts *in,
                               const struct counts *out) {
    const struct prog_facts *facts = &prog_facts[request->collective];
    bool in_blocks = facts->in == PROG_COUNTS, out_blocks = facts->out == PROG_COUNTS;
    size_t nspans = (size_t)count_blocks(facts->in, nranks) + (size_t)count_blocks(facts->out, nranks);
    struct exec_extents *extents = malloc(sizeof(*extents) + nspans * sizeof(struct span));
    request->extents = extents;
    if (extents == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the counts of %d ranks", nranks);
    struct span *ins = extents->spans, *outs = ins + count_blocks(facts->in, nranks);
    *extents = (struct exec_extents){.of = {[STEP_IN] = ins, [STEP_OUT] = outs}};
    if (in_blocks)
        COLLET_TRY(read_blocks(request, nranks, in, ins));
    if (out_blocks) {
        COLLET_TRY(read_blocks(request, nranks, out, outs));
        COLLET_TRY(check_apart(out, outs, nranks));
    }
    if (!in_blocks)
        ins[0] = (struct span){0, *in->counts};
    if (!out_blocks)
        outs[0] = (struct span){0, ins[rank].count};
    size_t sent = ins[in_blocks ? rank : 0].count, received = outs[out_blocks ? rank : 0].count;
    if (sent != received)
        return err_own_count(in, in_blocks, sent, out, received, rank);
    if (!prog_is_pairwise(request->collective))
        sum_up(request, nranks, in_blocks ? ins : outs);
    return COLLET_SUCCESS;
}

/* ---- buffers ---- */

/* Finds the range of a buffer that its blocks use, from the first element to behind the last; it is empty if there are no elements. */
static struct overlap_range range_of(const void *buffer, const struct span *spans, int nblocks, size_t elem_bytes) {
    uint64_t first = UINT64_MAX, end = 0;
    for (int k = 0; k < nblocks; k++)
        if (spans[k].count > 0) {
            first = geometry_min(first, spans[k].first);
            end = spans[k].first + spans[k].count > end ? spans[k].first + spans[k].count : end;
        }
    first = geometry_min(first, end);
    return (struct overlap_range){(uintptr_t)buffer + first * elem_bytes, (uintptr_t)buffer + end * elem_bytes};
}

enum collet_result counts_check_buffers(const struct exec_request *request, int rank, int nranks, const void *in,
                                        const void *out) {
    const struct prog_facts *facts = &prog_facts[request->collective];
    const struct span *ins = request->extents->of[STEP_IN], *outs = request->extents->of[STEP_OUT];
    size_t elem_bytes = collet_type_size(request->type);
    struct overlap_range in_range = range_of(in, ins, count_blocks(facts->in, nranks), elem_bytes);
    struct overlap_range out_range = range_of(out, outs, count_blocks(facts->out, nranks), elem_bytes);
    bool reads = in_range.begin < in_range.end, writes = out_range.begin < out_range.end;
    if ((reads && in == NULL) || (writes && out == NULL))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, but its counts are not all 0",
                       reads && in == NULL ? "sendbuff" : "recvbuff");
    const void *all = facts->out == PROG_COUNTS ? out : in;
    const struct span *own = facts->out == PROG_COUNTS ? &outs[rank] : &ins[rank];
    uintptr_t begin = facts->out == PROG_COUNTS ? out_range.begin : in_range.begin;
    size_t own_block = (uintptr_t)all + own->first * elem_bytes - begin;
    return reads && writes ? overlap_check(request->collective, in_range, out_range, own_block) : COLLET_SUCCESS;
}
