/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers of many blocks: prepared once, posted often, in both directions, in one process, in several, and over tcp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/comm.h"
#include "common/level.h"
#include "common/ranks.h"
#include "common/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks are scattered on both sides: block k lies at place k here, and at place (k · STRIDE) mod BLOCKS there. */
#define BLOCKS 501
#define STRIDE 7
#define BLOCK_BYTES 1000
#define BYTES ((size_t)BLOCKS * BLOCK_BYTES)

struct side {
    struct collet_comm *comm;
    struct collet_window *window;
    char *buff, *data;
};

static struct side begin(struct ranks *ranks, int rank, size_t bytes) {
    struct side side = {ranks_comm(ranks, rank, NULL), NULL, calloc(1, bytes), calloc(1, bytes)};
    ranks_try(ranks, rank, collet_win_register(side.comm, side.buff, bytes, &side.window));
    if (rank % 2 == 1) /* what this rank copies is larger than its share of the caches */
        side.comm->chan->cache_bytes = 0;
    return side;
}

static void end(struct ranks *ranks, int rank, const struct side *side) {
    ranks_try(ranks, rank, collet_win_deregister(side->comm, side->window));
    ranks_try(ranks, rank, collet_comm_destroy(side->comm));
    free(side->buff);
    free(side->data);
}

static struct collet_transfer *prepare(struct ranks *ranks, int rank, const struct side *side,
                                       enum collet_transfer_kind kind, int peer) {
    struct collet_local_piece local[BLOCKS];
    struct collet_remote_piece remote[BLOCKS];
    struct collet_transfer *transfer;
    for (size_t k = 0; k < BLOCKS; k++) {
        local[k] = (struct collet_local_piece){side->data + k * BLOCK_BYTES, BLOCK_BYTES};
        remote[k] = (struct collet_remote_piece){side->window, k * STRIDE % BLOCKS * BLOCK_BYTES, BLOCK_BYTES};
    }
    ranks_try(ranks, rank, collet_transfer_prepare(kind, local, remote, BLOCKS, peer, side->comm, &transfer));
    memset(local, 0, sizeof local); /* the lists are the caller's again */
    memset(remote, 0, sizeof remote);
    return transfer;
}

static char byte_of(int rank, int round, size_t block) { return (char)(rank * 50 + round * 11 + (int)(block % 97)); }

static void fill(char *data, int rank, int round) {
    for (size_t k = 0; k < BLOCKS; k++)
        memset(data + k * BLOCK_BYTES, byte_of(rank, round, k), BLOCK_BYTES);
}

static void wait_note(struct ranks *ranks, int rank, const struct side *side, int peer, const char *expected) {
    char note[COLLET_NOTE_BYTES];
    size_t bytes;
    ranks_try(ranks, rank, collet_note_wait(peer, note, &bytes, side->comm));
    ranks_check(ranks, rank, bytes == strlen(expected) && memcmp(note, expected, bytes) == 0);
}

/* Both ranks put. The one that has looked says so by a note behind no pieces. */
static void run_rounds(struct ranks *ranks, int rank) {
    enum { ROUNDS = 5 };
    const struct side side = begin(ranks, rank, BYTES);
    const int peer = 1 - rank;
    struct collet_transfer *put = prepare(ranks, rank, &side, COLLET_TRANSFER_PUT, peer), *ready;
    ranks_try(ranks, rank, collet_transfer_prepare(COLLET_TRANSFER_GET, NULL, NULL, 0, peer, side.comm, &ready));
    for (int round = 0; round < ROUNDS; round++) {
        fill(side.data, rank, round);
        ranks_try(ranks, rank, collet_transfer_post(put, "blocks", 6, NULL));
        wait_note(ranks, rank, &side, peer, "blocks");
        for (size_t k = 0; k < BLOCKS; k++)
            for (size_t i = 0; i < BLOCK_BYTES; i += 333)
                ranks_check(ranks, rank, side.buff[k * STRIDE % BLOCKS * BLOCK_BYTES + i] == byte_of(peer, round, k));
        ranks_try(ranks, rank, collet_transfer_wait(put));
        ranks_try(ranks, rank,
                  collet_transfer_post(ready, "", 0, NULL)); /* a note of no bytes: the window may be written again */
        wait_note(ranks, rank, &side, peer, "");
        ranks_try(ranks, rank, collet_transfer_wait(ready));
    }
    ranks_try(ranks, rank, collet_transfer_release(put));
    ranks_try(ranks, rank, collet_transfer_release(ready));
    end(ranks, rank, &side);
}

