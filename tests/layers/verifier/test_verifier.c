/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: what it finds in wrong programs.
 */
#include "base/err.h"
#include "layers/tools/prog/show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the verifier ----
 *
 * Each wrong program is a small one with a single error. If only one rank is at fault, it is rank 1. */

struct wrong {
    enum prog_collective collective;
    prog_build_fn build;
    int nranks, nslots;
    bool in_place;
};

static void expect_wrong(struct wrong wrong, const char *where, const char *what) {
    struct algorithm algorithm = {.name = "wrong", .collective = wrong.collective, .build = wrong.build};
    char why[512];
    int nslots = wrong.nslots > 0 ? wrong.nslots : 2;
    if (prog_check(&algorithm, &PROG_FLAT(wrong.nranks), 0, nslots, wrong.in_place, why, sizeof(why)))
        fail_msg("not found: %s: %s", where, what);
    if (strstr(why, where) == NULL || strstr(why, what) == NULL)
        fail_msg("'%s' does not say '%s' and '%s'", why, where, what);
}

static void expect_right(struct wrong right) {
    struct algorithm algorithm = {.name = "right", .collective = right.collective, .build = right.build};
    char why[512];
    if (!prog_check(&algorithm, &PROG_FLAT(right.nranks), 0, 2, right.in_place, why, sizeof(why)))
        fail_msg("%s", why);
}

/* A chain to rank 0 and back from it, as an allreduce of one slice; `at_fault` is what rank 1 reduces. */
static void chain(struct prog *prog, struct step_text at_fault) {
    int n = prog->nranks, rank = prog->rank;
    prog_worker(prog);
    if (rank == n - 1)
        prog_step(prog, .local = IN(0), .send = PEER(rank - 1));
    else if (rank == 1)
        prog_emit(prog, at_fault);
    else if (rank > 0)
        prog_step(prog, .recv = PEER(rank + 1), .local = IN(0), .send = PEER(rank - 1));
    else
        prog_step(prog, .recv = PEER(1), .local = IN(0), .finish = true, .store = OUT(0), .send = PEER_LANE(1, 1));
    if (rank > 0) {
        prog_worker(prog);
        struct peers next = {.first = rank + 1, .count = rank < n - 1 ? 1 : 0, .lane = 1};
        prog_step(prog, .recv = PEER_LANE(rank - 1, 1), .store = OUT(0), .send = next);
    }
}

static void right_chain(struct prog *prog) {
    chain(prog, (struct step_text){.recv = PEER(2), .local = IN(0), .send = PEER(0)});
}
/* A ring in which rank 1 passes on what it receives without its own part. */
static void dropped_in_a_ring(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(rank + 1), prev = PEER(rank - 1);
    prog_slices(prog, n);
    prog_worker(prog);
    prog_step(prog, .local = IN(prog_wrap(prog, rank - 1)), .send = next);
    for (int k = 2; k < n; k++)
        if (rank == 1)
            prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank - k)), .send = next);
        else
            prog_step(prog, .recv = prev, .local = IN(prog_wrap(prog, rank - k)), .send = next);
    prog_step(prog, .recv = prev, .local = IN(rank), .finish = true, .store = OUT(rank), .send = next);
    for (int k = 1; k < n - 1; k++)
        prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank - k)), .send = next);
    prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank + 1)));
}
/* Two ranks that swap their parts and forget to add their own. */
static void dropped_by_one(struct prog *prog) {
    int other = 1 - prog->rank;
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER(other));
    prog_step(prog, .recv = PEER(other), .store = OUT(0));
}
/* Rank 1 finishes what it is sent, without its own part. */
static void finished_alone(struct prog *prog) {
    int other = 1 - prog->rank;
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER(other));
    if (prog->rank == 1)
        prog_step(prog, .recv = PEER(other), .finish = true, .store = OUT(0));
    else
        prog_step(prog, .recv = PEER(other), .local = IN(0), .finish = true, .store = OUT(0));
}
/* Rank 0 is right; rank 1 gets a sum that already holds its part, and adds it again. */
static void doubled(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0) {
        prog_step(prog, .recv = PEER(1), .local = IN(0), .send = PEER_LANE(1, 2));
        prog_step(prog, .recv = PEER_LANE(1, 1), .local = IN(0), .finish = true, .store = OUT(0));
    } else {
        prog_step(prog, .local = IN(0), .send = PEER(0));
        prog_step(prog, .local = IN(0), .send = PEER_LANE(0, 1));
        prog_step(prog, .recv = PEER_LANE(0, 2), .local = IN(0), .finish = true, .store = OUT(0));
    }
}
/* One-shot with a place for the local operand that is not its rank's. */
static void oneshot(struct prog *prog, int local_at, bool finish, int nworkers) {
    struct peers others = {.first = 0, .count = OTHERS};
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = others, .copied = true);
    if (nworkers == 2)
        prog_worker(prog);
    prog_step(prog, .recv = others, .local = IN(0), .local_at = local_at, .finish = finish, .store = OUT(0));
}
static void right_oneshot(struct prog *prog) { oneshot(prog, prog->rank, true, 1); }
static void local_first(struct prog *prog) { oneshot(prog, 0, true, 1); }
static void wrong_order(struct prog *prog) { oneshot(prog, prog->rank == 2 ? 0 : prog->rank, true, 1); }
static void unfinished(struct prog *prog) { oneshot(prog, prog->rank, prog->rank != 1, 1); }
static void racing(struct prog *prog) { oneshot(prog, prog->rank, true, 2); }

