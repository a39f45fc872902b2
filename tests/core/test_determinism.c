/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_DETERMINISM, bit by bit: the same elements are summed up in calls of many lengths, over several channels and chunks, by
 * other algorithms, in other jobs; what is promised to be equal is compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMS 40000
#define COMPARED 1000 /* elements that all calls have */
#define NRANKS 5      /* sums of five floats depend on their order */

static const size_t counts[] = {COMPARED, COMPARED + 7, 4096, 17001, ELEMS};
#define COUNTS (sizeof(counts) / sizeof(*counts))

/* What a job found. */
struct findings {
    enum collective { ALLREDUCE, REDUCE, REDUCESCATTER } collective;
    enum collet_result result;
    uint32_t bits[COUNTS][COMPARED]; /* of rank 0 */
};

static float element(int rank, size_t i) {
    uint32_t x = (uint32_t)(i * 2654435761u) ^ (uint32_t)(rank + 1) * 0x9e3779b9u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    return ((float)(x >> 8) - 8388608.0f) * (rank % 2 ? 1e-3f : 1.0f);
}

static enum collet_result reduce(struct findings *findings, struct collet_comm *comm, const float *in, float *out,
                                 size_t count) {
    switch (findings->collective) {
    case ALLREDUCE: return collet_allreduce(in, out, count, COLLET_FLOAT32, COLLET_SUM, comm, NULL);
    case REDUCE: return collet_reduce(in, out, count, COLLET_FLOAT32, COLLET_SUM, 0, comm, NULL);
    default: return collet_reducescatter(in, out, count, COLLET_FLOAT32, COLLET_SUM, comm, NULL);
    }
}

