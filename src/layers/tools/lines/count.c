/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the lines of a call. Lengths and addresses are those that executors compute (kernels/operands.h), with buffers that begin at
 * address 0, which is the beginning of a line.
 *
 *      step of rank 0, its 3rd that sends on connection 5   ◀── message 3 of connection 5 ──▶   step of rank 1, its 3rd that receives
 *
 * A connection has one producing and one consuming worker, so messages are matched by counting them. Both ends leave out the same messages.
 */
#include "layers/tools/lines/lines.h"

#include "base/err.h"
#include "kernels/operands.h"
#include "plan/extent.h"

#include <string.h>

/* A message that is sent once in each round: the member and the step that send it. */
struct message {
    int member, step;
};

struct counting {
    const struct cast *cast;
    const struct lines_call *call;
    struct lines_rank *ranks;
    struct interp_op *ops; /* [member]: the call as its executor has it, on the channel that is counted. */
    struct cast_conns conns;
    struct message *messages; /* The messages of all connections, connection by connection. */
    int *first;               /* [connection + 1]: index in `messages` of its first message. */
    int *seen;                /* [connection]: number of messages of the present round that were looked at. */
    uint64_t *sent;           /* [connection]: number of messages of the call. */
    bool *lent;               /* [connection]: at least one payload was lent. */
    /* [member][step]: 1 + the length of the longest chain of messages up to this step (row_up_to()). 0: not known yet. */
    int **row;
};

static const struct prog *prog_of(const struct counting *c, int member) { return c->cast->members[member].prog; }

static int conn_from(const struct counting *c, int member, int peer) {
    return c->conns.recv[c->conns.first_peer[member] + peer];
}
static int conn_to(const struct counting *c, int member, int peer) {
    return c->conns.send[c->conns.first_peer[member] + peer];
}

/* ---- one step ---- */

/* Number of lines that so many bytes touch, from an address on. */
static uint64_t lines_at(uintptr_t address, uint64_t bytes) {
    return bytes == 0 ? 0 : (address + bytes - 1) / LINES_BYTES - address / LINES_BYTES + 1;
}

/* How many cache lines does a payload take in a slot? LL stores 8 bytes for each 4 bytes of payload, and also 8 bytes if the payload is
 * empty. LL128 stores 128 bytes, which are two cache lines, for each 120 bytes of payload. */
static uint64_t lines_of_payload(enum protocol protocol, uint32_t bytes) {
    const uint32_t unit = protocol_unit_bytes(protocol);
    if (protocol == PROTOCOL_LL)
        return lines_at(0, bytes == 0 ? 8 : (bytes + 3) / 4 * 8);
    return protocol == PROTOCOL_LL128 ? (bytes + unit - 1) / unit * 2 : lines_at(0, bytes);
}

static void add_own(struct lines_side *side, const void *address, uint64_t bytes) {
    side->own += lines_at((uintptr_t)address, bytes);
    side->bytes += bytes;
}

static void add_payload(struct lines_side *side, uint64_t lines, uint32_t bytes) {
    side->payload += lines;
    side->bytes += bytes;
}

static bool is_fan(const struct counting *c, int conn) {
    return c->call->fans && c->conns.list[conn].lane == PROG_LANE_ALL;
}

/* Does the step lend what it sends? The rule is that of interp_lend(), if IN and OUT are apart and all peers reach both. */
static bool lends(const struct counting *c, const struct interp_op *op, const struct prog_step *step, uint32_t bytes) {
    if (c->call->protocol != PROTOCOL_SIMPLE || c->call->lent_from - 1 >= bytes || step->lends == STEP_LENDS_NOTHING)
        return false;
    return step->lends == STEP_LENDS_RESULT || !interp_changes(op, step, step->recv_count + step->locals_count);
}

/* Does the consumer offer a place for the payload before it comes? The rule is that of exec_announce() for a payload that is
 * only stored. */
static bool offers(const struct counting *c, const struct prog_step *step, uint32_t bytes) {
    return c->call->protocol == PROTOCOL_SIMPLE && c->call->lent_from - 1 < bytes && step->recv_count == 1 &&
           step->locals_count == 0 && step->count == 1 && step->store_region == STEP_OUT;
}

/* Counts the lines of operands and places. A step reads its local operands only if it puts the result into a slot or a
 * place. */
static void count_own(struct lines_rank *rank, const struct interp_op *op, const struct prog_step *step, uint64_t round,
                      bool puts) {
    const bool stores = step->store_region != STEP_NONE;
    for (int i = 0; i < step->count; i++) {
        const struct interp_piece piece = interp_piece_of(op, step, i, round);
        const uint32_t bytes = interp_bytes(op, &piece);
        for (int l = 0; l < step->locals_count && (puts || stores); l++)
            add_own(&rank->read, interp_local(op, step, l, i, round, &piece), bytes);
        if (stores)
            add_own(&rank->written, interp_store(op, step, i, round, &piece), bytes);
    }
}