/* The same sum, but rank 1 rounds between two steps of one operand each. */
static void rounded_between(struct prog *prog) {
    int rank = prog->rank;
    struct peers others = {.first = 0, .count = OTHERS};
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = others);
    if (rank != 1) {
        prog_step(prog, .recv = others, .local = IN(0), .local_at = rank, .finish = true, .store = OUT(0));
        return;
    }
    prog_step(prog, .recv = PEER(0), .local = IN(0), .local_at = 1, .store = OUT(0));
    prog_step(prog, .recv = PEER(2), .local = OUT(0), .finish = true, .store = OUT(0));
}

static void a_dropped_contribution_is_named(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLREDUCE, dropped_in_a_ring, 4, 0, false}, "worker 0 step 3",
                 "3 of 4 contributions: that of rank 1 is missing");
    expect_wrong((struct wrong){PROG_ALLREDUCE, dropped_by_one, 2, 0, false},
                 "rank 0 worker 0 step 1: stores to OUT block 0", "not finished");
    expect_wrong((struct wrong){PROG_ALLREDUCE, finished_alone, 2, 0, false}, "rank 1 worker 0 step 1",
                 "1 of 2 contributions: that of rank 1 is missing");
}

static void a_failed_check_shows_what_the_ranks_hold(void **state) {
    (void)state;
    struct algorithm algorithm = {.name = "wrong", .collective = PROG_ALLREDUCE, .build = dropped_in_a_ring};
    char *text = NULL, why[512];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_false(show_check(&algorithm, &PROG_FLAT(4), 0, 2, false, false, out, why, sizeof(why)));
    fclose(out);
    /* What rank 2 sent lacks the part of rank 1. */
    if (strstr(text, "\nrank 3  -      -      -      -      <2 3:r0+r2\n") == NULL)
        fail_msg("%s: %s", why, text);
    free(text);
}

static void a_doubled_contribution_is_named(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLREDUCE, doubled, 2, 0, false}, "rank 1 worker 0 step 2",
                 "the contribution of rank 1 is doubled");
}

static void another_order_on_one_rank_is_found(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLREDUCE, right_oneshot, 5, 0, true});
    expect_wrong((struct wrong){PROG_ALLREDUCE, wrong_order, 4, 0, false}, "rank 2 worker 0 step 1",
                 "in another order than elsewhere");
    /* With two ranks, the local operand first on both is a+b here and b+a there: the same. */
    expect_right((struct wrong){PROG_ALLREDUCE, local_first, 2, 0, false});
    expect_wrong((struct wrong){PROG_ALLREDUCE, local_first, 4, 0, false}, "rank 2", "another order");
}

static void rounding_between_steps_is_another_order(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLREDUCE, rounded_between, 3, 0, false}, "rank 1 worker 0 step 2",
                 "((0+1)+2), not (0+1+2)");
}

static void a_missing_finish_is_found(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLREDUCE, unfinished, 3, 0, false},
                 "rank 1 worker 0 step 1: stores to OUT block 0", "not finished");
}

