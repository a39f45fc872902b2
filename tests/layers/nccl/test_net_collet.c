/* SPDX-License-Identifier: Apache-2.0
 *
 * The network plugin for NCCL (src/layers/nccl/nccl_net.c), by a driver that plays NCCL: both ends in one process, over tcp and the
 * loopback, in every version of the interface.
 */
#include "base/os.h"
#include "layers/nccl/plug_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST 8 /* messages that one irecv asks for */
#define PATIENCE_NS 30000000000ull
#define VERSIONS(X) X(8) X(9) X(10) X(11) X(12)

#define X(n) extern const struct plug_table ncclNetPlugin_v##n;
VERSIONS(X)
#undef X

#define X(n) &ncclNetPlugin_v##n,
static const struct plug_table *const tables[] = {VERSIONS(X)};
#undef X

/* -------------------------------------------------------------------------------------------------- the driver */

static int nwarnings;
static char warning[512];

static void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    va_list args;
    (void)level, (void)flags, (void)file, (void)line;
    va_start(args, format);
    vsnprintf(warning, sizeof(warning), format, args);
    va_end(args);
    nwarnings++;
}

struct driver {
    const struct plug_table *table;
    int version;
    void *sender, *receiver;
    uint64_t deadline_ns;
};

static void be_patient(const struct driver *driver) {
    if (os_now_ns() > driver->deadline_ns)
        fail_msg("nothing came of it");
    usleep(50); /* other threads meet */
}

static int begin(const struct driver *driver) {
    void *context;
    int config[4] = {0};
    if (driver->version >= 11)
        return driver->table->init.v11(&context, 1, config, log_line, NULL);
    return driver->version >= 10 ? driver->table->init.v10(log_line, NULL) : driver->table->init.v8(log_line);
}

static void driver_connect(struct driver *driver, int version) {
    const struct plug_table *table = tables[version - PLUG_OLDEST];
    char handle[PLUG_HANDLE_BYTES] = {0};
    void *listener;
    *driver = (struct driver){.table = table, .version = version, .deadline_ns = os_now_ns() + PATIENCE_NS};
    assert_int_equal(begin(driver), PLUG_SUCCESS);
    assert_int_equal(version >= 11 ? table->listen.v11(NULL, 0, handle, &listener)
                                   : table->listen.v8(0, handle, &listener),
                     PLUG_SUCCESS);
    while (driver->sender == NULL || driver->receiver == NULL) {
        be_patient(driver);
        if (driver->sender == NULL)
            assert_int_equal(version >= 11   ? table->connect.v11(NULL, 0, handle, &driver->sender, NULL)
                             : version == 10 ? table->connect.v10(0, NULL, handle, &driver->sender, NULL)
                                             : table->connect.v8(0, handle, &driver->sender, NULL),
                             PLUG_SUCCESS);
        if (driver->receiver == NULL)
            assert_int_equal(table->accept(listener, &driver->receiver, NULL), PLUG_SUCCESS);
    }
    assert_int_equal(table->close_listen(listener), PLUG_SUCCESS);
}

static void driver_close(struct driver *driver) {
    if (driver->sender != NULL)
        driver->table->close_send(driver->sender);
    if (driver->receiver != NULL)
        driver->table->close_recv(driver->receiver);
}

/* NULL: not now. */
static void *driver_isend_tag(const struct driver *driver, void *data, size_t bytes, int tag) {
    const struct plug_table *table = driver->table;
    void *request;
    int result = driver->version >= 10  ? table->isend.v10(driver->sender, data, bytes, tag, NULL, NULL, &request)
                 : driver->version == 9 ? table->isend.v9(driver->sender, data, bytes, tag, NULL, &request)
                                        : table->isend.v8(driver->sender, data, (int)bytes, tag, NULL, &request);
    assert_int_equal(result, PLUG_SUCCESS);
    return request;
}

/* Once the receiver has asked for it. */
static void *driver_isend(const struct driver *driver, void *data, size_t bytes, int tag) {
    void *request;
    while ((request = driver_isend_tag(driver, data, bytes, tag)) == NULL)
        be_patient(driver);
    return request;
}

