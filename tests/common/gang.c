/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gang.h"

#include "base/config_read.h"
#include "chan/chan.h"
#include "kernels/interp.h"
#include "layers/gpu/mirror.h"
#include "layers/gpu/returns.h"
#include "plan/extent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gang_wire *wire_get(struct gang *gang, int from, int to, int channel, int lane) {
    for (int k = 0; k < gang->nwires; k++) {
        struct gang_wire *w = &gang->wires[k];
        if (w->from == from && w->to == to && w->channel == channel && w->lane == lane)
            return w;
    }
    assert_true(gang->nwires < gang->wires_room);
    struct gang_wire *w = &gang->wires[gang->nwires++];
    *w = (struct gang_wire){
        .from = from,
        .to = to,
        .channel = channel,
        .lane = lane,
        .memory = aligned_alloc(4096, gang->layout.total_bytes),
        .head = aligned_alloc(FIFO_LINE_BYTES, FIFO_LINE_BYTES),
    };
    assert_non_null(w->memory);
    assert_non_null(w->head);
    memset(w->memory, 0, gang->layout.total_bytes);
    fifo_memory_init(w->memory, &gang->layout, &gang->config);
    fifo_end_init(&w->producer, w->memory, &gang->layout, &gang->config);
    fifo_end_init(&w->consumer, w->memory, &gang->layout, &gang->config);
    *w->head = (uint64_t)gang->config.first_step;
    w->producer.head = w->consumer.head = w->head;
    if (gang->lends_from > 0) {
        w->producer.loans.way = w->consumer.loans.way = LOAN_PROCESS;
        w->producer.loans.least_bytes = w->consumer.loans.least_bytes = gang->lends_from;
    }
    return w;
}

/* A block of TMP has room for a whole slot. */
static struct interp_memory memory_of(const struct gang *gang, const struct prog *prog) {
    struct interp_memory memory = {.tmp_stride = gang->layout.sizes.long_bytes};
    for (int region = STEP_IN; region < STEP_REGIONS; region++)
        memory.nblocks[region] = (uint32_t)prog_region_blocks(prog, (enum step_region)region);
    return memory;
}

/* The blocks of a channel's workers. */
static void bind_channel(struct gang *gang, int rank, int channel, struct work_block *blocks) {
    const struct prog *prog = gang->progs[rank];
    struct fifo_end **ends = calloc((size_t)prog->npeers * 2 + 1, sizeof(*ends));
    struct interp_memory memory = memory_of(gang, prog);
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        assert_true(interp_block_takes(step));
        for (int p = step->recv_first; p < step->recv_first + step->recv_count; p++)
            ends[p] = &wire_get(gang, prog->peers[p].rank, rank, channel, prog->peers[p].lane)->consumer;
        for (int p = step->send_first; p < step->send_first + step->send_count; p++)
            ends[prog->npeers + p] = &wire_get(gang, rank, prog->peers[p].rank, channel, prog->peers[p].lane)->producer;
    }
    memory.tmp = malloc((size_t)prog->ntmp * memory.tmp_stride + 1);
    for (int k = 0; k < prog->nworkers; k++)
        blocks[k] = (struct work_block){
            .steps = prog->steps + prog->workers[k].first_step,
            .nsteps = (uint32_t)prog->workers[k].nsteps,
            .locals = prog->locals,
            .ends = ends,
            .peers = prog->peers,
            .npeers = (uint32_t)prog->npeers,
            .memory = memory,
            .channel = (uint32_t)channel,
            .lends_from = gang->lends_from,
            .returns = gpu_returns(prog),
        };
}

static void bind_rank(struct gang *gang, int rank) {
    int nworkers = gang->progs[rank]->nworkers;
    gang->blocks[rank] = calloc((size_t)(gang->nchannels * nworkers), sizeof(*gang->blocks[rank]));
    for (int channel = 0; channel < gang->nchannels; channel++)
        bind_channel(gang, rank, channel, gang->blocks[rank] + channel * nworkers);
}

bool gang_wraps = true;

