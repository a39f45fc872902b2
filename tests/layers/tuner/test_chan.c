/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the slots of connections are, and where in them payloads lie.
 */
#include "base/config_read.h"
#include "base/err.h"
#include "base/mapping.h"
#include "chan/chan.h"
#include "chan/slots.h"
#include "common/local_boots.h"
#include "fifo/proto.h"
#include "kernels/worker.h"
#include "layers/tuner/tuner.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config configured(const char *buffsize) {
    struct config config;
    if (buffsize != NULL)
        setenv("COLLET_BUFFSIZE", buffsize, 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    unsetenv("COLLET_BUFFSIZE");
    return config;
}

static struct fifo_layout layout_of(const struct config *config, struct chan_scale scale, enum prog_connects connects) {
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    chan_layouts(config, &scale, layouts);
    return layouts[connects];
}

static const struct chan_scale two_in_memory = {.nranks = 2, .node_ranks = 2};
static const struct chan_scale two_by_messages = {.nranks = 2, .node_ranks = 1, .messages = true};

static uint32_t long_bytes_of(const struct config *config, struct chan_scale scale, enum prog_connects connects) {
    return layout_of(config, scale, connects).sizes.long_bytes;
}

static void slots_that_are_messages_are_longer(void **state) {
    (void)state;
    struct config config = configured(NULL);
    assert_int_equal(long_bytes_of(&config, two_in_memory, PROG_TO_FEW), 128 << 10);
    assert_int_equal(long_bytes_of(&config, two_by_messages, PROG_TO_FEW), 512 << 10);
}

static void the_slots_of_a_rank_with_many_peers_stay_within_a_budget(void **state) {
    (void)state;
    struct config config = configured(NULL);
    assert_int_equal(long_bytes_of(&config, (struct chan_scale){64, 8, true, false, false}, PROG_TO_ALL), 512 << 10);
    assert_int_equal(long_bytes_of(&config, (struct chan_scale){256, 256, false, false, false}, PROG_TO_ALL),
                     128 << 10);
    for (int nranks = 2; nranks <= 10240; nranks += nranks / 2)
        for (int kind = 0; kind < 4; kind++) {
            const struct chan_scale scale = {nranks, 8, kind & 1, kind & 2, false};
            const struct fifo_layout many = layout_of(&config, scale, PROG_TO_MANY),
                                     all = layout_of(&config, scale, PROG_TO_ALL);
            assert_true(many.total_bytes * (size_t)nranks <= 320u << 20);
            assert_true(many.sizes.long_bytes >= 1024);
            assert_memory_equal(&many, &all, sizeof all);
        }
}

/* A program may send messages to all other ranks, and each of these connections has slots. */
/* Ranks of processes that take turns on a GPU: few slots, but long ones, unless somebody says how long. */
static void slots_of_processes_that_take_turns_are_few_and_long(void **state) {
    (void)state;
    const struct chan_scale scale = {.nranks = 2, .node_ranks = 2, .on_gpus = true, .turns = true};
    struct config config = configured(NULL);
    assert_int_equal(long_bytes_of(&config, scale, PROG_TO_FEW), 1 << 20);
    assert_int_equal(layout_of(&config, scale, PROG_TO_FEW).nslots, 2);
    config.buffsize = 1 << 20;
    assert_int_equal(long_bytes_of(&config, scale, PROG_TO_FEW), 128 << 10);
    assert_int_equal(layout_of(&config, scale, PROG_TO_FEW).nslots, 8);
}

static void the_slots_of_messages_with_all_others_stay_within_it_too(void **state) {
    (void)state;
    struct config config = configured(NULL);
    for (int nranks = 2; nranks <= 1 << 17; nranks += nranks / 3 + 1)
        for (int kind = 0; kind < 4; kind++) {
            const bool on_gpus = kind & 2;
            const struct fifo_layout layout =
                layout_of(&config, (struct chan_scale){nranks, 8, kind & 1, on_gpus, false}, PROG_TO_ALL);
            if ((!on_gpus || nranks <= 119000) && layout.total_bytes * (size_t)nranks > 320u << 20)
                fail_msg("%d ranks%s: %zu bytes each", nranks, on_gpus ? " on GPUs" : "", layout.total_bytes);
            assert_true(layout.nslots >= 2 && layout.sizes.long_bytes >= 256 && layout.sizes.short_bytes >= 128);
        }
}

