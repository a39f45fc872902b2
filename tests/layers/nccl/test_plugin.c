/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport over net plugins, between two ends in one process. The plugin is a fake: it keeps messages in memory, is often
 * not ready, takes what arguments each version of the interface has, and keeps what it received into memory of a GPU to itself
 * until that is flushed.
 */
#include "common/emulated_gpu.h"
#include "common/local_boots.h"
#include "common/patience.h"
#include "common/slots.h"

#include "base/config_read.h"
#include "base/err.h"
#include "chan/chan.h"
#include "layers/nccl/plug_end.h"
#include "layers/nccl/plug_lib.c"
#include "topo/probe/declared.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ----------------------------------------------------------------------------------------------------------- the fake plugin */

struct fake_request {
    char *data;
    size_t bytes; /* a receive's: room, then what came */
    int tag;
    bool posted, done, kept;
    char *hidden;              /* received, and not flushed */
    struct fake_request *with; /* the other message that the same request asks for */
};

static int fake_receives; /* messages that a request may ask for; all cases run with 1 and with more */

static struct fake {
    int handle, sender, receiver; /* what a plugin gives out */
    struct fake_request sends[PLUG_REQUESTS_MAX], receives[PLUG_REQUESTS_MAX];
    unsigned nsends, nreceives, nmatched; /* since the beginning */
    unsigned calls;                       /* of isend, irecv and test */
    int listeners, lines, registrations, flushes, dmabuf_fd;
    int fails;                /* calls of test fail with this */
    bool takes_no_gpu, flips; /* flips: a bit of each payload that is no frame's */
    bool cuts;                /* says one byte less of what came into memory of a GPU */
    bool refuses;             /* isend takes nothing */
    struct fake_request flush;
} fake;

static int listen_v8(int device, void *handle, void **listener) {
    assert_in_range(device, 0, 1);
    memset(handle, 7, PLUG_HANDLE_BYTES);
    *listener = &fake.handle;
    fake.listeners++;
    return PLUG_SUCCESS;
}
static int listen_v11(void *context, int device, void *handle, void **listener) {
    assert_ptr_equal(context, &fake);
    return listen_v8(device, handle, listener);
}

/* Not at once. */
static int connect_v8(int device, void *handle, void **sender, void **on_device) {
    assert_in_range(device, 0, 1);
    assert_int_equal(((char *)handle)[PLUG_HANDLE_BYTES - 1], 7);
    assert_null(*on_device); /* nothing is offloaded */
    *sender = ++fake.calls % 3 == 0 ? &fake.sender : NULL;
    fake.lines += *sender != NULL;
    return PLUG_SUCCESS;
}
static int connect_v10(int device, void *config, void *handle, void **sender, void **on_device) {
    assert_non_null(config);
    return connect_v8(device, handle, sender, on_device);
}
static int connect_v11(void *context, int device, void *handle, void **sender, void **on_device) {
    assert_ptr_equal(context, &fake);
    return connect_v8(device, handle, sender, on_device);
}

static int fake_accept(void *listener, void **receiver, void **on_device) {
    assert_ptr_equal(listener, &fake.handle);
    assert_null(*on_device);
    *receiver = ++fake.calls % 3 == 0 ? &fake.receiver : NULL;
    fake.lines += *receiver != NULL;
    return PLUG_SUCCESS;
}

static int fake_reg(void *line, void *data, size_t bytes, int kind, void **registration) {
    assert_non_null(line);
    assert_int_equal(kind, emulated_gpu_owns(data) ? PLUG_GPU : PLUG_HOST);
    assert_true(bytes > 0);
    *registration = kind == PLUG_GPU ? (void *)&fake.flushes : (void *)&fake.calls;
    fake.registrations += kind == PLUG_HOST || !fake.takes_no_gpu;
    return kind == PLUG_GPU && fake.takes_no_gpu ? PLUG_SYSTEM_ERROR : PLUG_SUCCESS;
}
static int fake_reg_dmabuf(void *line, void *data, size_t bytes, int kind, uint64_t offset, int fd, void **r) {
    assert_int_equal(offset, 0);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1);
    fake.dmabuf_fd = fd;
    return fake_reg(line, data, bytes, kind, r);
}
static int fake_dereg(void *line, void *registration) {
    assert_non_null(line);
    assert_non_null(registration);
    fake.registrations--;
    return PLUG_SUCCESS;
}