void gang_init(struct gang *gang, const struct algorithm *algorithm, int nranks, int root, int nchannels,
               uint32_t lends_from) {
    int nodes[WORK_MAX];
    *gang = (struct gang){.algorithm = algorithm, .nchannels = nchannels, .lends_from = lends_from};
    assert_int_equal(config_read(&gang->config), COLLET_SUCCESS);
    gang->status.timeout_ns = 60000000000u;
    if (gang_wraps) {
        gang->config.ll_flag_bits = 5;
        gang->config.first_step = -3;
    }
    for (int rank = 0; rank < nranks; rank++)
        nodes[rank] = nranks % 2 == 0 ? rank % 2 * (nranks / 2) : 0; /* two nodes, numbered across each other */
    assert_int_equal(prog_shape_init(&gang->shape, nranks, nodes, NULL), COLLET_SUCCESS);
    gang->layout = fifo_layout_of(4, (struct protocol_sizes){4096, 2048, 3840}, 0);
    gang->wires_room = nranks * nranks * nchannels * 8;
    gang->wires = calloc((size_t)gang->wires_room, sizeof(*gang->wires));
    gang->progs = calloc((size_t)nranks, sizeof(*gang->progs));
    gang->blocks = calloc((size_t)nranks, sizeof(*gang->blocks));
    for (int rank = 0; rank < nranks; rank++) {
        assert_int_equal(algorithm_build(algorithm, &gang->shape, rank, root, &gang->progs[rank]), COLLET_SUCCESS);
        bind_rank(gang, rank);
    }
}

void gang_fini(struct gang *gang) {
    for (int k = 0; k < gang->nwires; k++) {
        free(gang->wires[k].memory);
        free(gang->wires[k].head);
    }
    for (int rank = 0; rank < gang->shape.nranks; rank++) {
        for (int c = 0; c < gang->nchannels; c++) {
            const struct work_block *first = gang->blocks[rank] + c * gang->progs[rank]->nworkers;
            free((void *)first->ends);
            free(first->memory.tmp);
        }
        free(gang->blocks[rank]);
        prog_destroy(gang->progs[rank]);
    }
    free(gang->wires);
    free(gang->progs);
    free(gang->blocks);
    prog_shape_fini(&gang->shape);
}

void gang_launch(struct gang *gang, const struct gang_call *c, const struct trial *trials, struct work_launch *launch) {
    enum prog_collective collective = gang->algorithm->collective;
    int nranks = gang->shape.nranks;
    uint32_t elem_bytes = (uint32_t)collet_type_size(c->type);
    bool factor = c->op == COLLET_PREMULSUM || (c->op == COLLET_AVG && type_average_factor(c->type, (uint32_t)nranks));
    bool scaled = factor && prog_facts[collective].reduces;
    uint32_t payload_bytes = fifo_payload_bytes(&gang->layout, c->protocol);
    uint32_t chunk_bytes = c->protocol == PROTOCOL_SIMPLE ? payload_bytes / 2 : payload_bytes;
    uint32_t room_bytes =
        geometry_room(chunk_bytes, (uint32_t)gang->progs[0]->longest_run, protocol_unit_bytes(c->protocol));
    *launch = (struct work_launch){.nworks = (uint32_t)nranks};
    for (int rank = 0; rank < nranks; rank++) {
        launch->works[rank] = (struct work){
            .blocks = gang->blocks[rank],
            .status = &gang->status,
            .nblocks = (uint32_t)(gang->nchannels * gang->progs[rank]->nworkers),
            .lends = {[STEP_IN] = LOAN_PROCESS, [STEP_OUT] = LOAN_PROCESS},
            .args =
                {
                    .in = trials[rank].sendbuff,
                    .out = trials[rank].recvbuff,
                    .chunk_elems = plan_chunk_elems(room_bytes, elem_bytes),
                    .sequence = c->seed,
                    .nchannels = (uint32_t)gang->nchannels,
                    .elem_bytes = elem_bytes,
                    .divisor = c->op == COLLET_AVG && prog_facts[collective].reduces ? (uint32_t)nranks : 1,
                    .mirror = prog_facts[collective].reduces ? type_mirror(c->op, c->type) : 0,
                    .protocol = c->protocol,
                    .signature = 0x12345678u * (c->seed + 1),
                    .keep_empty = prog_keeps_empty(collective),
                    .scaling = scaled ? WORK_BY_VALUE : WORK_UNSCALED,
                },
        };
        plan_extent(collective, c->count, nranks, gang->progs[0]->nslices, &launch->works[rank].args);
        if (c->op == COLLET_AVG)
            launch->works[rank].args.factor = type_average_factor(c->type, (uint32_t)nranks);
        else
            numbers_scalar(&launch->works[rank].args.factor, c->type, rank);
    }
}