/* However many ranks there are, a ring has two neighbours. */
static void slots_of_rings_and_trees_keep_their_length(void **state) {
    (void)state;
    struct config config = configured(NULL), set = configured("64K");
    for (int nranks = 2; nranks <= 1 << 17; nranks *= 8) {
        assert_int_equal(long_bytes_of(&config, (struct chan_scale){nranks, 8, true, false, false}, PROG_TO_FEW),
                         512 << 10);
        assert_int_equal(long_bytes_of(&config, (struct chan_scale){nranks, 8, true, true, false}, PROG_TO_FEW),
                         512 << 10);
        assert_int_equal(long_bytes_of(&config, (struct chan_scale){nranks, 8, false, false, false}, PROG_TO_FEW),
                         128 << 10);
        assert_int_equal(long_bytes_of(&set, (struct chan_scale){nranks, 8, true, false, false}, PROG_TO_FEW), 8 << 10);
    }
}

/* Of 1,024 ranks the largest and the smallest program of each algorithm that is said to connect few. */
static void algorithms_that_connect_few_do(void **state) {
    (void)state;
    enum { RANKS = 1024, FEW = 32 };
    const struct prog_shape shape = PROG_FLAT(RANKS);
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        int most = 0;
        for (int rank = 0; rank < RANKS && algorithm_applies(a, &shape) && a->connects == PROG_TO_FEW; rank += 341) {
            struct prog *prog;
            assert_int_equal(algorithm_build(a, &shape, rank, 0, &prog), COLLET_SUCCESS);
            most = prog->npeers > most ? prog->npeers : most;
            prog_destroy(prog);
        }
        if (most > FEW)
            fail_msg("%s connects a rank with %d others", a->name, most);
    }
}

/* Of the connections by which a rank receives, on one channel. */
static size_t slots_of_a_rank(const struct algorithm *algorithm, const struct prog_shape *shape, int rank,
                              bool on_gpus) {
    const struct config config = configured(NULL);
    const struct chan_scale scale = {shape->nranks, shape->node_ranks, shape->nnodes > 1, on_gpus, false};
    struct fifo_layout layout = layout_of(&config, scale, algorithm->connects);
    struct prog *prog;
    size_t nconns = 0;
    assert_int_equal(algorithm_build(algorithm, shape, rank, 0, &prog), COLLET_SUCCESS);
    bool *counted = calloc((size_t)shape->nranks * CONN_LANES, sizeof *counted); /* a list may name a peer again */
    for (const struct prog_step *step = prog->steps; step < prog->steps + prog->nsteps; step++)
        for (int k = step->recv_first; k < step->recv_first + step->recv_count; k++) {
            bool *conn = &counted[prog->peers[k].rank * CONN_LANES + prog->peers[k].lane];
            nconns += !*conn;
            *conn = true;
        }
    free(counted);
    prog_destroy(prog);
    return nconns * layout.total_bytes;
}

/* However ranks are spread over nodes. Of each shape the first rank, the last one, and one between. */
static void the_slots_of_every_algorithm_stay_within_a_budget(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 8, 36, 37, 64, 65, 256}, counts[] = {1, 2, 3, 16, 64};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes * (sizeof counts / sizeof *counts); k++) {
        const int size = sizes[k % 8], count = counts[k / 8], nranks = size * count,
                  ranks[] = {0, nranks / 3, nranks - 1};
        const struct prog_shape shape = {.nranks = nranks, .nnodes = count, .node_ranks = size};
        for (const struct algorithm *a = algorithms; a->name != NULL && nranks <= 4096; a++)
            for (int r = 0; r < 6 && algorithm_applies(a, &shape); r++) {
                size_t bytes = slots_of_a_rank(a, &shape, ranks[r / 2], r % 2);
                if (bytes > 320u << 20)
                    fail_msg("%s %s of %d nodes of %d ranks: rank %d has slots of %zu MiB",
                             prog_collective_name(a->collective), a->name, count, size, ranks[r / 2], bytes >> 20);
            }
    }
}

