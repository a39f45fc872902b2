/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that copy engines do.
 *
 * **A collective** is a direct program. A kernel would send a block into a slot. Here the host puts a copy into the stream instead. The
 * copy goes to the place where the receiving rank's program stores that block:
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
 * Ready says: all earlier work of my stream is over, and you may write my OUT. Done says: I have written your OUT.
 *
 *    order          by                                                  so that
 *    copy, done     the fence before a write of a stream                a reader on any GPU that sees done sees the block
 *    wait, work     work behind a wait begins after it                  a kernel behind the call reads the new blocks
 *    clear, ready   a rank writes ready again after this rank's done,   no word is written before its earlier value was
 *                   and done comes behind the clearing                  seen; so a graph with fixed values can be replayed
 *
 * May a block come at any time between ready and done? Yes: the program says that no other step touches it (STEP_LANDS_EARLY). And
 * prog_check() proves, as for kernels, that the blocks are the right ones.
 *
 * Every rank computes the addresses from its own OUT. So OUT must lie at the same place of the window on all ranks, and the calls
 * must be the same. Both are hashed into the words' value, and streams wait for that value: if it differs somewhere, nobody
 * copies, and copies_watch.c finds the wrong word.
 *
 * A wait keeps all streams of its queue waiting. One of these streams may be of another rank on this GPU, whose word has to come first.
 * If that is possible, kernels do the call (gpu_window_may_wait()).
 *
 * **A message.** The sender does not know where the receiver's buffer is. So there is a box for each pair, on the GPU of the receiver, and
 * a word that says whether it is full:
 *
 *    stream of rank 0              word         box                  stream of rank 1
 *    wait until it is empty        0
 *    copy IN ══════════════════════════════▶ │ message │
 *    full ───────────────────────▶ a hash                            wait until it is full
 *                                            │ message │ ══════════▶ copy to OUT
 *                                  0 ◀────────────────────────────── empty
 *
 * A message is no longer than a box. So a send waits only for the message before it of the same pair and direction. In a group, sends go
 * into the stream before receives (exec_gpu.c). So no rank's send waits behind its receive.
 *
 * Read next: copies_open.c, words and boxes; copies_watch.c, the clock.
 */
#include "layers/gpu/exec_copies.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/types.h"
#include "layers/tuner/call_options.h"

/* Can all ranks compute the place of OUT? Not if only the root has OUT, or if a call in place has it elsewhere on each rank. */
static bool can_take(enum prog_collective collective) {
    const struct prog_facts *facts = &prog_facts[collective];
    return !facts->reduces && !prog_is_counted(collective) && facts->root != PROG_PEER && facts->root != PROG_TO_ROOT &&
           facts->in_place != PROG_OUT_IS_OWN_BLOCK;
}

/* Both ends come to the same answer: it depends only on the message's length. */
static bool can_take_message(const struct copies *copies, const struct exec_request *request) {
    return copies->mail != NULL && request->count <= copies->mail_bytes;
}

bool exec_copies_take(const struct chan *chan, const struct exec_request *request, const void *out,
                      struct gpu_window_place *place) {
    const int nranks = chan->owner.nranks;
    const struct copies *copies = __atomic_load_n(&chan->copies, __ATOMIC_ACQUIRE); /* pairs with exec_copies_open() */
    size_t blocks = prog_facts[request->collective].out == PROG_PER_RANK ? (size_t)nranks : 1;
    const struct call_options options = call_options_unpack(request->call_options);
    if (options.by_kernels || options.algorithms != 0)
        return false;
    if (copies == NULL || prog_is_p2p(request->collective))
        return copies != NULL && can_take_message(copies, request);
    return can_take(request->collective) &&
           gpu_window_find(chan, out, request->count * blocks * type_size(request->type), place) &&
           gpu_window_is_symmetric(place->window);
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

/* The place where a rank stores the nth block from `from`. */
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
    if (step->recv_count > 0)
        return COLLET_SUCCESS; /* the sender's part */
    if (step->locals_count != 1 || step->count != 1)
        return err_not_direct(prog);
    const struct prog_local *local = &prog->locals[step->locals_first];
    if (local->region != STEP_IN)
        return err_not_direct(prog);
    for (int k = 0; k < step->send_count; k++)
        COLLET_TRY(add_send(program, local->run.first, prog->peers[step->send_first + k].rank, list));
    if (step->store_region == STEP_OUT)
        list->moves[list->nmoves++] = (struct copy_move){local->run.first, prog->rank, step->store.first};
    return COLLET_SUCCESS;
}

