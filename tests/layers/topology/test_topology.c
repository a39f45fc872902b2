/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators on recorded machines: ranks that are given GPUs by a file go round as its links suggest, on one host and
 * on several, and all of them have the same map.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topo/probe/chart.h"
#include "api/comm.h"
#include "common/ranks.h"
#include "topo/probe/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS_OF_HOST = 4, HOSTS_MAX = 2, PATH_BYTES = 64, RINGS_MAX = 4 };

struct job {
    char files[HOSTS_MAX][PATH_BYTES]; /* of each host; "" none */
    char dump[PATH_BYTES];             /* "" none */
    char rings[RINGS_MAX][64];         /* as a dump must show them; "" that far and no further */
    const char *error;                 /* what the text of the last error must hold at the rank that reads the file */
    uint64_t *hashes;                  /* [rank], shared */
};

/* ---- files ---- */

static void make_path(char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "/tmp/collet-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

/* Four GPUs, linked in the order 3 1 2 0, and a NIC next to each of the ends. */
static void write_machine(char path[PATH_BYTES], int first_rank) {
    static const int linked[][2] = {{0, 2}, {2, 1}, {1, 3}};
    struct topo *topo;
    int gpus[RANKS_OF_HOST];
    assert_int_equal(topo_create(&topo), COLLET_SUCCESS);
    struct topo_node cpu = topo_blank(TOPO_CPU, -1);
    int root = topo_add_node(topo, &cpu);
    for (int g = 0; g < RANKS_OF_HOST; g++) {
        struct topo_node bridge = topo_blank(TOPO_PCI, root), gpu = topo_blank(TOPO_GPU, -1);
        snprintf(bridge.pci.busid, TOPO_BUSID_BYTES, "0abc:%x0:00.0", g + 1);
        bridge.pci.class = 0x060400;
        gpu.parent = topo_add_node(topo, &bridge);
        snprintf(gpu.pci.busid, TOPO_BUSID_BYTES, "0abc:%x1:00.0", g + 1);
        gpu.pci.class = 0x030200;
        gpu.gpu.rank = first_rank + g;
        gpu.gpu.dev = g;
        gpu.gpu.sm = 80;
        gpus[g] = topo_add_node(topo, &gpu);
        struct topo_node nic = topo_blank(TOPO_NIC, gpu.parent);
        snprintf(nic.pci.busid, TOPO_BUSID_BYTES, "0abc:%x2:00.0", g + 1);
        snprintf(nic.nic.name, sizeof nic.nic.name, "rail%d", g);
        nic.pci.class = 0x020000;
        nic.nic.mbits = 100000;
        if (g == 0 || g == 3)
            topo_add_node(topo, &nic);
    }
    for (size_t k = 0; k < sizeof linked / sizeof *linked; k++)
        topo_add_link(topo, gpus[linked[k][0]], gpus[linked[k][1]], MEDIUM_NVLINK, 1, 20);
    assert_int_equal(topo_finish(topo), COLLET_SUCCESS);
    make_path(path);
    assert_int_equal(topo_write_file(topo, path), COLLET_SUCCESS);
    topo_destroy(topo);
}

/* ---- ranks ---- */

/* The lines of a dump that say " ring <k>: …" must be those, and no others. */
static void check_rings(struct ranks *ranks, int rank, const struct job *job, struct collet_comm *comm) {
    char text[2048] = "", expected[128];
    int fd = memfd_create("dump", 0);
    ranks_try(ranks, rank, collet_comm_dump(comm, fd));
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    ranks_check(ranks, rank, bytes > 0);
    close(fd);
    for (int k = 0; k < RINGS_MAX; k++) {
        bool wanted = job->rings[k][0] != '\0';
        snprintf(expected, sizeof expected, " ring %d: %s%s", k, job->rings[k], wanted ? "\n" : "");
        if ((strstr(text, expected) != NULL) != wanted)
            ranks_fail(ranks, "rank %d: %s'%s' in:\n%s", rank, wanted ? "there is no " : "there is ", expected, text);
    }
}

static void check_sum(struct ranks *ranks, int rank, struct collet_comm *comm) {
    enum { COUNT = 5000 };
    int32_t *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++)
        data[i] = rank * 10000 + i;
    ranks_try(ranks, rank, collet_allreduce(data, data, COUNT, COLLET_INT32, COLLET_SUM, comm, NULL));
    int n = ranks->nranks;
    for (int i = 0; i < COUNT; i++)
        ranks_check(ranks, rank, data[i] == n * (n - 1) / 2 * 10000 + n * i);
    free(data);
}