static void count_received(struct counting *c, int member, const struct prog_step *step, int peer, uint32_t bytes) {
    struct lines_rank *rank = &c->ranks[member];
    const int conn = conn_from(c, member, peer);
    const struct message *message = &c->messages[c->first[conn] + c->seen[conn]++];
    const struct prog_step *sent = &prog_of(c, message->member)->steps[message->step];
    const bool lent = lends(c, &c->ops[message->member], sent, bytes), plain = c->call->protocol == PROTOCOL_SIMPLE;
    add_payload(&rank->read, lines_of_payload(c->call->protocol, bytes), bytes);
    rank->read.tails += plain;
    rank->read.headers += plain;
    rank->written.heads += 1;
    if (!is_fan(c, conn)) /* A consumer of a fan needs no line for this: it writes into the line of its head */
        rank->written.loans += (lent ? 1u : 0u) + (offers(c, step, bytes) ? 1u : 0u);
}

static void count_sent(struct counting *c, int member, const struct prog_step *step, uint32_t bytes, bool lent) {
    struct lines_rank *rank = &c->ranks[member];
    const bool plain = c->call->protocol == PROTOCOL_SIMPLE;
    for (int k = 0; k < step->send_count; k++) {
        const int conn = conn_to(c, member, step->send_first + k);
        c->sent[conn]++;
        c->lent[conn] |= lent;
        if (k > 0 && is_fan(c, conn))
            continue;
        rank->written.tails += plain;
        rank->written.headers += plain;
        if (!lent)
            add_payload(&rank->written, lines_of_payload(c->call->protocol, bytes), bytes);
    }
}

static void pass_messages(struct counting *c, int member, const struct prog_step *step) {
    for (int k = 0; k < step->recv_count; k++)
        c->seen[conn_from(c, member, step->recv_first + k)]++;
}

/* Finds the bytes of each message of a step. False: the step is left out. */
static bool payload_of(const struct interp_op *op, const struct prog_step *step, uint64_t round, uint32_t *bytes_p) {
    const struct interp_piece piece = interp_piece_of(op, step, 0, round);
    *bytes_p = interp_payload(op, step, round, &piece);
    return *bytes_p > 0 || op->args.keep_empty;
}

static void count_step(struct counting *c, int member, int s, uint64_t round) {
    const struct interp_op *op = &c->ops[member];
    const struct prog_step *step = &op->steps[s];
    uint32_t bytes;
    if (!payload_of(op, step, round, &bytes))
        return pass_messages(c, member, step);
    const bool lent = lends(c, op, step, bytes);
    for (int k = 0; k < step->recv_count; k++)
        count_received(c, member, step, step->recv_first + k, bytes);
    count_own(&c->ranks[member], op, step, round, step->send_count > 0 && !lent);
    count_sent(c, member, step, bytes, lent);
}

/* ---- a call ---- */

/* A member's call on one channel, as an executor has it. */
static struct interp_op op_of(const struct counting *c, int member, uint32_t channel) {
    const struct prog *prog = prog_of(c, member);
    struct interp_op op = {.steps = prog->steps, .locals = prog->locals};
    op.args = (struct work_args){.elem_bytes = c->call->elem_bytes,
                                 .protocol = c->call->protocol,
                                 .nchannels = c->call->nchannels,
                                 .divisor = 1,
                                 .chunk_elems = plan_chunk_elems(c->call->chunk_bytes, c->call->elem_bytes),
                                 .keep_empty = prog_keeps_empty(prog->collective)};
    plan_extent(prog->collective, c->call->count, prog->nranks, prog->nslices, &op.args);
    op.geometry = work_geometry(&op.args, channel);
    for (int region = STEP_IN; region < STEP_REGIONS; region++)
        op.memory.nblocks[region] = (uint32_t)prog_region_blocks(prog, (enum step_region)region);
    op.memory.tmp_stride = (c->call->chunk_bytes + LINES_BYTES - 1) / LINES_BYTES * LINES_BYTES;
    return op;
}

static void begin_round(struct counting *c) { memset(c->seen, 0, (size_t)c->conns.count * sizeof *c->seen); }

static void count_channel(struct counting *c) {
    for (int m = 0; m < c->cast->nmembers; m++)
        for (uint64_t round = 0; round < c->ops[m].geometry.nrounds; round++) {
            begin_round(c);
            for (int s = 0; s < prog_of(c, m)->nsteps; s++)
                count_step(c, m, s, round);
        }
}

/* Counts the heads that producers read. A producer looks at a head once a lap of the FIFO, and at least once in each call in
 * which it waits until its loans are over. */
static void count_heads_read(struct counting *c) {
    for (int conn = 0; conn < c->conns.count; conn++) {
        double looks = (double)c->sent[conn] / c->call->nslots;
        c->ranks[c->conns.list[conn].src].read.heads += c->lent[conn] && looks < 1 ? 1 : looks;
    }
}

/* ---- messages ---- */