static int call_irecv(const struct driver *driver, int n, void **data, size_t *bytes, int *tags, void **request) {
    const struct plug_table *table = driver->table;
    void *registrations[MOST + 1] = {NULL}, *events[MOST + 1] = {NULL};
    int sizes[MOST + 1];
    for (int k = 0; k < n; k++)
        sizes[k] = (int)bytes[k];
    return driver->version >= 10
               ? table->irecv.v10(driver->receiver, n, data, bytes, tags, registrations, events, request)
           : driver->version == 9 ? table->irecv.v9(driver->receiver, n, data, bytes, tags, registrations, request)
                                  : table->irecv.v8(driver->receiver, n, data, sizes, tags, registrations, request);
}

static void *driver_irecv(const struct driver *driver, void *data, size_t bytes) {
    void *request;
    int tag = 1;
    assert_int_equal(call_irecv(driver, 1, &data, &bytes, &tag, &request), PLUG_SUCCESS);
    return request;
}

/* Its bytes, once it is done; −1 before. */
static int driver_test(const struct driver *driver, void *request) {
    int done, bytes = -2;
    assert_int_equal(driver->table->test(request, &done, &bytes), PLUG_SUCCESS);
    return done ? bytes : -1;
}

static void wait_for_both(const struct driver *driver, void *send, void *receive, size_t bytes) {
    int sent = -1, received = -1;
    while (sent < 0 || received < 0) {
        be_patient(driver);
        if (sent < 0)
            sent = driver_test(driver, send);
        if (received < 0)
            received = driver_test(driver, receive);
    }
    assert_int_equal(sent, bytes);
    assert_int_equal(received, bytes);
}

static char *pattern(size_t bytes, unsigned seed) {
    char *data = malloc(bytes + 1);
    for (size_t k = 0; k < bytes; k++)
        data[k] = (char)(k * 31 + seed + (k >> 9));
    return data;
}

/* --------------------------------------------------------------------------------------------------------------- cases */

/* The receiver asks for more than comes. */
static void messages_of_all_lengths_arrive_in_every_version(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 1, 4096, 131072, 131073, 3000000};
    for (int version = PLUG_OLDEST; version <= PLUG_NEWEST; version++) {
        struct driver driver;
        driver_connect(&driver, version);
        for (unsigned k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            size_t bytes = lengths[k];
            char *from = pattern(bytes, k), *to = calloc(1, bytes + 100);
            void *receive = driver_irecv(&driver, to, bytes + 100);
            wait_for_both(&driver, driver_isend(&driver, from, bytes, 1), receive, bytes);
            assert_memory_equal(to, from, bytes);
            assert_int_equal(to[bytes], 0);
            free(from);
            free(to);
        }
        driver_close(&driver);
    }
}

/* As many as there may be; one more is refused until one is done. */
static void as_many_requests_as_there_may_be_keep_their_order(void **state) {
    (void)state;
    struct driver driver;
    void *sends[PLUG_REQUESTS_MAX], *receives[PLUG_REQUESTS_MAX];
    static int from[PLUG_REQUESTS_MAX], to[PLUG_REQUESTS_MAX + 1];
    driver_connect(&driver, 12);
    for (int k = 0; k < PLUG_REQUESTS_MAX; k++)
        assert_non_null(receives[k] = driver_irecv(&driver, &to[k], sizeof(int)));
    assert_null(driver_irecv(&driver, &to[PLUG_REQUESTS_MAX], sizeof(int)));
    for (int k = 0; k < PLUG_REQUESTS_MAX; k++) {
        from[k] = k + 1;
        while ((sends[k] = driver_isend_tag(&driver, &from[k], sizeof(int), 1)) == NULL) {
            be_patient(&driver);
            driver_test(&driver, receives[PLUG_REQUESTS_MAX - 1]); /* the receiver goes on asking */
        }
    }
    for (int k = PLUG_REQUESTS_MAX; k-- > 0;) /* the last first */
        wait_for_both(&driver, sends[k], receives[k], sizeof(int));
    assert_memory_equal(from, to, sizeof(from));
    driver_close(&driver);
}

/* Rows of MOST messages, each with a tag of its own, in all versions. */
struct row {
    char *to[MOST];
    size_t room[MOST];
    int tags[MOST];
    void *request;
};