static void check_hashes(struct ranks *ranks, int rank, const struct job *job, struct collet_comm *comm) {
    job->hashes[rank] = chart_of(comm->map)->hash;
    ranks_barrier(ranks);
    for (int other = 0; other < ranks->nranks; other++)
        ranks_check(ranks, rank, job->hashes[other] == chart_of(comm->map)->hash);
}

static void run_rank(struct ranks *ranks, int rank) {
    const struct job *job = ranks->argument;
    int host = rank / RANKS_OF_HOST;
    setenv("COLLET_HOSTID", host == 0 ? "first" : "second", 1);
    setenv("COLLET_TOPO_FILE", job->files[host], 1);
    setenv("COLLET_TOPO_DUMP_FILE", job->dump, 1);
    setenv("COLLET_CHECK_PROGRAMS", "1", 1);
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    if (job->error != NULL && rank == 0)
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), job->error) != NULL);
    check_rings(ranks, rank, job, comm);
    check_hashes(ranks, rank, job, comm);
    for (const char *const *algorithm = (const char *const[]){"", "ring", "tree", NULL}; *algorithm != NULL;
         algorithm++) {
        setenv("COLLET_ALGO", *algorithm, 1);
        struct collet_comm *forced = ranks_comm(ranks, rank, NULL);
        check_sum(ranks, rank, forced);
        ranks_try(ranks, rank, collet_comm_destroy(forced));
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void run_job(struct job *job, int nhosts) {
    char why[RANKS_TEXT_BYTES];
    struct ranks_job ranks_job = {.processes = nhosts * RANKS_OF_HOST, .run = run_rank, .argument = job};
    job->hashes = ranks_share(RANKS_MAX * sizeof *job->hashes);
    bool good = ranks_run(&ranks_job, why);
    ranks_unshare(job->hashes, RANKS_MAX * sizeof *job->hashes);
    for (int h = 0; h < HOSTS_MAX; h++)
        if (job->files[h][0] != '\0')
            unlink(job->files[h]);
    if (!good)
        fail_msg("%s", why);
}

static void on_one_host_a_ring_follows_the_links_of_the_file(void **state) {
    (void)state;
    struct job job = {.rings = {"3 1 2 0"}};
    write_machine(job.files[0], 0);
    run_job(&job, 1);
}

static void on_two_hosts_a_channel_for_each_adapter_begins_and_ends_next_to_it(void **state) {
    (void)state;
    struct job job = {.rings = {"0 2 1 3 7 5 6 4", "3 1 2 0 4 6 5 7"}};
    write_machine(job.files[0], 0);
    write_machine(job.files[1], RANKS_OF_HOST);
    run_job(&job, 2);
}

static void a_bad_file_is_named_and_the_job_goes_on(void **state) {
    (void)state;
    struct job job = {.rings = {"0 1 2 3"}, .error = ":2: "};
    make_path(job.files[0]);
    FILE *file = fopen(job.files[0], "w");
    assert_non_null(file);
    fputs("<system version=\"1\">\n<cpu numaid=\"0\"", file);
    fclose(file);
    run_job(&job, 1);
}

static void the_machine_is_written_by_the_rank_that_is_named(void **state) {
    (void)state;
    struct job job = {.rings = {"3 1 2 0"}};
    struct topo *written;
    write_machine(job.files[0], 0);
    make_path(job.dump);
    unlink(job.dump);
    run_job(&job, 1);
    assert_int_equal(topo_read_file(job.dump, TOPO_RECORDED, &written), COLLET_SUCCESS);
    assert_int_equal(topo_count(written, 0, TOPO_GPU), RANKS_OF_HOST);
    assert_int_equal(topo_count(written, 0, TOPO_NIC), 2);
    topo_destroy(written);
    unlink(job.dump);
}

static void a_machine_that_cannot_be_written_hinders_nobody(void **state) {
    (void)state;
    struct job job = {.dump = "/nonexistent/topo.xml", .rings = {"3 1 2 0"}};
    write_machine(job.files[0], 0);
    run_job(&job, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_host_a_ring_follows_the_links_of_the_file),
        cmocka_unit_test(on_two_hosts_a_channel_for_each_adapter_begins_and_ends_next_to_it),
        cmocka_unit_test(a_bad_file_is_named_and_the_job_goes_on),
        cmocka_unit_test(the_machine_is_written_by_the_rank_that_is_named),
        cmocka_unit_test(a_machine_that_cannot_be_written_hinders_nobody),
    };
    return cmocka_run_group_tests_name("communicators use the topology", tests, NULL, NULL);
}
