/* SPDX-License-Identifier: Apache-2.0
 *
 * collet_comm_init_from_env: jobs as launchers start them. The program runs itself as a rank, "test_launch --rank N", which
 * ends well if it has become one of N ranks that can reduce together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/ports.h"
#include "common/world.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self;

/* -------------------------------------------------------------------------------------------------------------- a rank */

static int fail_rank(const char *what) {
    fprintf(stderr, "%s: %s\n", what, collet_last_error(NULL));
    return 1;
}

/* Twice: the second communicator meets at the same place as the first. */
static int be_rank(int expected) {
    for (int k = 0; k < 2; k++) {
        struct collet_comm *comm;
        int n = 0, rank = -1;
        if (collet_comm_init_from_env(&comm, NULL) != COLLET_SUCCESS)
            return fail_rank("init");
        if (collet_comm_count(comm, &n) != COLLET_SUCCESS || collet_comm_rank(comm, &rank) != COLLET_SUCCESS)
            return fail_rank("getters");
        int sum = rank + 1;
        if (collet_allreduce(&sum, &sum, 1, COLLET_INT32, COLLET_SUM, comm, NULL) != COLLET_SUCCESS)
            return fail_rank("allreduce");
        if (n != expected || sum != n * (n + 1) / 2)
            return fail_rank("wrong number of ranks");
        if (collet_comm_destroy(comm) != COLLET_SUCCESS)
            return fail_rank("destroy");
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------ torchrun's variables */

static int listen_in_silence(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void be_launched(struct ranks *ranks, int rank) {
    char text[16];
    snprintf(text, sizeof(text), "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof(text), "%d", ranks->nranks);
    setenv("WORLD_SIZE", text, 1);
    ranks_check(ranks, rank, be_rank(ranks->nranks) == 0);
}

static void launch_at(const char *address, int port) {
    char text[16];
    snprintf(text, sizeof(text), "%d", port);
    const char *const variables[] = {"MASTER_ADDR", address, "MASTER_PORT", text, "COLLET_INIT_TIMEOUT", "15", NULL};
    world_run(&worlds[WORLD_SHM], 1, variables, be_launched, NULL);
    world_run(&worlds[WORLD_SHM], 4, variables, be_launched, NULL);
    world_run(&worlds[WORLD_TCP], 3, variables, be_launched, NULL);
}

static void ranks_meet_at_the_master_address(void **state) {
    (void)state;
    launch_at("127.0.0.1", port_free());
    launch_at("localhost", port_free());
}

static bool has_loopback_of_ipv6(void) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return bound;
}

static void ranks_meet_at_an_address_in_brackets(void **state) {
    (void)state;
    if (!has_loopback_of_ipv6())
        skip();
    launch_at("[::1]", port_free());
}

static void ranks_meet_though_the_master_port_is_taken_by_a_silent_server(void **state) {
    (void)state;
    int port = port_free(), fd = listen_in_silence(port);
    launch_at("127.0.0.1", port);
    close(fd);
}

static void be_launched_on_one_host(struct ranks *ranks, int rank) {
    char text[16];
    snprintf(text, sizeof(text), "%d", ranks->nranks);
    setenv("LOCAL_WORLD_SIZE", text, 1);
    be_launched(ranks, rank);
}

static void ranks_of_one_host_meet_without_an_address(void **state) {
    (void)state;
    char job[32];
    snprintf(job, sizeof(job), "test-%d", (int)getpid());
    const char *const variables[] = {"TORCHELASTIC_RUN_ID", job, "COLLET_INIT_TIMEOUT", "15", NULL};
    unsetenv("MASTER_ADDR");
    world_run(&worlds[WORLD_SHM], 3, variables, be_launched_on_one_host, NULL);
}

/* Everybody can know the name of a job's first meeting, without COLLET_SECRET. */
static int take_name(struct ranks *ranks, int rank) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "collet/%u/%s..0",
                                (unsigned)getuid(), getenv("TORCHELASTIC_RUN_ID"));
    const int squatter = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ranks_check(ranks, rank,
                bind(squatter, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
    return squatter;
}

/* If a stranger has taken it, rank 0 says so. */
static void be_kept_from_meeting(struct ranks *ranks, int rank) {
    struct collet_comm *comm;
    const int squatter = take_name(ranks, rank);
    ranks_expect(ranks, rank, collet_comm_init_from_env(&comm, NULL), COLLET_ERR_SYSTEM, "init");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "is taken on this host") != NULL);
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "set COLLET_SECRET") != NULL);
    close(squatter);
}

