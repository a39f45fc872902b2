/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a schedule and runs it once; import.h has the mapping.
 */
#include "layers/schedules/import.h"

#include "base/log.h"
#include "base/memory.h"
#include "layers/verifier/cast.h"
#include "topo/probe/text.h"
#include "topo/probe/xml_attrs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_MAX = 64, CHUNKS_MAX = 4096, BLOCKS_MAX = 1024, STEPS_MAX = 1 << 20, SLOTS = 2 };

/* A type of instruction: which operands it has, and where its result goes. */
struct type {
    const char *name;
    bool recv, src, dst_too, dst, send; /* dst_too: dst is an operand, too. */
};
static const struct type types[] = {
    {"s", false, true, false, false, true},     {"r", true, false, false, true, false},
    {"rcs", true, false, false, true, true},    {"rrs", true, true, false, false, true},
    {"rrc", true, true, false, true, false},    {"rrcs", true, true, false, true, true},
    {"cpy", false, true, false, true, false},   {"re", false, true, true, true, false},
    {"nop", false, false, false, false, false},
};

/* The content of a chunk: the sum of the contributions of some ranks to one block of IN. */
struct value {
    uint64_t ranks; /* Bit r: the contribution of rank r is in the sum. 0: the chunk holds nothing. */
    int block;
    bool own;      /* The chunk holds the rank's own IN, unchanged, in its place. */
    bool finished; /* All contributions are in the sum, and the sum was finished. */
};

struct step {
    const xmlNode *element;
    const struct type *type;
    int tb;
    int src, dst; /* Indices into gpu.places. */
    int count, depid, dep;
    bool left_out;
    /* The rest describes the step as a step of a program. */
    struct local_operand locals[2];
    int nlocals;
    struct local store, about;
    bool finish;
};

struct threadblock {
    const xmlNode *element;
    int send, recv, chan, gpu;
    /* Index of the first step in schedule.steps; number of steps; number of steps that have run. */
    int first, nsteps, ndone;
    int worker; /* Number of the lowest threadblock of the gpu that forms one worker with this one. */
    struct threadblock *producer;
    struct value *sent[SLOTS]; /* Messages that were not yet received. sent_count: number of chunks of each. */
    int sent_count[SLOTS];
    unsigned head, tail;
};

struct gpu {
    int nchunks[3]; /* Number of chunks of the buffers i, o and s. */
    int first, ntbs;
    /* [place]: content of a place. First come the blocks of OUT, then scratch chunks, then those chunks of IN that share no memory with
     * OUT. */
    struct value *places;
    int *order, norder; /* Numbers of the steps, in the order in which they ran. */
    int ntmp;
};

struct schedule {
    struct algorithm algorithm;
    struct cast cast; /* A cast of the algorithm without members. It says which blocks share memory in place. */
    struct arena arena;
    struct xml_attrs attrs;
    char about[96];
    char ignored[160]; /* Names of attributes that have no effect, with a space before and behind each. */
    bool in_place;     /* The buffers i and o are one buffer, as in an in-place call of the collective. */
    int nranks, nin, nout, nslices, longest;
    struct gpu gpus[GPUS_MAX];
    struct threadblock *tbs;
    struct step *steps;
    int ntbs, nsteps;
};

static const struct threadblock *tb_of(const struct schedule *s, const struct step *step) { return &s->tbs[step->tb]; }

/* Fails, and names the instruction. */
#define REFUSE(s, step, format, ...)                                                                                   \
    xml_fail(&(s)->attrs, (step)->element, "gpu %d tb %d step %d (%s): " format, tb_of(s, step)->gpu,                  \
             (step)->tb - (s)->gpus[tb_of(s, step)->gpu].first, (int)((step) - (s)->steps) - tb_of(s, step)->first,    \
             (step)->type->name, __VA_ARGS__)

static bool going(const struct schedule *s) { return s->attrs.status == COLLET_SUCCESS && !s->arena.failed; }

/* ---- reading ---- */

