/* SPDX-License-Identifier: Apache-2.0
 *
 * The base room: configuration, log, errors, what is asked of Linux, the tables of types and operators.
 * A process configures its log once, so cases about the log run this program again as a child with an argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "base/cpus.h"
#include "base/crc32c.c"
#include "base/err.h"
#include "base/log.h"
#include "base/mapping.h"
#include "base/os.h"
#include "base/output.h"
#include "base/roam.c"
#include "base/spelling.c"
#include "base/types.h"
#include "base/wait.h"
#include "common/fair.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------- configuration */

static int no_environment(void **state) {
    (void)state;
    return clearenv();
}

static void an_empty_environment_gives_the_defaults(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(config.buffsize, 0);
    assert_int_equal(config.timeout, 1800);
    assert_int_equal(config.heartbeat_timeout, 30000); /* a virtual machine that migrates is silent for seconds */
    assert_int_equal(config.spin, -1);
    assert_string_equal(config.debug_subsys, "ALL");
    assert_string_equal(config.algo, "");
}

static void the_collet_name_wins_over_the_nccl_name(void **state) {
    (void)state;
    struct config config;
    setenv("NCCL_BUFFSIZE", "65536", 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(config.buffsize, 65536);
    setenv("COLLET_BUFFSIZE", "8192", 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(config.buffsize, 8192);
}

static void an_empty_value_counts_as_unset(void **state) {
    (void)state;
    struct config config;
    setenv("COLLET_BUFFSIZE", "", 1);
    setenv("NCCL_BUFFSIZE", "4096", 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(config.buffsize, 4096);
    setenv("RANK", "", 1);
    assert_null(config_env("RANK"));
    setenv("RANK", "3", 1);
    assert_string_equal(config_env("RANK"), "3");
}

static void bytes_may_be_given_in_k_m_and_g(void **state) {
    (void)state;
    static const struct {
        const char *value;
        int64_t bytes;
    } CASES[] = {{"64K", 64 << 10}, {"64k", 64 << 10}, {"2M", 2 << 20}, {"1G", 1 << 30}, {"0x2000", 8192}};
    struct config config;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        setenv("COLLET_BUFFSIZE", CASES[i].value, 1);
        assert_int_equal(config_read(&config), COLLET_SUCCESS);
        assert_int_equal(config.buffsize, CASES[i].bytes);
    }
}

static void numbers_that_do_not_parse_are_refused(void **state) {
    (void)state;
    static const char *const VALUES[] = {"many",        "12x", "8 ",    "64KK", "K", "99999999999999999999",
                                         "9000000000G", "2G",  "-4096", "4095"};
    struct config config;
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        setenv("COLLET_BUFFSIZE", VALUES[i], 1);
        assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
    }
    unsetenv("COLLET_BUFFSIZE");
    setenv("COLLET_TIMEOUT", "1K", 1); /* seconds take no suffix */
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
}

static void a_refusal_names_variable_value_and_range(void **state) {
    (void)state;
    struct config config;
    setenv("COLLET_BUFFSIZE", "17", 1);
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(err_last(), "COLLET_BUFFSIZE=17"));
    assert_non_null(strstr(err_last(), "4096"));
    assert_non_null(strstr(err_last(), "1073741824"));
    assert_non_null(strstr(err_last(), "bytes"));
}

static void a_text_that_is_too_long_is_refused(void **state) {
    (void)state;
    struct config config;
    char text[CONFIG_TEXT_BYTES + 1];
    memset(text, 'a', sizeof text);
    text[CONFIG_TEXT_BYTES - 1] = '\0';
    setenv("COLLET_HOSTID", text, 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_string_equal(config.hostid, text);
    text[CONFIG_TEXT_BYTES - 1] = 'a';
    text[CONFIG_TEXT_BYTES] = '\0';
    setenv("COLLET_HOSTID", text, 1);
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(err_last(), "COLLET_HOSTID"));
}