static void finish_half_reduced(struct prog *prog) {
    chain(prog, (struct step_text){.recv = PEER(2), .local = IN(0), .send = PEER(0), .finish = true});
}
static void finish_twice(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    prog_worker(prog);
    struct peers others = {.first = rank + 1, .count = OTHERS};
    prog_step(prog, .local = IN(0), .send = others);
    prog_step(prog, .recv = others, .local = IN(0), .local_at = n - 1 - rank, .finish = true, .store = OUT(0));
    if (rank == 1)
        prog_step(prog, .local = OUT(0), .finish = true, .store = OUT(0));
}
static void finish_a_copy(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(0), .finish = true);
}
static void reduce_in_a_broadcast(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0)
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = {.first = 1, .count = OTHERS});
    else if (prog->rank == 2)
        prog_step(prog, .recv = PEER(0), .store = OUT(0), .send = PEER(1));
    else
        prog_step(prog, .recv = LISTED(((int[]){0, 2}), 2, 0), .store = OUT(0));
}

static void a_finish_out_of_place_is_found(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLREDUCE, right_chain, 4, 0, true});
    expect_wrong((struct wrong){PROG_ALLREDUCE, finish_half_reduced, 4, 0, false}, "rank 1 worker 0 step 0",
                 "finishes a sum of 3 of 4 contributions");
    expect_wrong((struct wrong){PROG_ALLREDUCE, finish_twice, 3, 0, false}, "rank 1 worker 0 step 2",
                 "finishes a value twice");
    expect_wrong((struct wrong){PROG_BROADCAST, finish_a_copy, 1, 0, false}, "rank 0 worker 0 step 0",
                 "does not reduce");
    expect_wrong((struct wrong){PROG_BROADCAST, reduce_in_a_broadcast, 3, 0, false}, "rank 1 worker 0 step 0",
                 "reduces, but a broadcast must not");
}

/* Rank 0 sends where rank 1 does not listen; or more often than rank 1 receives. */
static void copy_and_send(struct prog *prog, int lane, int times) {
    prog_worker(prog);
    if (prog->rank == 1) {
        prog_step(prog, .recv = PEER(0), .store = OUT(0));
        return;
    }
    prog_step(prog, .local = IN(0), .store = OUT(0), .send = PEER(1));
    for (int i = 0; i < times; i++)
        prog_step(prog, .local = IN(0), .send = PEER_LANE(1, lane));
}
static void unheard(struct prog *prog) { copy_and_send(prog, 3, 1); }
static void twice(struct prog *prog) { copy_and_send(prog, 0, 1); }
static void right_copy(struct prog *prog) { copy_and_send(prog, 0, 0); }
static void unsent(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0)
        prog_step(prog, .local = IN(0), .store = OUT(0));
    else
        prog_step(prog, .recv = PEER(0), .store = OUT(0));
}
/* Rank 0 sends half of the slices more than rank 1 takes: nothing blocks, but at the end a slot is left over. */
static void one_too_many(struct prog *prog) {
    prog_slices(prog, 2);
    prog_worker(prog);
    for (int slice = 0; slice < 2; slice++)
        if (prog->rank == 0)
            prog_step(prog, .local = IN(slice), .store = OUT(slice), .send = PEER(1));
        else
            prog_step(prog, .recv = PEER(0), .store = OUT(0));
}

static void a_slot_that_is_never_read_is_found(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_BROADCAST, right_copy, 2, 0, true});
    expect_wrong((struct wrong){PROG_BROADCAST, unheard, 2, 0, false}, "rank 0 worker 0 step 1",
                 "sends to rank 1 on lane 3, and rank 1 never receives there");
    expect_wrong((struct wrong){PROG_BROADCAST, twice, 2, 0, false}, "rank 1 worker 0 step 0",
                 "expected round 1, got round 0 from rank 0 worker 0 step 1");
    expect_wrong((struct wrong){PROG_BROADCAST, unsent, 2, 0, false}, "rank 1 worker 0 step 0",
                 "receives from rank 0 on lane 0, and rank 0 never sends there");
}

static void ends_that_disagree_about_the_length_are_found(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_BROADCAST, one_too_many, 2, 0, false}, "rank 1 worker 0 step 1",
                 "expected slice 0, got slice 1 from rank 0 worker 0 step 1");
}

static void two_slices_in_a_step(struct prog *prog) {
    prog_slices(prog, 2);
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(1));
}
static void different_slices(struct prog *prog) {
    prog_slices(prog, prog->rank == 1 ? 3 : 2);
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(0));
}