/* Notes the attributes of an element that have no effect here. `known` lists the attributes that have an effect, each name with a space
 * before and behind it. Attributes that only repeat what another one says are in `known` too. */
static void note_ignored(struct schedule *s, const xmlNode *element, const char *known) {
    for (const xmlAttr *a = element->properties; a != NULL; a = a->next) {
        char name[44];
        snprintf(name, sizeof name, " %.40s ", (const char *)a->name);
        const size_t used = strlen(s->ignored);
        if (strstr(known, name) == NULL && (used == 0 || strstr(s->ignored, name) == NULL))
            snprintf(s->ignored + used, sizeof s->ignored - used, "%s", used == 0 ? name : name + 1);
    }
}

static int imported_place(const struct schedule *s, int gpu, char buffer, int chunk) {
    int alias = buffer == 'i' && s->in_place ? cast_alias_of(&s->cast, gpu, chunk) : -1;
    if (buffer == 'o' || alias >= 0)
        return alias >= 0 ? alias : chunk;
    return s->nout + chunk + (buffer == 'i' ? s->gpus[gpu].nchunks[2] : 0);
}

static int read_place(struct schedule *s, const struct step *step, int gpu, const char *buffer, const char *offset) {
    const char *name = xml_value(step->element, buffer);
    const char *which = strlen(name) == 1 ? strchr("ios", name[0]) : NULL;
    int chunk = (int)xml_int(&s->attrs, step->element, offset, 0, CHUNKS_MAX, 0);
    if (which == NULL) {
        REFUSE(s, step, "%s=\"%.20s\": i, o or s is expected", buffer, name);
        return 0;
    }
    int nchunks = name[0] == 'i' ? s->nin : name[0] == 'o' ? s->nout : s->gpus[gpu].nchunks[2];
    if (chunk + step->count > nchunks)
        REFUSE(s, step, "chunks %d to %d of buffer %s, which has %d", chunk, chunk + step->count - 1, name, nchunks);
    return imported_place(s, gpu, name[0], chunk);
}

static void read_step(struct schedule *s, struct step *step, int gpu, const xmlNode *element) {
    const char *name = xml_value(element, "type");
    note_ignored(s, element, " s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep ");
    step->element = element;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (strcmp(types[k].name, name) == 0)
            step->type = &types[k];
    if (step->type == NULL) {
        xml_fail(&s->attrs, element, "type=\"%.20s\" is not understood: s r rcs rrs rrc rrcs cpy re nop are", name);
        return;
    }
    step->count = (int)xml_int(&s->attrs, element, "cnt", 0, CHUNKS_MAX, 1);
    step->depid = (int)xml_int(&s->attrs, element, "depid", -1, BLOCKS_MAX, -1);
    step->dep = (int)xml_int(&s->attrs, element, "deps", -1, STEPS_MAX, -1);
    if (step->type->src)
        step->src = read_place(s, step, gpu, "srcbuf", "srcoff");
    if (step->type->dst)
        step->dst = read_place(s, step, gpu, "dstbuf", "dstoff");
    if (step->count < 1 && (step->type->src || step->type->dst))
        REFUSE(s, step, "cnt=\"%d\" of an instruction that moves data", step->count);
    s->longest = step->count > s->longest ? step->count : s->longest;
}

static int count_elements(const xmlNode *parent, const char *name) {
    int n = 0;
    XML_FOR_EACH(child, parent)
    n += xml_is(child, name);
    return n;
}