static void unknown_debug_levels_and_subsystems_are_refused(void **state) {
    (void)state;
    struct config config;
    setenv("COLLET_DEBUG", "info", 1);
    setenv("COLLET_DEBUG_SUBSYS", "^plan,NET", 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    setenv("COLLET_DEBUG", "CHATTY", 1);
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
    assert_non_null(strstr(err_last(), "COLLET_DEBUG=CHATTY"));
    setenv("COLLET_DEBUG", "INFO", 1);
    setenv("COLLET_DEBUG_SUBSYS", "PLAN,PLANE", 1);
    assert_int_equal(config_read(&config), COLLET_ERR_INVALID_USAGE);
}

static void adopting_takes_what_must_be_agreed_and_nothing_else(void **state) {
    (void)state;
    struct config own, of_rank_0;
    assert_int_equal(config_read(&own), COLLET_SUCCESS);
    setenv("COLLET_ALGO", "ring", 1);     /* agreed */
    setenv("COLLET_BUFFSIZE", "8192", 1); /* agreed */
    setenv("COLLET_SPIN", "7", 1);        /* each rank for itself */
    setenv("COLLET_HOSTID", "other", 1);  /* each rank for itself */
    assert_int_equal(config_read(&of_rank_0), COLLET_SUCCESS);
    config_adopt(&own, &of_rank_0);
    assert_string_equal(own.algo, "ring");
    assert_int_equal(own.buffsize, 8192);
    assert_int_equal(own.spin, -1);
    assert_string_equal(own.hostid, "");
}

static void a_value_that_is_shown_is_marked_and_the_secret_hidden(void **state) {
    (void)state;
    struct config config;
    struct config_value value;
    size_t n = 0, marked = 0;
    setenv("COLLET_SECRET", "hunter2", 1);
    setenv("COLLET_NSOCKETS", "4", 1);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    for (; config_value(&config, n, &value); n++) {
        if (strcmp(value.name, "COLLET_SECRET") == 0)
            assert_string_equal(value.text, "(hidden)");
        if (strcmp(value.name, "COLLET_NSOCKETS") == 0)
            assert_string_equal(value.text, "4");
        marked += !value.is_default;
    }
    assert_true(n > 20);
    assert_int_equal(marked, 2);
}

/* ----------------------------------------------------------------------------------------------------------- errors */

static void an_error_keeps_the_reason_of_the_system(void **state) {
    (void)state;
    errno = ENOENT;
    assert_int_equal(err_set(COLLET_ERR_SYSTEM, "cannot open %s: %m", "x"), COLLET_ERR_SYSTEM);
    assert_string_equal(err_last(), "cannot open x: No such file or directory");
}

static void an_error_may_quote_the_one_before(void **state) {
    (void)state;
    err_set(COLLET_ERR_SYSTEM, "inner");
    err_set(COLLET_ERR_REMOTE, "outer: %s", err_last());
    assert_string_equal(err_last(), "outer: inner");
    assert_int_equal(err_adopt(COLLET_ERR_REMOTE, err_last()), COLLET_ERR_REMOTE);
    assert_string_equal(err_last(), "outer: inner");
}

static void an_overlong_error_is_cut(void **state) {
    (void)state;
    err_set(COLLET_ERR_SYSTEM, "%*s", 3 * ERR_TEXT_BYTES, "end");
    assert_int_equal(strlen(err_last()), ERR_TEXT_BYTES - 1);
}

static void *read_own_error(void *arg) {
    (void)arg;
    return (void *)(uintptr_t)(err_last()[0] == '\0');
}

static void each_thread_has_its_own_last_error(void **state) {
    (void)state;
    err_set(COLLET_ERR_SYSTEM, "of the first thread");
    pthread_t thread;
    void *was_empty;
    assert_int_equal(pthread_create(&thread, NULL, read_own_error, NULL), 0);
    assert_int_equal(pthread_join(thread, &was_empty), 0);
    assert_non_null(was_empty);
}

/* -------------------------------------------------------------------------------------------------------------- log */

#define THREADS 4
#define LINES_EACH 100 /* of all threads they fit into a pipe: what does not, is lost */

static void *write_lines(void *arg) {
    for (int i = 0; i < LINES_EACH; i++)
        log_info(CONN, "thread %d line %d %0100d", *(int *)arg, i, 7);
    return NULL;
}

/* What this program does as the child of a case. */
static int child(const char *what) {
    if (strcmp(what, "config") == 0) {
        struct config config;
        return config_read(&config) == COLLET_SUCCESS && config_read(&config) == COLLET_SUCCESS ? 0 : 1;
    }
    if (strcmp(what, "levels") == 0) {
        log_warn(NET, "a warning");
        log_info(PLAN, "an info of PLAN");
        log_info(NET, "an info of NET");
        log_trace(PLAN, "a trace");
        err_set(COLLET_ERR_SYSTEM, "a failure");
        return 0;
    }
    if (strcmp(what, "errno") == 0) {
        errno = EAGAIN;
        log_warn(NET, "reason: %m");
        return errno == EAGAIN ? 0 : 1;
    }
    if (strcmp(what, "long") == 0) {
        log_warn(NET, "%*s", 5000, "end");
        return 0;
    }
    int numbers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, write_lines, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* Runs child(what) with COLLET_DEBUG=level and returns what it wrote to stderr. */
static const char *stderr_of_child(const char *what, const char *level) {
    static char text[1 << 20];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("COLLET_DEBUG", level, 1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        execl("/proc/self/exe", "test_base", what, (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return text;
}

static int count_lines(const char *text) {
    int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static void without_a_level_the_log_is_silent(void **state) {
    (void)state;
    assert_string_equal(stderr_of_child("levels", ""), "");
    assert_string_equal(stderr_of_child("levels", "nonsense"), "");
}

static void a_variable_that_is_no_knob_is_named_once_with_the_nearest_one(void **state) {
    (void)state;
    setenv("COLLET_DEBGU", "INFO", 1);
    setenv("COLLET_HEARTBEATTIMEOUT", "1", 1);
    setenv("COLLET_SOMETHING_ELSE", "1", 1);
    setenv("COLLET_TEST_LEVEL", "fast", 1);
    setenv("COLLET_ALGO", "ring", 1);
    const char *text = stderr_of_child("config", "");
    assert_non_null(strstr(text, "COLLET_DEBGU is unknown; did you mean COLLET_DEBUG?\n"));
    assert_non_null(strstr(text, "COLLET_HEARTBEATTIMEOUT is unknown; did you mean COLLET_HEARTBEAT_TIMEOUT?\n"));
    assert_non_null(strstr(text, "COLLET_SOMETHING_ELSE is unknown; collet-info lists what can be set\n"));
    assert_int_equal(count_lines(text), 3);
}

static void what_the_environment_sets_is_logged_but_for_secrets(void **state) {
    (void)state;
    setenv("NCCL_BUFFSIZE", "64K", 1);
    setenv("COLLET_SECRET", "hunter2", 1);
    setenv("COLLET_DEBUG_SUBSYS", "ENV", 1);
    const char *text = stderr_of_child("config", "INFO");
    assert_non_null(strstr(text, " collet INFO ENV NCCL_BUFFSIZE=64K\n"));
    assert_non_null(strstr(text, " collet INFO ENV COLLET_SECRET=(hidden)\n"));
    assert_null(strstr(text, "hunter2"));
    assert_int_equal(count_lines(text), 4);
}

static void a_word_is_as_far_as_it_has_mistakes(void **state) {
    (void)state;
    assert_int_equal(spelling_distance("ring", "ring"), 0);
    assert_int_equal(spelling_distance("ring", "Ring"), 0);
    assert_int_equal(spelling_distance("rign", "ring"), 1);
    assert_int_equal(spelling_distance("rng", "ring"), 1);
    assert_int_equal(spelling_distance("springs", "ring"), 3);
    assert_int_equal(spelling_distance("", "ring"), 4);
    assert_int_equal(spelling_distance("ring", ""), 4);
    char text[SPELLING_WORD_MAX + 2];
    memset(text, 'a', sizeof text);
    text[SPELLING_WORD_MAX + 1] = '\0';
    assert_int_equal(spelling_distance(text, "a"), SPELLING_FAR);
    text[SPELLING_WORD_MAX] = '\0';
    assert_int_equal(spelling_distance(text, "a"), SPELLING_WORD_MAX - 1);
}

static void the_nearest_word_is_guessed_and_none_that_is_far(void **state) {
    (void)state;
    struct spelling tpc = {"tpc", SPELLING_FAR, ""}, none = {"xyz", SPELLING_FAR, ""},
                    known = {"ring", SPELLING_FAR, ""};
    spelling_offer(&tpc, "ipc"); /* as near as tcp, but with another first letter */
    spelling_offer(&tpc, "tcp");
    spelling_offer(&tpc, "shm");
    assert_string_equal(tpc.hint, "; did you mean tcp?");
    spelling_offer(&none, "ring");
    assert_string_equal(none.hint, "");
    assert_int_equal(none.distance, SPELLING_FAR);
    spelling_offer(&known, "Ring");
    spelling_offer(&known, "king");
    assert_int_equal(known.distance, 0);
}

static void a_level_includes_the_ones_before_it(void **state) {
    (void)state;
    assert_int_equal(count_lines(stderr_of_child("levels", "WARN")), 2);
    assert_int_equal(count_lines(stderr_of_child("levels", "INFO")), 4);
    assert_int_equal(count_lines(stderr_of_child("levels", "TRACE")), 5);
}

static void a_line_says_host_pid_tid_level_and_subsystem(void **state) {
    (void)state;
    const char *text = stderr_of_child("levels", "WARN");
    char host[64], rest[64];
    int pid, tid;
    assert_int_equal(sscanf(text, "%63[^:]:%d:%d %63[^\n]", host, &pid, &tid, rest), 4);
    assert_string_equal(host, os_host_name());
    assert_int_equal(pid, tid);
    assert_string_equal(rest, "collet WARN NET a warning");
    assert_non_null(strstr(text, " collet WARN ERR a failure\n"));
}

static void subsystems_are_chosen_or_excluded_and_warnings_always_pass(void **state) {
    (void)state;
    setenv("COLLET_DEBUG_SUBSYS", "PLAN", 1);
    const char *text = stderr_of_child("levels", "INFO");
    assert_non_null(strstr(text, "INFO PLAN"));
    assert_null(strstr(text, "INFO NET"));
    assert_non_null(strstr(text, "WARN NET"));
    setenv("COLLET_DEBUG_SUBSYS", "^PLAN", 1);
    text = stderr_of_child("levels", "INFO");
    assert_null(strstr(text, "INFO PLAN"));
    assert_non_null(strstr(text, "INFO NET"));
}

static void a_log_file_has_host_and_pid_in_its_name(void **state) {
    (void)state;
    char folder[] = "/tmp/collet-test-XXXXXX", pattern[64], path[256], command[300];
    assert_non_null(mkdtemp(folder));
    snprintf(pattern, sizeof pattern, "%s/%%h.%%p.100%%%%", folder);
    setenv("COLLET_DEBUG_FILE", pattern, 1);
    assert_string_equal(stderr_of_child("levels", "WARN"), "");
    snprintf(command, sizeof command, "/bin/ls %s", folder);
    FILE *names = popen(command, "r");
    assert_non_null(fgets(path, sizeof path, names));
    pclose(names);
    char host[64], whole[300];
    int pid;
    struct stat status;
    snprintf(whole, sizeof whole, "%s/%.*s", folder, (int)strcspn(path, "\n"), path);
    assert_int_equal(stat(whole, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(sscanf(path, "%63[^.].%d.100%%", host, &pid), 2);
    assert_string_equal(host, os_host_name());
    snprintf(command, sizeof command, "/bin/rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void a_log_is_not_written_through_a_link(void **state) {
    (void)state;
    char folder[] = "/tmp/collet-test-XXXXXX", link[64], target[64];
    assert_non_null(mkdtemp(folder));
    snprintf(link, sizeof link, "%s/log", folder);
    snprintf(target, sizeof target, "%s/other", folder);
    assert_int_equal(symlink(target, link), 0);
    setenv("COLLET_DEBUG_FILE", link, 1);
    assert_non_null(strstr(stderr_of_child("levels", "WARN"), "cannot open COLLET_DEBUG_FILE"));
    assert_int_not_equal(access(target, F_OK), 0);
    unlink(link);
    rmdir(folder);
}

static void warnings_go_to_stderr_when_the_disk_of_the_log_is_full(void **state) {
    (void)state;
    setenv("COLLET_DEBUG_FILE", "/dev/full", 1);
    const char *text = stderr_of_child("levels", "TRACE");
    assert_non_null(strstr(text, " collet WARN NET a warning\n"));
    assert_non_null(strstr(text, " lines were lost, since the log took no more\n"));
    assert_int_equal(count_lines(text), 3);
}

static void a_log_file_that_cannot_be_opened_is_said_on_stderr(void **state) {
    (void)state;
    setenv("COLLET_DEBUG_FILE", "/nonexistent/log", 1);
    const char *text = stderr_of_child("levels", "WARN");
    assert_non_null(strstr(text, "/nonexistent/log: No such file or directory"));
    assert_int_equal(count_lines(text), 3);
}

static void logging_shows_and_keeps_errno(void **state) {
    (void)state;
    assert_non_null(strstr(stderr_of_child("errno", "WARN"), "reason: Resource temporarily unavailable\n"));
    stderr_of_child("errno", ""); /* the child compares */
}

static void an_overlong_line_still_ends(void **state) {
    (void)state;
    const char *text = stderr_of_child("long", "WARN");
    assert_int_equal(count_lines(text), 1);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void lines_of_many_threads_stay_whole(void **state) {
    (void)state;
    const char *text = stderr_of_child("threads", "INFO");
    assert_int_equal(count_lines(text), THREADS * LINES_EACH);
    int next[THREADS] = {0};
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        int thread, number, seven;
        const char *at = strstr(line, " collet INFO CONN thread ");
        assert_non_null(at);
        assert_int_equal(sscanf(at, " collet INFO CONN thread %d line %d %d", &thread, &number, &seven), 3);
        assert_in_range(thread, 0, THREADS - 1);
        assert_int_equal(number, next[thread]++);
        assert_int_equal(seven, 7);
    }
}

/* ----------------------------------------------------------------------------------------------------------- system */

static void the_clock_and_random_numbers_move(void **state) {
    (void)state;
    uint64_t before = os_now_ns();
    usleep(1000);
    assert_true(os_now_ns() - before >= 1000000);
    unsigned char a[300] = {0}, b[300] = {0}, zero[32] = {0};
    os_random(a, sizeof a);
    os_random(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + sizeof a - sizeof zero, zero, sizeof zero);
}

static void a_process_knows_where_it_runs(void **state) {
    (void)state;
    struct os_cpu_set cpus;
    os_cpu_set_get(&cpus);
    assert_in_range(os_cpu_set_count(&cpus), 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_int_not_equal(os_host_name()[0], '\0');
    assert_null(strchr(os_host_name(), '.'));
    assert_int_equal(strlen(os_boot_id()), 36);
    assert_int_equal(os_pid(), getpid());
    assert_int_equal(os_tid(), getpid());
}

static void two_processes_share_memory_through_a_descriptor(void **state) {
    (void)state;
    const size_t bytes = 3 * 4096 + 100;
    int *memory = NULL, fd = -1, owner = os_pid();
    assert_int_equal(os_shared_create("collet-test", bytes, (void **)&memory, &fd), COLLET_SUCCESS);
    assert_int_equal(memory[0], 0);
    memory[0] = 41;
    pid_t pid = fork();
    if (pid == 0) {
        int *mine = NULL;
        if (os_shared_open(owner, fd, bytes, (void **)&mine) != COLLET_SUCCESS)
            _exit(1);
        mine[0]++;
        os_memory_destroy(mine, bytes);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(memory[0], 42);
    os_memory_destroy(memory, bytes);
    close(fd);
}

static void shared_memory_is_private_to_the_user_and_of_fixed_size(void **state) {
    (void)state;
    void *memory = NULL;
    int fd = -1;
    assert_int_equal(os_shared_create("collet-test", 8192, &memory, &fd), COLLET_SUCCESS);
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 16384), -1);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    os_memory_destroy(memory, 8192);
    close(fd);
}

static void shared_memory_of_another_size_or_kind_is_not_mapped(void **state) {
    (void)state;
    void *memory = NULL, *untouched = NULL;
    int fd = -1, ends[2];
    assert_int_equal(os_shared_create("collet-test", 8192, &memory, &fd), COLLET_SUCCESS);
    assert_int_equal(os_shared_open(os_pid(), fd, 4096, &untouched), COLLET_ERR_SYSTEM);
    assert_int_equal(os_shared_open(os_pid(), fd, 16384, &untouched), COLLET_ERR_SYSTEM);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(os_shared_open(os_pid(), ends[0], 8192, &untouched), COLLET_ERR_SYSTEM);
    FILE *shrinkable = tmpfile();
    assert_int_equal(ftruncate(fileno(shrinkable), 8192), 0);
    assert_int_equal(os_shared_open(os_pid(), fileno(shrinkable), 8192, &untouched), COLLET_ERR_SYSTEM);
    assert_int_equal(os_shared_open(os_pid(), 9999, 8192, &untouched), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "No such file"));
    assert_null(untouched);
    fclose(shrinkable);
    close(ends[0]);
    close(ends[1]);
    os_memory_destroy(memory, 8192);
    close(fd);
}

static void private_memory_is_zeroed_and_page_aligned(void **state) {
    (void)state;
    char *memory = NULL;
    assert_int_equal(os_memory_create(1 << 16, (void **)&memory), COLLET_SUCCESS);
    assert_int_equal((uintptr_t)memory % (size_t)sysconf(_SC_PAGESIZE), 0);
    for (size_t i = 0; i < 1 << 16; i++)
        assert_int_equal(memory[i], 0);
    os_memory_destroy(memory, 1 << 16);
    os_memory_destroy(NULL, 1 << 16);
}

static void memory_that_cannot_be_had_is_an_error(void **state) {
    (void)state;
    void *memory = NULL;
    assert_int_equal(os_memory_create((size_t)1 << 60, &memory), COLLET_ERR_NO_MEMORY);
    assert_null(memory);
    assert_non_null(strstr(err_last(), "1152921504606846976 bytes"));
}

/* --------------------------------------------------------------------------------------------------- types, waiting */

static void every_type_and_operator_has_a_name_and_nothing_else_has(void **state) {
    (void)state;
    assert_string_equal(type_name(COLLET_FLOAT32), "float");
    assert_string_equal(type_name(COLLET_BFLOAT16), "bfloat16");
    assert_string_equal(op_name(COLLET_SUM), "sum");
    assert_string_equal(op_name(COLLET_AVG), "avg");
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        assert_string_not_equal(type_name((enum collet_type)type), "?");
    for (int op = 0; op < COLLET_OP_COUNT; op++)
        assert_string_not_equal(op_name((enum collet_op)op), "?");
    static const int NONE[] = {-1, 1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        assert_false(type_valid((enum collet_type)NONE[i]));
        assert_false(op_valid((enum collet_op)NONE[i]));
        assert_string_equal(type_name((enum collet_type)NONE[i]), "?");
        assert_string_equal(op_name((enum collet_op)NONE[i]), "?");
    }
    assert_false(type_valid(COLLET_TYPE_COUNT));
    assert_false(op_valid(COLLET_OP_COUNT));
}

static void a_long_wait_says_so_and_progress_starts_it_anew(void **state) {
    (void)state;
    struct waiter waiter = {.spin = 100};
    int looks = 0; /* a few while spinning, but nothing has been waited for long */
    for (int i = 0; i < 100; i++) {
        looks += wait_pause(&waiter);
        assert_int_equal(wait_idle_ns(&waiter), 0);
    }
    assert_in_range(looks, 1, 10);
    uint64_t start = fair_now_ns();
    while (!wait_pause(&waiter) || wait_idle_ns(&waiter) < 5000000)
        assert_true(fair_now_ns() - start < 5000000000u);
    wait_progressed(&waiter);
    assert_int_equal(wait_idle_ns(&waiter), 0);
    assert_false(wait_pause(&waiter));
}

static void a_thread_that_loses_time_to_others_moves_and_bears_more_each_time(void **state) {
    (void)state;
    struct roam roam = {0};
    for (int k = 0; k < 100; k++)
        assert_false(roam_is_due(&roam, 400)); /* yields to nobody */
    int yields = 1;
    while (!roam_is_due(&roam, 3000))
        yields++;
    assert_int_equal(yields, ROAM_BEARS_NS / 3000 + 1);
    for (yields = 1; !roam_is_due(&roam, 3000);)
        yields++;
    assert_int_equal(yields, 4 * ROAM_BEARS_NS / 3000 + 1);
    assert_true(roam_is_due(&roam, 3000000)); /* a program that does not yield */
    for (int k = 0; k < 100; k++)
        roam_is_due(&roam, 5000000000u);
    assert_true(roam_is_due(&roam, 5000000000u)); /* some seconds are always too much */
    assert_false(roam_is_due(&roam, 400));
    assert_true(roam_is_due(&roam, ROAM_BEARS_NS + 1)); /* as in the beginning */
}

/* On a busy machine the kernel may take it back at once. */
#define LEAVES 40

static void a_thread_leaves_its_cpu_for_another_one_of_its_set(void **state) {
    (void)state;
    cpu_set_t before, one, after;
    int moved = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int k = 0; k < LEAVES; k++) {
        const bool anywhere = k % 2 != 0;
        const int cpu = sched_getcpu();
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        os_cpu_leave(anywhere); /* it is bound */
        assert_int_equal(sched_getcpu(), cpu);
        assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
        os_cpu_leave(true);
        moved += sched_getcpu() != cpu;
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&before, &after));
    }
    assert_true(moved > LEAVES / 2 || CPU_COUNT(&before) == 1);
}

/* What two threads need that take turns on a CPU: the balancer lets them stay for thousands of yields. */
static void *take_turns(void *over) {
    while (!__atomic_load_n((int *)over, __ATOMIC_ACQUIRE)) {
        for (const uint64_t from_ns = os_now_ns(); os_now_ns() - from_ns < 2000;)
            ;
        sched_yield();
    }
    return NULL;
}

static void a_thread_that_shares_its_cpu_with_one_that_yields_moves(void **state) {
    (void)state;
    cpu_set_t before, one;
    pthread_t other;
    const int cpu = sched_getcpu();
    int over = 0, yields = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pthread_create(&other, NULL, take_turns, &over), 0); /* bound, as its creator is */
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    bool was_idle = CPU_COUNT(&before) > 1; /* else it is right to stay */
    while (sched_getcpu() == cpu && yields++ < 200) {
        was_idle = was_idle && os_some_cpu_is_idle();
        roam_yield();
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    if (yields > 200 && !was_idle)
        skip();
    assert_in_range(yields, 0, 200);
}

static void crc32c_is_that_of_the_standard(void **state) {
    (void)state;
    char zeros[32] = {0}, ones[32], data[300];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c(0, NULL, 0), 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * i);
    for (size_t n = 0; n < sizeof data; n++) {
        assert_int_equal(crc32c(0, data, n), crc32c_by_table(0, data, n));
        assert_int_equal(crc32c(crc32c(0, data, n), data + n, sizeof data - n), crc32c(0, data, sizeof data));
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        return child(argv[1]);
#define CASE(function) cmocka_unit_test_setup(function, no_environment)
    const struct CMUnitTest tests[] = {
        CASE(an_empty_environment_gives_the_defaults),
        CASE(the_collet_name_wins_over_the_nccl_name),
        CASE(an_empty_value_counts_as_unset),
        CASE(bytes_may_be_given_in_k_m_and_g),
        CASE(numbers_that_do_not_parse_are_refused),
        CASE(a_refusal_names_variable_value_and_range),
        CASE(a_text_that_is_too_long_is_refused),
        CASE(unknown_debug_levels_and_subsystems_are_refused),
        CASE(adopting_takes_what_must_be_agreed_and_nothing_else),
        CASE(a_value_that_is_shown_is_marked_and_the_secret_hidden),
        CASE(an_error_keeps_the_reason_of_the_system),
        CASE(an_error_may_quote_the_one_before),
        CASE(an_overlong_error_is_cut),
        CASE(each_thread_has_its_own_last_error),
        CASE(without_a_level_the_log_is_silent),
        CASE(a_variable_that_is_no_knob_is_named_once_with_the_nearest_one),
        CASE(what_the_environment_sets_is_logged_but_for_secrets),
        CASE(a_word_is_as_far_as_it_has_mistakes),
        CASE(the_nearest_word_is_guessed_and_none_that_is_far),
        CASE(a_level_includes_the_ones_before_it),
        CASE(a_line_says_host_pid_tid_level_and_subsystem),
        CASE(subsystems_are_chosen_or_excluded_and_warnings_always_pass),
        CASE(a_log_file_has_host_and_pid_in_its_name),
        CASE(a_log_is_not_written_through_a_link),
        CASE(warnings_go_to_stderr_when_the_disk_of_the_log_is_full),
        CASE(a_log_file_that_cannot_be_opened_is_said_on_stderr),
        CASE(logging_shows_and_keeps_errno),
        CASE(an_overlong_line_still_ends),
        CASE(lines_of_many_threads_stay_whole),
        CASE(the_clock_and_random_numbers_move),
        CASE(a_process_knows_where_it_runs),
        CASE(two_processes_share_memory_through_a_descriptor),
        CASE(shared_memory_is_private_to_the_user_and_of_fixed_size),
        CASE(shared_memory_of_another_size_or_kind_is_not_mapped),
        CASE(private_memory_is_zeroed_and_page_aligned),
        CASE(memory_that_cannot_be_had_is_an_error),
        CASE(every_type_and_operator_has_a_name_and_nothing_else_has),
        CASE(crc32c_is_that_of_the_standard),
        CASE(a_long_wait_says_so_and_progress_starts_it_anew),
        CASE(a_thread_that_loses_time_to_others_moves_and_bears_more_each_time),
        CASE(a_thread_leaves_its_cpu_for_another_one_of_its_set),
        CASE(a_thread_that_shares_its_cpu_with_one_that_yields_moves),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
