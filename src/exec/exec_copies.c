/* SPDX-License-Identifier: Apache-2.0
 *
 * A direct program, done by copy engines. Where a kernel would send a block into a slot, the host puts a copy into the stream, to
 * where the receiving rank's program stores that block:
 *
 *    stream of rank 0                       words                     stream of rank 1
 *    ready ─────────────────────────────▶ ready of 1, from 0          ready ──▶ ready of 0, from 1
 *    wait for all others' ready                                       wait for all others' ready
 *    clear their words                                                clear their words
 *    copy IN ══════════════════════════▶ OUT of rank 1                copy IN ══▶ OUT of rank 0
 *    done ──────────────────────────────▶ done of 1, from 0           done ──▶ done of 0, from 1
 *    wait for all others' done                                        wait for all others' done
 *    clear their words                                                clear their words
 *
 * Ready says: what was in my stream before is over, you may write my OUT. Done says: I have written yours.
 *
 *    order          by                                                  so that
 *    copy, done     the fence before a write of a stream                who sees done, on any GPU, sees the block
 *    wait, work     work behind a wait begins after it                  a kernel behind the call reads what has come
 *    clear, ready   a rank writes ready again after this rank's done,   no word is written before the earlier one was seen;
 *                   which comes behind the clearing                     so a graph, whose values are fixed, can be replayed
 *
 * May a block come at any time between ready and done? Yes: the program says that no other step touches it (STEP_LANDS_EARLY). That
 * the blocks are the right ones, prog_check() proves, as for kernels.
 *
 * Every rank computes the addresses from its own OUT. So OUT must lie at the same place of the window on all ranks, and the calls
 * must be the same. Both are hashed into the words' value, and streams wait for that value: if it differs somewhere, nobody
 * copies, and copies_watch.c finds the wrong word.
 *
 * A wait keeps all streams of its queue waiting. So kernels do it where another stream of the process could be one that has to come
 * first: that of another rank on this GPU (gpu_window_may_wait()).
 */
#include "exec/exec_copies.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/types.h"
#include "exec/exec_gpu.h"

#include <stdlib.h>
#include <unistd.h>

/* Not where the other ranks cannot compute the place of OUT: a root alone has one; or in place it differs from rank to rank. */
static bool can_take(enum prog_collective collective, int nranks) {
    const struct prog_facts *facts = &prog_facts[collective];
    return nranks > 1 && nranks <= COPIES_RANKS_MAX && !facts->reduces && !prog_is_counted(collective) &&
           facts->root != PROG_PEER && facts->root != PROG_TO_ROOT && facts->in_place != PROG_OUT_IS_OWN_BLOCK;
}

bool exec_copies_take(const struct chan *chan, const struct exec_request *request, const void *out,
                      struct gpu_window_place *place) {
    const int nranks = chan->owner.nranks;
    size_t blocks = prog_facts[request->collective].out == PROG_PER_RANK ? (size_t)nranks : 1;
    return can_take(request->collective, nranks) && config_policy_is_zero(chan->owner.config->cta_policy) &&
           gpu_window_find(chan, out, request->count * blocks * type_size(request->type), place) &&
           gpu_window_is_symmetric(place->window) && gpu_window_may_wait(place->window);
}

/* ---- which copies ---- */

struct copy_move {
    int from;     /* block of IN */
    int rank, to; /* block of OUT of that rank */
};

struct copy_list {
    int nmoves;
    struct copy_move moves[];
};

static enum collet_result err_not_direct(const struct prog *prog) {
    return err_set(COLLET_ERR_INTERNAL, "%s: a step of rank %d cannot be done by copies",
                   prog_collective_name(prog->collective), prog->rank);
}

/* Where a rank stores the nth block that `from` sends it. */
static enum collet_result find_landing(const struct prog *prog, int from, int nth, int *block_p) {
    for (int k = 0; k < prog->nsteps; k++) {
        const struct prog_step *step = &prog->steps[k];
        if (step->recv_count == 0 || prog->peers[step->recv_first].rank != from || nth-- > 0)
            continue;
        *block_p = step->store.first;
        return step->lands == STEP_LANDS_EARLY && step->send_count == 0 ? COLLET_SUCCESS : err_not_direct(prog);
    }
    return err_not_direct(prog);
}