/* What the tuner may choose for so many ranks: each algorithm, with the memory for the slots by which a rank receives. */
static void memory_has_a_bound_however_many_ranks_there_are(void **state) {
    (void)state;
    static const int counts[] = {1000, 10000, 100000};
    const struct config config = configured(NULL);
    for (int k = 0; k < 3; k++) {
        const struct prog_shape shape = {.nranks = counts[k], .nnodes = counts[k] / 8, .node_ranks = 8};
        struct fifo_layout layouts[PROG_CONNECTS_COUNT];
        struct tuner_limits limits;
        chan_layouts(&config, &(struct chan_scale){counts[k], 8, true, false, false}, layouts);
        const size_t messages = layouts[PROG_TO_ALL].total_bytes * (size_t)(counts[k] - 1);
        assert_int_equal(tuner_limits_read(&config, layouts, 1, &limits), COLLET_SUCCESS);
        size_t most = 0, largest = 0, allowed[PROG_COLLECTIVE_COUNT] = {0};
        for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
            const struct cost_machine machine = {.whole = &shape};
            if (prog_is_p2p(a->collective) || a->collective == PROG_ALLTOALLV || !algorithm_applies(a, &shape))
                continue;
            const size_t bytes = slots_of_a_rank(a, &shape, 0, false);
            largest = bytes > largest ? bytes : largest;
            if (!tuner_has_room(&limits, &machine, a))
                continue;
            allowed[a->collective]++;
            most = bytes > most ? bytes : most;
        }
        printf("%d ranks: %zu MiB, of all algorithms at most %zu MiB, of messages with all others %zu MiB\n", counts[k],
               most >> 20, largest >> 20, messages >> 20);
        assert_true(most <= 320u << 20);
        assert_true(messages <= 320u << 20);
        for (int c = 0; c < PROG_COLLECTIVE_COUNT; c++)
            assert_true(allowed[c] > 0 || c == PROG_ALLTOALLV || prog_is_p2p((enum prog_collective)c));
    }
}

static void a_buffer_size_that_is_set_holds_everywhere(void **state) {
    (void)state;
    struct config config = configured("64K");
    assert_int_equal(long_bytes_of(&config, two_in_memory, PROG_TO_FEW), 8192);
    assert_int_equal(long_bytes_of(&config, two_by_messages, PROG_TO_FEW), 8192);
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
    struct chan_options options = {.boot = boots[1], .config = &configs[1], .nranks = 2, .rank = 1};
    assert_int_equal(chan_create(&options, &chan), COLLET_SUCCESS);
    uint32_t bytes = chan->owner.layouts[PROG_TO_FEW].sizes.long_bytes;
    chan_destroy(chan);
    for (int rank = 0; rank < 2; rank++)
        boot_destroy(boots[rank]);
    return bytes;
}

/* Two connections between the same ranks, if their slots differ. */
static void algorithms_that_connect_all_have_lanes_of_their_own(void **state) {
    (void)state;
    struct config config = configured(NULL);
    struct conn_owner owner;
    chan_layouts(&config, &(struct chan_scale){1024, 8, true, false, false}, owner.layouts);
    assert_int_equal(conn_lane(&owner, PROG_TO_FEW, 5), 5);
    assert_int_equal(conn_lane(&owner, PROG_TO_MATES, 5), 5);
    assert_int_equal(conn_lane(&owner, PROG_TO_MANY, 5), 5 + CONN_LANES * PROG_TO_MANY);
    assert_int_equal(conn_lane(&owner, PROG_TO_MANY, PROG_LANE_P2P), PROG_LANE_P2P);
    owner.layouts[PROG_TO_MANY] = owner.layouts[PROG_TO_FEW];
    assert_int_equal(conn_lane(&owner, PROG_TO_MANY, 5), 5);
}