static void slices_must_agree_within_a_step_and_among_ranks(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLREDUCE, two_slices_in_a_step, 1, 0, false}, "rank 0 worker 0 step 0",
                 "reads IN block 0, slice 0, where slice 1 is expected");
    expect_wrong((struct wrong){PROG_ALLREDUCE, different_slices, 2, 0, false}, "rank 1 cuts", "3 slices");
}

static void a_ring_with_one_slot_deadlocks(void **state) {
    (void)state;
    prog_build_fn ring = algorithm_find(PROG_ALLREDUCE, "ring")->build;
    expect_right((struct wrong){PROG_ALLREDUCE, ring, 4, 2, false});
    expect_wrong((struct wrong){PROG_ALLREDUCE, ring, 4, 1, false}, "rank 0 worker 0 step 1",
                 "deadlock with 1 slot in round 0: waits for rank 1 worker 0 to free a slot");
}

static void everybody_receives_first(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .recv = PEER(prog->rank - 1), .store = OUT(prog_wrap(prog, prog->rank - 1)));
    prog_step(prog, .local = IN(0), .store = OUT(prog->rank), .send = PEER(prog->rank + 1));
}

static void a_deadlock_that_no_number_of_slots_mends_is_found(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLGATHER, everybody_receives_first, 2, 8, false}, "rank 0 worker 0 step 0",
                 "deadlock with 8 slots in round 0: waits for rank 1 worker 0 to send, which waits for");
}

/* ---- memory ---- */

static void reads_after_result(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .finish = true, .store = OUT(0));
    prog_step(prog, .local = IN(0), .finish = true, .store = OUT(0));
}

static void reading_in_after_the_result_is_wrong_only_in_place(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLREDUCE, reads_after_result, 1, 0, false});
    expect_wrong((struct wrong){PROG_ALLREDUCE, reads_after_result, 1, 0, true}, "rank 0 worker 0 step 1",
                 "reads IN block 0, which a result has overwritten (in place)");
}

static void workers_that_race_for_memory_are_found(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLREDUCE, racing, 3, 0, false});
    expect_wrong((struct wrong){PROG_ALLREDUCE, racing, 3, 0, true}, "block 0 while worker",
                 "no message orders the two (in place)");
}

/* One worker sends from OUT what another stores there. */
static void relays_through_memory(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0)
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = PEER(1));
    else
        prog_step(prog, .recv = PEER(prog->rank - 1), .store = OUT(0));
    if (prog->rank == 1) {
        prog_worker(prog);
        prog_step(prog, .local = OUT(0), .send = PEER(2));
    }
}

static void workers_may_not_hand_over_through_memory(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_BROADCAST, relays_through_memory, 3, 0, false}, "rank 1 worker 1 step 0",
                 "OUT block 0");
}

static void reads_before_writing(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = OUT(0), .finish = true, .store = OUT(0));
}

static void reading_out_before_it_is_written_is_found(void **state) {
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++)
        expect_wrong((struct wrong){PROG_ALLREDUCE, reads_before_writing, 1, 0, in_place == 1},
                     "rank 0 worker 0 step 0", "reads OUT block 0, which nobody has written yet");
}

static void non_root_stores(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank > 0)
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = PEER(0));
    else
        prog_step(prog, .recv = PEER(1), .local = IN(0), .finish = true, .store = OUT(0));
}
static void non_root_reads(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(0));
}

static void buffers_that_only_the_root_has_are_respected(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_REDUCE, non_root_stores, 2, 0, false}, "rank 1 worker 0 step 0",
                 "stores to OUT block 0, which a reduce does not give to this rank");
    expect_wrong((struct wrong){PROG_BROADCAST, non_root_reads, 2, 0, false}, "rank 1 worker 0 step 0", "reads IN");
}

/* ---- outputs ---- */

static void gather(struct prog *prog, int own, int others) {
    int other = 1 - prog->rank;
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(own), .send = PEER(other), .copied = true);
    prog_step(prog, .recv = PEER(other), .store = OUT(others));
}
static void right_gather(struct prog *prog) { gather(prog, prog->rank, 1 - prog->rank); }
static void swapped_blocks(struct prog *prog) { gather(prog, 1 - prog->rank, prog->rank); }
static void missing_block(struct prog *prog) { gather(prog, prog->rank, prog->rank == 1 ? 1 : 1 - prog->rank); }

