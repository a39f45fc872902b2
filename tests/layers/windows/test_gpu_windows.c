/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows on GPU communicators, and payloads that processes lend each other in them, on emulated GPUs (emulated_gpu.h).
 */
#include "api/comm.h"
#include "layers/gpu/windows.h"
#include "common/emulated_gpu.h"
#include "common/ranks.h"
#include "common/refuse.h"
#include "layers/memory/loan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 30000u
#define BYTES(nranks) (((size_t)(nranks) + 1) * COUNT * sizeof(uint32_t))
#define FIRST 1000 /* numbers of the buffer before the window */

/* How ranks are on GPUs, and what is to come of it. */
struct scene {
    int gpus;
    bool near; /* between the GPUs, too; ranks that share one always are */
    enum refused_call { REGISTER, ALLGATHER, DEREGISTER } refused_call; /* the one that gets no memory, of rank 1 */
};

static bool are_near(const struct scene *scene, int a, int b) {
    return scene->near || a % scene->gpus == b % scene->gpus;
}

struct player {
    struct ranks *ranks;
    const struct scene *scene;
    int rank, nranks;
    struct collet_comm *comm;
    void *stream;
    uint32_t *buffer;
};

static void player_init(struct player *p, struct ranks *ranks, int rank) {
    *p = (struct player){ranks, ranks->argument, rank, ranks->nranks, NULL, NULL, NULL};
    const int device = COLLET_DEVICE_CUDA(rank % p->scene->gpus);
    p->comm = ranks_comm(ranks, rank, &(struct collet_config){.size = sizeof(struct collet_config), .device = device});
    p->stream = emulated_stream_create();
    void *memory;
    ranks_try(ranks, rank, collet_mem_alloc(&memory, BYTES(p->nranks) + FIRST * sizeof(uint32_t), device));
    p->buffer = memory;
}

static void player_fini(struct player *p) {
    ranks_try(p->ranks, p->rank, collet_mem_free(p->buffer));
    emulated_stream_destroy(p->stream);
}

static struct collet_window *register_buffer(const struct player *p) {
    struct collet_window *window;
    ranks_try(p->ranks, p->rank, collet_win_register(p->comm, p->buffer + FIRST, BYTES(p->nranks), &window));
    return window;
}

/* Slots that this rank has lent to other processes so far. */
static uint64_t loans_of(const struct player *p) {
    uint64_t loans = 0;
    for (const struct conn *c = p->comm->chan->owner.first; c != NULL; c = c->next)
        if (c->side == CONN_PRODUCER && c->end_on_gpu != NULL && c->end.loans.way == LOAN_WINDOW)
            loans += c->end_on_gpu->loans.until - c->end.loans.until;
    return loans;
}

/* Returns how many slots it has lent to other processes. */
static uint64_t gather(const struct player *p) {
    uint32_t *in = p->buffer + FIRST, *out = in + COUNT;
    const uint64_t before = loans_of(p);
    for (uint32_t k = 0; k < COUNT; k++)
        in[k] = (uint32_t)p->rank << 24 | k;
    memset(out, 0xff, (size_t)p->nranks * COUNT * sizeof *out);
    ranks_try(p->ranks, p->rank, collet_allgather(in, out, COUNT, COLLET_UINT32, p->comm, p->stream));
    emulated_stream_wait(p->stream);
    for (uint32_t k = 0; k < (uint32_t)p->nranks * COUNT; k++)
        ranks_check(p->ranks, p->rank, out[k] == ((k / COUNT) << 24 | k % COUNT));
    return loans_of(p) - before;
}

static bool is_apart(const struct player *p, int rank) {
    return rank / p->ranks->nthreads != p->rank / p->ranks->nthreads;
}

/* Another process whose GPU is near: its payloads are lent to this one. */
static bool has_borrower(const struct player *p) {
    for (int rank = 0; rank < p->nranks; rank++)
        if (is_apart(p, rank) && are_near(p->scene, p->rank, rank))
            return true;
    return false;
}