static size_t length_in_row(int row, int k) { return (size_t)(k * 40000 + row); }

static void ask_for_row(const struct driver *driver, struct row *row) {
    for (int k = 0; k < MOST; k++) {
        row->tags[k] = 100 + k;
        row->room[k] = length_in_row(0, k) + 100;
        row->to[k] = calloc(1, row->room[k]);
    }
    assert_int_equal(call_irecv(driver, MOST, (void **)row->to, row->room, row->tags, &row->request), PLUG_SUCCESS);
    assert_non_null(row->request);
}

/* The message of a row with tag 100 + k. It is sent as soon as the sender takes it; whoever receives goes on. */
static void send_in_row(const struct driver *driver, int row, int k, void *receive) {
    size_t bytes = length_in_row(row, k);
    char *from = pattern(bytes, (unsigned)(row * MOST + k));
    int done = 0, lengths[MOST];
    void *send = driver_isend(driver, from, bytes, 100 + k);
    while (driver_test(driver, send) < 0) {
        be_patient(driver);
        if (!done)
            assert_int_equal(driver->table->test(receive, &done, lengths), PLUG_SUCCESS);
    }
    free(from);
}

static void check_row(const struct driver *driver, struct row *row, int number) {
    int done = 0, lengths[MOST];
    for (; !done; be_patient(driver))
        assert_int_equal(driver->table->test(row->request, &done, lengths), PLUG_SUCCESS);
    for (int k = 0; k < MOST; k++) {
        char *sent = pattern(length_in_row(number, k), (unsigned)(number * MOST + k));
        assert_int_equal(lengths[k], length_in_row(number, k));
        assert_memory_equal(row->to[k], sent, length_in_row(number, k));
        free(sent);
        free(row->to[k]);
    }
}

/* One tag's messages of both requests are sent before the others of the first. */
static void several_receives_in_one_request_take_their_tags(void **state) {
    (void)state;
    for (int version = PLUG_OLDEST; version <= PLUG_NEWEST; version++) {
        struct driver driver;
        struct row rows[2];
        driver_connect(&driver, version);
        ask_for_row(&driver, &rows[0]);
        ask_for_row(&driver, &rows[1]);
        for (int k = MOST; k-- > 0;)
            for (int row = 0; row < 2; row++)
                send_in_row(&driver, row, k, rows[1].request);
        check_row(&driver, &rows[0], 0);
        check_row(&driver, &rows[1], 1);
        driver_close(&driver);
    }
}

/* The sender would like to send tag 107 of the second request first. It has to wait, or tag 100 could not get past it. */
static void a_sender_waits_until_its_tag_is_asked_for(void **state) {
    (void)state;
    struct driver driver;
    struct row rows[2];
    char byte = 0;
    driver_connect(&driver, 12);
    assert_null(driver_isend_tag(&driver, &byte, 1, 107));
    ask_for_row(&driver, &rows[0]);
    send_in_row(&driver, 0, 7, rows[0].request);
    for (int k = 0; k < 100; k++)
        assert_null(driver_isend_tag(&driver, &byte, 1, 107));
    for (int k = 0; k < 7; k++)
        send_in_row(&driver, 0, k, rows[0].request);
    check_row(&driver, &rows[0], 0);
    ask_for_row(&driver, &rows[1]);
    for (int k = MOST; k-- > 0;)
        send_in_row(&driver, 1, k, rows[1].request);
    check_row(&driver, &rows[1], 1);
    driver_close(&driver);
}

static void too_many_receives_in_one_request_are_an_error(void **state) {
    (void)state;
    for (int version = PLUG_OLDEST; version <= PLUG_NEWEST; version++) {
        struct driver driver;
        char to[MOST + 1];
        void *data[MOST + 1], *request;
        size_t bytes[MOST + 1];
        int tags[MOST + 1] = {0};
        driver_connect(&driver, version);
        for (int k = 0; k <= MOST; k++) {
            data[k] = &to[k];
            bytes[k] = 1;
        }
        assert_int_equal(call_irecv(&driver, MOST + 1, data, bytes, tags, &request), PLUG_INTERNAL_ERROR);
        assert_non_null(strstr(warning, "irecv of 9 messages: 1 to 8 can be received together"));
        assert_int_equal(call_irecv(&driver, 0, data, bytes, tags, &request), PLUG_INTERNAL_ERROR);
        assert_null(request);
        driver_close(&driver);
    }
}