static void a_transfer_is_prepared_once_and_posted_often(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, run_rounds, NULL);
    world_run(&worlds[WORLD_TCP], 2, (const char *const[]){"COLLET_BUFFSIZE", "4096", NULL}, run_rounds, NULL);
}

/* All ranks get from all others at the same time. Nobody makes a call for those that get from it. */
static void run_gets(struct ranks *ranks, int rank) {
    const struct side side = begin(ranks, rank, BYTES);
    struct collet_transfer *transfers[RANKS_MAX];
    for (size_t k = 0; k < BLOCKS; k++)
        memset(side.buff + k * STRIDE % BLOCKS * BLOCK_BYTES, byte_of(rank, 0, k), BLOCK_BYTES);
    ranks_barrier(ranks);
    for (int peer = 0; peer < ranks->nranks; peer++) {
        transfers[peer] = prepare(ranks, rank, &side, COLLET_TRANSFER_GET, peer);
        ranks_try(ranks, rank, collet_transfer_post(transfers[peer], NULL, 0, NULL));
        ranks_try(ranks, rank, collet_transfer_wait(transfers[peer]));
        for (size_t k = 0; k < BLOCKS; k++)
            ranks_check(ranks, rank, side.data[k * BLOCK_BYTES + k % BLOCK_BYTES] == byte_of(peer, 0, k));
        ranks_try(ranks, rank, collet_transfer_release(transfers[peer]));
    }
    end(ranks, rank, &side);
}

static void transfers_get_what_is_there(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, run_gets, NULL);
}

/* A small one that is posted behind a large one is done first. On a busy machine this thread may have no CPU for so long that the large one
 * is done, too; but not each time. */
static bool overtakes(struct ranks *ranks, int rank, struct collet_transfer *large, struct collet_transfer *small) {
    for (int n = 0; n < 5; n++) {
        ranks_try(ranks, rank, collet_transfer_post(large, NULL, 0, NULL));
        ranks_try(ranks, rank, collet_transfer_post(small, NULL, 0, NULL));
        ranks_try(ranks, rank, collet_transfer_wait(small));
        if (collet_transfer_test(large) == COLLET_IN_PROGRESS) {
            ranks_try(ranks, rank, collet_transfer_wait(large));
            return true;
        }
    }
    return false;
}

/* Hundreds are under way. */
static void run_many(struct ranks *ranks, int rank) {
    enum { MANY = 300 };
    const size_t large_bytes = 96u << 20;
    const struct side side = begin(ranks, rank, large_bytes + MANY * 8);
    struct collet_transfer *large, *small[MANY];
    const struct collet_local_piece all = {side.data, large_bytes};
    const struct collet_remote_piece there = {side.window, 0, large_bytes};
    if (rank == 0) {
        memset(side.data, 1, large_bytes + MANY * 8);
        ranks_try(ranks, rank, collet_transfer_prepare(COLLET_TRANSFER_PUT, &all, &there, 1, 1, side.comm, &large));
        for (size_t k = 0; k < MANY; k++) {
            const struct collet_local_piece piece = {side.data + large_bytes + 8 * k, 8};
            const struct collet_remote_piece to = {side.window, large_bytes + 8 * k, 8};
            ranks_try(ranks, rank,
                      collet_transfer_prepare(COLLET_TRANSFER_PUT, &piece, &to, 1, 1, side.comm, &small[k]));
        }
        ranks_check(ranks, rank, overtakes(ranks, rank, large, small[0]));
        ranks_try(ranks, rank, collet_transfer_post(large, NULL, 0, NULL));
        for (int k = 0; k < MANY; k++)
            ranks_try(ranks, rank, collet_transfer_post(small[k], NULL, 0, NULL));
        for (int k = 0; k < MANY; k++)
            ranks_try(ranks, rank, collet_transfer_wait(small[k]));
        ranks_try(ranks, rank, collet_transfer_wait(large));
        for (int k = 0; k < MANY; k++)
            ranks_try(ranks, rank, collet_transfer_release(small[k]));
        ranks_try(ranks, rank, collet_transfer_release(large));
    }
    ranks_barrier(ranks); /* done: it is there */
    if (LEVEL_WATCHES_THREADS && rank == 1)
        ranks_try(ranks, rank,
                  collet_win_flush(0, side.window, side.comm, NULL)); /* orders this thread and collet-rma */
    for (size_t i = 0; i < large_bytes + MANY * 8 && rank == 1; i += 8)
        ranks_check(ranks, rank, side.buff[i] == 1);
    end(ranks, rank, &side);
}