static void *registration_for(const void *data) {
    return emulated_gpu_owns(data) ? (void *)&fake.flushes : (void *)&fake.calls;
}

static void hand_over(struct fake_request *from, struct fake_request *to) {
    assert_true(from->bytes <= to->bytes);
    to->bytes = from->bytes;
    to->kept = emulated_gpu_owns(to->data);
    if (to->kept && from->bytes > 0) {
        to->hidden = malloc(from->bytes);
        memcpy(to->hidden, from->data, from->bytes);
    } else
        memcpy(to->data, from->data, from->bytes);
    if (fake.flips && from->bytes > PLUG_SHORT_BYTES)
        to->data[from->bytes / 2] ^= 1;
    from->done = to->done = true;
    fake.nmatched++;
}

/* The oldest that is posted, of any tag where requests ask for one message. */
static struct fake_request *oldest(struct fake_request *requests, unsigned n, int tag) {
    for (unsigned k = n < PLUG_REQUESTS_MAX ? 0 : n - PLUG_REQUESTS_MAX; k != n; k++) {
        struct fake_request *r = &requests[k % PLUG_REQUESTS_MAX];
        if (r->posted && !r->done && (fake_receives == 1 || r->tag == tag))
            return r;
    }
    return NULL;
}

/* The n-th message sent with a tag is the n-th that is asked for with it. */
static void match(void) {
    for (int tag = 0; tag < PLUG_TOGETHER; tag++) {
        struct fake_request *from, *to;
        while ((from = oldest(fake.sends, fake.nsends, tag)) != NULL &&
               (to = oldest(fake.receives, fake.nreceives, tag)) != NULL)
            hand_over(from, to);
    }
}

/* Every third call, and where there are as many requests as may be, nothing is taken. */
static bool is_busy(const struct fake_request *requests, unsigned n, int more) {
    bool busy = ++fake.calls % 3 == 0;
    for (int k = 0; k < more; k++)
        busy = busy || requests[(n + (unsigned)k) % PLUG_REQUESTS_MAX].posted;
    return busy;
}

static struct fake_request *post(struct fake_request *requests, unsigned *n, void *data, size_t bytes, int tag) {
    struct fake_request *r = &requests[(*n)++ % PLUG_REQUESTS_MAX];
    *r = (struct fake_request){.data = data, .bytes = bytes, .tag = tag, .posted = true};
    return r;
}

static int isend_v9(void *sender, void *data, size_t bytes, int tag, void *registration, void **request) {
    assert_in_range(tag, 0, fake_receives == 1 ? 0 : PLUG_TOGETHER - 1);
    assert_ptr_equal(sender, &fake.sender);
    assert_ptr_equal(registration, registration_for(data));
    *request = NULL;
    if (!fake.refuses && !is_busy(fake.sends, fake.nsends, 1))
        *request = post(fake.sends, &fake.nsends, data, bytes, tag);
    match();
    return PLUG_SUCCESS;
}
static int isend_v8(void *sender, void *data, int bytes, int tag, void *registration, void **request) {
    return isend_v9(sender, data, (size_t)bytes, tag, registration, request);
}
static int isend_v10(void *sender, void *data, size_t bytes, int tag, void *registration, void *event, void **request) {
    assert_null(event);
    return isend_v9(sender, data, bytes, tag, registration, request);
}
static int irecv_v9(void *receiver, int n, void **data, size_t *bytes, int *tags, void **registrations,
                    void **request) {
    struct fake_request *messages[PLUG_TOGETHER] = {NULL};
    assert_int_equal(n, fake_receives == 1 ? 1 : PLUG_TOGETHER);
    assert_ptr_equal(receiver, &fake.receiver);
    *request = NULL;
    if (is_busy(fake.receives, fake.nreceives, n))
        return PLUG_SUCCESS;
    for (int k = 0; k < n; k++) {
        assert_ptr_equal(registrations[k], registration_for(data[k]));
        messages[k] = post(fake.receives, &fake.nreceives, data[k], bytes[k], tags[k]);
    }
    messages[0]->with = messages[1];
    *request = messages[0];
    match();
    return PLUG_SUCCESS;
}
static int irecv_v8(void *receiver, int n, void **data, int *bytes, int *tags, void **registrations, void **request) {
    size_t sizes[PLUG_TOGETHER];
    for (int k = 0; k < n; k++)
        sizes[k] = (size_t)bytes[k];
    return irecv_v9(receiver, n, data, sizes, tags, registrations, request);
}
static int irecv_v10(void *receiver, int n, void **data, size_t *bytes, int *tags, void **registrations, void **events,
                     void **request) {
    assert_non_null(events);
    return irecv_v9(receiver, n, data, bytes, tags, registrations, request);
}