static void blocks_in_wrong_places_are_named(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLGATHER, right_gather, 2, 0, true});
    expect_wrong((struct wrong){PROG_ALLGATHER, swapped_blocks, 2, 0, false}, "rank 0 worker 0 step 1",
                 "stores to OUT block 0 the IN block 0 of rank 1, where block 0 of rank 0 belongs");
    expect_wrong((struct wrong){PROG_ALLGATHER, missing_block, 2, 0, false}, "rank 1",
                 "nothing is stored to OUT block 0 in round 0");
}

/* ---- connections ---- */

static void two_producers(struct prog *prog) {
    int other = 1 - prog->rank;
    prog_slices(prog, 2);
    for (int slice = 0; slice < 2; slice++) {
        prog_worker(prog);
        prog_step(prog, .local = IN(slice), .send = PEER(other));
    }
    prog_worker(prog);
    for (int slice = 0; slice < 2; slice++)
        prog_step(prog, .recv = PEER(other), .local = IN(slice), .finish = true, .store = OUT(slice));
}
static void two_consumers(struct prog *prog) {
    int other = 1 - prog->rank;
    prog_slices(prog, 2);
    prog_worker(prog);
    for (int slice = 0; slice < 2; slice++)
        prog_step(prog, .local = IN(slice), .send = PEER(other));
    for (int slice = 0; slice < 2; slice++) {
        prog_worker(prog);
        prog_step(prog, .recv = PEER(other), .local = IN(slice), .finish = true, .store = OUT(slice));
    }
}
static void twice_in_one_step(struct prog *prog) {
    int other = 1 - prog->rank;
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = LISTED(((int[]){other, other}), 2, 0));
    prog_step(prog, .recv = LISTED(((int[]){other, other}), 2, 0), .local = IN(0), .finish = true, .store = OUT(0));
}

static void a_connection_has_one_worker_at_each_end(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLREDUCE, two_producers, 2, 0, false}, "rank 0 worker 1 step 0",
                 "sends to rank 1 on lane 0, and so does worker 0");
    expect_wrong((struct wrong){PROG_ALLREDUCE, two_consumers, 2, 0, false}, "rank 0 worker 2 step 0",
                 "receives from rank 1 on lane 0, and so does worker 1");
    expect_wrong((struct wrong){PROG_ALLREDUCE, twice_in_one_step, 2, 0, false}, "rank 0 worker 0 step 0",
                 "twice in one step");
}

/* Rank 1 only passes on what goes from 0 to 2, in a broadcast to rank 2 … and to itself from there. */
static void pass_on(struct prog *prog, int length_block) {
    prog_slices(prog, 2);
    prog_worker(prog);
    for (int slice = 0; slice < 2; slice++)
        if (prog->rank == 0)
            prog_step(prog, .local = IN(slice), .store = OUT(slice), .send = PEER(1));
        else if (prog->rank == 1)
            prog_step(prog, .recv = PEER(0), .length_of = IN(length_block < 0 ? slice : length_block), .send = PEER(2));
        else
            prog_step(prog, .recv = PEER(1), .store = OUT(slice), .send = PEER_LANE(1, 1));
    if (prog->rank != 1)
        return;
    prog_worker(prog);
    for (int slice = 0; slice < 2; slice++)
        prog_step(prog, .recv = PEER_LANE(2, 1), .store = OUT(slice));
}
static void pass_on_alike(struct prog *prog) { pass_on(prog, -1); }
static void pass_on_otherwise(struct prog *prog) { pass_on(prog, 0); }

static void a_step_that_only_passes_on_has_the_length_it_names(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_BROADCAST, pass_on_alike, 3, 0, false});
    expect_wrong((struct wrong){PROG_BROADCAST, pass_on_otherwise, 3, 0, false}, "rank 1 worker 0 step 1",
                 "expected slice 0, got slice 1 from rank 0 worker 0 step 1");
}

/* A barrier that does not wait for rank 1 proper: only for a message that rank 1 passes on. */
static void wait_for_two(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER(prog->rank + 1));
    prog_step(prog, .recv = PEER(prog->rank - 1), .local = IN(0), .local_at = prog->rank == 0, .finish = true,
              .store = OUT(0));
}

static void a_barrier_that_does_not_wait_for_all_is_found(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_BARRIER, wait_for_two, 2, 0, false});
    expect_wrong((struct wrong){PROG_BARRIER, wait_for_two, 3, 0, false}, "rank 1 worker 0 step 1",
                 "that of rank 2 is missing");
}

