/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-prog --lines counts from programs and layouts. Here ranks make the calls, and it is seen what they have touched: the memory of
 * all connections before and after a call, line by line, and the positions of their ends.
 *
 *      memory of a connection     │ tail │ head │ headers │ offers │ slots …           lines that differ after the call were written
 *      its ends                   position, before and after                           one for each message
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/comm.h"
#include "chan/chan.h"
#include "layers/tools/lines/lines.h"
#include "transport/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_AT_MOST 16
#define CONNS_AT_MOST 1024

struct cell {
    const char *name; /* as collet-prog takes it */
    enum protocol protocol;
    size_t bytes; /* of the larger buffer, which has int32 */
    int nranks;
    enum { PAIRS, FANS, LENT_PAIRS, LENT_FANS } by;
};

static bool has_fans(const struct cell *cell) { return cell->by == FANS || cell->by == LENT_FANS; }
static bool has_loans(const struct cell *cell) { return cell->by == LENT_PAIRS || cell->by == LENT_FANS; }

/* ---- one call of all ranks, by one thread ---- */

struct job {
    const struct cell *cell;
    const struct algorithm *algorithm;
    struct collet_comm *comms[RANKS_AT_MOST];
    int32_t *in[RANKS_AT_MOST], *out[RANKS_AT_MOST];
    size_t count;
};

static const struct algorithm *algorithm_named(const char *name) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        char full[64];
        snprintf(full, sizeof full, "%s_%s", prog_collective_name(a->collective), a->name);
        if (strcmp(full, name) == 0)
            return a;
    }
    fail_msg("no algorithm is called %s", name);
    return NULL;
}

static enum collet_result call_of(const struct job *job, int rank) {
    struct collet_comm *comm = job->comms[rank];
    const int32_t *in = job->in[rank];
    int32_t *out = job->out[rank];
    switch (job->algorithm->collective) {
    case PROG_ALLREDUCE: return collet_allreduce(in, out, job->count, COLLET_INT32, COLLET_SUM, comm, NULL);
    case PROG_BROADCAST: return collet_broadcast(in, out, job->count, COLLET_INT32, 0, comm, NULL);
    case PROG_ALLGATHER: return collet_allgather(in, out, job->count, COLLET_INT32, comm, NULL);
    case PROG_ALLTOALL: return collet_alltoall(in, out, job->count, COLLET_INT32, comm, NULL);
    default: return collet_reducescatter(in, out, job->count, COLLET_INT32, COLLET_SUM, comm, NULL);
    }
}

/* With inputs that no call had before. */
static void call_all(const struct job *job) {
    static uint32_t seed = 1;
    for (int rank = 0; rank < job->cell->nranks; rank++)
        for (size_t k = 0; k < job->cell->bytes / 4; k++)
            job->in[rank][k] = (int32_t)(seed = seed * 1664525u + 1013904223u);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int rank = 0; rank < job->cell->nranks; rank++)
        assert_int_equal(call_of(job, rank), COLLET_SUCCESS);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
}

static void job_begin(struct job *job, const struct cell *cell) {
    *job = (struct job){.cell = cell, .algorithm = algorithm_named(cell->name)};
    const bool sliced = prog_is_sliced(job->algorithm->collective);
    job->count = cell->bytes / 4 / (sliced ? 1 : (size_t)cell->nranks);
    setenv("COLLET_ALGO", job->algorithm->name, 1);
    setenv("COLLET_PROTO", protocol_names[cell->protocol], 1);
    setenv("COLLET_FANS", has_fans(cell) ? "1" : "0", 1);
    setenv("COLLET_DIRECT", has_loans(cell) ? "process" : "off", 1);
    setenv("COLLET_DIRECT_BYTES", "1024", 1);
    assert_int_equal(collet_comm_init_all(job->comms, cell->nranks, NULL), COLLET_SUCCESS);
    for (int rank = 0; rank < cell->nranks; rank++) {
        job->in[rank] = malloc(cell->bytes);
        job->out[rank] = malloc(cell->bytes);
        assert_non_null(job->in[rank]);
        assert_non_null(job->out[rank]);
    }
}