static int fake_flush(void *receiver, int n, void **data, int *bytes, void **registrations, void **request) {
    assert_ptr_equal(receiver, &fake.receiver);
    assert_int_equal(n, 1);
    assert_ptr_equal(registrations[0], &fake.flushes);
    for (int k = 0; k < PLUG_REQUESTS_MAX; k++) {
        struct fake_request *r = &fake.receives[k];
        if (r->hidden == NULL || r->data != data[0])
            continue;
        assert_int_equal(bytes[0], r->bytes);
        memcpy(r->data, r->hidden, r->bytes);
        free(r->hidden);
        r->hidden = NULL;
    }
    fake.flush = (struct fake_request){.posted = true, .done = true};
    *request = &fake.flush;
    fake.flushes++;
    return PLUG_SUCCESS;
}

static int fake_test(void *request, int *done, int *bytes) {
    struct fake_request *r = request;
    assert_true(r->posted);
    *done = r->done && (r->with == NULL || r->with->done) && ++fake.calls % 2 == 0;
    for (; *done && r != NULL; r = r->with) {
        if (bytes != NULL)
            *bytes++ = (int)r->bytes - (fake.cuts && r->kept);
        r->posted = false;
    }
    return fake.fails;
}

static int close_line(void *line) {
    assert_non_null(line);
    fake.lines--;
    return PLUG_SUCCESS;
}
static int close_listener(void *listener) {
    assert_ptr_equal(listener, &fake.handle);
    fake.listeners--;
    return PLUG_SUCCESS;
}

static struct plug_host host_of(int version) {
    static struct plug_table table;
    table = (struct plug_table){.name = "fake",
                                .accept = fake_accept,
                                .reg_mr = fake_reg,
                                .reg_mr_dmabuf = fake_reg_dmabuf,
                                .dereg_mr = fake_dereg,
                                .iflush = fake_flush,
                                .test = fake_test,
                                .close_send = close_line,
                                .close_recv = close_line,
                                .close_listen = close_listener};
    struct plug_host host = {.table = &table, .version = version, .card = 5, .ndevices = 2};
    for (int k = 0; k < 2; k++) {
        snprintf(host.devices[k].nic.name, TOPO_NAME_BYTES, "fake%d", k);
        host.devices[k].pointers = PLUG_HOST;
        host.devices[k].receives = fake_receives;
    }
    table.listen.v8 = listen_v8;
    table.connect.v8 = connect_v8;
    table.isend.v8 = isend_v8;
    table.irecv.v8 = irecv_v8;
    if (version >= 9) {
        table.isend.v9 = isend_v9;
        table.irecv.v9 = irecv_v9;
    }
    if (version >= 10) {
        table.connect.v10 = connect_v10;
        table.isend.v10 = isend_v10;
        table.irecv.v10 = irecv_v10;
    }
    if (version >= 11) {
        host.context = &fake;
        table.listen.v11 = listen_v11;
        table.connect.v11 = connect_v11;
    }
    return host;
}

/* ------------------------------------------------------------------------------------------------ two ends, one process */