/* Each rank finds in the others' windows what they have put there. */
static void look_at_windows(const struct player *p) {
    struct gpu_window_place place;
    bool symmetric = true;
    p->buffer[FIRST + 7] = 4711 + (uint32_t)p->rank;
    ranks_barrier(p->ranks);
    ranks_check(p->ranks, p->rank, gpu_window_find(p->comm->chan, p->buffer + FIRST + 7, 4, &place));
    ranks_check(p->ranks, p->rank, place.number == 1 && place.offset == 28);
    for (int rank = 0; rank < p->nranks; rank++) {
        const uint32_t *base = gpu_window_base(place.window, rank);
        const bool near = are_near(p->scene, p->rank, rank);
        symmetric &= p->scene->near || p->scene->gpus == 1;
        ranks_check(p->ranks, p->rank, (base != NULL) == near && (!near || base[7] == 4711 + (uint32_t)rank));
    }
    ranks_check(p->ranks, p->rank, gpu_window_is_symmetric(place.window) == symmetric);
    ranks_check(p->ranks, p->rank, gpu_window_is_lent(place.window));
    ranks_check(p->ranks, p->rank, !gpu_window_find(p->comm->chan, p->buffer + FIRST - 1, 4, &place));
    ranks_check(p->ranks, p->rank, !gpu_window_find(p->comm->chan, p->buffer + FIRST, BYTES(p->nranks) + 1, &place));
    ranks_barrier(p->ranks);
}

static void run_lending(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank);
    ranks_check(ranks, rank, gather(&p) == 0); /* connections are made before there is a window */
    struct collet_window *window = register_buffer(&p);
    look_at_windows(&p);
    ranks_check(ranks, rank, (gather(&p) > 0) == has_borrower(&p));
    ranks_expect(ranks, rank, collet_mem_free(p.buffer), COLLET_ERR_INVALID_USAGE, "collet_mem_free");
    ranks_try(ranks, rank, collet_win_deregister(p.comm, window));
    ranks_check(ranks, rank, gather(&p) == 0);
    window = register_buffer(&p);
    ranks_check(ranks, rank, (gather(&p) > 0) == has_borrower(&p));
    ranks_try(ranks, rank, collet_comm_destroy(p.comm)); /* the end of the window, too */
    player_fini(&p);
}

static void run_job(void (*run)(struct ranks *ranks, int rank), int processes, int threads, struct scene scene) {
    char why[RANKS_TEXT_BYTES];
    struct ranks_job job = {.processes = processes, .threads = threads, .limit_s = 30, .run = run, .argument = &scene};
    static const uint32_t all[] = {~0u, ~0u, ~0u, ~0u};
    emulated_gpu_set_nvlink(scene.near ? all : NULL);
    if (!ranks_run(&job, why))
        fail_msg("%d processes of %d threads on %d GPUs: %s", processes, threads, scene.gpus, why);
    emulated_gpu_set_nvlink(NULL);
}

static void processes_lend_each_other_payloads_in_windows(void **state) {
    (void)state;
    run_job(run_lending, 3, 1, (struct scene){2, true, REGISTER});
    run_job(run_lending, 2, 2, (struct scene){2, true, REGISTER});
    run_job(run_lending, 2, 1, (struct scene){1, false, REGISTER});
}

static void windows_are_attached_by_descriptors(void **state) {
    (void)state;
    emulated_gpu_refuse_handles(true);
    run_job(run_lending, 3, 1, (struct scene){2, true, REGISTER});
    emulated_gpu_refuse_handles(false);
    setenv("COLLET_CUMEM_ENABLE", "1", 1);
    run_job(run_lending, 2, 2, (struct scene){2, true, REGISTER});
    unsetenv("COLLET_CUMEM_ENABLE");
}

static void gpus_that_nvlink_does_not_join_use_slots(void **state) {
    (void)state;
    run_job(run_lending, 3, 1, (struct scene){2, false, REGISTER});
    run_job(run_lending, 2, 1, (struct scene){2, false, REGISTER});
}