static void a_message_that_is_too_long_is_an_error(void **state) {
    (void)state;
    struct driver driver;
    char from[100] = {0}, to[10];
    int done, result = PLUG_SUCCESS;
    driver_connect(&driver, 11);
    void *receive = driver_irecv(&driver, to, sizeof(to)), *send = driver_isend(&driver, from, sizeof(from), 1);
    while (result == PLUG_SUCCESS) {
        be_patient(&driver);
        if (send != NULL && driver_test(&driver, send) >= 0)
            send = NULL;
        result = driver.table->test(receive, &done, NULL);
    }
    assert_int_equal(result, PLUG_INTERNAL_ERROR);
    assert_non_null(strstr(warning, "a message of 100 bytes came where there is room for 10"));
    driver_close(&driver);
}

static void an_end_that_leaves_is_an_error_after_what_it_sent(void **state) {
    (void)state;
    struct driver driver;
    int from = 7, to = 0, done, result = PLUG_SUCCESS;
    driver_connect(&driver, 10);
    void *receive = driver_irecv(&driver, &to, sizeof(to));
    void *send = driver_isend(&driver, &from, sizeof(from), 1);
    while (driver_test(&driver, send) < 0)
        be_patient(&driver);
    driver.table->close_send(driver.sender);
    driver.sender = NULL;
    while (driver_test(&driver, receive) < 0)
        be_patient(&driver);
    assert_int_equal(to, 7);
    receive = driver_irecv(&driver, &to, sizeof(to));
    while (result == PLUG_SUCCESS) {
        be_patient(&driver);
        result = driver.table->test(receive, &done, NULL);
        assert_false(done);
    }
    assert_int_equal(result, PLUG_REMOTE_ERROR);
    driver_close(&driver);
}

/* What is behind a version's properties is the program's. */
static void properties_are_as_long_as_their_version(void **state) {
    (void)state;
    static const size_t lengths[] = {sizeof(struct plug_properties_v8), offsetof(struct plug_properties_v11, requests),
                                     offsetof(struct plug_properties_v11, requests), sizeof(struct plug_properties_v11),
                                     sizeof(struct plug_properties_v12)};
    for (int k = 0; k < 5; k++) {
        unsigned char room[256];
        memset(room, 0xa5, sizeof(room));
        assert_int_equal(tables[k]->get_properties(0, room), PLUG_SUCCESS);
        assert_string_equal(*(char **)(void *)room, "collet");
        int receives = k == 0 ? ((struct plug_properties_v8 *)(void *)room)->receives
                              : ((struct plug_properties *)(void *)room)->receives;
        assert_int_equal(receives, MOST);
        for (size_t at = lengths[k]; at < sizeof(room); at++)
            assert_int_equal(room[at], 0xa5);
    }
}

static void memory_of_gpus_is_refused(void **state) {
    (void)state;
    void *registration;
    assert_int_not_equal(tables[0]->reg_mr(&registration, &registration, 8, PLUG_GPU, &registration), PLUG_SUCCESS);
    assert_int_equal(tables[0]->reg_mr(&registration, &registration, 8, PLUG_HOST, &registration), PLUG_SUCCESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_lengths_arrive_in_every_version),
        cmocka_unit_test(as_many_requests_as_there_may_be_keep_their_order),
        cmocka_unit_test(several_receives_in_one_request_take_their_tags),
        cmocka_unit_test(a_sender_waits_until_its_tag_is_asked_for),
        cmocka_unit_test(too_many_receives_in_one_request_are_an_error),
        cmocka_unit_test(a_message_that_is_too_long_is_an_error),
        cmocka_unit_test(an_end_that_leaves_is_an_error_after_what_it_sent),
        cmocka_unit_test(properties_are_as_long_as_their_version),
        cmocka_unit_test(memory_of_gpus_is_refused),
    };
    setenv("COLLET_SOCKET_IFNAME", "=lo", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
