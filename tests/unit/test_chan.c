/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the slots of connections are.
 */
#include "base/err.h"
#include "chan/chan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct config configured(const char *buffsize) {
    struct config config;
    if (buffsize != NULL)
        setenv("COLLET_BUFFSIZE", buffsize, 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    unsetenv("COLLET_BUFFSIZE");
    return config;
}

static void slots_that_are_messages_are_longer(void **state) {
    (void)state;
    struct config config = configured(NULL);
    assert_int_equal(chan_layout(&config, 2, false).slot_bytes, 128 << 10);
    assert_int_equal(chan_layout(&config, 2, true).slot_bytes, 512 << 10);
}

static void the_slots_of_a_rank_with_many_peers_stay_within_a_budget(void **state) {
    (void)state;
    struct config config = configured(NULL);
    assert_int_equal(chan_layout(&config, 64, true).slot_bytes, 512 << 10);
    assert_int_equal(chan_layout(&config, 256, false).slot_bytes, 128 << 10);
    for (int nranks = 512; nranks <= 1 << 17; nranks *= 2) {
        struct fifo_layout messages = chan_layout(&config, nranks, true), other = chan_layout(&config, nranks, false);
        assert_int_equal(messages.slot_bytes, other.slot_bytes);
        assert_true(messages.slot_bytes == 4096 ||
                    (uint64_t)messages.slot_bytes * messages.nslots * nranks <= 256u << 20);
    }
}

static void a_buffer_size_that_is_set_holds_everywhere(void **state) {
    (void)state;
    struct config config = configured("64K");
    assert_int_equal(chan_layout(&config, 2, false).slot_bytes, 8192);
    assert_int_equal(chan_layout(&config, 2, true).slot_bytes, 8192);
}

/* Of a communicator of two ranks of one process. Over verbs: test_verbs_proxy.c. */
static uint32_t slot_bytes_of(const char *transport) {
    struct config configs[2];
    struct boot *boots[2];
    struct chan *chan;
    setenv("COLLET_TRANSPORT", transport, 1);
    configs[0] = configs[1] = configured(NULL);
    unsetenv("COLLET_TRANSPORT");
    assert_int_equal(boot_join_local(2, NULL, configs, boots), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(boot_try_init(boots[rank]), COLLET_SUCCESS);
    assert_int_equal(chan_create(boots[1], &configs[1], 2, 1, NULL, &chan), COLLET_SUCCESS);
    uint32_t bytes = chan->layout.slot_bytes;
    chan_destroy(chan);
    for (int rank = 0; rank < 2; rank++)
        boot_destroy(boots[rank]);
    return bytes;
}

static void communicators_have_the_slots_of_their_transports(void **state) {
    (void)state;
    assert_int_equal(slot_bytes_of(""), 128 << 10);
    assert_int_equal(slot_bytes_of("tcp"), 128 << 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_that_are_messages_are_longer),
        cmocka_unit_test(the_slots_of_a_rank_with_many_peers_stay_within_a_budget),
        cmocka_unit_test(a_buffer_size_that_is_set_holds_everywhere),
        cmocka_unit_test(communicators_have_the_slots_of_their_transports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