static void read_tb(struct schedule *s, int gpu, const xmlNode *element) {
    struct threadblock *tb = &s->tbs[s->ntbs++];
    int most = s->nranks - 1;
    *tb = (struct threadblock){.element = element, .gpu = gpu, .first = s->nsteps};
    tb->worker = (int)(tb - s->tbs);
    note_ignored(s, element, " id send recv chan ");
    tb->send = (int)xml_int(&s->attrs, element, "send", -1, most, -1);
    tb->recv = (int)xml_int(&s->attrs, element, "recv", -1, most, -1);
    tb->chan = (int)xml_int(&s->attrs, element, "chan", 0, PROG_LANE_P2P - 1, 0);
    if (xml_int(&s->attrs, element, "id", 0, BLOCKS_MAX, -1) != tb->worker - s->gpus[gpu].first)
        xml_fail(&s->attrs, element, "id=\"%.20s\": threadblocks are listed by number", xml_value(element, "id"));
    tb->nsteps = count_elements(element, "step");
    XML_FOR_EACH(child, element)
    if (xml_is(child, "step") && going(s)) {
        struct step *step = &s->steps[s->nsteps++];
        step->tb = (int)(tb - s->tbs);
        read_step(s, step, gpu, child);
        if (going(s) && ((step->type->send && tb->send < 0) || (step->type->recv && tb->recv < 0)))
            REFUSE(s, step, "its threadblock has no gpu to %s",
                   step->type->send && tb->send < 0 ? "send to" : "receive from");
    }
}

static void read_gpu(struct schedule *s, int number, const xmlNode *element) {
    struct gpu *gpu = &s->gpus[number];
    if (xml_int(&s->attrs, element, "id", 0, GPUS_MAX, -1) != number)
        xml_fail(&s->attrs, element, "id=\"%.20s\": gpus are listed by number", xml_value(element, "id"));
    note_ignored(s, element, " id i_chunks o_chunks s_chunks ");
    gpu->nchunks[2] = (int)xml_int(&s->attrs, element, "s_chunks", 0, CHUNKS_MAX, 0);
    gpu->first = s->ntbs;
    gpu->places = arena_get(&s->arena, (size_t)(s->nout + s->nin + gpu->nchunks[2]), sizeof *gpu->places);
    gpu->order = arena_get(&s->arena, STEPS_MAX / GPUS_MAX, sizeof *gpu->order);
    XML_FOR_EACH(child, element)
    if (xml_is(child, "tb") && going(s))
        read_tb(s, number, child);
    gpu->ntbs = s->ntbs - gpu->first;
    for (int block = 0; block < s->nin && going(s); block++)
        gpu->places[imported_place(s, number, 'i', block)] = (struct value){1ull << number, block, true, false};
    if (s->nsteps - (gpu->ntbs > 0 ? s->tbs[gpu->first].first : s->nsteps) > STEPS_MAX / GPUS_MAX)
        xml_fail(&s->attrs, element, "has more than %d steps", STEPS_MAX / GPUS_MAX);
}

/* Reads the collective, and the number of chunks of its buffers: one per block. */
static void read_algo(struct schedule *s, const xmlNode *root) {
    const char *coll = xml_value(root, "coll");
    int collective = 0, noutputs = 0, ntbs = 0, nsteps = 0;
    for (; collective < PROG_COLLECTIVE_COUNT && strcmp(prog_facts[collective].name, coll) != 0 &&
           !(strcmp(coll, "reduce_scatter") == 0 && collective == PROG_REDUCESCATTER);)
        collective++;
    if (!xml_is(root, "algo") || collective == PROG_COLLECTIVE_COUNT || prog_facts[collective].root != PROG_NO_ROOT)
        return xml_fail(&s->attrs, root,
                        "coll=\"%.20s\": allreduce, allgather, reducescatter or alltoall of an <algo> "
                        "is expected",
                        coll);
    note_ignored(s, root, " name coll ngpus nchunksperloop inplace nchannels ");
    s->algorithm.collective = (enum prog_collective)collective;
    s->nranks = s->algorithm.nranks = (int)xml_int(&s->attrs, root, "ngpus", 1, GPUS_MAX, 0);
    int nchunks = (int)xml_int(&s->attrs, root, "nchunksperloop", 1, CHUNKS_MAX, s->nranks);
    bool per_rank = !prog_is_sliced(s->algorithm.collective) && s->nranks > 0;
    if (per_rank && nchunks % s->nranks != 0)
        return xml_fail(&s->attrs, root, "nchunksperloop=\"%d\": equally many chunks per rank, of %d, are expected",
                        nchunks, s->nranks);
    s->nslices = s->cast.nslices = per_rank ? nchunks / s->nranks : nchunks;
    XML_FOR_EACH(gpu, root) {
        noutputs += (int)xml_int(&s->attrs, gpu, "o_chunks", 0, CHUNKS_MAX, 0);
        XML_FOR_EACH(tb, gpu) {
            ntbs++;
            nsteps += count_elements(tb, "step");
        }
    }
    s->in_place = noutputs == 0 || xml_int(&s->attrs, root, "inplace", 0, 1, 0) == 1;
    if (count_elements(root, "gpu") != s->nranks || nsteps > STEPS_MAX)
        xml_fail(&s->attrs, root, "lists %d gpus with %d steps: ngpus=\"%d\", and at most %d steps are taken",
                 count_elements(root, "gpu"), nsteps, s->nranks, STEPS_MAX);
    struct prog whole = {.collective = (enum prog_collective)collective, .nranks = s->nranks, .nslices = s->nslices};
    s->nin = prog_region_blocks(&whole, STEP_IN);
    s->nout = prog_region_blocks(&whole, STEP_OUT);
    s->tbs = arena_get(&s->arena, (size_t)ntbs, sizeof *s->tbs);
    s->steps = arena_get(&s->arena, (size_t)nsteps, sizeof *s->steps);
    int number = 0;
    XML_FOR_EACH(gpu, root)
    if (going(s) && xml_is(gpu, "gpu"))
        read_gpu(s, number++, gpu);
}