static void a_small_one_does_not_wait_for_a_large_one(void **state) {
    (void)state;
    world_run(&worlds[WORLD_TCP], 2, NULL, run_many, NULL);
}

/* ---- what is refused ---- */

static void expect(struct ranks *ranks, int rank, enum collet_result result, enum collet_result expected,
                   const char *says) {
    ranks_expect(ranks, rank, result, expected, says);
    if (strstr(collet_last_error(NULL), says) == NULL)
        ranks_fail(ranks, "rank %d: '%s' does not say '%s'", rank, collet_last_error(NULL), says);
}

static void run_refused(struct ranks *ranks, int rank) {
    const enum collet_result bad = COLLET_ERR_INVALID_ARGUMENT, misuse = COLLET_ERR_INVALID_USAGE;
    struct collet_comm *other_comm = ranks_comm(ranks, rank, NULL), *comm;
    struct collet_transfer *transfer;
    struct collet_window *foreign;
    char note[COLLET_NOTE_BYTES];
    size_t bytes;
    expect(ranks, rank, collet_note_test(0, note, &bytes, other_comm), misuse, "no window");
    const struct side side = begin(ranks, rank, BYTES);
    comm = side.comm;
    ranks_try(ranks, rank, collet_win_register(other_comm, NULL, 0, &foreign));
#define PREPARE(kind, local, remote, n, peer)                                                                          \
    collet_transfer_prepare(COLLET_TRANSFER_##kind, local, remote, n, peer, comm, &transfer)
    const struct collet_local_piece local[] = {{side.data, 8}, {side.data + 4, 8}, {side.data + 8, 8}};
    const struct collet_remote_piece apart[] = {{side.window, 0, 8}, {side.window, 8, 8}, {side.window, 16, 8}};
    const struct collet_remote_piece crossing[] = {{side.window, 100, 8}, {side.window, 0, 8}, {side.window, 107, 8}};
    const struct collet_remote_piece outside[] = {{side.window, 0, 8}, {side.window, BYTES - 7, 8}};
    const struct collet_remote_piece beyond[] = {{side.window, SIZE_MAX, 8}};
    const struct collet_remote_piece longer[] = {{side.window, 0, 8}, {side.window, 8, 8}, {side.window, 16, 9}};
    const struct collet_remote_piece strange[] = {{side.window, 0, 8}, {foreign, 8, 8}};
    const struct collet_local_piece nowhere[] = {{side.data, 8}, {NULL, 8}};
    expect(ranks, rank, PREPARE(GET, local, apart, 2, 0), bad, "piece 1: it overlaps piece 0");
    expect(ranks, rank, PREPARE(PUT, local, crossing, 3, 0), bad, "piece 2: it overlaps piece 0");
    expect(ranks, rank, PREPARE(PUT, local, outside, 2, 0), bad, "piece 1: offset is");
    expect(ranks, rank, PREPARE(PUT, local, beyond, 1, 0), bad, "piece 0: offset is");
    expect(ranks, rank, PREPARE(PUT, local, longer, 3, 0), bad, "piece 2: it has 8 bytes here and 9 bytes at rank 0");
    expect(ranks, rank, PREPARE(PUT, local, strange, 2, 0), bad, "piece 1: its window is");
    expect(ranks, rank, PREPARE(PUT, nowhere, apart, 2, 0), bad, "piece 1: buff is NULL");
    expect(ranks, rank, PREPARE(PUT, NULL, apart, 2, 0), bad, "local is NULL");
    expect(ranks, rank, PREPARE(PUT, local, NULL, 2, 0), bad, "remote is NULL");
    expect(ranks, rank, PREPARE(PUT, local, apart, 2, 2), bad, "peer is 2");
    expect(ranks, rank, collet_transfer_prepare(7, local, apart, 2, 0, comm, &transfer), bad, "kind is 7");
    expect(ranks, rank, collet_transfer_prepare(COLLET_TRANSFER_PUT, local, apart, 2, 0, comm, NULL), bad,
           "transfer is NULL");
    ranks_try(ranks, rank, PREPARE(PUT, local, apart, 3, 1 - rank)); /* what is read may overlap */
    expect(ranks, rank, collet_transfer_test(transfer), misuse, "not posted");
    expect(ranks, rank, collet_transfer_wait(transfer), misuse, "not posted");
    expect(ranks, rank, collet_transfer_post(transfer, NULL, 1, NULL), bad, "note is NULL");
    expect(ranks, rank, collet_transfer_post(transfer, note, 65, NULL), bad, "note_bytes is 65");
    expect(ranks, rank, collet_transfer_post(NULL, NULL, 0, NULL), bad, "transfer is NULL");
    expect(ranks, rank, collet_win_deregister(comm, side.window), misuse, "1 transfers name this window");
    expect(ranks, rank, collet_note_wait(0, NULL, &bytes, comm), bad, "note is NULL");
    expect(ranks, rank, collet_note_test(0, note, NULL, comm), bad, "note_bytes is NULL");
    expect(ranks, rank, collet_note_test(-1, note, &bytes, comm), bad, "peer is -1");
    ranks_check(ranks, rank, collet_note_test(1 - rank, note, &bytes, comm) == COLLET_IN_PROGRESS);
    ranks_try(ranks, rank, collet_transfer_post(transfer, NULL, 0, NULL));
    ranks_try(ranks, rank, collet_transfer_wait(transfer));
    ranks_try(ranks, rank, collet_transfer_test(transfer));
    ranks_try(ranks, rank, collet_transfer_release(transfer));
    ranks_try(ranks, rank, collet_transfer_release(NULL));
    ranks_barrier(ranks); /* the end of a communicator is none: the peer may still wait for its transfer to this rank */
    ranks_try(ranks, rank, PREPARE(PUT, local, apart, 3, 1 - rank)); /* this one ends with its communicator */
    ranks_try(ranks, rank, collet_transfer_post(transfer, NULL, 0, NULL));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_comm_destroy(other_comm));
    free(side.buff);
    free(side.data);
}