/* Calls look() for each message that a member sends in a round, in the order of its steps, for all members. */
static void each_sent(struct counting *c, void (*look)(struct counting *c, int conn, struct message message)) {
    for (int m = 0; m < c->cast->nmembers; m++)
        for (int s = 0; s < prog_of(c, m)->nsteps; s++) {
            const struct prog_step *step = &prog_of(c, m)->steps[s];
            for (int k = 0; k < step->send_count; k++)
                look(c, conn_to(c, m, step->send_first + k), (struct message){m, s});
        }
}

static void number_message(struct counting *c, int conn, struct message message) {
    (void)message;
    c->first[conn + 1]++;
}

static void note_message(struct counting *c, int conn, struct message message) {
    c->messages[c->first[conn] + c->seen[conn]++] = message;
}

static enum collet_result list_messages(struct counting *c) {
    struct arena *arena = &c->conns.arena;
    const size_t nconns = (size_t)c->conns.count;
    c->ops = arena_get(arena, (size_t)c->cast->nmembers, sizeof *c->ops);
    c->first = arena_get(arena, nconns + 1, sizeof *c->first);
    c->seen = arena_get(arena, nconns + 1, sizeof *c->seen);
    c->sent = arena_get(arena, nconns + 1, sizeof *c->sent);
    c->lent = arena_get(arena, nconns + 1, sizeof *c->lent);
    COLLET_TRY(arena_check(arena, "no memory for %zu connections", nconns));
    each_sent(c, number_message);
    for (size_t conn = 0; conn < nconns; conn++)
        c->first[conn + 1] += c->first[conn];
    c->messages = arena_get(arena, (size_t)c->first[nconns], sizeof *c->messages);
    COLLET_TRY(arena_check(arena, "no memory for %d messages", c->first[nconns]));
    each_sent(c, note_message);
    return COLLET_SUCCESS;
}

/* ---- messages in a row ---- */

/* Finds the longest chain of messages that must come one after the other before this step is done. Returns 1 + its length. `before`: the
 * result for the worker's step before. 0: a message that the step receives is not sent yet. */
static int row_up_to(struct counting *c, int member, int s, int before) {
    const struct prog_step *step = &prog_of(c, member)->steps[s];
    int row = before;
    uint32_t bytes;
    const bool passes = payload_of(&c->ops[member], step, 0, &bytes);
    for (int k = 0; k < step->recv_count && passes; k++) {
        const int conn = conn_from(c, member, step->recv_first + k);
        const struct message *message = &c->messages[c->first[conn] + c->seen[conn]];
        const int sent = c->row[message->member][message->step];
        if (sent == 0)
            return 0;
        row = sent + 1 > row ? sent + 1 : row;
    }
    pass_messages(c, member, step);
    return row;
}

/* Goes on with the steps of a worker as far as possible. Returns whether any step was done. *most is the maximum so far. */
static bool go_on(struct counting *c, int member, const struct prog_worker *worker, int *most) {
    bool came = false;
    for (int s = worker->first_step, before = 1; s < worker->first_step + worker->nsteps; s++) {
        int *row = &c->row[member][s];
        if (*row == 0) {
            *row = row_up_to(c, member, s, before);
            if (*row == 0)
                break;
            came = true;
        }
        before = *row;
        *most = *row > *most ? *row : *most;
    }
    return came;
}

static int longest_row(struct counting *c) {
    int most = 1;
    begin_round(c);
    for (bool more = true; more;) {
        more = false;
        for (int m = 0; m < c->cast->nmembers; m++)
            for (int w = 0; w < prog_of(c, m)->nworkers; w++)
                more |= go_on(c, m, &prog_of(c, m)->workers[w], &most);
    }
    return most - 1;
}

/* ---- all of it ---- */

static enum collet_result make_room(struct counting *c) {
    struct arena *arena = &c->conns.arena;
    const int nmembers = c->cast->nmembers;
    c->row = arena_get(arena, (size_t)nmembers, sizeof *c->row);
    for (int m = 0; m < nmembers && !arena->failed; m++)
        c->row[m] = arena_get(arena, (size_t)prog_of(c, m)->nsteps, sizeof **c->row);
    COLLET_TRY(arena_check(arena, "no memory for the steps of %d ranks", nmembers));
    return list_messages(c);
}

enum collet_result lines_count(const struct cast *cast, const struct lines_call *call, struct lines_rank *ranks,
                               int *row_p) {
    struct counting c = {.cast = cast, .call = call, .ranks = ranks};
    enum collet_result result = cast_connect(cast, &c.conns)
                                    ? make_room(&c)
                                    : err_set(COLLET_ERR_NO_MEMORY, "no memory for %d ranks", cast->nranks);
    memset(ranks, 0, (size_t)cast->nmembers * sizeof *ranks);
    for (uint32_t channel = 0; channel < call->nchannels && result == COLLET_SUCCESS; channel++) {
        for (int m = 0; m < cast->nmembers; m++)
            c.ops[m] = op_of(&c, m, channel);
        if (channel == 0)
            *row_p = longest_row(&c);
        count_channel(&c);
    }
    if (result == COLLET_SUCCESS)
        count_heads_read(&c);
    cast_disconnect(&c.conns);
    return result;
}