/* ---- running ---- */

/* Merges the worker of threadblock a and the worker of threadblock b, with all their threadblocks, into one worker. */
static void merge(struct schedule *s, int a, int b) {
    int from = s->tbs[a].worker > s->tbs[b].worker ? s->tbs[a].worker : s->tbs[b].worker;
    int to = s->tbs[a].worker < s->tbs[b].worker ? s->tbs[a].worker : s->tbs[b].worker;
    for (int t = 0; t < s->ntbs; t++)
        s->tbs[t].worker = s->tbs[t].worker == from ? to : s->tbs[t].worker;
}

static void connect_tbs(struct schedule *s) {
    for (struct threadblock *to = s->tbs; to < s->tbs + s->ntbs; to++)
        for (struct threadblock *from = s->tbs; from < s->tbs + s->ntbs && to->recv >= 0; from++)
            if (from->gpu == to->recv && from->send == to->gpu && from->chan == to->chan && to->producer == NULL)
                to->producer = from;
}

/* If a step waits for a step of another threadblock, both threadblocks become one worker. */
static void follow_dependencies(struct schedule *s) {
    for (struct step *step = s->steps; step < s->steps + s->nsteps; step++) {
        const struct threadblock *tb = tb_of(s, step);
        const struct gpu *gpu = &s->gpus[tb->gpu];
        if (step->depid < 0)
            continue;
        if (step->depid >= gpu->ntbs || step->dep < 0 || step->dep >= s->tbs[gpu->first + step->depid].nsteps)
            REFUSE(s, step, "depid=\"%d\" deps=\"%d\": there is no such step on its gpu", step->depid, step->dep);
        else
            merge(s, step->tb, gpu->first + step->depid);
    }
}

static bool can_run(const struct schedule *s, const struct threadblock *tb) {
    const struct step *step = &s->steps[tb->first + tb->ndone];
    if (step->depid >= 0 && s->tbs[s->gpus[tb->gpu].first + step->depid].ndone <= step->dep)
        return false;
    if (step->type->recv && (tb->producer == NULL || tb->producer->head == tb->producer->tail))
        return false;
    return !step->type->send || tb->tail - tb->head < SLOTS;
}

/* Chunks of a gpu as an operand of a step: blocks of IN that no step has overwritten, or results that a step has stored. */
static struct local operand_of(struct schedule *s, const struct step *step, int place) {
    const struct value *at = &s->gpus[tb_of(s, step)->gpu].places[place];
    for (int i = 0; i < step->count; i++) {
        if (at[i].ranks == 0)
            REFUSE(s, step, "reads chunk %d of %d, which nobody has written yet", i, step->count);
        if (at[i].own != at[0].own || (at[0].own && at[i].block != at[0].block + i))
            REFUSE(s, step, "its %d chunks are partly input, partly results", step->count);
    }
    if (at[0].own)
        return IN_RUN(ROW(at[0].block, step->count));
    return place < s->nout ? OUT_RUN(ROW(place, step->count)) : TMP_RUN(ROW(place - s->nout, step->count));
}