static void communicators_have_the_slots_of_their_transports(void **state) {
    (void)state;
    assert_int_equal(slot_bytes_of(""), 128 << 10);
    assert_int_equal(slot_bytes_of("tcp"), 512 << 10);
}

static void every_transport_has_a_bit_of_its_own(void **state) {
    (void)state;
    unsigned seen = 0;
    for (const struct transport *const *t = transports; *t != NULL; t++) {
        assert_int_equal(__builtin_popcount((*t)->bit), 1);
        assert_true(transport_number(*t) < BOOT_CARDS);
        assert_int_equal(seen & (*t)->bit, 0);
        seen |= (*t)->bit;
    }
}

/* ---- payloads ---- */

struct connection {
    void *memory;
    size_t bytes;
    struct fifo_end producer, consumer;
};

static struct connection connected_with(const struct fifo_layout *layout, uint32_t roam_bytes) {
    struct config config = configured(NULL);
    struct connection c = {.bytes = layout->total_bytes};
    assert_int_equal(os_memory_create(c.bytes, &c.memory), COLLET_SUCCESS);
    fifo_memory_init(c.memory, layout, &config);
    fifo_end_init(&c.producer, c.memory, layout, &config);
    fifo_end_init(&c.consumer, c.memory, layout, &config);
    c.producer.place.roam_bytes = c.consumer.place.roam_bytes = roam_bytes;
    return c;
}

static struct connection connected(uint32_t roam_bytes) {
    struct config config = configured(NULL);
    const struct fifo_layout layout = layout_of(&config, two_in_memory, PROG_TO_FEW);
    return connected_with(&layout, roam_bytes);
}

static void ended(struct connection *c) { os_memory_destroy(c->memory, c->bytes); }

/* Carries bytes of this value through the next slot as a step does; returns where in it they lay. */
static uint32_t carry(struct connection *c, uint32_t bytes, char value) {
    struct work_args args = {.signature = 1, .protocol = PROTOCOL_SIMPLE};
    assert_true(fifo_has_credit(&c->producer));
    char *slot = fifo_slot_at(&c->producer, PROTOCOL_SIMPLE, c->producer.position);
    char *place = simple_place(&args, &c->producer, bytes);
    uint32_t roamed = (uint32_t)(place - slot);
    assert_true(roamed + bytes <= c->producer.strides[PROTOCOL_SIMPLE]);
    memset(place, value, bytes);
    simple_seal(&args, &c->producer, bytes);
    simple_publish(&args, &c->producer, bytes);
    assert_int_equal(simple_ready(&args, &c->consumer, bytes, NULL), INTERP_STEPPED);
    const char *operand = simple_operand(&args, &c->consumer, bytes, NULL);
    for (uint32_t k = 0; k < bytes; k++)
        assert_int_equal(operand[k], value);
    simple_consume(&c->consumer);
    return roamed;
}

static void short_payloads_go_through_all_of_their_slot(void **state) {
    (void)state;
    struct connection c = connected(128 << 10);
    for (uint32_t lap = 0; lap < 32; lap++)
        for (uint32_t slot = 0; slot < c.producer.nslots; slot++)
            assert_int_equal(carry(&c, 8000, (char)lap), lap % 16 * 8192);
    ended(&c);
}

static void payloads_of_all_lengths_stay_in_their_slot(void **state) {
    (void)state;
    struct connection c = connected(128 << 10);
    for (uint32_t k = 0; k < 500; k++)
        carry(&c, k * 7919 % (128 << 10) + 1, (char)k);
    ended(&c);
}

static void whether_payloads_roam_may_change_at_any_time(void **state) {
    (void)state;
    struct connection c = connected(128 << 10);
    for (uint32_t k = 0; k < 100; k++) {
        c.producer.place.nt_stores = k % 3 == 0;
        carry(&c, 8192, (char)k);
    }
    ended(&c);
}