static int sends_to(const struct copy_list *list, int rank) {
    int sends = 0;
    for (int k = 0; k < list->nmoves; k++)
        sends += list->moves[k].rank == rank;
    return sends;
}

static enum collet_result add_send(const struct exec_program *program, int from, int peer, struct copy_list *list) {
    const struct prog *own = program->progs[0];
    struct prog *prog;
    struct copy_move move = {.from = from, .rank = peer};
    COLLET_TRY(algorithm_build(program->source, &PROG_FLAT(own->nranks), peer, own->root, &prog));
    enum collet_result result = find_landing(prog, own->rank, sends_to(list, peer), &move.to);
    prog_destroy(prog);
    list->moves[list->nmoves++] = move;
    return result;
}

static enum collet_result list_step(const struct exec_program *program, const struct prog_step *step,
                                    struct copy_list *list) {
    const struct prog *prog = program->progs[0];
    const struct prog_local *local = &prog->locals[step->locals_first];
    if (step->recv_count > 0)
        return COLLET_SUCCESS; /* the sender's part */
    if (step->locals_count != 1 || step->count != 1 || local->region != STEP_IN)
        return err_not_direct(prog);
    for (int k = 0; k < step->send_count; k++)
        COLLET_TRY(add_send(program, local->run.first, prog->peers[step->send_first + k].rank, list));
    if (step->store_region == STEP_OUT)
        list->moves[list->nmoves++] = (struct copy_move){local->run.first, prog->rank, step->store.first};
    return COLLET_SUCCESS;
}

static enum collet_result make_list(struct exec_program *program) {
    const struct prog *prog = program->progs[0];
    size_t most = 0;
    if (program->copies != NULL)
        return COLLET_SUCCESS;
    for (int k = 0; k < prog->nsteps; k++)
        most += (size_t)prog->steps[k].send_count + 1;
    if (prog->nslices != 1)
        return err_not_direct(prog);
    COLLET_TRY(memory_get(&program->copies, 1, sizeof(struct copy_list) + most * sizeof(struct copy_move),
                          "no memory for %zu copies", most));
    for (int k = 0; k < prog->nsteps; k++)
        COLLET_TRY(list_step(program, &prog->steps[k], program->copies));
    return COLLET_SUCCESS;
}

/* ---- words that all ranks map ---- */

struct copies_ticket {
    int32_t pid, fd;
};

static enum collet_result create_words(struct copies *copies) {
    const struct conn_owner *owner = &copies->chan->owner;
    COLLET_TRY(os_shared_create("collet-copies", copies->bytes, (void **)&copies->words, &copies->fd));
    struct copies_ticket ticket = {os_pid(), copies->fd};
    for (int rank = 1; rank < owner->nranks; rank++)
        COLLET_TRY(boot_send(owner->boot, rank, boot_key(BOOT_COPIES, 0), &ticket, sizeof(ticket)));
    return COLLET_SUCCESS;
}

static enum collet_result open_words(struct copies *copies) {
    struct copies_ticket ticket;
    size_t bytes;
    COLLET_TRY(boot_try_recv(copies->chan->owner.boot, 0, boot_key(BOOT_COPIES, 0), &ticket, sizeof(ticket), &bytes));
    return os_shared_open(ticket.pid, ticket.fd, copies->bytes, (void **)&copies->words);
}

static enum collet_result pin_words(struct copies *copies) {
    struct gpu_rank *gpu = copies->chan->owner.gpu;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    COLLET_TRY(gpu->driver->memory->pin(copies->words, copies->bytes, (void **)&copies->on_gpu));
    copies->is_pinned = true;
    return copies_watch(copies);
}

static enum collet_result share_words(struct chan *chan, bool *moved) {
    if (chan->copies == NULL) {
        COLLET_TRY(memory_get(&chan->copies, 1, sizeof(*chan->copies), "no memory for words between ranks"));
        chan->copies->chan = chan;
        chan->copies->fd = -1;
        chan->copies->bytes = copies_row(chan->copies, chan->owner.nranks) * sizeof(uint32_t);
    }
    if (chan->copies->is_pinned)
        return COLLET_SUCCESS;
    COLLET_TRY(chan->owner.rank == 0 ? create_words(chan->copies) : open_words(chan->copies));
    *moved = true;
    return pin_words(chan->copies);
}