static void job_end(struct job *job) {
    for (int rank = 0; rank < job->cell->nranks; rank++) {
        collet_comm_destroy(job->comms[rank]);
        free(job->in[rank]);
        free(job->out[rank]);
    }
}

/* ---- what a call has touched ---- */

/* The end of a rank at a connection, and its memory, before the call. */
struct before {
    const struct conn *conn;
    uint64_t position;
    char *memory; /* a producer's */
};

/* What a rank's ends say after the call. */
struct touched {
    uint64_t slots, headers, offers, sent, received, from_fans;
};

/* Has a producer of several connections one end for all? Then only one of them counts. */
static bool counts(const struct conn *conn) { return conn->lead == NULL || conn->lead == conn; }

static int remember(const struct job *job, struct before *before) {
    int n = 0;
    for (int rank = 0; rank < job->cell->nranks; rank++)
        for (const struct conn *conn = job->comms[rank]->chan->owner.first; conn != NULL; conn = conn->next) {
            if (!counts(conn))
                continue;
            assert_true(n < CONNS_AT_MOST);
            before[n] = (struct before){conn, conn->end.position, NULL};
            if (conn->side == CONN_PRODUCER) {
                before[n].memory = malloc(conn_layout(conn)->total_bytes);
                assert_non_null(before[n].memory);
                memcpy(before[n].memory, conn->end.tail, conn_layout(conn)->total_bytes);
            }
            n++;
        }
    return n;
}

static uint64_t changed_lines(const struct before *before, size_t from, size_t bytes) {
    const char *now = (const char *)before->conn->end.tail;
    uint64_t lines = 0;
    for (size_t at = from; at < from + bytes; at += LINES_BYTES)
        lines += memcmp(now + at, before->memory + at, LINES_BYTES) != 0;
    return lines;
}

static void see(const struct job *job, const struct before *before, struct touched *touched) {
    const struct conn *conn = before->conn;
    const struct fifo_layout *layout = conn_layout(conn);
    struct touched *of = &touched[conn->owner->rank];
    const uint64_t messages = conn->end.position - before->position;
    const uint32_t protocol = job->cell->protocol;
    *(conn->side == CONN_PRODUCER ? &of->sent : &of->received) += messages;
    of->from_fans += conn->side == CONN_CONSUMER && conn->transport->fans ? messages : 0;
    if (conn->side == CONN_CONSUMER)
        return;
    assert_true(messages <= layout->nslots); /* so each has memory of its own */
    of->slots += changed_lines(before, layout->slots_at[protocol], (size_t)layout->nslots * layout->strides[protocol]);
    of->headers += changed_lines(before, layout->headers_at, layout->nslots * sizeof(struct fifo_slot_header));
    of->offers += changed_lines(before, layout->offers_at, layout->nslots * sizeof(struct loan_offer));
}

static void touch(const struct job *job, struct touched *touched) {
    static struct before before[CONNS_AT_MOST];
    call_all(job); /* connects */
    const int n = remember(job, before);
    call_all(job);
    memset(touched, 0, RANKS_AT_MOST * sizeof *touched);
    for (int k = 0; k < n; k++) {
        see(job, &before[k], touched);
        free(before[k].memory);
    }
}

/* ---- what is counted ---- */

static void count(const struct job *job, struct lines_rank *ranks) {
    const struct cell *cell = job->cell;
    char plan[128];
    struct cast cast;
    int row;
    assert_int_equal(collet_comm_plan(job->comms[0], prog_collective_name(job->algorithm->collective), job->count,
                                      COLLET_INT32, plan, sizeof plan),
                     COLLET_SUCCESS);
    assert_non_null(strstr(plan, ", 1 channel(s), chunk "));
    struct lines_call call = {.protocol = cell->protocol,
                              .count = job->count,
                              .elem_bytes = 4,
                              .chunk_bytes = (uint32_t)atoi(strstr(plan, "chunk ") + strlen("chunk ")),
                              .nchannels = 1,
                              .nslots = job->comms[0]->chan->owner.layouts[job->algorithm->connects].nslots,
                              .fans = has_fans(cell) && cell->nranks > 2,
                              .lent_from = has_loans(cell) ? 1024 : 0};
    assert_int_equal(cast_create(job->algorithm, &PROG_FLAT(cell->nranks), 0, &cast), COLLET_SUCCESS);
    assert_int_equal(lines_count(&cast, &call, ranks, &row), COLLET_SUCCESS);
    cast_destroy(&cast);
}