struct shape {
    uint32_t nslots, slot_bytes;
    uint64_t first_step;
    bool checksum, on_gpus;
};

struct pair {
    struct config configs[2];
    struct boot *boots[2];
    struct chan *chans[2];
    struct conn *producer, *consumer;
};

static struct gpu_rank *gpus[2]; /* NULL: the rank is on host memory */

static struct conn *conn_of(struct pair *pair, int rank, enum conn_side side) {
    struct conn *conn;
    assert_int_equal(conn_get(pair->chans[rank], 1 - rank, 0, 0, side, &conn), COLLET_SUCCESS);
    return conn;
}

static void pair_open(struct pair *pair, const struct plug_host *host, struct shape shape) {
    memset(pair, 0, sizeof(*pair));
    fake = (struct fake){.fails = 0, .takes_no_gpu = fake.takes_no_gpu};
    in_use = host;
    assert_int_equal(config_read(&pair->configs[0]), COLLET_SUCCESS);
    strcpy(pair->configs[0].transport, "plugin");
    pair->configs[0].first_step = (int64_t)shape.first_step;
    pair->configs[0].checksum = shape.checksum;
    pair->configs[1] = pair->configs[0];
    struct boot_self selves[2] = {{.device = 0}, {.device = 0}};
    transport_cards(0, selves[0].cards);
    transport_cards(0, selves[1].cards);
    assert_int_equal(boot_join_local(2, selves, pair->configs, pair->boots), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(boot_try_init(pair->boots[rank]), COLLET_SUCCESS);
        if (shape.on_gpus)
            assert_int_equal(gpu_rank_create(rank, &gpus[rank]), COLLET_SUCCESS);
        struct chan_options options = {
            .boot = pair->boots[rank], .config = &pair->configs[rank], .nranks = 2, .rank = rank, .gpu = gpus[rank]};
        assert_int_equal(chan_create(&options, &pair->chans[rank]), COLLET_SUCCESS);
        pair->chans[rank]->owner.layouts[PROG_TO_FEW] =
            fifo_layout_of(shape.nslots, (struct protocol_sizes){shape.slot_bytes, 256, 256}, 0);
    }
    pair->producer = conn_of(pair, 1, CONN_PRODUCER);
    pair->consumer = conn_of(pair, 0, CONN_CONSUMER);
    patience_begin();
    enum collet_result mine, theirs;
    do {
        be_patient();
        mine = conn_try(pair->producer);
        theirs = conn_try(pair->consumer);
        assert_true(mine >= 0 && theirs >= 0);
    } while (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS);
}

static void pair_close(struct pair *pair) {
    for (int rank = 0; rank < 2; rank++) {
        chan_destroy(pair->chans[rank]);
        boot_destroy(pair->boots[rank]);
        gpu_rank_destroy(gpus[rank]);
        gpus[rank] = NULL;
    }
    for (int k = 0; k < PLUG_REQUESTS_MAX; k++)
        free(fake.receives[k].hidden);
    assert_int_equal(fake.lines, 0);
    assert_int_equal(fake.listeners, 0);
    assert_int_equal(fake.registrations, 0);
    in_use = NULL;
}

static void move_ends(struct pair *pair) {
    be_patient();
    assert_true(transport_plugin.progress(pair->producer) >= 0);
    assert_true(transport_plugin.progress(pair->consumer) >= 0);
}

static void move_slots(struct pair *pair, uint64_t n) {
    uint64_t end = pair->producer->end.position + n, chance = 1;
    while (pair->consumer->end.position != end || !transport_plugin.idle(pair->producer)) {
        chance = slots_mix(chance + 77);
        if (chance % 4 != 0 && pair->producer->end.position != end && fifo_has_credit(&pair->producer->end))
            slots_publish(pair->producer);
        move_ends(pair);
        if (chance % 7 < 4 && fifo_has_data(&pair->consumer->end))
            slots_consume(pair->consumer);
    }
}

static const struct shape shapes[] = {{8, 10000, 0, false, false},
                                      {2, 5000, UINT64_MAX - 50, true, false},
                                      {1, 64, 0, false, false},
                                      {16, 4096, 3, true, false}};