/* Adds an operand to the step, and its contributions to the sum. */
static void add_operand(struct schedule *s, struct step *step, struct value *sum, int place) {
    const struct value *at = &s->gpus[tb_of(s, step)->gpu].places[place];
    step->locals[step->nlocals++] = (struct local_operand){step->type->recv, operand_of(s, step, place)};
    for (int i = 0; i < step->count && going(s); i++) {
        sum[i].block = at[i].block;
        sum[i].finished |= at[i].finished;
        sum[i].ranks |= at[i].ranks;
    }
}

/* The first block of a run of OUT that, in place, is in the same memory as a run of IN. −1: there is no such run. */
static int home_of(const struct schedule *s, int gpu, struct run from) {
    int first = cast_alias_of(&s->cast, gpu, from.first);
    int last = cast_alias_of(&s->cast, gpu, from.first + from.count - 1);
    return first >= 0 && last == first + from.count - 1 ? first : -1;
}

/* Does the step only copy an input to a block of OUT that, in place, is the same memory? Such a step is left out. Out of place the copy
 * may be necessary; then bring_home() puts the step back. */
static bool is_at_home(const struct schedule *s, const struct step *step, int gpu) {
    struct local from = step->locals[0].local;
    return !step->type->dst_too && !step->type->recv && !step->type->send && from.region == STEP_IN &&
           home_of(s, gpu, from.run) == step->dst;
}

static void store_result(struct schedule *s, struct step *step, const struct value *result) {
    int number = tb_of(s, step)->gpu, count = step->count;
    struct gpu *gpu = &s->gpus[number];
    step->left_out = is_at_home(s, step, number);
    memcpy(&gpu->places[step->dst], result, (size_t)count * sizeof *result);
    for (int i = 0; i < count; i++)
        gpu->places[step->dst + i].own = step->left_out;
    step->store = step->dst < s->nout ? OUT_RUN(ROW(step->dst, count)) : TMP_RUN(ROW(step->dst - s->nout, count));
    if (step->dst >= s->nout && gpu->ntmp < step->dst - s->nout + count)
        gpu->ntmp = step->dst - s->nout + count;
}

/* Marks the step as the finish, if its result has all contributions and no step before it has finished the same sum. */
static void finish_result(struct schedule *s, struct step *step, struct value *result) {
    uint64_t all = s->nranks == 64 ? ~0ull : (1ull << s->nranks) - 1;
    bool reduces = prog_facts[s->algorithm.collective].reduces;
    for (int i = 0; i < step->count; i++) {
        bool finish = reduces && result[i].ranks == all && !result[i].finished;
        if (i > 0 && finish != step->finish)
            REFUSE(s, step, "its %d chunks are partly complete sums", step->count);
        step->finish = finish;
        result[i].finished |= finish;
    }
}

/* Returns a run of blocks that are as long as the chunks of the result. Such chunks must be neighbours, or slices of equal number of
 * different blocks. */
static struct run run_of_lengths(struct schedule *s, const struct step *step, const struct value *result) {
    int first = result[0].block, n = s->nslices;
    bool row = true, same = true;
    for (int i = 0; i < step->count; i++) {
        row &= result[i].block % n == (first + i) % n;
        same &= result[i].block % n == first % n;
    }
    if (!row && !same)
        REFUSE(s, step, "its %d chunks are neither neighbours nor of one number in their blocks", step->count);
    return row ? ROW(first, step->count) : (struct run){first, step->count, n, 1};
}