static void payloads_that_may_not_roam_begin_where_slots_do(void **state) {
    (void)state;
    struct connection still = connected(0), streaming = connected(128 << 10);
    streaming.producer.place.nt_stores = 1;
    for (uint32_t k = 0; k < 40; k++) {
        assert_int_equal(carry(&still, 8192, 1), 0);
        assert_int_equal(carry(&streaming, 8192, 1), 0);
    }
    ended(&still);
    ended(&streaming);
}

/* ---- wires ---- */

static void over_a_wire_slots_of_all_protocols_are_plain_payload(void **state) {
    (void)state;
    struct connection c = connected(0);
    char payload[1000], scratch[4096];
    c.producer.remote = c.consumer.remote = 1;
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        struct work_args args = {.signature = 1, .protocol = protocol};
        uint32_t kind = proto_kind(protocol, &c.producer);
        char *place = PROTO_CALL(kind, place, &args, &c.producer, sizeof(payload));
        assert_ptr_equal(place, fifo_slot_at(&c.producer, protocol, c.producer.position));
        memset(payload, (int)protocol + 1, sizeof(payload));
        memcpy(place, payload, sizeof(payload));
        assert_int_equal(fifo_word_bytes(fifo_header(&c.producer)->word), 0);
        PROTO_CALL(kind, seal, &args, &c.producer, sizeof(payload));
        PROTO_CALL(kind, publish, &args, &c.producer, sizeof(payload));
        assert_int_equal(fifo_header(&c.consumer)->word, fifo_word(protocol, sizeof(payload)));
        assert_int_equal(PROTO_CALL(kind, ready, &args, &c.consumer, sizeof(payload), scratch), INTERP_STEPPED);
        assert_memory_equal(PROTO_CALL(kind, operand, &args, &c.consumer, sizeof(payload), scratch), payload,
                            sizeof(payload));
        PROTO_CALL(kind, consume, &c.consumer);
        assert_true(protocol_wire_factor(protocol, 1) == 1);
    }
    ended(&c);
}

/* Those of a rank that has a connection with each of 131,072 others: full payloads, in every protocol. */
static void the_shortest_slots_carry_full_payloads_of_every_protocol(void **state) {
    (void)state;
    struct config config = configured(NULL);
    for (int on_gpus = 0; on_gpus < 2; on_gpus++) {
        const struct fifo_layout layout =
            layout_of(&config, (struct chan_scale){1 << 17, 8, true, on_gpus, false}, PROG_TO_ALL);
        struct connection c = connected_with(&layout, 0);
        char payload[512], scratch[512];
        size_t area = layout.offers_at + layout.nslots * sizeof(struct loan_offer);
        for (uint32_t protocol = PROTOCOL_COUNT; protocol-- > 0;) {
            assert_true(layout.slots_at[protocol] >= area);
            area = layout.slots_at[protocol] + (size_t)layout.nslots * layout.strides[protocol];
        }
        assert_true(layout.total_bytes >= area);
        for (uint32_t k = 0; k < 100; k++) {
            const uint32_t kind = k * 7 % PROTOCOL_COUNT, bytes = fifo_payload_bytes(&layout, kind);
            struct work_args args = {.signature = 1, .protocol = kind};
            memset(payload, (int)k + 1, bytes);
            assert_true(fifo_has_credit(&c.producer));
            if (proto_has_lines(kind))
                PROTO_CALL(kind, put, &args, &c.producer, payload, bytes);
            else
                memcpy(PROTO_CALL(kind, place, &args, &c.producer, bytes), payload, bytes);
            PROTO_CALL(kind, seal, &args, &c.producer, bytes);
            PROTO_CALL(kind, publish, &args, &c.producer, bytes);
            assert_int_equal(PROTO_CALL(kind, ready, &args, &c.consumer, bytes, scratch), INTERP_STEPPED);
            assert_memory_equal(PROTO_CALL(kind, operand, &args, &c.consumer, bytes, scratch), payload, bytes);
            PROTO_CALL(kind, consume, &c.consumer);
        }
        ended(&c);
    }
}

