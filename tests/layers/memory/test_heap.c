/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared heap of a process: what is taken and given back, what others see of it, and what a forked child has. This process maps
 * its own shared heap a second time to play another one.
 */
#include "collet.h"
#include "layers/memory/heap.h"

#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct heap_view *open_own(void) {
    struct heap_ticket ticket = heap_own()->ticket;
    struct heap_view *view;
    assert_int_equal(heap_view_open(&ticket, &view), COLLET_SUCCESS);
    assert_non_null(view);
    return view;
}

static char *seen(struct heap_view *view, const char *memory, size_t bytes) {
    return heap_view_at(view, heap_offset(heap_own(), (uintptr_t)memory), bytes);
}

static void ranges_do_not_overlap_and_gaps_are_used_again(void **state) {
    (void)state;
    enum { N = 20, BYTES = 200000, ALIGN = 1 << 21 };
    char *memory[N];
    for (int k = 0; k < N; k++) {
        memory[k] = heap_take(BYTES, k % 3 == 0 ? ALIGN : 1);
        assert_non_null(memory[k]);
        assert_int_equal(k % 3 == 0 ? (uintptr_t)memory[k] % ALIGN : 0, 0);
        memset(memory[k], k, BYTES);
    }
    for (int k = 0; k < N; k++)
        for (int i = 0; i < BYTES; i++)
            assert_int_equal(memory[k][i], k);
    assert_true(heap_give_back(memory[7]));
    assert_false(heap_give_back(memory[7]));
    assert_ptr_equal(heap_take(BYTES, 1), memory[7]);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(memory[7][i], 0);
    for (int k = 0; k < N; k++)
        assert_true(heap_give_back(memory[k]));
}

static void what_was_not_taken_is_not_given_back(void **state) {
    (void)state;
    char other[8], *memory = heap_take(100000, 1);
    assert_false(heap_give_back(other));
    assert_false(heap_give_back(memory + 65536));
    assert_null(heap_take(SIZE_MAX, 1));
    assert_null(heap_take(heap_own()->bytes, 1));
    assert_true(heap_give_back(memory));
}

static void another_process_sees_what_is_written(void **state) {
    (void)state;
    char *memory = heap_take(100000, 1);
    struct heap_view *view = open_own(), *again = open_own();
    assert_ptr_equal(view, again);
    char *there = seen(view, memory, 100000);
    assert_non_null(there);
    assert_ptr_not_equal(there, memory);
    memory[99999] = 7;
    assert_int_equal(there[99999], 7);
    heap_view_close(again);
    there[0] = 5;
    assert_int_equal(memory[0], 5);
    assert_true(heap_give_back(memory));
    assert_int_equal(there[99999], 0); /* its pages are gone, and the view is still there */
    heap_view_close(view);
}

static void bounds_are_checked(void **state) {
    (void)state;
    struct heap_view *view = open_own();
    uint64_t bytes = heap_own()->bytes;
    assert_non_null(heap_view_at(view, bytes - 10, 10));
    assert_null(heap_view_at(view, bytes - 10, 11));
    assert_null(heap_view_at(view, bytes + 1, 0));
    assert_null(heap_view_at(view, UINT64_MAX - 4, 10));
    assert_null(heap_view_at(NULL, 4096, 1));
    heap_view_close(view);
}

/* The descriptor is that of another file by now, or of none, or the file has another length. */
static void a_ticket_that_is_not_true_maps_nothing(void **state) {
    (void)state;
    struct heap_ticket right = heap_own()->ticket, wrong[3] = {right, right, right};
    wrong[0].nonce++;
    wrong[1].nonce += 2, wrong[1].fd = 100000;
    wrong[2].nonce += 3, wrong[2].bytes += 4096;
    for (int k = 0; k < 3; k++) {
        struct heap_view *view;
        assert_int_equal(heap_view_open(&wrong[k], &view), COLLET_SUCCESS);
        assert_null(heap_view_at(view, 65536, 1));
        assert_null(heap_view_at(view, 65536, 1));
        heap_view_close(view);
    }
}