/* The root of three keeps what the others send in the order in which it should come: backwards. */
static void gather_backwards(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank != prog->root) {
        prog_step(prog, .local = IN(0), .send = PEER(prog->root));
        return;
    }
    prog_step(prog, .local = IN(0), .store = OUT(prog->root));
    for (int d = 1; d < prog->nranks; d++)
        prog_step(prog, .recv = PEER(prog->root - d), .store = OUT(prog_wrap(prog, prog->root + d)));
}

/* Not only the root stores. */
static void gather_everywhere(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(prog->rank));
}

static void a_wrong_gather_is_found(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_GATHER, gather_backwards, 2, 1, true});
    expect_wrong((struct wrong){PROG_GATHER, gather_backwards, 3, 0, true}, "rank 0 worker 0 step 1",
                 "IN block 0 of rank 2, where block 0 of rank 1 belongs");
    expect_wrong((struct wrong){PROG_GATHER, gather_everywhere, 2, 0, false}, "rank 1 worker 0 step 0",
                 "stores to OUT block 1, which a gather does not give to this rank");
}

/* Blocks go round, but rank 0 takes them for those of other ranks; or all pass on the blocks of two ranks in one message. */
static void gather_v(struct prog *prog, int shift) {
    int other = 1 - prog->rank;
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(prog->rank), .send = PEER(other));
    prog_step(prog, .recv = PEER(other), .store = OUT(prog->rank == 0 ? prog_wrap(prog, other + shift) : other));
}
static void right_gather_v(struct prog *prog) { gather_v(prog, 0); }
static void wrong_gather_v(struct prog *prog) { gather_v(prog, 1); }

/* As if all blocks were as long as the first. */
static void scatter_reduce_v(struct prog *prog, bool alike) {
    int other = 1 - prog->rank;
    prog_tmp(prog, 1);
    prog_worker(prog);
    prog_step(prog, .local = IN(other), .send = PEER(other));
    prog_step(prog, .recv = PEER(other), .local = IN(prog->rank), .local_at = prog->rank, .finish = true,
              .store = alike ? TMP(0) : OUT(0), .length_of = alike ? IN(0) : IN(prog->rank));
    if (alike)
        prog_step(prog, .local = TMP(0), .store = OUT(0));
}
static void right_reduce_v(struct prog *prog) { scatter_reduce_v(prog, false); }
static void all_alike(struct prog *prog) { scatter_reduce_v(prog, true); }

static void blocks_with_counts_of_their_own_differ_in_length(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLGATHERV, right_gather_v, 2, 0, true});
    expect_wrong((struct wrong){PROG_ALLGATHERV, wrong_gather_v, 2, 0, false}, "rank 0 worker 0 step 1",
                 "expected slice 0, got slice 1 from rank 1 worker 0 step 0");
    expect_right((struct wrong){PROG_REDUCESCATTERV, right_reduce_v, 2, 0, true});
    expect_wrong((struct wrong){PROG_REDUCESCATTERV, all_alike, 2, 0, false}, "rank 1 worker 0 step 1",
                 "expected slice 0, got slice 1 from rank 0 worker 0 step 0");
}

static void a_check_of_nonsense_fails_with_a_reason(void **state) {
    (void)state;
    char why[200];
    const struct algorithm *ring = algorithm_find(PROG_ALLREDUCE, "ring");
    assert_false(prog_check(ring, &PROG_FLAT(4), 0, 0, false, why, sizeof(why)));
    assert_non_null(strstr(why, "0 slots"));
    assert_false(prog_check(ring, &PROG_FLAT(4), 4, 2, false, why, sizeof(why)));
    assert_non_null(strstr(why, "root 4"));
    assert_true(prog_check(ring, &PROG_FLAT(4), 0, 2, false, why, sizeof(why)));
    assert_string_equal(why, "");
    assert_false(prog_check(ring, &PROG_FLAT(4), 4, 2, false, why, 8)); /* a short text is cut off, not overrun */
    assert_int_equal(strlen(why), 7);
}

