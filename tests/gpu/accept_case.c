/* SPDX-License-Identifier: Apache-2.0
 *
 * A call, filled and checked by kernels, in memory of an arena. So a case takes a few launches and one wait: 0.3 ms, not the 50 ms
 * that copies and a reference on the host take.
 *
 *     stream of each rank:   fill IN │ fill OUT │ the call │ check OUT │ check IN
 */
#include "gpu/accept.h"
#include "gpu/accept_expect.h"
#include "gpu/accept_kernels.h"

#include <stdio.h>
#include <string.h>

#define MARGIN_BYTES 1024
#define CASE_BYTES (slow ? (size_t)1 << 20 : (size_t)24 << 20) /* of a buffer, at most */

_Static_assert(EXPECT_RANKS >= RANKS_MOST, "a region has a block for each rank");

static struct {
    char *regions[RANKS_MOST][2];
    int *wrong; /* in memory that host and GPU see: two words of each rank */
    int gpus;   /* the regions are dealt to so many */
} arena;

static size_t region_bytes(void) { return CASE_BYTES + 4 * MARGIN_BYTES; }

/* ---- the check is checked: it finds an element that is wrong, and no other one ---- */

static struct expect_region region_of_numbers(void *memory) {
    struct expect_region r = {.pattern = pattern_make(type_format(COLLET_FLOAT32), COLLET_SUM, 4, 1),
                              .memory = memory,
                              .elems = 3000,
                              .elem_bytes = 4,
                              .ninputs = 1,
                              .inputs = {{.at = 100, .count = 2000, .first = 7, .rank = 1}}};
    return r;
}

static bool is_found_wrong(const struct expect_region *r, void *stream) {
    arena.wrong[0] = 0;
    kernels->check(r, &arena.wrong[0], stream);
    side->stream_wait(stream);
    return arena.wrong[0] != 0;
}

static void spoil(const struct expect_region *r, uint64_t elem) {
    uint32_t bits;
    side->copy(&bits, (char *)r->memory + 4 * elem, sizeof(bits));
    bits ^= 1;
    side->copy((char *)r->memory + 4 * elem, &bits, sizeof(bits));
}

static void check_the_check(void) {
    static const uint64_t elems[] = {0, 99, 100, 1234, 2099, 2100, 2999};
    void *stream = side->stream();
    const struct expect_region r = region_of_numbers(arena.regions[0][0]);
    kernels->fill(&r, stream);
    judge(!is_found_wrong(&r, stream), "the check", "finds a fault in what was filled");
    for (size_t k = 0; k < sizeof(elems) / sizeof(*elems); k++) {
        spoil(&r, elems[k]);
        judge(is_found_wrong(&r, stream), "the check", "does not find an element that was changed");
        spoil(&r, elems[k]);
    }
    side->stream_free(stream);
}

/* ---- the arena ---- */

void case_prepare(void) {
    const int before = side->current();
    arena.gpus = ngpus;
    arena.wrong = side->memory(2 * RANKS_MOST * sizeof(*arena.wrong), MEMORY_PINNED);
    for (int gpu = 0; gpu < ngpus; gpu++) {
        side->use(gpu);
        kernels->load();
    }
    for (int rank = 0; rank < RANKS_MOST; rank++) {
        side->use(rank % ngpus);
        for (int k = 0; k < 2; k++)
            arena.regions[rank][k] = side->memory(region_bytes(), MEMORY_PLAIN);
    }
    side->use(0);
    check_the_check();
    side->use(before);
}

void case_finish(void) {
    for (int rank = 0; rank < RANKS_MOST; rank++)
        for (int k = 0; k < 2; k++)
            side->memory_free(arena.regions[rank][k], MEMORY_PLAIN);
    side->memory_free(arena.wrong, MEMORY_PINNED);
    arena.wrong = NULL;
}

/* Regions of a GPU for a rank of it: rank k of a team is on GPU k·gpus/nranks, region k on GPU k mod gpus. */
char *const *case_memory(const struct team *team, int rank) {
    const int gpu = team_gpu(team, rank);
    int before = 0;
    if (arena.wrong == NULL)
        return NULL;
    for (int k = 0; k < rank; k++)
        before += team_gpu(team, k) == gpu;
    return arena.regions[gpu + before * arena.gpus];
}

/* ---- a case ---- */

struct rank_case {
    struct trial trial;
    struct expect_region regions[2]; /* OUT, or what both share; IN */
    int nregions;
};

static void add_blocks(struct expect_region *r, const struct trial_buffer *buffer, uint64_t at, bool results) {
    struct expect_block *blocks = results ? r->results : r->inputs;
    for (int k = 0; k < buffer->nblocks; k++) {
        const struct trial_block *b = &buffer->blocks[k];
        blocks[k] = (struct expect_block){at + b->at, b->count, b->first, b->rank == TRIAL_ALL ? EXPECT_ALL : b->rank};
    }
    *(results ? &r->nresults : &r->ninputs) = buffer->nblocks;
}

