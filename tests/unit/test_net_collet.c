/* SPDX-License-Identifier: Apache-2.0
 *
 * The network plugin for NCCL (src/compat/nccl_net.c), by a driver that plays NCCL: both ends in one process, over tcp and the
 * loopback, in every version of the interface.
 */
#include "base/os.h"
#include "transport/plug_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

static void *driver_isend(const struct driver *driver, void *data, size_t bytes) {
    const struct plug_table *table = driver->table;
    void *request;
    int result = driver->version >= 10  ? table->isend.v10(driver->sender, data, bytes, 1, NULL, NULL, &request)
                 : driver->version == 9 ? table->isend.v9(driver->sender, data, bytes, 1, NULL, &request)
                                        : table->isend.v8(driver->sender, data, (int)bytes, 1, NULL, &request);
    assert_int_equal(result, PLUG_SUCCESS);
    return request;
}

static void *driver_irecv(const struct driver *driver, void *data, size_t bytes) {
    const struct plug_table *table = driver->table;
    int size = (int)bytes, tag = 1;
    void *registration = NULL, *event = NULL, *request;
    int result = driver->version >= 10
                     ? table->irecv.v10(driver->receiver, 1, &data, &bytes, &tag, &registration, &event, &request)
                 : driver->version == 9
                     ? table->irecv.v9(driver->receiver, 1, &data, &bytes, &tag, &registration, &request)
                     : table->irecv.v8(driver->receiver, 1, &data, &size, &tag, &registration, &request);
    assert_int_equal(result, PLUG_SUCCESS);
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
            wait_for_both(&driver, driver_isend(&driver, from, bytes), receive, bytes);
            assert_memory_equal(to, from, bytes);
            assert_int_equal(to[bytes], 0);
            free(from);
            free(to);
        }
        driver_close(&driver);
    }
}

/* As many as there may be, sent before any is asked for; one more is refused until one is done. */
static void as_many_requests_as_there_may_be_keep_their_order(void **state) {
    (void)state;
    struct driver driver;
    void *sends[PLUG_REQUESTS_MAX], *receives[PLUG_REQUESTS_MAX];
    static int from[PLUG_REQUESTS_MAX], to[PLUG_REQUESTS_MAX];
    driver_connect(&driver, 12);
    for (int k = 0; k < PLUG_REQUESTS_MAX; k++) {
        from[k] = k + 1;
        assert_non_null(sends[k] = driver_isend(&driver, &from[k], sizeof(int)));
    }
    assert_null(driver_isend(&driver, from, sizeof(int)));
    for (int k = 0; k < PLUG_REQUESTS_MAX; k++)
        assert_non_null(receives[k] = driver_irecv(&driver, &to[k], sizeof(int)));
    for (int k = PLUG_REQUESTS_MAX; k-- > 0;) /* the last first */
        wait_for_both(&driver, sends[k], receives[k], sizeof(int));
    assert_memory_equal(from, to, sizeof(from));
    driver_close(&driver);
}

static void a_message_that_is_too_long_is_an_error(void **state) {
    (void)state;
    struct driver driver;
    char from[100] = {0}, to[10];
    int done, result = PLUG_SUCCESS;
    driver_connect(&driver, 11);
    void *send = driver_isend(&driver, from, sizeof(from)), *receive = driver_irecv(&driver, to, sizeof(to));
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
    void *send = driver_isend(&driver, &from, sizeof(from));
    while (driver_test(&driver, send) < 0)
        be_patient(&driver);
    driver.table->close_send(driver.sender);
    driver.sender = NULL;
    void *receive = driver_irecv(&driver, &to, sizeof(to));
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
        cmocka_unit_test(a_message_that_is_too_long_is_an_error),
        cmocka_unit_test(an_end_that_leaves_is_an_error_after_what_it_sent),
        cmocka_unit_test(properties_are_as_long_as_their_version),
        cmocka_unit_test(memory_of_gpus_is_refused),
    };
    setenv("COLLET_SOCKET_IFNAME", "=lo", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