static void compare_rank(const struct touched *touched, const struct lines_rank *rank, bool plain) {
    assert_int_equal(touched->slots, rank->written.payload);
    assert_int_equal(touched->headers, rank->written.headers);
    assert_int_equal(touched->received, (uint64_t)rank->written.heads);
    if (!plain)
        return;
    assert_int_equal(touched->sent, rank->written.tails);
    assert_int_equal(touched->received, rank->read.tails);
    assert_int_equal(touched->received, rank->read.headers);
}

/* A claim lies in the header, where it cannot be told from what the producer has written: each message has one that is not of a fan. */
static uint64_t loans_of(const struct cell *cell, const struct touched *touched) {
    uint64_t loans = 0;
    for (int rank = 0; rank < cell->nranks && has_loans(cell); rank++)
        loans += touched[rank].offers + touched[rank].received - touched[rank].from_fans;
    return loans;
}

static void compare(const struct cell *cell) {
    struct job job;
    struct touched touched[RANKS_AT_MOST];
    struct lines_rank ranks[RANKS_AT_MOST];
    uint64_t loans = 0;
    print_message("%s %s, %zu bytes, %d ranks\n", cell->name, protocol_names[cell->protocol], cell->bytes,
                  cell->nranks);
    job_begin(&job, cell);
    touch(&job, touched);
    count(&job, ranks);
    for (int rank = 0; rank < cell->nranks; rank++) {
        compare_rank(&touched[rank], &ranks[rank], cell->protocol == PROTOCOL_SIMPLE);
        loans += ranks[rank].written.loans;
    }
    assert_int_equal(loans_of(cell, touched), loans);
    job_end(&job);
}

static void what_is_counted_is_what_a_call_touches(void **state) {
    static const struct cell cells[] = {
        {"broadcast_direct", PROTOCOL_LL, 8, 16, FANS},
        {"broadcast_direct", PROTOCOL_LL, 8, 16, PAIRS},
        {"broadcast_direct", PROTOCOL_LL128, 1000, 5, FANS},
        {"broadcast_direct", PROTOCOL_SIMPLE, 4096, 16, FANS},
        {"broadcast_tree", PROTOCOL_LL128, 4000, 8, FANS},
        {"allreduce_oneshot", PROTOCOL_LL, 8, 16, FANS},
        {"allreduce_doubling", PROTOCOL_LL, 8, 16, FANS},
        {"allreduce_doubling", PROTOCOL_SIMPLE, 4096, 5, PAIRS},
        {"allreduce_twoshot", PROTOCOL_SIMPLE, 65536, 16, FANS},
        {"allreduce_twoshot", PROTOCOL_SIMPLE, 65536, 3, PAIRS},
        {"allreduce_ring", PROTOCOL_SIMPLE, 12288, 3, PAIRS},
        {"allgather_direct", PROTOCOL_SIMPLE, 65536, 8, FANS},
        {"allgather_bruck", PROTOCOL_LL, 4096, 16, PAIRS},
        {"reducescatter_direct", PROTOCOL_SIMPLE, 65536, 8, PAIRS},
        {"alltoall_direct", PROTOCOL_SIMPLE, 65536, 8, PAIRS},
        {"broadcast_direct", PROTOCOL_SIMPLE, 65536, 5, LENT_FANS},
        {"allgather_direct", PROTOCOL_SIMPLE, 65536, 16, LENT_FANS},
        {"allreduce_twoshot", PROTOCOL_SIMPLE, 65536, 16, LENT_FANS},
        {"reducescatter_direct", PROTOCOL_SIMPLE, 65536, 8, LENT_PAIRS},
        {"alltoall_direct", PROTOCOL_SIMPLE, 65536, 8, LENT_PAIRS},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
        compare(&cells[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_counted_is_what_a_call_touches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