/* They share pages. What is given back is free when the last of its block is. */
static void short_fifos_have_memory_of_their_own_in_pages_that_they_share(void **state) {
    (void)state;
    enum { COUNT = 1000, BYTES = 2560 };
    static const struct conn_owner owner;
    static char *memory[COUNT];
    for (int round = 0; round < 3; round++) {
        size_t pages = 0;
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(wire_memory_create(&owner, BYTES, (void **)&memory[k]), COLLET_SUCCESS);
            assert_int_equal((uintptr_t)memory[k] % FIFO_LINE_BYTES, 0);
            for (int byte = 0; byte < BYTES; byte++)
                assert_int_equal(memory[k][byte], 0);
            memset(memory[k], k, BYTES);
            pages += k == 0 || (uintptr_t)memory[k] / 4096 != (uintptr_t)memory[k - 1] / 4096;
        }
        assert_true(pages < COUNT * 7 / 10);
        for (int k = 0; k < COUNT; k++)
            assert_true(memory[k][0] == (char)k && memory[k][BYTES - 1] == (char)k);
        for (int k = 0; k < COUNT; k++) /* of each block the first, and then the others */
            wire_memory_destroy(&owner, memory[k * 7 % COUNT], BYTES);
    }
    wire_memory_destroy(&owner, NULL, BYTES);
}

/* LL counts its own turns, however many slots of other protocols are between them. A period of flags has 32. */
static void no_line_of_ll_is_older_than_a_period_of_its_flags(void **state) {
    (void)state;
    struct connection c = connected(0);
    char payload[64], scratch[4096];
    c.producer.turn_mask = c.consumer.turn_mask = 31;
    for (uint32_t k = 0; k < 1000; k++) {
        struct work_args args = {.signature = 0x10000, .protocol = PROTOCOL_LL};
        uint32_t bytes = k % 32 == 0 ? sizeof(payload) : 8;
        carry(&c, 100, (char)k);
        memset(payload, (int)k, sizeof(payload));
        ll_put(&args, &c.producer, payload, 8);
        if (bytes > 8) /* the lines behind were last used one period ago */
            assert_int_equal(ll_ready(&args, &c.consumer, bytes, scratch), INTERP_BUSY);
        ll_put(&args, &c.producer, payload, bytes);
        ll_seal(&args, &c.producer, bytes);
        ll_publish(&args, &c.producer, bytes);
        assert_int_equal(ll_ready(&args, &c.consumer, bytes, scratch), INTERP_STEPPED);
        assert_memory_equal(scratch, payload, bytes);
        ll_consume(&c.consumer);
    }
    ended(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_processes_that_take_turns_are_few_and_long),
        cmocka_unit_test(slots_that_are_messages_are_longer),
        cmocka_unit_test(the_slots_of_a_rank_with_many_peers_stay_within_a_budget),
        cmocka_unit_test(the_slots_of_messages_with_all_others_stay_within_it_too),
        cmocka_unit_test(slots_of_rings_and_trees_keep_their_length),
        cmocka_unit_test(algorithms_that_connect_few_do),
        cmocka_unit_test(the_slots_of_every_algorithm_stay_within_a_budget),
        cmocka_unit_test(memory_has_a_bound_however_many_ranks_there_are),
        cmocka_unit_test(algorithms_that_connect_all_have_lanes_of_their_own),
        cmocka_unit_test(a_buffer_size_that_is_set_holds_everywhere),
        cmocka_unit_test(short_payloads_go_through_all_of_their_slot),
        cmocka_unit_test(payloads_of_all_lengths_stay_in_their_slot),
        cmocka_unit_test(whether_payloads_roam_may_change_at_any_time),
        cmocka_unit_test(payloads_that_may_not_roam_begin_where_slots_do),
        cmocka_unit_test(over_a_wire_slots_of_all_protocols_are_plain_payload),
        cmocka_unit_test(the_shortest_slots_carry_full_payloads_of_every_protocol),
        cmocka_unit_test(short_fifos_have_memory_of_their_own_in_pages_that_they_share),
        cmocka_unit_test(no_line_of_ll_is_older_than_a_period_of_its_flags),
        cmocka_unit_test(communicators_have_the_slots_of_their_transports),
        cmocka_unit_test(every_transport_has_a_bit_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
