/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one call: it takes the algorithm and the channels that it asks for, and the next call takes those of the communicator.
 */
#include "api/coll.h"
#include "exec/exec.h"
#include "layers/tuner/call_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3, COUNT = 3000 };

static struct collet_comm *comms[RANKS];
static float inputs[RANKS][COUNT], results[RANKS][COUNT];

static int begin(void **state) {
    (void)state;
    setenv("COLLET_MIN_NCHANNELS", "4", 1);
    return collet_comm_init_all(comms, RANKS, NULL) != COLLET_SUCCESS;
}

static int end(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++)
        collet_comm_destroy(comms[rank]);
    return 0;
}

static const struct call_options *options_of(const char *algo, bool insists, int least, int most) {
    struct call_options options = {.insists = insists, .min_nchannels = least, .max_nchannels = most};
    snprintf(options.algo, sizeof options.algo, "%s", algo);
    return call_options_find(&options);
}

/* Each rank's call has its own options. */
static enum collet_result add_up(const struct call_options *const options[RANKS]) {
    collet_group_start();
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < COUNT; i++)
            inputs[rank][i] = (float)(i + rank);
        coll_options = options[rank];
        collet_allreduce(inputs[rank], results[rank], COUNT, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL);
    }
    coll_options = NULL;
    return collet_group_end();
}

static void adds_up(const struct call_options *options) {
    const struct call_options *const alike[RANKS] = {options, options, options};
    memset(results, 0, sizeof results);
    assert_int_equal(add_up(alike), COLLET_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < COUNT; i++)
            assert_true(results[rank][i] == (float)(RANKS * i + 3));
}

static const struct exec_program *last_program(void) { return comms[1]->engine.lanes->call.program; }

static void equal_options_have_one_address(void **state) {
    (void)state;
    assert_ptr_equal(options_of("ring", true, 0, 2), options_of("ring", true, 0, 2));
    assert_ptr_not_equal(options_of("ring", true, 0, 2), options_of("ring", false, 0, 2));
    assert_ptr_not_equal(options_of("ring", true, 0, 2), options_of("ring", true, 0, 3));
}

static void a_call_takes_the_algorithm_that_it_asks_for(void **state) {
    static const char *const names[] = {"ring", "tree", "oneshot", "ring"};
    (void)state;
    adds_up(NULL);
    const struct algorithm *usual = last_program()->source;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        adds_up(options_of(names[k], true, 0, 0));
        assert_string_equal(last_program()->source->name, names[k]);
    }
    adds_up(NULL);
    assert_ptr_equal(last_program()->source, usual);
}

static void a_call_takes_the_channels_that_it_asks_for(void **state) {
    (void)state;
    adds_up(options_of("ring", true, 0, 0));
    assert_int_equal(last_program()->nchannels, 4);
    adds_up(options_of("ring", true, 0, 1));
    assert_int_equal(last_program()->nchannels, 1);
    adds_up(options_of("ring", true, 2, 3));
    assert_int_equal(last_program()->nchannels, 3);
    adds_up(options_of("ring", true, 60, 60)); /* there are connections for four */
    assert_int_equal(last_program()->nchannels, 4);
}

static void what_cannot_be_is_an_error_only_if_the_call_insists(void **state) {
    (void)state;
    adds_up(options_of("hier", false, 0, 0)); /* it takes several nodes */
    const struct call_options *const insists[RANKS] = {options_of("hier", true, 0, 0), options_of("hier", true, 0, 0),
                                                       options_of("hier", true, 0, 0)};
    assert_int_equal(add_up(insists), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(collet_last_error(NULL), "the call asks for hier"));
}

/* Comes last: the communicators have failed. */
static void different_options_are_a_mismatch(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++)
        collet_comm_abort(comms[rank]);
    assert_int_equal(begin(NULL), 0);
    const struct call_options *const different[RANKS] = {options_of("ring", true, 0, 1), options_of("ring", true, 0, 1),
                                                         options_of("ring", true, 0, 4)};
    assert_int_equal(add_up(different), COLLET_ERR_MISMATCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_options_have_one_address),
        cmocka_unit_test(a_call_takes_the_algorithm_that_it_asks_for),
        cmocka_unit_test(a_call_takes_the_channels_that_it_asks_for),
        cmocka_unit_test(what_cannot_be_is_an_error_only_if_the_call_insists),
        cmocka_unit_test(different_options_are_a_mismatch),
    };
    return cmocka_run_group_tests_name("options of a call", tests, begin, end);
}