static void run_step(struct schedule *s, struct threadblock *tb) {
    int number = tb->first + tb->ndone++;
    struct step *step = &s->steps[number];
    struct gpu *gpu = &s->gpus[tb->gpu];
    gpu->order[gpu->norder++] = number;
    step->left_out = !step->type->src && !step->type->dst;
    struct value *result = arena_get(&s->arena, (size_t)step->count, sizeof *result);
    if (result == NULL || step->left_out)
        return;
    if (step->type->recv) {
        unsigned slot = tb->producer->head++ % SLOTS;
        if (tb->producer->sent_count[slot] != step->count)
            return REFUSE(s, step, "receives %d chunks where %d were sent", step->count,
                          tb->producer->sent_count[slot]);
        memcpy(result, tb->producer->sent[slot], (size_t)step->count * sizeof *result);
    }
    if (step->type->src)
        add_operand(s, step, result, step->src);
    if (step->type->dst_too)
        add_operand(s, step, result, step->dst);
    if (!going(s))
        return;
    finish_result(s, step, result);
    struct run lengths = run_of_lengths(s, step, result);
    step->about = s->nin > s->nout ? IN_RUN(lengths) : OUT_RUN(lengths);
    if (step->type->dst)
        store_result(s, step, result);
    if (step->type->send) {
        tb->sent_count[tb->tail % SLOTS] = step->count;
        tb->sent[tb->tail++ % SLOTS] = result;
    }
}

static void run_all(struct schedule *s) {
    connect_tbs(s);
    follow_dependencies(s);
    for (bool moved = true; moved && going(s);) {
        moved = false;
        for (struct threadblock *tb = s->tbs; tb < s->tbs + s->ntbs && going(s); tb++)
            if (tb->ndone < tb->nsteps && can_run(s, tb)) {
                run_step(s, tb);
                moved = true;
            }
    }
    for (const struct threadblock *tb = s->tbs; tb < s->tbs + s->ntbs && going(s); tb++)
        if (tb->ndone < tb->nsteps)
            REFUSE(s, &s->steps[tb->first + tb->ndone], "never runs: it waits for a message, a slot of %d or a step",
                   SLOTS);
}

/* Does the step read chunks of this rank's own block of IN that share memory with OUT in place, and that no step has overwritten? */
static bool reads_own_block(const struct schedule *s, int number, const struct step *step) {
    struct local from = step->locals[0].local;
    int home = step->nlocals == 1 && from.region == STEP_IN ? home_of(s, number, from.run) : -1;
    for (int i = 0; i < step->count && home >= 0; i++)
        if (!s->gpus[number].places[home + i].own)
            return false;
    return home >= 0;
}

/* Lets the step store its operand to OUT, if some chunk of the operand is not stored yet. */
static void store_home(const struct schedule *s, int number, struct step *step, struct step **stores) {
    struct run from = step->locals[0].local.run;
    for (int chunk = from.first; chunk < from.first + from.count; chunk++)
        if (stores[chunk] == NULL) {
            stores[chunk] = step;
            step->store = OUT_RUN(ROW(home_of(s, number, from), from.count));
            step->left_out = false;
        }
}

/* Out of place, some step must store the rank's own block to OUT. This is the first step that reads the block and stores nothing. If
 * there is no such step, it is the copy that was left out. All steps that read the block become one worker. */
static void bring_home(struct schedule *s, int number) {
    const struct gpu *gpu = &s->gpus[number];
    struct step **stores = arena_get(&s->arena, (size_t)s->nin, sizeof(struct step *));
    if (stores == NULL || s->algorithm.collective != PROG_ALLGATHER)
        return;
    for (int copies = 0; copies < 2; copies++)
        for (int k = 0; k < gpu->norder; k++) {
            struct step *step = &s->steps[gpu->order[k]];
            if (reads_own_block(s, number, step) && (copies ? step->left_out : step->store.region == STEP_NONE))
                store_home(s, number, step, stores);
        }
    for (int k = 0; k < gpu->norder; k++) {
        const struct step *step = &s->steps[gpu->order[k]];
        struct run from = step->locals[0].local.run;
        if (reads_own_block(s, number, step) && !step->left_out)
            for (int chunk = from.first; chunk < from.first + from.count; chunk++)
                if (stores[chunk] != NULL)
                    merge(s, stores[chunk]->tb, step->tb);
    }
}