/* Two ranks swap two slices at once; `run` is what rank 1 sends and expects. */
static void swap_runs(struct prog *prog, struct run run) {
    struct run own = prog->rank == 1 ? run : ROW(0, 2);
    prog_slices(prog, 4);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(own), .send = PEER(1 - prog->rank));
    prog_step(prog, .recv = PEER(1 - prog->rank), .local = IN_RUN(own), .finish = true, .store = OUT_RUN(own));
    prog_step(prog, .local = IN_RUN(ROW(2, 2)), .send = PEER(1 - prog->rank));
    prog_step(prog, .recv = PEER(1 - prog->rank), .local = IN_RUN(ROW(2, 2)), .finish = true,
              .store = OUT_RUN(ROW(2, 2)));
}
static void right_runs(struct prog *prog) { swap_runs(prog, ROW(0, 2)); }
static void shifted_runs(struct prog *prog) { swap_runs(prog, ROW(1, 2)); }
static void longer_runs(struct prog *prog) { swap_runs(prog, ROW(0, prog->rank == 1 ? 3 : 2)); }

static void a_message_has_the_blocks_that_are_expected(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_ALLREDUCE, right_runs, 2, 0, true});
    expect_wrong((struct wrong){PROG_ALLREDUCE, shifted_runs, 2, 0, false}, "worker 0 step 1: expected slice",
                 "got slice");
    expect_wrong((struct wrong){PROG_ALLREDUCE, longer_runs, 2, 0, false}, "longest message of rank 1 has 3 blocks",
                 "rank 0 has 2");
}

/* Rank 0 sends its blocks for both ranks one by one, which rank 1 takes for one message. */
static void one_for_two(struct prog *prog) {
    int rank = prog->rank;
    prog_tmp(prog, 2);
    prog_worker(prog);
    for (int i = 0; rank == 0 && i < 2; i++)
        prog_step(prog, .local = IN(i), .send = PEER(1));
    prog_step(prog, .local = IN_RUN(ROW(0, 2)), .length_of = IN_RUN(ROW(0, 2)), .send = PEER_LANE(1 - rank, 1));
    prog_step(prog, .recv = PEER_LANE(1 - rank, 1), .length_of = IN_RUN(ROW(0, 2)), .store = TMP_RUN(ROW(0, 2)));
    if (rank == 1)
        prog_step(prog, .recv = PEER(0), .store = OUT_RUN(ROW(0, 2)));
}

static void a_message_has_as_many_blocks_as_are_expected(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLTOALL, one_for_two, 2, 0, false}, "rank 1 worker 0 step 2",
                 "expected number of blocks 2, got number of blocks 1 from rank 0 worker 0 step 0");
}

/* ---- several local operands, and memory for a while ---- */

/* Rank 0 keeps what rank 1 sent in TMP, and reduces both from memory. */
static void through_tmp(struct prog *prog, int stored, int read) {
    prog_slices(prog, 2);
    prog_tmp(prog, 2);
    prog_worker(prog);
    for (int slice = 0; slice < 2; slice++) {
        struct local_operand operands[] = {{0, IN(slice)}, {0, TMP(read < 0 ? slice : read)}};
        if (prog->rank == 1) {
            prog_step(prog, .local = IN(slice), .send = PEER(0));
            continue;
        }
        prog_step(prog, .recv = PEER(1), .length_of = IN(slice), .store = TMP(stored < 0 ? slice : stored));
        prog_step(prog, .local_list = {operands, 2}, .finish = true, .store = OUT(slice));
    }
}
static void right_tmp(struct prog *prog) { through_tmp(prog, -1, -1); }
static void same_tmp(struct prog *prog) { through_tmp(prog, 0, 0); }
static void stale_tmp(struct prog *prog) { through_tmp(prog, -1, 0); }
static void unwritten_tmp(struct prog *prog) { through_tmp(prog, 0, 1); }

static void tmp_keeps_pieces_within_a_round(void **state) {
    (void)state;
    expect_right((struct wrong){PROG_REDUCE, right_tmp, 2, 0, true});
    expect_right((struct wrong){PROG_REDUCE, same_tmp, 2, 0, false});
    expect_wrong((struct wrong){PROG_REDUCE, stale_tmp, 2, 0, false}, "rank 0 worker 0 step 3",
                 "reads TMP block 0, slice 0, where slice 1 is expected: they differ in length");
    expect_wrong((struct wrong){PROG_REDUCE, unwritten_tmp, 2, 0, false}, "rank 0 worker 0 step 1",
                 "reads TMP block 1, which nobody has written yet");
}