static void a_forked_child_cannot_harm_its_parent(void **state) {
    (void)state;
    int status;
    char *memory = heap_take(100000, 1);
    uint64_t nonce = heap_own()->ticket.nonce;
    memory[3] = 1;
    pid_t child = fork();
    if (child == 0) {
        bool fine = memory[3] == 1 && !heap_give_back(memory);
        memory[3] = 2;
        char *more = heap_take(10, 1);
        fine = fine && more != NULL && heap_own()->ticket.nonce != nonce;
        _exit(fine && memory[3] == 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(memory[3], 1);
    assert_true(heap_give_back(memory));
}

/* ---- pages ---- */

/* KiB of a field, summed over the mappings that overlap so many bytes of memory. */
static unsigned long smaps_kib(const char *field, const char *memory, size_t bytes) {
    char line[512];
    unsigned long begin, end, kib, sum = 0;
    bool here = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    assert_non_null(smaps);
    while (fgets(line, sizeof line, smaps) != NULL)
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = begin < (uintptr_t)memory + bytes && (uintptr_t)memory < end;
        else if (here && strncmp(line, field, strlen(field)) == 0 && sscanf(line + strlen(field), ": %lu", &kib) == 1)
            sum += kib;
    fclose(smaps);
    return sum;
}

/* Which setting has brackets? */
static void read_setting(const char *path, char setting[32]) {
    char line[128] = "";
    FILE *in = fopen(path, "r");
    strcpy(setting, "unknown");
    if (in != NULL && fgets(line, sizeof line, in) != NULL && strchr(line, '[') != NULL)
        sscanf(strchr(line, '[') + 1, "%31[^]]", setting);
    if (in != NULL)
        fclose(in);
}

/* The node of the memory that a page is of; −1: the kernel does not say. */
static int node_of(char *page) {
    int status = -1;
    void *pages[] = {page};
    return syscall(SYS_move_pages, 0, 1, pages, NULL, &status, 0) == 0 ? status : -1;
}

enum { PAGES_BYTES = 8 << 20, HUGE = 2 << 20 };

/* Huge pages for shared memory that asks for them. */
static bool are_huge(const char *setting) {
    return strcmp(setting, "always") == 0 || strcmp(setting, "advise") == 0 || strcmp(setting, "force") == 0;
}

/* Memory that a thread gets which may run on this CPU alone. Returns the CPU's node. */
static unsigned check_memory_of(int cpu, const char *setting) {
    cpu_set_t before, one;
    unsigned node;
    void *memory;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(syscall(SYS_getcpu, NULL, &node, NULL), 0);
    assert_int_equal(collet_mem_alloc(&memory, PAGES_BYTES, COLLET_DEVICE_HOST), COLLET_SUCCESS);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    uint64_t offset = heap_offset(heap_own(), (uintptr_t)memory);
    assert_true(offset > 0 && offset % HUGE == 0 && (uintptr_t)memory % HUGE == 0);
    assert_true(smaps_kib("Rss", memory, PAGES_BYTES) >= PAGES_BYTES / 1024);
    unsigned long huge_kib = smaps_kib("ShmemPmdMapped", memory, PAGES_BYTES);
    assert_true(huge_kib > 0 || !are_huge(setting));
    for (size_t at = 0; at < PAGES_BYTES; at += HUGE) {
        int there = node_of((char *)memory + at);
        assert_true(there < 0 || there == (int)node);
    }
    print_message("CPU %d, node %u: %d KiB of collet_mem_alloc() there, %lu KiB of them in huge pages\n", cpu, node,
                  PAGES_BYTES / 1024, huge_kib);
    assert_int_equal(collet_mem_free(memory), COLLET_SUCCESS);
    return node;
}

static void memory_is_there_on_the_node_of_who_asks_and_in_huge_pages(void **state) {
    char setting[32];
    unsigned first_node = UINT_MAX, node = UINT_MAX;
    cpu_set_t cpus;
    (void)state;
    read_setting("/sys/kernel/mm/transparent_hugepage/shmem_enabled", setting);
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && (first_node == UINT_MAX || node == first_node); cpu++)
        if (CPU_ISSET(cpu, &cpus)) {
            node = check_memory_of(cpu, setting);
            first_node = first_node == UINT_MAX ? node : first_node;
        }
    if (node == first_node)
        print_message("one NUMA node: that memory of another node's CPU lies there was not seen\n");
    if (!are_huge(setting))
        print_message("shmem_enabled is %s: huge pages were not seen\n", setting);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_do_not_overlap_and_gaps_are_used_again),
        cmocka_unit_test(what_was_not_taken_is_not_given_back),
        cmocka_unit_test(another_process_sees_what_is_written),
        cmocka_unit_test(bounds_are_checked),
        cmocka_unit_test(a_ticket_that_is_not_true_maps_nothing),
        cmocka_unit_test(a_forked_child_cannot_harm_its_parent),
        cmocka_unit_test(memory_is_there_on_the_node_of_who_asks_and_in_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