/* ---- memory that cannot be attached ---- */

static void run_with_slots(struct ranks *ranks, int rank) {
    struct gpu_window_place place;
    struct player p;
    player_init(&p, ranks, rank);
    struct collet_window *window = register_buffer(&p);
    ranks_check(ranks, rank, gpu_window_find(p.comm->chan, p.buffer + FIRST, 4, &place));
    ranks_check(ranks, rank, !gpu_window_is_lent(place.window) && !gpu_window_is_symmetric(place.window));
    ranks_check(ranks, rank, gpu_window_base(place.window, 1 - rank) == NULL);
    ranks_try(ranks, rank, collet_win_deregister(p.comm, window));
    ranks_try(ranks, rank, collet_comm_destroy(p.comm));
    player_fini(&p);
}

static void memory_without_a_name_is_not_lent(void **state) {
    (void)state;
    emulated_gpu_refuse_handles(true);
    setenv("COLLET_CUMEM_ENABLE", "0", 1);
    run_job(run_with_slots, 2, 1, (struct scene){2, true, REGISTER});
    unsetenv("COLLET_CUMEM_ENABLE");
    emulated_gpu_refuse_handles(false);
}

/* ---- what is refused ---- */

static void run_refused(struct ranks *ranks, int rank) {
    struct collet_window *windows[LOAN_WINDOWS], *more;
    struct player p;
    uint32_t other[4];
    player_init(&p, ranks, rank);
    ranks_expect(ranks, rank, collet_win_register(p.comm, rank == 1 ? other : p.buffer, sizeof other, &more),
                 COLLET_ERR_INVALID_ARGUMENT, "a window that is of no buffer");
    ranks_check(ranks, rank, strstr(collet_last_error(p.comm), "buff of rank 1") != NULL);
    ranks_try(ranks, rank, collet_win_register(p.comm, rank == 1 ? NULL : p.buffer, rank == 1 ? 0 : 16, &windows[1]));
    const uint32_t end = LOAN_WINDOWS - 1; /* one window is for signals */
    for (uint32_t k = 2; k < end; k++)
        ranks_try(ranks, rank, collet_win_register(p.comm, p.buffer, 16, &windows[k]));
    ranks_expect(ranks, rank, collet_win_register(p.comm, p.buffer, 16, &more), COLLET_ERR_UNSUPPORTED, "too many");
    for (uint32_t k = 1; k < end; k++)
        ranks_try(ranks, rank, collet_win_deregister(p.comm, windows[k]));
    ranks_check(ranks, rank, gather(&p) == 0);
    ranks_try(ranks, rank, collet_comm_destroy(p.comm));
    player_fini(&p);
}

static void what_no_window_can_be_is_refused_on_all_ranks(void **state) {
    (void)state;
    run_job(run_refused, 2, 1, (struct scene){2, true, REGISTER});
}

/* ---- no memory ---- */

static enum collet_result make_call(const struct player *p, enum refused_call call, struct collet_window **window) {
    switch (call) {
    case REGISTER: return collet_win_register(p->comm, p->buffer + FIRST, BYTES(p->nranks), window);
    case DEREGISTER: return collet_win_deregister(p->comm, *window);
    case ALLGATHER: break;
    }
    return collet_allgather(p->buffer, p->buffer + COUNT, COUNT, COLLET_UINT32, p->comm, p->stream);
}