/* A region for so many elements, which begin some elements behind a cache line. */
static struct expect_region region_of(const struct trial_call *c, void *memory, size_t elems, size_t shift) {
    const size_t bytes = collet_type_size(c->type), margin = MARGIN_BYTES / bytes;
    return (struct expect_region){
        .pattern = pattern_make(type_format(c->type), trial_reduces(c->collective) ? (int)c->op : PATTERN_MOVED,
                                c->nranks, (uint32_t)(c->seed >> 7)),
        .memory = memory,
        .elems = 2 * margin + shift + elems,
        .elem_bytes = (uint32_t)bytes,
    };
}

static void *address_in(const struct expect_region *r, size_t elem) { return (char *)r->memory + elem * r->elem_bytes; }

static void lay_together(struct rank_case *rc, char *const *memory, size_t shift) {
    struct trial *t = &rc->trial;
    struct expect_region *r = &rc->regions[0];
    const size_t elems = t->in.elems > t->out.elems ? t->in.elems : t->out.elems;
    size_t in_at, out_at, begin = MARGIN_BYTES / collet_type_size(t->call.type) + shift;
    trial_places(t, &in_at, &out_at);
    *r = region_of(&t->call, memory[0], elems, shift);
    add_blocks(r, &t->in, begin + in_at, false);
    add_blocks(r, &t->out, begin + out_at, true);
    t->sendbuff = address_in(r, begin + in_at);
    t->recvbuff = address_in(r, begin + out_at);
    rc->nregions = 1;
}

static void lay_apart(struct rank_case *rc, char *const *memory, size_t shift) {
    struct trial *t = &rc->trial;
    const size_t margin = MARGIN_BYTES / collet_type_size(t->call.type), out_shift = t->call.seed % 2 ? 0 : shift;
    rc->regions[0] = region_of(&t->call, memory[0], t->out.elems, out_shift);
    rc->regions[1] = region_of(&t->call, memory[1], t->in.elems, shift);
    add_blocks(&rc->regions[0], &t->out, margin + out_shift, true);
    add_blocks(&rc->regions[1], &t->in, margin + shift, false);
    t->recvbuff = address_in(&rc->regions[0], margin + out_shift);
    t->sendbuff = address_in(&rc->regions[1], margin + shift);
    if (t->in.nblocks == 0 && t->call.seed % 3 == 0)
        t->sendbuff = (const void *)8; /* never looked at */
    if (t->out.nblocks == 0 && t->call.seed % 3 == 1)
        t->recvbuff = NULL;
    rc->nregions = 2;
}

static uint64_t scalar_bits(const struct perf_pattern *pattern, int rank) {
    return pattern_sum_bits(pattern, pattern_scalar(rank));
}

static void prepare(struct rank_case *rc, const struct team *team, const struct trial_call *call, int rank) {
    const size_t shift = (size_t)(call->seed >> (11 + rank)) % 8;
    char *const *memory = case_memory(team, rank);
    trial_describe(&rc->trial, call, rank);
    if (call->in_place)
        lay_together(rc, memory, shift);
    else
        lay_apart(rc, memory, shift);
    rc->trial.scalar = scalar_bits(&rc->regions[0].pattern, rank);
}

static void fill(struct rank_case *rc, const struct team *team, int rank) {
    side->use(team_gpu(team, rank));
    for (int k = 0; k < rc->nregions; k++) {
        arena.wrong[2 * rank + k] = 0;
        kernels->fill(&rc->regions[k], team->streams[rank]);
    }
}

static void check(struct rank_case *rc, const struct team *team, int rank) {
    side->use(team_gpu(team, rank));
    for (int k = 0; k < rc->nregions; k++)
        kernels->check(&rc->regions[k], &arena.wrong[2 * rank + k], team->streams[rank]);
}

static bool is_right(const struct rank_case *cases, int nranks, char why[TRIAL_WHY_BYTES]) {
    for (int rank = 0; rank < nranks; rank++)
        for (int k = 0; k < cases[rank].nregions; k++)
            if (arena.wrong[2 * rank + k] != 0) {
                int n = snprintf(why, TRIAL_WHY_BYTES, "rank %d, %s: ", rank, k == 1 ? "sendbuff" : "recvbuff");
                expect_explain(&cases[rank].regions[k], why + n, TRIAL_WHY_BYTES - (size_t)n);
                return false;
            }
    return true;
}

/* All of a buffer must find room in its region. */
struct trial_call case_fitted(const struct trial_call *call) {
    struct trial_call fits = *call;
    const size_t most = CASE_BYTES / collet_type_size(call->type) / (size_t)call->nranks;
    fits.count = call->count < most ? call->count : most;
    return fits;
}

void run_case(const struct team *team, const struct trial_call *call) {
    struct rank_case cases[RANKS_MOST];
    char why[TRIAL_WHY_BYTES] = "", name[TRIAL_NAME_BYTES];
    trial_name(call, name);
    report_doing("%s", name);
    for (int rank = 0; rank < team->nranks; rank++) {
        prepare(&cases[rank], team, call, rank);
        fill(&cases[rank], team, rank);
    }
    must(collet_group_start(), "collet_group_start");
    for (int rank = 0; rank < team->nranks; rank++)
        must(trial_run_in(&cases[rank].trial, team->comms[rank], team->streams[rank]), name);
    must(collet_group_end(), name);
    for (int rank = 0; rank < team->nranks; rank++)
        check(&cases[rank], team, rank);
    team_wait(team);
    judge(is_right(cases, team->nranks, why), name, why);
}