/* --------------------------------------------------------------------------------------------------------------------- cases */

static void slots_arrive_by_every_version_of_the_interface(void **state) {
    (void)state;
    for (int version = PLUG_OLDEST; version <= PLUG_NEWEST; version++)
        for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
            struct plug_host host = host_of(version);
            struct pair pair;
            pair_open(&pair, &host, shapes[k]);
            move_slots(&pair, 300);
            pair_close(&pair);
        }
}

static void a_consumer_without_room_asks_for_nothing(void **state) {
    (void)state;
    struct plug_host host = host_of(12);
    struct pair pair;
    pair_open(&pair, &host, (struct shape){4, 9000, 0, false, false});
    for (int k = 0; k < 100; k++) {
        if (fifo_has_credit(&pair.producer->end))
            slots_publish(pair.producer);
        move_ends(&pair);
    }
    assert_int_equal(*pair.consumer->end.tail, 4); /* it has all that it has room for … */
    assert_int_equal(pair.producer->end.position, 8);
    assert_false(transport_plugin.idle(pair.producer)); /* … and the producer what is not asked for */
    for (int k = 0; k < 4; k++)
        slots_consume(pair.consumer);
    while (!transport_plugin.idle(pair.producer))
        move_ends(&pair);
    pair_close(&pair);
}

/* Is Simple's area in memory of a GPU, and nothing else? */
static bool plug_is_direct(const struct conn *conn) {
    assert_false(emulated_gpu_owns(conn->end.slots[PROTOCOL_LL]) || emulated_gpu_owns(conn->end.tail));
    return emulated_gpu_owns(conn->end.slots[PROTOCOL_SIMPLE]);
}

static void slots_lie_in_memory_of_gpus_where_the_plugin_takes_it(void **state) {
    (void)state;
    static const struct {
        int pointers;
        struct gpu_direct direct;
        bool taken, in_gpu, flushed, no_call; /* no_call: the table has none for a dmabuf */
    } table[] = {
        {PLUG_HOST, {true, false, true}, true, false, false, false},
        {PLUG_HOST | PLUG_GPU, {false, false, true}, true, true, true, false},
        {PLUG_HOST | PLUG_GPU | PLUG_DMABUF, {true, false, true}, true, true, true, false},
        {PLUG_HOST | PLUG_GPU | PLUG_DMABUF, {true, false, true}, true, true, true, true},
        {PLUG_HOST | PLUG_GPU, {false, false, true}, false, false, false, false},
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        struct plug_host host = host_of(11);
        struct plug_table without_dmabuf = *host.table;
        struct pair pair;
        without_dmabuf.reg_mr_dmabuf = NULL;
        if (table[k].no_call)
            host.table = &without_dmabuf;
        for (int d = 0; d < 2; d++) {
            host.devices[d].pointers = table[k].pointers;
            host.devices[d].nic.gdr = table[k].pointers != PLUG_HOST;
        }
        emulated_gpu_set_direct(table[k].direct, NULL);
        fake.takes_no_gpu = !table[k].taken;
        pair_open(&pair, &host, (struct shape){8, 10000, 0, false, true});
        assert_int_equal(plug_is_direct(pair.producer), table[k].in_gpu);
        assert_int_equal(plug_is_direct(pair.consumer), table[k].in_gpu);
        if ((table[k].pointers & PLUG_DMABUF) && !table[k].no_call)
            assert_int_equal(fcntl(fake.dmabuf_fd, F_GETFD), -1); /* nothing needs it any more */
        move_slots(&pair, 300);
        assert_int_equal(fake.flushes > 0, table[k].flushed);
        pair_close(&pair);
    }
    fake.takes_no_gpu = false;
}

/* The other end goes on, as far as it can. */
static enum collet_result progress_until_it_fails(const struct pair *pair, struct conn *conn) {
    enum collet_result result = COLLET_IN_PROGRESS;
    while (result >= 0) {
        be_patient();
        transport_plugin.progress(conn == pair->consumer ? pair->producer : pair->consumer);
        result = transport_plugin.progress(conn);
    }
    return result;
}

