/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with more rights than its user: setuid, or with capabilities of its file. Its user could have it load any library as root, and write
 * any file. The kernel says that it is one (AT_SECURE); here this program's own getauxval() does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "collet.h"
#include "common/fair.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_secure;
unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type) { return type == AT_SECURE ? is_secure : __real_getauxval(type); }

static const char *const PATHS[] = {"DEBUG_FILE",   "PROGRAM",         "NET_PLUGIN", "TUNER_FILE",
                                    "TUNER_PLUGIN", "PROFILER_PLUGIN", "TOPO_FILE",  "TOPO_DUMP_FILE",
                                    "DUMP_FILE",    "RECORD",          "TRACE",      "METRICS"};
#define PATHS_COUNT (sizeof(PATHS) / sizeof(*PATHS))

static void set_paths(void) {
    char name[64];
    for (size_t k = 0; k < PATHS_COUNT; k++) {
        snprintf(name, sizeof(name), "COLLET_%s", PATHS[k]);
        setenv(name, "/tmp/collet-edges-secure", 1);
    }
    setenv("NCCL_NET_PLUGIN", "/tmp/collet-edges-secure.so", 1);
    setenv("COLLET_ALGO", "ring", 1);
}

/* How many knobs have the path. Every knob that takes it must be one of those above. */
static size_t count_paths(const struct config *config) {
    struct config_value value;
    size_t found = 0;
    for (size_t k = 0; config_value(config, k, &value); k++)
        found += strncmp(value.text, "/tmp/collet-edges-secure", 24) == 0;
    return found;
}

static void paths_and_plugins_count_for_nothing(void **state) {
    (void)state;
    struct config config;
    set_paths();
    is_secure = false;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(count_paths(&config), PATHS_COUNT);
    is_secure = true;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(count_paths(&config), 0);
    assert_string_equal(config.algo, "ring");
}

/* Rank 0 may be anybody's process, if the secret comes from the environment. */
static void rank_0_names_no_plugin_for_others(void **state) {
    (void)state;
    struct config config, of_rank_0;
    set_paths();
    is_secure = false;
    assert_int_equal(config_read(&of_rank_0), COLLET_SUCCESS);
    is_secure = true;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    config_adopt(&config, &of_rank_0);
    assert_string_equal(config.tuner_plugin, "");
}

/* A communicator writes none of the files, and one line says each variable that counts for nothing. */
static void nothing_is_written_and_a_warning_says_so(void **state) {
    (void)state;
    int ends[2], status;
    char said[8192] = "", before[] = "/tmp/collet-edges-secure";
    unlink(before);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct collet_unique_id id;
        struct collet_comm *comm;
        dup2(ends[1], STDERR_FILENO);
        set_paths();
        is_secure = true;
        fair_alarm(20);
        bool good = collet_get_unique_id(&id) == COLLET_SUCCESS &&
                    collet_comm_init_rank(&comm, 1, id, 0) == COLLET_SUCCESS &&
                    collet_comm_abort(comm) == COLLET_SUCCESS;
        _exit(!good);
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(read(ends[0], said, sizeof(said) - 1) > 0);
    assert_int_equal(access(before, F_OK), -1);
    for (size_t k = 0; k < PATHS_COUNT; k++) {
        char line[128];
        snprintf(line, sizeof(line), "WARN ENV COLLET_%s counts for nothing", PATHS[k]);
        const char *first = strstr(said, line);
        assert_non_null(first);
        assert_null(strstr(first + 1, line));
    }
    assert_null(strstr(said, "COLLET_ALGO"));
    close(ends[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_and_a_warning_says_so),
        cmocka_unit_test(paths_and_plugins_count_for_nothing),
        cmocka_unit_test(rank_0_names_no_plugin_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