/* The first request of the call is refused on rank 1: the other rank hears of it, and does not wait for the timeout. */
static void run_without_memory(struct ranks *ranks, int rank) {
    struct collet_window *window = NULL;
    struct player p;
    enum collet_result later;
    player_init(&p, ranks, rank);
    const enum refused_call call = p.scene->refused_call;
    for (enum refused_call before = REGISTER; before < call; before++)
        ranks_try(ranks, rank, make_call(&p, before, &window));
    emulated_stream_wait(p.stream);
    ranks_barrier(ranks);
    if (rank == 1)
        refuse_this_thread(MEMORY, 1, 1);
    enum collet_result result = make_call(&p, call, &window);
    refuse(NO_RESOURCE, 0, 0);
    emulated_stream_wait(p.stream);
    ranks_try(ranks, rank, collet_comm_get_async_error(p.comm, &later));
    ranks_check(ranks, rank, later == COLLET_ERR_NO_MEMORY);
    ranks_check(ranks, rank, result == COLLET_ERR_NO_MEMORY || (rank == 0 && call == ALLGATHER));
    ranks_barrier(ranks);
    if (rank == 1 && call == DEREGISTER) /* the window has ended */
        ranks_try(ranks, rank, collet_mem_free(p.buffer));
    ranks_try(ranks, rank, collet_comm_destroy(p.comm));
    if (rank == 1 && call == DEREGISTER)
        p.buffer = NULL;
    player_fini(&p);
}

static void without_memory_no_rank_waits(void **state) {
    (void)state;
    for (enum refused_call call = REGISTER; call <= DEREGISTER; call++)
        run_job(run_without_memory, 2, 1, (struct scene){2, true, call});
}

/* ---- ends ---- */

static void run_abort(struct ranks *ranks, int rank) {
    struct collet_window *window;
    struct player p;
    player_init(&p, ranks, rank);
    window = register_buffer(&p);
    if (rank == 0) {
        ranks_check(ranks, rank, collet_win_register(p.comm, p.buffer, 16, &window) == COLLET_ERR_ABORTED);
    } else {
        ranks_sleep_ms(50);
    }
    ranks_try(ranks, rank, collet_comm_abort(p.comm));
    player_fini(&p);
}

static void an_abort_ends_a_registration(void **state) {
    (void)state;
    run_job(run_abort, 2, 1, (struct scene){2, true, REGISTER});
    run_job(run_abort, 1, 2, (struct scene){2, true, REGISTER});
}

/* The end of a window waits for what the rank has put into its streams. */
static void run_queued(struct ranks *ranks, int rank) {
    struct player p;
    player_init(&p, ranks, rank);
    struct collet_window *window = register_buffer(&p);
    uint32_t *in = p.buffer + FIRST, *out = in + COUNT;
    for (uint32_t k = 0; k < COUNT; k++)
        in[k] = (uint32_t)rank << 24 | k;
    emulated_stream_delay(p.stream, 100);
    ranks_try(ranks, rank, collet_allgather(in, out, COUNT, COLLET_UINT32, p.comm, p.stream));
    ranks_try(ranks, rank, collet_win_deregister(p.comm, window));
    ranks_check(ranks, rank, loans_of(&p) > 0);
    for (uint32_t k = 0; k < (uint32_t)p.nranks * COUNT; k++)
        ranks_check(ranks, rank, out[k] == ((k / COUNT) << 24 | k % COUNT));
    ranks_try(ranks, rank, collet_comm_destroy(p.comm));
    player_fini(&p);
}

static void a_window_ends_behind_the_work_in_streams(void **state) {
    (void)state;
    run_job(run_queued, 2, 1, (struct scene){2, true, REGISTER});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_lend_each_other_payloads_in_windows),
        cmocka_unit_test(windows_are_attached_by_descriptors),
        cmocka_unit_test(gpus_that_nvlink_does_not_join_use_slots),
        cmocka_unit_test(memory_without_a_name_is_not_lent),
        cmocka_unit_test(what_no_window_can_be_is_refused_on_all_ranks),
        cmocka_unit_test(without_memory_no_rank_waits),
        cmocka_unit_test(an_abort_ends_a_registration),
        cmocka_unit_test(a_window_ends_behind_the_work_in_streams),
    };
    gpu_driver_use(&emulated_gpu_driver);
    setenv("COLLET_PROTO", "Simple", 1);
    setenv("COLLET_ALGO", "direct", 1);
    setenv("COLLET_NCHANNELS", "2", 1); /* more would cut messages into parts that are not worth it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