static void a_call_that_fails_is_told_with_the_device_and_the_peer(void **state) {
    (void)state;
    struct plug_host host = host_of(9);
    struct pair pair;
    pair_open(&pair, &host, shapes[0]);
    slots_publish(pair.producer);
    fake.fails = PLUG_REMOTE_ERROR;
    assert_int_equal(progress_until_it_fails(&pair, pair.producer), COLLET_ERR_REMOTE);
    assert_non_null(strstr(err_last(), "to rank 0"));
    assert_non_null(strstr(err_last(), "device fake0 of fake"));
    assert_non_null(strstr(err_last(), "test has failed with error 6"));
    fake.fails = 0;
    pair_close(&pair);
}

static void data_that_changes_on_the_way_is_told_with_checksums(void **state) {
    (void)state;
    struct plug_host host = host_of(12);
    struct pair pair;
    pair_open(&pair, &host, (struct shape){8, 10000, 0, true, false});
    slots_pattern.whole = true;
    slots_publish(pair.producer);
    fake.flips = true;
    assert_int_equal(progress_until_it_fails(&pair, pair.consumer), COLLET_ERR_REMOTE);
    assert_non_null(strstr(err_last(), "data changed on the way from rank 1"));
    assert_non_null(strstr(err_last(), "by plugin, device fake0 of fake"));
    slots_pattern.whole = false;
    pair_close(&pair);
}

/* Its length is known before its flush is done. */
static void a_payload_that_is_cut_is_told_in_memory_of_gpus_too(void **state) {
    (void)state;
    struct plug_host host = host_of(12);
    struct pair pair;
    for (int d = 0; d < 2; d++) {
        host.devices[d].pointers |= PLUG_GPU;
        host.devices[d].nic.gdr = true;
    }
    emulated_gpu_set_direct((struct gpu_direct){false, false, false}, NULL);
    pair_open(&pair, &host, (struct shape){8, 10000, 0, false, true});
    assert_true(plug_is_direct(pair.consumer));
    fake.cuts = slots_pattern.whole = true;
    slots_publish(pair.producer);
    assert_int_equal(progress_until_it_fails(&pair, pair.consumer), COLLET_ERR_REMOTE);
    assert_non_null(strstr(err_last(), "the plugin delivered 9999 bytes of 10000"));
    slots_pattern.whole = false;
    pair_close(&pair);
}

/* However often it is refused: what changes in between is not looked at. */
static void a_frame_is_filled_once(void **state) {
    (void)state;
    struct plug_host host = host_of(12);
    struct pair pair;
    pair_open(&pair, &host, (struct shape){8, 64, 0, true, false});
    fake.refuses = slots_pattern.whole = true;
    slots_publish(pair.producer);
    char *payload = fifo_slot_at(&pair.producer->end, PROTOCOL_SIMPLE, 0);
    for (int k = 0; k < 3; k++)
        move_ends(&pair);
    payload[0] ^= 1;
    fake.refuses = false;
    while (!fifo_has_data(&pair.consumer->end))
        move_ends(&pair);
    slots_consume(pair.consumer);
    slots_pattern.whole = false;
    pair_close(&pair);
}

/* It has consumed what it needed, so nobody waits for the messages that are not done. */
static void a_peer_that_has_left_leaves_nothing_to_be_done(void **state) {
    (void)state;
    struct plug_host host = host_of(12);
    struct pair pair;
    pair_open(&pair, &host, shapes[0]);
    slots_publish(pair.producer);
    move_ends(&pair);
    fake.fails = PLUG_REMOTE_ERROR;
    chan_destroy(pair.chans[0]);
    boot_destroy(pair.boots[0]);
    pair.chans[0] = NULL;
    pair.boots[0] = NULL;
    while (!transport_plugin.idle(pair.producer)) {
        be_patient();
        assert_true(transport_plugin.progress(pair.producer) >= 0);
    }
    fake.fails = 0;
    pair_close(&pair);
}