enum collet_result exec_copies_prepare(const struct exec_call *call) {
    struct exec_program *program = call->program;
    const struct prog *prog = program->progs[0];
    size_t most = 0;
    if (program->copies != NULL || prog_is_p2p(call->request.collective))
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

/* ---- into a stream ---- */

/* The word operations of a stream in one call of the driver: at most five for each other rank. */
struct word_batch {
    uint32_t nops;
    struct gpu_word_op ops[5 * COPIES_RANKS_MAX];
};

static void batch_add(struct word_batch *batch, uint32_t *word, uint32_t value, bool waits) {
    batch->ops[batch->nops++] = (struct gpu_word_op){word, value, waits};
}

static enum collet_result batch_put(const struct word_batch *batch, const struct exec_call *call, void *stream) {
    return call->chan->owner.gpu->driver->streams->words(batch->ops, batch->nops, stream);
}

static uint32_t *word_of(const struct exec_call *call, int rank, enum copies_stage stage, int from) {
    return call->chan->copies->on_gpu + copies_at(call->chan->copies, rank, stage, from);
}

/* Writes `at`: from here on the stream waits for the word of a peer, or for the words of all. */
static void add_arrival(struct word_batch *batch, const struct exec_call *call, uint32_t value, uint32_t peer) {
    uint32_t *own = call->chan->copies->on_gpu + copies_row(call->chan->copies, call->chan->owner.rank);
    batch_add(batch, own + COPIES_CALL,
              (uint32_t)call->args.sequence << COPIES_CALL_SHIFT | (uint32_t)call->request.collective, false);
    batch_add(batch, own + COPIES_PEER, peer, false);
    batch_add(batch, own + COPIES_AT, value, false);
}

static void add_departure(struct word_batch *batch, const struct exec_call *call) {
    uint32_t *own = call->chan->copies->on_gpu + copies_row(call->chan->copies, call->chan->owner.rank);
    batch_add(batch, own + COPIES_AT, 0, false);
}

/* Adds the write that tells that the call is over. */
static void add_turn(struct word_batch *batch, const struct exec_call *call, const struct gpu_place *place) {
    batch->nops += gpu_rank_turn(call->chan->owner.gpu, place, &batch->ops[batch->nops]);
}

/* A hash of the call. It is the same on all ranks, unless their calls differ. For a message, the place counts as 0. */
static uint32_t copies_hash(const struct exec_call *call) {
    return hash_mix(hash_mix(call->args.signature, call->place.number), call->place.offset);
}

static enum collet_result put_copy(const struct exec_call *call, void *to, const void *from, size_t bytes,
                                   void *stream) {
    if (to == from || bytes == 0) /* in place */
        return COLLET_SUCCESS;
    return call->chan->owner.gpu->driver->streams->copy(to, from, bytes, stream);
}

/* ---- collectives ---- */

static enum collet_result put_stage(const struct exec_call *call, enum copies_stage stage,
                                    const struct gpu_place *place) {
    const struct conn_owner *owner = &call->chan->owner;
    const uint32_t value = copies_value(copies_hash(call), stage);
    struct word_batch batch;
    batch.nops = 0;
    add_arrival(&batch, call, value, COPIES_ALL);
    for (int rank = 0; rank < owner->nranks; rank++)
        if (rank != owner->rank)
            batch_add(&batch, word_of(call, rank, stage, owner->rank), value, false);
    for (int rank = 0; rank < owner->nranks; rank++)
        if (rank != owner->rank)
            batch_add(&batch, word_of(call, owner->rank, stage, rank), value, true);
    add_departure(&batch, call);
    for (int rank = 0; rank < owner->nranks; rank++)
        if (rank != owner->rank)
            batch_add(&batch, word_of(call, owner->rank, stage, rank), 0, false);
    if (stage == COPIES_DONE)
        add_turn(&batch, call, place);
    return batch_put(&batch, call, place->stream);
}

static enum collet_result put_moves(const struct exec_call *call, void *stream) {
    const struct copy_list *list = call->program->copies;
    size_t bytes = call->args.block_elems * call->args.elem_bytes;
    for (int k = 0; k < list->nmoves; k++) {
        const struct copy_move *move = &list->moves[k];
        char *out = (char *)gpu_window_base(call->place.window, move->rank) + call->place.offset;
        COLLET_TRY(
            put_copy(call, out + (size_t)move->to * bytes, call->args.in + (size_t)move->from * bytes, bytes, stream));
    }
    return COLLET_SUCCESS;
}

/* ---- messages ---- */

/* An end of a message: the value of the pair's word for which the stream waits, then the copy, and then the value that it writes. */
struct copy_message {
    uint32_t *word;
    enum copies_stage stage;
    uint32_t before, after;
    void *to;
    const void *from;
};

static struct copy_message letter_of(const struct exec_call *call) {
    const struct copies *copies = call->chan->copies;
    const int self = call->chan->owner.rank, peer = call->request.root;
    const uint32_t full = copies_value(copies_hash(call), COPIES_MAIL);
    const bool sends = call->request.collective == PROG_SEND;
    char *box =
        (char *)gpu_window_base(copies->mail, sends ? peer : self) + (size_t)(sends ? self : peer) * copies->mail_bytes;
    if (sends)
        return (struct copy_message){word_of(call, peer, COPIES_MAIL, self), COPIES_ROOM, 0, full, box, call->args.in};
    return (struct copy_message){word_of(call, self, COPIES_MAIL, peer), COPIES_MAIL, full, 0, call->args.out, box};
}

static enum collet_result put_messages(const struct exec_call *const *calls, int n, const struct gpu_place *place) {
    struct word_batch batch = {.nops = 0};
    for (int k = 0; k < n; k++) {
        struct copy_message letter = letter_of(calls[k]);
        add_arrival(&batch, calls[k], copies_value(copies_hash(calls[k]), letter.stage),
                    (uint32_t)calls[k]->request.root);
        batch_add(&batch, letter.word, letter.before, true);
        add_departure(&batch, calls[k]);
    }
    COLLET_TRY(batch_put(&batch, calls[0], place->stream));
    batch.nops = 0;
    for (int k = 0; k < n; k++) {
        struct copy_message letter = letter_of(calls[k]);
        COLLET_TRY(put_copy(calls[k], letter.to, letter.from, calls[k]->request.count, place->stream));
        batch_add(&batch, letter.word, letter.after, false);
    }
    add_turn(&batch, calls[0], place);
    return batch_put(&batch, calls[0], place->stream);
}

enum collet_result exec_copies_put(const struct exec_call *const *calls, int n, const struct gpu_place *place) {
    if (prog_is_p2p(calls[0]->request.collective))
        return put_messages(calls, n, place);
    COLLET_TRY(put_stage(calls[0], COPIES_READY, place));
    COLLET_TRY(put_moves(calls[0], place->stream));
    return put_stage(calls[0], COPIES_DONE, place);
}
