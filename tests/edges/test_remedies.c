/* SPDX-License-Identifier: Apache-2.0
 *
 * An error of the system names the setting behind it, and the remedy. Before, COLLET_PORT_RANGE that was used up gave "cannot listen
 * on port 0 (0: any): Address already in use", and a limit of memory "Cannot allocate memory".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "base/err.h"
#include "base/mapping.h"
#include "base/thread.h"
#include "boot/address.h"
#include "transport/tcp_socket.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define assert_named(word)                                                                                             \
    do {                                                                                                               \
        if (strstr(err_last(), word) == NULL)                                                                          \
            fail_msg("\"%s\" does not name \"%s\"", err_last(), word);                                                 \
    } while (0)

static const char *range; /* of one port, which is taken */

/* A process reads its range once: so this one takes a port, and begins anew with it. */
static int begin_with_range(char **argv) {
    char text[32];
    const int taken = address_listen(AF_INET6, 0), fd = taken >= 0 ? taken : address_listen(AF_INET, 0);
    if (fd < 0 || fcntl(fd, F_SETFD, 0) != 0)
        return 77;
    snprintf(text, sizeof text, "%d-%d", address_port(fd), address_port(fd));
    setenv("COLLET_PORT_RANGE", text, 1);
    execv("/proc/self/exe", argv);
    return 77;
}

/* In a process of its own: nothing of it stays. */
static void text_of(enum collet_result (*fails)(void), char text[512]) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        fails();
        _exit(write(pipes[1], err_last(), strlen(err_last()) + 1) < 0);
    }
    close(pipes[1]);
    memset(text, 0, 512);
    for (size_t used = 0; used < 511;) {
        const ssize_t n = read(pipes[0], text + used, 511 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(pipes[0]);
    waitpid(child, NULL, 0);
}

static enum collet_result meet(void) {
    struct collet_unique_id id;
    return collet_get_unique_id(&id);
}

static enum collet_result connect_by_tcp(void) {
    struct tcp_listener listener;
    struct tcp_offer offer;
    struct config config;
    COLLET_TRY(config_read(&config));
    return tcp_listen_start(&listener, &config, "", 1, &offer);
}

static void a_range_of_ports_that_is_used_up_is_named(void **state) {
    (void)state;
    enum collet_result (*const ways[])(void) = {meet, connect_by_tcp};
    char text[512], named[96];
    snprintf(named, sizeof named, "COLLET_PORT_RANGE=%s", range);
    for (int k = 0; k < 2; k++) {
        text_of(ways[k], text);
        if (strstr(text, named) == NULL)
            fail_msg("\"%s\" does not name \"%s\"", text, named);
    }
}

/* There if the sanitizer is. It needs more addresses than the limit leaves. */
extern void __asan_init(void) __attribute__((weak));

static void a_limit_of_memory_is_named(void **state) {
    (void)state;
    if (__asan_init != NULL)
        skip();
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    struct rlimit limit = {256u << 20, RLIM_INFINITY};
    void *memory;
    pthread_t thread;
    int fd;
    setrlimit(RLIMIT_AS, &limit);
    const enum collet_result result = os_shared_create("remedies", (size_t)1 << 30, &memory, &fd);
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_AS, &limit);
    char shared[ERR_TEXT_BYTES];
    snprintf(shared, sizeof shared, "%s", err_last());
    const enum collet_result started = os_thread_start(&thread, "remedies", NULL, NULL);
    setrlimit(RLIMIT_AS, &none);
    assert_int_equal(started, COLLET_ERR_SYSTEM);
    assert_named("ulimit -u");
    assert_named("ulimit -v");
    assert_int_equal(result, COLLET_ERR_NO_MEMORY);
    if (strstr(shared, "this process may have 268435456 bytes: raise the limit (ulimit -v)") == NULL)
        fail_msg("%s", shared);
}

static enum collet_result share_without_descriptors(void) {
    const struct rlimit limit = {3, 3};
    void *memory;
    int fd;
    setrlimit(RLIMIT_NOFILE, &limit);
    return os_shared_create("remedies", 4096, &memory, &fd);
}

static void a_limit_of_descriptors_is_named(void **state) {
    (void)state;
    char text[512];
    text_of(share_without_descriptors, text);
    if (strstr(text, "this process may have 3 file descriptors: raise the limit (ulimit -n)") == NULL)
        fail_msg("%s", text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_of_ports_that_is_used_up_is_named),
        cmocka_unit_test(a_limit_of_memory_is_named),
        cmocka_unit_test(a_limit_of_descriptors_is_named),
    };
    (void)argc;
    range = getenv("COLLET_PORT_RANGE");
    if (range == NULL)
        return begin_with_range(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