static void a_plugin_that_is_not_there_is_done_without(void **state) {
    (void)state;
    static const char *const names[] = {"", "none", "there-is-no-such-plugin", "libm.so.6"};
    static const char *const reasons[] = {"names none", "names none", "cannot be loaded",
                                          "no table of version 8 to 12"};
    for (int k = 0; k < 4; k++) {
        struct plug_host host;
        plug_host_open(&host, names[k]);
        assert_null(host.table);
        assert_int_equal(host.card, 0);
        assert_non_null(strstr(host.why, reasons[k]));
    }
}

static void declared_nics_are_those_of_the_graph(void **state) {
    (void)state;
    struct topo_declared nics[2] = {{.nic = {.name = "plug0", .mbits = 400000, .dev = -1}},
                                    {.nic = {.name = "plug1", .mbits = 400000, .dev = -1}}};
    struct topo *topo;
    topo_declare_nics(nics, 2);
    assert_int_equal(topo_probe(TOPO_CLOCK_S, &topo), COLLET_SUCCESS);
    int found = 0;
    for (int n = 0; n < topo->nnodes; n++)
        if (topo->nodes[n].kind == TOPO_NIC) {
            assert_memory_equal(topo->nodes[n].nic.name, "plug", 4);
            assert_int_equal(topo->nodes[n].nic.mbits, 400000);
            found++;
        }
    assert_int_equal(found, 2);
    topo_destroy(topo);
    topo_declare_nics(NULL, 0);
}

/* On a bus: the function that is there gets what the plugin says; a NIC that it does not name is none. */
static void a_declared_nic_is_where_its_function_is(void **state) {
    (void)state;
    struct topo_declared nic = {.nic = {.name = "plug0", .mbits = 200000, .dev = -1}, .busid = "0000:02:00.0"};
    struct topo *topo;
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    assert_int_equal(topo_add_node(topo, &cpu), 0);
    for (int k = 1; k <= 2; k++) {
        struct topo_node node = topo_blank(TOPO_NIC, 0);
        snprintf(node.pci.busid, sizeof(node.pci.busid), "0000:%02d:00.0", k);
        node.pci.class = 0x020000;
        snprintf(node.nic.name, sizeof(node.nic.name), "eth%d", k);
        assert_int_equal(topo_add_node(topo, &node), k);
    }
    topo_declare_nics(&nic, 1);
    topo_add_declared(topo);
    topo_declare_nics(NULL, 0);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    assert_int_equal(topo->nodes[1].kind, TOPO_PCI);
    assert_int_equal(topo->nodes[2].kind, TOPO_NIC);
    assert_string_equal(topo->nodes[2].nic.name, "plug0");
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 1);
    topo_destroy(topo);
}

static int one_per_request(void **state) {
    (void)state;
    fake_receives = 1;
    return 0;
}
static int several_per_request(void **state) {
    (void)state;
    fake_receives = 8;
    return 0;
}
#define BOTH(test)                                                                                                     \
    {#test, test, one_per_request, NULL, NULL}, { #test "_several_per_request", test, several_per_request, NULL, NULL }

int main(void) {
    gpu_driver_use(&emulated_gpu_driver);
    const struct CMUnitTest tests[] = {
        BOTH(slots_arrive_by_every_version_of_the_interface),
        BOTH(a_consumer_without_room_asks_for_nothing),
        BOTH(slots_lie_in_memory_of_gpus_where_the_plugin_takes_it),
        BOTH(a_call_that_fails_is_told_with_the_device_and_the_peer),
        BOTH(data_that_changes_on_the_way_is_told_with_checksums),
        BOTH(a_payload_that_is_cut_is_told_in_memory_of_gpus_too),
        BOTH(a_frame_is_filled_once),
        BOTH(a_peer_that_has_left_leaves_nothing_to_be_done),
        cmocka_unit_test(a_plugin_that_is_not_there_is_done_without),
        cmocka_unit_test(declared_nics_are_those_of_the_graph),
        cmocka_unit_test(a_declared_nic_is_where_its_function_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