static void meet_beside_a_squatter(struct ranks *ranks, int rank) {
    const int squatter = rank == 0 ? take_name(ranks, rank) : -1;
    be_launched_on_one_host(ranks, rank);
    close(squatter);
}

static void nobody_can_take_the_name_of_a_meeting_that_has_a_secret(void **state) {
    (void)state;
    char job[32];
    snprintf(job, sizeof(job), "test-hidden-%d", (int)getpid());
    const char *const variables[] = {
        "TORCHELASTIC_RUN_ID", job, "COLLET_SECRET", "nobody can guess this text", "COLLET_INIT_TIMEOUT", "15", NULL};
    unsetenv("MASTER_ADDR");
    world_run(&worlds[WORLD_SHM], 2, variables, meet_beside_a_squatter, NULL);
}

static void a_meeting_point_of_a_host_that_somebody_took_first_is_an_error_that_names_the_remedy(void **state) {
    (void)state;
    char job[32];
    snprintf(job, sizeof(job), "taken-%d", (int)getpid());
    const char *const variables[] = {"TORCHELASTIC_RUN_ID", job, "RANK", "0", "WORLD_SIZE", "2",
                                     "LOCAL_WORLD_SIZE",    "2", NULL};
    unsetenv("MASTER_ADDR");
    world_run(&worlds[WORLD_SHM], 1, variables, be_kept_from_meeting, NULL);
}

/* --------------------------------------------------------------------------------------------------- real launchers */

static bool installed(const char *program) {
    char command[128];
    snprintf(command, sizeof(command), "command -v %s >/dev/null", program);
    return system(command) == 0;
}

static void launch_by(const char *program, const char *options) {
    char command[512];
    if (!installed(program)) {
        print_message("%s is not installed\n", program);
        skip();
    }
    for (int n = 1; n <= 4; n += 3) {
        snprintf(command, sizeof(command), "COLLET_INIT_TIMEOUT=20 timeout %d %s %s -n %d '%s' --rank %d",
                 40 * LEVEL_SLOWER, program, options, n, self, n);
        int status = system(command);
        if (status != 0)
            fail_msg("status %d of: %s", WEXITSTATUS(status), command);
    }
}

static void ranks_start_under_open_mpi(void **state) {
    (void)state;
    launch_by("mpirun.openmpi", geteuid() == 0 ? "--allow-run-as-root --oversubscribe" : "--oversubscribe");
}

static void ranks_start_under_mpich(void **state) {
    (void)state;
    launch_by("mpirun.mpich", "");
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--rank") == 0)
        return be_rank(atoi(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet_at_the_master_address),
        cmocka_unit_test(ranks_meet_at_an_address_in_brackets),
        cmocka_unit_test(ranks_meet_though_the_master_port_is_taken_by_a_silent_server),
        cmocka_unit_test(ranks_of_one_host_meet_without_an_address),
        cmocka_unit_test(nobody_can_take_the_name_of_a_meeting_that_has_a_secret),
        cmocka_unit_test(a_meeting_point_of_a_host_that_somebody_took_first_is_an_error_that_names_the_remedy),
        cmocka_unit_test(ranks_start_under_open_mpi),
        cmocka_unit_test(ranks_start_under_mpich),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