static void sum_up(struct ranks *ranks, int rank) {
    struct findings *findings = ranks->argument;
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    ranks_barrier(ranks); /* a call that is refused ends the communicator, also where it is still being made */
    float *in = malloc(NRANKS * ELEMS * sizeof(float)), *out = malloc(ELEMS * sizeof(float));
    for (size_t k = 0; k < COUNTS; k++) {
        size_t blocks = findings->collective == REDUCESCATTER ? NRANKS : 1;
        for (size_t b = 0; b < blocks; b++)
            for (size_t i = 0; i < counts[k]; i++)
                in[b * counts[k] + i] = element(rank, b * ELEMS + i);
        enum collet_result result = reduce(findings, comm, in, out, counts[k]);
        if (rank == 0) {
            findings->result = result;
            memcpy(findings->bits[k], out, sizeof(findings->bits[k]));
        }
        if (result != COLLET_SUCCESS)
            break;
    }
    free(in);
    free(out);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

/* A job of threads with these settings: "NAME=value …". */
static void run(struct findings *findings, enum collective collective, const char *settings) {
    char why[RANKS_TEXT_BYTES], text[256], *rest = text, *word;
    const char *names[8];
    int n = 0;
    snprintf(text, sizeof(text), "%s", settings);
    while ((word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        setenv(names[n++] = word, value, 1);
    }
    memset(findings, 0, sizeof(*findings));
    findings->collective = collective;
    struct ranks_job job = {.processes = 1, .threads = NRANKS, .run = sum_up, .argument = findings};
    bool good = ranks_run(&job, why);
    while (n > 0)
        unsetenv(names[--n]);
    if (!good)
        fail_msg("%s: %s", settings, why);
}

static bool same(const struct findings *a, size_t ka, const struct findings *b, size_t kb) {
    return memcmp(a->bits[ka], b->bits[kb], sizeof(a->bits[ka])) == 0;
}

static struct findings *findings_get(void **state, int number) { return (struct findings *)*state + number; }

static void assert_sizes_alike(const struct findings *findings, const char *settings) {
    assert_int_equal(findings->result, COLLET_SUCCESS);
    for (size_t k = 1; k < COUNTS; k++)
        if (!same(findings, 0, findings, k))
            fail_msg("%s: %zu elements do not begin with the bits of %zu", settings, counts[k], counts[0]);
}

static void two_runs_give_the_same_bits(void **state) {
    static const char *const settings[] = {"COLLET_ALGO=ring", "COLLET_ALGO=tree", "COLLET_ALGO=halving"};
    struct findings *one = findings_get(state, 0), *two = findings_get(state, 1);
    for (int s = 0; s < 3; s++) {
        run(one, ALLREDUCE, settings[s]);
        run(two, ALLREDUCE, settings[s]);
        for (size_t k = 0; k < COUNTS; k++)
            assert_true(same(one, k, two, k));
    }
}

static void without_a_promise_bits_depend_on_the_size(void **state) {
    struct findings *one = findings_get(state, 0);
    run(one, ALLREDUCE, "COLLET_ALGO=ring");
    assert_false(same(one, 0, one, COUNTS - 1)); /* or these tests show nothing */
}

static void size_makes_bits_independent_of_size_channels_and_chunks(void **state) {
    static const char *const settings[] = {"COLLET_DETERMINISM=size",
                                           "COLLET_DETERMINISM=size COLLET_NCHANNELS=3 COLLET_CHUNKSIZE=1000",
                                           "COLLET_DETERMINISM=size COLLET_PROTO=LL"};
    static const enum collective collectives[] = {ALLREDUCE, REDUCE, REDUCESCATTER};
    struct findings *first = findings_get(state, 0), *other = findings_get(state, 1);
    for (int c = 0; c < 3; c++)
        for (int s = 0; s < 3; s++) {
            run(s == 0 ? first : other, collectives[c], settings[s]);
            assert_sizes_alike(s == 0 ? first : other, settings[s]);
            assert_true(s == 0 || same(first, 0, other, 0));
        }
}

static void order_makes_them_independent_of_the_algorithm_too(void **state) {
    static const char *const settings[] = {"COLLET_DETERMINISM=order COLLET_ALGO=oneshot",
                                           "COLLET_DETERMINISM=order COLLET_ALGO=twoshot",
                                           "COLLET_DETERMINISM=order COLLET_NCHANNELS=2 COLLET_CHUNKSIZE=1000",
                                           "COLLET_DETERMINISM=order COLLET_TRANSPORT=tcp"};
    struct findings *first = findings_get(state, 0), *other = findings_get(state, 1);
    for (int s = 0; s < 4; s++) {
        run(s == 0 ? first : other, ALLREDUCE, settings[s]);
        assert_sizes_alike(s == 0 ? first : other, settings[s]);
        assert_true(s == 0 || same(first, 0, other, 0));
    }
    run(other, REDUCE, "COLLET_DETERMINISM=order");
    assert_sizes_alike(other, "reduce");
    assert_true(same(first, 0, other, 0));
    for (size_t i = 0; i < COMPARED; i++) { /* it is the order of ranks */
        float sum = element(0, i), here;
        for (int rank = 1; rank < NRANKS; rank++)
            sum += element(rank, i);
        memcpy(&here, &first->bits[0][i], sizeof(here));
        assert_memory_equal(&here, &sum, sizeof(sum));
    }
}

static void what_cannot_keep_the_promise_is_refused(void **state) {
    struct findings *one = findings_get(state, 0);
    run(one, REDUCE, "COLLET_DETERMINISM=order COLLET_ALGO=chain");
    assert_int_equal(one->result, COLLET_ERR_INVALID_USAGE);
    run(one, ALLREDUCE, "COLLET_DETERMINISM=order COLLET_ALGO=ring");
    assert_int_equal(one->result, COLLET_ERR_INVALID_USAGE);
    run(one, ALLREDUCE, "COLLET_DETERMINISM=size COLLET_ALGO=ring");
    assert_int_equal(one->result, COLLET_ERR_INVALID_USAGE);
    run(one, ALLREDUCE,
        "COLLET_DETERMINISM=size COLLET_ALGO=doubling"); /* one order for all elements, if not that of ranks */
    assert_sizes_alike(one, "size, doubling");
}

static int share_findings(void **state) {
    *state = ranks_share(2 * sizeof(struct findings));
    return *state == NULL;
}

static int unshare_findings(void **state) {
    ranks_unshare(*state, 2 * sizeof(struct findings));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_give_the_same_bits),
        cmocka_unit_test(without_a_promise_bits_depend_on_the_size),
        cmocka_unit_test(size_makes_bits_independent_of_size_channels_and_chunks),
        cmocka_unit_test(order_makes_them_independent_of_the_algorithm_too),
        cmocka_unit_test(what_cannot_keep_the_promise_is_refused),
    };
    return cmocka_run_group_tests(tests, share_findings, unshare_findings);
}