enum collet_result exec_copies_connect(struct exec_call *call, bool *moved) {
    COLLET_TRY(make_list(call->program));
    COLLET_TRY(share_words(call->chan, moved));
    return exec_gpu_meet(call->chan, &call->chan->copies->meeting, moved);
}

void exec_copies_close(struct chan *chan) {
    struct copies *copies = chan->copies;
    if (copies == NULL)
        return;
    struct gpu_rank *gpu = chan->owner.gpu;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    copies_unwatch(copies);
    if (copies->is_pinned)
        gpu->driver->memory->unpin(copies->words, copies->bytes);
    else if (copies->words != NULL)
        os_memory_destroy(copies->words, copies->bytes);
    if (copies->fd >= 0)
        close(copies->fd);
    free(copies);
    chan->copies = NULL;
}

/* ---- into a stream ---- */

/* Of one stage. */
struct batch {
    uint32_t nops;
    struct gpu_word_op
        ops[3 * COPIES_RANKS_MAX]; /* one of each other rank: written, waited for, cleared; and three of its own */
};

static void batch_add(struct batch *batch, uint32_t *word, uint32_t value, bool waits) {
    batch->ops[batch->nops++] = (struct gpu_word_op){word, value, waits};
}

/* The same on all ranks, or the call is not. */
static uint32_t copies_hash(const struct exec_call *call) {
    return hash_mix(hash_mix(call->args.signature, call->place.number), call->place.offset);
}

static void add_writes(struct batch *batch, const struct exec_call *call, enum copies_stage stage) {
    const struct copies *copies = call->chan->copies;
    uint32_t *own = copies->on_gpu + copies_row(copies, call->chan->owner.rank);
    uint32_t value = copies_value(copies_hash(call), stage);
    batch_add(batch, own + COPIES_CALL,
              (uint32_t)call->args.sequence << COPIES_CALL_SHIFT | (uint32_t)call->request.collective, false);
    batch_add(batch, own + COPIES_AT, value, false);
    for (int rank = 0; rank < call->chan->owner.nranks; rank++)
        if (rank != call->chan->owner.rank)
            batch_add(batch, copies->on_gpu + copies_at(copies, rank, stage, call->chan->owner.rank), value, false);
}

/* Waits for what the others write, or clears it. */
static void add_others(struct batch *batch, const struct exec_call *call, enum copies_stage stage, bool waits) {
    const struct copies *copies = call->chan->copies;
    const struct conn_owner *owner = &call->chan->owner;
    uint32_t value = waits ? copies_value(copies_hash(call), stage) : 0;
    for (int rank = 0; rank < owner->nranks; rank++)
        if (rank != owner->rank)
            batch_add(batch, copies->on_gpu + copies_at(copies, owner->rank, stage, rank), value, waits);
}

static enum collet_result put_stage(const struct exec_call *call, enum copies_stage stage, void *stream) {
    const struct conn_owner *owner = &call->chan->owner;
    const struct copies *copies = call->chan->copies;
    struct batch batch;
    batch.nops = 0;
    add_writes(&batch, call, stage);
    add_others(&batch, call, stage, true);
    batch_add(&batch, copies->on_gpu + copies_row(copies, owner->rank) + COPIES_AT, 0, false);
    add_others(&batch, call, stage, false);
    return owner->gpu->driver->streams->words(batch.ops, batch.nops, stream);
}

static enum collet_result put_moves(const struct exec_call *call, void *stream) {
    const struct conn_owner *owner = &call->chan->owner;
    const struct copy_list *list = call->program->copies;
    size_t bytes = call->args.block_elems * call->args.elem_bytes;
    for (int k = 0; k < list->nmoves; k++) {
        const struct copy_move *move = &list->moves[k];
        char *to =
            (char *)gpu_window_base(call->place.window, move->rank) + call->place.offset + (size_t)move->to * bytes;
        const char *from = call->args.in + (size_t)move->from * bytes;
        if (to != from) /* in place */
            COLLET_TRY(owner->gpu->driver->streams->copy(to, from, bytes, stream));
    }
    return COLLET_SUCCESS;
}

enum collet_result exec_copies_put(const struct exec_call *call, void *stream) {
    COLLET_TRY(put_stage(call, COPIES_READY, stream));
    COLLET_TRY(put_moves(call, stream));
    return put_stage(call, COPIES_DONE, stream);
}