/* ---- as an algorithm ---- */

static void build_imported(struct prog *prog) {
    const struct schedule *s = prog->schedule;
    const struct gpu *gpu = &s->gpus[prog->rank];
    prog_slices(prog, s->nslices);
    prog_tmp(prog, gpu->ntmp);
    prog_longest_run(prog, s->longest);
    for (int worker = gpu->first; worker < gpu->first + gpu->ntbs; worker++) {
        bool begun = false;
        for (int k = 0; k < gpu->norder; k++) {
            const struct step *step = &s->steps[gpu->order[k]];
            const struct threadblock *tb = tb_of(s, step);
            if (tb->worker != worker || step->left_out)
                continue;
            if (!begun)
                prog_worker(prog);
            begun = true;
            prog_step(prog, .recv = {tb->recv, step->type->recv, tb->chan, NULL},
                      .local_list = {step->locals, step->nlocals}, .store = step->store, .length_of = step->about,
                      .send = {tb->send, step->type->send, tb->chan, NULL}, .finish = step->finish);
        }
    }
}

static enum collet_result read_schedule(const xmlNode *root, const char *name, struct schedule *s) {
    s->attrs.file = name;
    s->cast.algorithm = &s->algorithm;
    read_algo(s, root);
    if (going(s))
        run_all(s);
    for (int gpu = 0; gpu < s->nranks && going(s); gpu++)
        bring_home(s, gpu);
    COLLET_TRY(arena_check(&s->arena, "%.200s: no memory for its steps", name));
    COLLET_TRY(s->attrs.status);
    snprintf(s->about, sizeof s->about, "%.80s", xml_value(root, "name"));
    s->algorithm.name = "imported";
    s->algorithm.build = build_imported;
    s->algorithm.where = "as many ranks as its file";
    s->algorithm.about = s->about;
    s->algorithm.schedule = s;
    return COLLET_SUCCESS;
}

enum collet_result import_text(const char *text, size_t bytes, const char *name, struct algorithm **algorithm_p) {
    xmlDoc *document;
    struct schedule *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "%.200s: no memory to read it", name);
    enum collet_result result = xml_parse(text, bytes, name, &document);
    if (result == COLLET_SUCCESS) {
        result = read_schedule(xmlDocGetRootElement(document), name, s);
        xmlFreeDoc(document);
    }
    if (result == COLLET_SUCCESS)
        *algorithm_p = &s->algorithm;
    else
        import_destroy(&s->algorithm);
    return result;
}

enum collet_result import_file(const char *path, struct algorithm **algorithm_p) {
    SCOPED_FREE char *text = NULL;
    size_t bytes;
    COLLET_TRY(text_load("", path, COLLET_ERR_INVALID_ARGUMENT, &text, &bytes));
    return import_text(text, bytes, path, algorithm_p);
}

enum collet_result import_verify(const struct algorithm *algorithm) {
    char why[256];
    for (int in_place = 0; in_place < 2; in_place++)
        if (!prog_check(algorithm, &PROG_FLAT(algorithm->nranks), 0, SLOTS, in_place == 1, why, sizeof why))
            return err_set(COLLET_ERR_INVALID_ARGUMENT,
                           "COLLET_PROGRAM is wrong%s: %s; collet-prog --import shows more",
                           in_place == 1 ? " in place" : "", why);
    return COLLET_SUCCESS;
}

void import_warn(const struct algorithm *algorithm, const char *name) {
    const struct schedule *s = (const struct schedule *)algorithm;
    if (s->ignored[0] != '\0')
        log_always(PLAN,
                   "%s: these attributes have no effect here:%s(docs/algorithms.md, schedules of other libraries)",
                   name, s->ignored);
}

void import_destroy(struct algorithm *algorithm) {
    struct schedule *s = (struct schedule *)algorithm; /* The algorithm is the first field of a schedule. */
    if (s != NULL)
        arena_free(&s->arena);
    free(s);
}