/* Worker 0 fills TMP while worker 1 may still read what the round before put there. */
static void tmp_reused_too_early(struct prog *prog) {
    prog_tmp(prog, 1);
    prog_worker(prog);
    if (prog->rank == 1) {
        prog_step(prog, .recv = PEER(0), .length_of = IN(0), .send = PEER_LANE(0, 1));
        prog_worker(prog);
        prog_step(prog, .recv = PEER_LANE(0, 2), .store = OUT(0));
        return;
    }
    prog_step(prog, .local = IN(0), .store = TMP(0));
    prog_step(prog, .local = IN(0), .send = PEER(1));
    prog_worker(prog);
    prog_step(prog, .recv = PEER_LANE(1, 1), .store = OUT(0));
    prog_step(prog, .local = TMP(0), .length_of = IN(0), .send = PEER_LANE(1, 2));
}

static void tmp_is_the_same_memory_in_every_round(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_BROADCAST, tmp_reused_too_early, 2, 0, false}, "TMP block 0 while worker",
                 "no message orders the two");
}

static void moves_its_own_run(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(prog->rank), .send = PEER(1 - prog->rank), .copied = true);
    prog_step(prog, .recv = PEER(1 - prog->rank), .store = OUT(1 - prog->rank));
    prog_step(prog, .local = OUT_RUN(ROW(0, 2)), .store = OUT_RUN(ROW(1, 2)));
    prog_step(prog, .local = OUT_RUN(ROW(0, 2)), .store = OUT_RUN(ROW(1, 2)));
}

static void a_step_may_not_store_what_it_reads_for_another_block(void **state) {
    (void)state;
    expect_wrong((struct wrong){PROG_ALLGATHER, moves_its_own_run, 2, 0, false}, "worker 0 step 2",
                 "stores to OUT block 1, which the same step uses for another block");
}

static void a_promise_of_rank_order_is_checked(void **state) {
    (void)state;
    char why[512];
    struct algorithm algorithm = *algorithm_find(PROG_ALLREDUCE, "ring");
    assert_true(prog_check(&algorithm, &PROG_FLAT(2), 0, 2, false, why, sizeof(why))); /* a+b is b+a */
    algorithm.order = PROG_IN_RANK_ORDER;
    assert_false(prog_check(&algorithm, &PROG_FLAT(3), 0, 2, false, why, sizeof(why)));
    assert_non_null(strstr(why, "which is not in rank order, as allreduce_ring promises"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dropped_contribution_is_named),
        cmocka_unit_test(a_failed_check_shows_what_the_ranks_hold),
        cmocka_unit_test(a_doubled_contribution_is_named),
        cmocka_unit_test(another_order_on_one_rank_is_found),
        cmocka_unit_test(rounding_between_steps_is_another_order),
        cmocka_unit_test(a_missing_finish_is_found),
        cmocka_unit_test(a_finish_out_of_place_is_found),
        cmocka_unit_test(a_slot_that_is_never_read_is_found),
        cmocka_unit_test(ends_that_disagree_about_the_length_are_found),
        cmocka_unit_test(slices_must_agree_within_a_step_and_among_ranks),
        cmocka_unit_test(a_ring_with_one_slot_deadlocks),
        cmocka_unit_test(a_deadlock_that_no_number_of_slots_mends_is_found),
        cmocka_unit_test(reading_in_after_the_result_is_wrong_only_in_place),
        cmocka_unit_test(workers_that_race_for_memory_are_found),
        cmocka_unit_test(workers_may_not_hand_over_through_memory),
        cmocka_unit_test(reading_out_before_it_is_written_is_found),
        cmocka_unit_test(buffers_that_only_the_root_has_are_respected),
        cmocka_unit_test(blocks_in_wrong_places_are_named),
        cmocka_unit_test(a_connection_has_one_worker_at_each_end),
        cmocka_unit_test(a_step_that_only_passes_on_has_the_length_it_names),
        cmocka_unit_test(a_barrier_that_does_not_wait_for_all_is_found),
        cmocka_unit_test(a_wrong_gather_is_found),
        cmocka_unit_test(blocks_with_counts_of_their_own_differ_in_length),
        cmocka_unit_test(a_check_of_nonsense_fails_with_a_reason),
        cmocka_unit_test(a_message_has_the_blocks_that_are_expected),
        cmocka_unit_test(a_message_has_as_many_blocks_as_are_expected),
        cmocka_unit_test(tmp_keeps_pieces_within_a_round),
        cmocka_unit_test(tmp_is_the_same_memory_in_every_round),
        cmocka_unit_test(a_step_may_not_store_what_it_reads_for_another_block),
        cmocka_unit_test(a_promise_of_rank_order_is_checked),
    };
    return cmocka_run_group_tests_name("verifier", tests, NULL, NULL);
}