static void what_cannot_be_moved_is_named(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, NULL, run_refused, NULL);
    world_run(&worlds[WORLD_TCP], 2, NULL, run_refused, NULL);
}

/* ---- a peer that dies ---- */

static void run_dying(struct ranks *ranks, int rank) {
    const size_t bytes = 64u << 20;
    const struct side side = begin(ranks, rank, bytes);
    const struct collet_local_piece local = {side.data, bytes};
    const struct collet_remote_piece remote = {side.window, 0, bytes};
    struct collet_transfer *transfer;
    ranks_try(ranks, rank,
              collet_transfer_prepare(rank == 1 ? COLLET_TRANSFER_PUT : COLLET_TRANSFER_GET, &local, &remote, 1, 0,
                                      side.comm, &transfer));
    ranks->expendable[0] = 1;
    ranks_barrier(ranks);
    if (rank == 0)
        raise(SIGKILL);
    enum collet_result result = collet_transfer_post(transfer, "end", 3, NULL);
    while (result == COLLET_SUCCESS || result == COLLET_IN_PROGRESS)
        result = rank == 1 ? collet_transfer_wait(transfer) : collet_transfer_test(transfer);
    ranks_check(ranks, rank, result == COLLET_ERR_REMOTE);
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 0") != NULL);
    ranks_try(ranks, rank, collet_transfer_release(transfer));
    ranks_try(ranks, rank, collet_comm_abort(side.comm));
    free(side.buff);
    free(side.data);
}

static void a_dead_peer_ends_a_transfer(void **state) {
    (void)state;
    world_run(&worlds[WORLD_TCP], 3, NULL, run_dying, NULL);
}

static void run_noteless(struct ranks *ranks, int rank) {
    const struct side side = begin(ranks, rank, 8);
    char note[COLLET_NOTE_BYTES];
    size_t bytes;
    if (rank == 1)
        expect(ranks, rank, collet_note_wait(0, note, &bytes, side.comm), COLLET_ERR_TIMEOUT, "note of rank 0");
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_abort(side.comm));
    free(side.buff);
    free(side.data);
}

static void a_note_that_does_not_come_is_an_error(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, (const char *const[]){"COLLET_TIMEOUT", "1", NULL}, run_noteless, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_is_prepared_once_and_posted_often),
        cmocka_unit_test(transfers_get_what_is_there),
        cmocka_unit_test(a_small_one_does_not_wait_for_a_large_one),
        cmocka_unit_test(what_cannot_be_moved_is_named),
        cmocka_unit_test(a_dead_peer_ends_a_transfer),
        cmocka_unit_test(a_note_that_does_not_come_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
