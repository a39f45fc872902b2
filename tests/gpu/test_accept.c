/* SPDX-License-Identifier: Apache-2.0
 *
 * The acceptance of GPU communicators, on one GPU or more. Without a GPU it is skipped; with --emulated it runs on the
 * emulation of one, and shows that it would work.
 *
 *    test_accept [--emulated | --slow] [--seconds N] [--seed N] [part …]
 *
 * parts: see the table at the end; "none" only looks for GPUs. --slow: what it runs on is slow, so small sizes and few rounds.
 *
 * Every case has inputs of its own, drawn from a seed that is printed, buffers at odd places full of a pattern, and is
 * checked against a reference in double precision and byte by byte beside its results.
 */
#include "api/comm.h"
#include "base/os.h"
#include "base/types.h"
#include "chan/windows.h"
#include "common/emulated_gpu.h"
#include "common/gpu_side.h"
#include "common/level.h"
#include "common/ranks.h"
#include "common/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4

static const struct gpu_side *side;
static bool emulated, slow;
static int ngpus, part_seconds;
static int cases, failures;
static uint64_t part_end_ns;
static uint64_t random_state, seed; /* 0: the time */

static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

static void must(enum collet_result result, const char *what) {
    if (result == COLLET_SUCCESS)
        return;
    printf("%s: %s: %s\n", what, collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

static void judge(bool right, const char *name, const char *why) {
    cases++;
    if (right)
        return;
    failures++;
    printf("  wrong: %s: %s\n", name, why);
}

/* ---- trials in memory of a GPU ---- */

struct mirror {
    struct trial host; /* what is put in, and taken out */
    struct trial gpu;  /* the same with addresses of the GPU; only its addresses are used */
    void *in, *out;
    int ordinal; /* of the GPU */
    enum gpu_side_memory kind;
};

static void *mirror_guard(const struct guard *guard, enum gpu_side_memory kind) {
    if (guard->memory == NULL)
        return NULL;
    void *memory = side->memory(guard->total_bytes, kind);
    side->copy(memory, guard->memory, guard->total_bytes);
    return memory;
}

static const void *moved(const struct mirror *m, const void *address) {
    const struct guard *guards[] = {&m->host.in.guard, &m->host.out.guard};
    void *const places[] = {m->in, m->out};
    for (int k = 0; k < 2; k++) {
        const unsigned char *first = guards[k]->memory;
        if (first != NULL && (const unsigned char *)address >= first &&
            (const unsigned char *)address < first + guards[k]->total_bytes)
            return (char *)places[k] + ((const unsigned char *)address - first);
    }
    return address; /* NULL, or one that nobody looks at */
}

/* On the rank's own GPU: nothing else is promised to be within its reach. */
static void mirror_create(struct mirror *m, const struct trial_call *call, int rank, int gpu,
                          enum gpu_side_memory kind) {
    int before = side->current();
    trial_prepare(&m->host, call, rank);
    m->ordinal = gpu;
    m->kind = kind;
    side->use(gpu);
    m->in = mirror_guard(&m->host.in.guard, kind);
    m->out = mirror_guard(&m->host.out.guard, kind);
    m->gpu = m->host;
    m->gpu.sendbuff = moved(m, m->host.sendbuff);
    m->gpu.recvbuff = (void *)moved(m, m->host.recvbuff);
    side->use(before);
}

static bool mirror_check(struct mirror *m, char why[TRIAL_WHY_BYTES]) {
    int before = side->current();
    side->use(m->ordinal);
    if (m->in != NULL)
        side->copy(m->host.in.guard.memory, m->in, m->host.in.guard.total_bytes);
    side->copy(m->host.out.guard.memory, m->out, m->host.out.guard.total_bytes);
    side->use(before);
    return trial_check(&m->host, why);
}

static void mirror_destroy(struct mirror *m) {
    if (m->in != NULL)
        side->memory_free(m->in, m->kind);
    side->memory_free(m->out, m->kind);
    trial_destroy(&m->host);
}

/* ---- a team: all ranks in this thread ---- */

struct team {
    int nranks;
    struct collet_comm *comms[RANKS];
    void *streams[RANKS];
};

static int gpu_of(const struct team *team, int rank) { return rank * ngpus / team->nranks; }

static void team_create(struct team *team, int nranks, const char *protocol) {
    int devices[RANKS];
    setenv("COLLET_PROTO", protocol, 1);
    team->nranks = nranks;
    for (int rank = 0; rank < nranks; rank++) {
        devices[rank] = COLLET_DEVICE_CUDA(gpu_of(team, rank));
        side->use(gpu_of(team, rank));
        team->streams[rank] = side->stream();
    }
    must(collet_comm_init_all(team->comms, nranks, devices), "collet_comm_init_all");
    side->use(0);
    unsetenv("COLLET_PROTO");
}

static void team_destroy(struct team *team) {
    for (int rank = 0; rank < team->nranks; rank++)
        must(collet_comm_destroy(team->comms[rank]), "collet_comm_destroy");
    for (int rank = 0; rank < team->nranks; rank++)
        side->stream_free(team->streams[rank]);
}

static void team_wait(const struct team *team) {
    for (int rank = 0; rank < team->nranks; rank++)
        side->stream_wait(team->streams[rank]);
}

static void run_case(const struct team *team, const struct trial_call *call, enum gpu_side_memory kind) {
    struct mirror mirrors[RANKS];
    char why[TRIAL_WHY_BYTES] = "", name[TRIAL_NAME_BYTES];
    bool right = true;
    trial_name(call, name);
    for (int rank = 0; rank < team->nranks; rank++)
        mirror_create(&mirrors[rank], call, rank, gpu_of(team, rank), kind);
    must(collet_group_start(), "collet_group_start");
    for (int rank = 0; rank < team->nranks; rank++)
        must(trial_run_in(&mirrors[rank].gpu, team->comms[rank], team->streams[rank]), name);
    must(collet_group_end(), name);
    team_wait(team);
    for (int rank = 0; rank < team->nranks; rank++)
        right = right && mirror_check(&mirrors[rank], why);
    judge(right, name, why);
    for (int rank = 0; rank < team->nranks; rank++)
        mirror_destroy(&mirrors[rank]);
}

static bool time_is_up(void) { return os_now_ns() > part_end_ns; }

static size_t random_count(void) {
    static const uint32_t largest[] = {8, 100, 5000, 70000, 1000000};
    return 1 + random_below(largest[random_below(slow ? 3 : 5)]);
}

static struct trial_call call_of(enum prog_collective collective, int type, int op, bool in_place, int nranks) {
    return (struct trial_call){
        .collective = collective,
        .type = (enum collet_type)type,
        .op = (enum collet_op)op,
        .count = random_count(),
        .root = trial_has_root(collective) ? (int)random_below((uint32_t)nranks) : 0,
        .nranks = nranks,
        .in_place = in_place,
        .seed = random_state,
    };
}

/* Every collective × type × op × place once, then again with other sizes while there is time. */
static void conformance(const char *protocol) {
    struct team team;
    team_create(&team, RANKS, protocol);
    for (int pass = 0; pass == 0 || (!time_is_up() && !slow); pass++)
        for (int c = 0; c < PROG_ALLGATHERV; c++)
            for (int type = 0; type < COLLET_TYPE_COUNT; type++)
                for (int op = 0; op < (trial_reduces((enum prog_collective)c) ? COLLET_OP_COUNT : 1); op++)
                    for (int in_place = 0; in_place <= trial_may_be_in_place((enum prog_collective)c) &&
                                           op_takes((enum collet_op)op, (enum collet_type)type);
                         in_place++) {
                        struct trial_call call = call_of((enum prog_collective)c, type, op, in_place, RANKS);
                        run_case(&team, &call, MEMORY_PLAIN);
                    }
    team_destroy(&team);
}

static void part_simple(void) { conformance("Simple"); }
static void part_ll(void) { conformance("LL"); }
static void part_chosen(void) { conformance(""); }

/* Are GPUs 0 and 1 joined by NVLink, as collet sees it? */
static bool lines_go_between_gpus(void) {
    struct collet_comm *comms[2];
    setenv("COLLET_PROTO", "LL128", 1);
    enum collet_result result =
        collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)});
    unsetenv("COLLET_PROTO");
    for (int k = 0; k < 2 && result == COLLET_SUCCESS; k++)
        must(collet_comm_destroy(comms[k]), "collet_comm_destroy");
    if (result != COLLET_SUCCESS)
        printf("  on one GPU alone: %s\n", collet_last_error(NULL));
    return result == COLLET_SUCCESS;
}

/* Ranks on one GPU, then on two. */
static void in_lines(void (*run)(const char *protocol)) {
    int all = ngpus;
    ngpus = 1;
    run("LL128");
    ngpus = 2;
    if (all > 1 && lines_go_between_gpus())
        run("LL128");
    ngpus = all;
}

static void part_ll128(void) { in_lines(conformance); }

/* For tools that make everything slow. */
static void a_few(const char *protocol) {
    struct team team;
    team_create(&team, 2, protocol);
    for (int c = 0; c < PROG_ALLGATHERV; c++) {
        struct trial_call call = call_of((enum prog_collective)c, c % COLLET_TYPE_COUNT, c % COLLET_BAND, false, 2);
        call.count = 1 + random_below(2000);
        run_case(&team, &call, MEMORY_PLAIN);
    }
    team_destroy(&team);
}

static void part_small(void) {
    a_few("Simple");
    a_few("LL");
}

static void part_small128(void) { in_lines(a_few); }

static void part_memory(void) {
    struct team team;
    team_create(&team, RANKS, "");
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        for (int c = 0; c < PROG_ALLGATHERV; c++) {
            struct trial_call call = call_of((enum prog_collective)c, COLLET_FLOAT32, COLLET_SUM, false, RANKS);
            run_case(&team, &call, (enum gpu_side_memory)kind);
        }
    team_destroy(&team);
}

/* ---- streams and graphs ---- */

/* A number of each rank, on its GPU. */
struct numbers {
    float *of[RANKS];
};

static struct numbers ones(const struct team *team) {
    const float one = 1;
    struct numbers numbers;
    int before = side->current();
    for (int rank = 0; rank < team->nranks; rank++) {
        side->use(gpu_of(team, rank));
        numbers.of[rank] = side->memory(sizeof(one), MEMORY_PLAIN);
        side->copy(numbers.of[rank], &one, sizeof(one));
    }
    side->use(before);
    return numbers;
}

static void numbers_free(const struct team *team, struct numbers *numbers) {
    for (int rank = 0; rank < team->nranks; rank++)
        side->memory_free(numbers->of[rank], MEMORY_PLAIN);
}

static void sum_some(const struct team *team, int nranks, const struct numbers *numbers, void *const *streams) {
    must(collet_group_start(), "collet_group_start");
    for (int rank = 0; rank < nranks; rank++)
        must(collet_allreduce(numbers->of[rank], numbers->of[rank], 1, COLLET_FLOAT32, COLLET_SUM, team->comms[rank],
                              streams[rank]),
             "collet_allreduce");
    must(collet_group_end(), "collet_group_end");
}

static void sum_once(const struct team *team, const struct numbers *numbers, void *const *streams) {
    sum_some(team, team->nranks, numbers, streams);
}

static void expect(const struct team *team, const char *name, const struct numbers *numbers, float expected) {
    char why[80];
    for (int rank = 0; rank < team->nranks; rank++) {
        float got;
        side->copy(&got, numbers->of[rank], sizeof(got));
        snprintf(why, sizeof(why), "rank %d has %g, should have %g", rank, (double)got, (double)expected);
        judge(got == expected, name, why);
    }
}

/* More streams than there are queues of the hardware; operations of a communicator keep their order all the same. */
static void part_streams(void) {
    enum { STREAMS = 12 };
    struct team team;
    void *streams[STREAMS];
    team_create(&team, ngpus == 1 ? RANKS : 1, "");
    for (int k = 0; k < STREAMS; k++)
        streams[k] = side->stream();
    for (int round = 0; round < (slow ? 2 : 20); round++) {
        struct numbers numbers = ones(&team);
        float expected = 1;
        for (int k = 0; k < 8; k++) {
            void *mine[RANKS];
            for (int rank = 0; rank < team.nranks; rank++)
                mine[rank] = streams[random_below(STREAMS)];
            sum_once(&team, &numbers, mine);
            expected *= (float)team.nranks;
        }
        for (int k = 0; k < STREAMS; k++)
            side->stream_wait(streams[k]);
        expect(&team, "8 sums in random streams", &numbers, expected);
        numbers_free(&team, &numbers);
    }
    for (int k = 0; k < STREAMS; k++)
        side->stream_free(streams[k]);
    team_destroy(&team);
}

static void part_graphs(void) {
    struct team team;
    void *streams[RANKS];
    team_create(&team, ngpus == 1 ? RANKS : 1, "");
    for (int rank = 0; rank < RANKS; rank++)
        streams[rank] = team.streams[0];
    for (int warm = 0; warm < 2; warm++) {
        struct numbers numbers = ones(&team);
        float expected = 1;
        side->capture_begin(team.streams[0]);
        sum_once(&team, &numbers, streams);
        sum_once(&team, &numbers, streams);
        void *graph = side->capture_end(team.streams[0]);
        for (int replay = 0; replay < 4; replay++) {
            side->graph_run(graph, team.streams[0]);
            expected *= (float)(team.nranks * team.nranks);
        }
        sum_once(&team, &numbers, streams); /* after the graph, in the same stream */
        expected *= (float)team.nranks;
        side->stream_wait(team.streams[0]);
        expect(&team, "4 replays of 2 sums, and one more", &numbers, expected);
        side->graph_free(graph);
        numbers_free(&team, &numbers);
    }
    team_destroy(&team);
}

static void part_device(void) {
    struct team team;
    int before = ngpus - 1;
    team_create(&team, 1, "");
    struct numbers numbers = ones(&team);
    side->use(before);
    sum_once(&team, &numbers, team.streams);
    judge(side->current() == before, "the current GPU", "a call of collet has changed it");
    side->stream_wait(team.streams[0]);
    numbers_free(&team, &numbers);
    team_destroy(&team);
    judge(side->current() == before, "the current GPU", "destroying a communicator has changed it");
    side->use(0);
}

/* ---- failures ---- */

/* A rank that does not come leaves the others spinning on the GPU; an abort ends them, and the GPU works on. */
static void part_abort(void) {
    struct team team;
    team_create(&team, RANKS, "");
    struct numbers numbers = ones(&team);
    sum_once(&team, &numbers, team.streams);
    team_wait(&team);
    sum_some(&team, RANKS - 1, &numbers, team.streams);
    judge(!side->stream_wait_for(team.streams[0], 300), "a sum that one rank does not join", "is done");
    uint64_t start = os_now_ns();
    for (int rank = 0; rank < RANKS; rank++)
        must(collet_comm_abort(team.comms[rank]), "collet_comm_abort");
    judge(side->stream_wait_for(team.streams[0], 5000), "after an abort", "the GPU is not free after 5 s");
    printf("  aborted after %.0f ms\n", (double)(os_now_ns() - start) / 1e6);
    for (int rank = 0; rank < RANKS; rank++)
        side->stream_free(team.streams[rank]);
    numbers_free(&team, &numbers);
    part_small(); /* the GPU is usable */
}

/* ---- processes ---- */

static void run_process(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config)};
    char gpu[128];
    struct team team = {.nranks = 1};
    ngpus = side->count(gpu, sizeof(gpu));
    config.device = COLLET_DEVICE_CUDA(rank % ngpus);
    side->use(rank % ngpus);
    ranks_new_id(ranks, rank);
    must(collet_comm_init_rank_config(&team.comms[0], ranks->nranks, ranks->id, rank, &config),
         "collet_comm_init_rank_config");
    team.streams[0] = side->stream();
    for (int k = 0; k < 12; k++) {
        char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
        random_state = 77777 + 999983ull * (uint64_t)k;
        struct trial_call call =
            call_of((enum prog_collective)(k % PROG_ALLGATHERV), COLLET_FLOAT32, COLLET_SUM, false, ranks->nranks);
        struct mirror m;
        trial_name(&call, name);
        ranks_doing(ranks, "%s", name);
        mirror_create(&m, &call, rank, rank % ngpus, MEMORY_PLAIN);
        ranks_try(ranks, rank, trial_run_in(&m.gpu, team.comms[0], team.streams[0]));
        side->stream_wait(team.streams[0]);
        if (!mirror_check(&m, why))
            ranks_fail(ranks, "%s: %s", name, why);
        mirror_destroy(&m);
    }
    team_destroy(&team);
}

static void part_processes(void) {
    static const char *const ways[] = {"0", "1"}, *const names[] = {"2 processes, handles", "2 processes, descriptors"};
    for (int k = 0; k < 2; k++) {
        struct ranks_job job = {.processes = 2, .limit_s = slow ? 250 : 25, .run = run_process};
        char why[RANKS_TEXT_BYTES] = "";
        setenv("COLLET_CUMEM_ENABLE", ways[k], 1);
        judge(ranks_run(&job, why), names[k], why);
    }
    unsetenv("COLLET_CUMEM_ENABLE");
}

/* ---- windows, of processes ---- */

#define WINDOW_BYTES (1u << 20)

struct windowed {
    struct ranks *ranks;
    struct collet_comm *comm;
    struct collet_window *window;
    void *stream;
    int rank;
    char *in, *out; /* its halves */
};

/* Byte k of what a rank sends to another one. */
static unsigned char sent_byte(int round, int from, int to, size_t k) {
    return (unsigned char)((size_t)(round * 89 + from * 31 + to * 7) + k % 241);
}

static void put_sent(const struct windowed *w, size_t at, size_t bytes, int round, int to) {
    static unsigned char text[WINDOW_BYTES / 2];
    for (size_t k = 0; k < bytes; k++)
        text[k] = sent_byte(round, w->rank, to, k);
    side->copy(w->in + at, text, bytes);
}

static void check_came(const struct windowed *w, size_t at, size_t bytes, int round, int from, int to) {
    static unsigned char text[WINDOW_BYTES / 2];
    side->copy(text, w->out + at, bytes);
    for (size_t k = 0; k < bytes; k++)
        if (text[k] != sent_byte(round, from, to, k)) {
            ranks_fail(w->ranks, "round %d: byte %zu from rank %d to rank %d is %u", round, k, from, to, text[k]);
            return;
        }
}

/* Allgather, alltoall, broadcast, and a group of messages: between two ranks, all of them are blocks. */
static void run_windowed(const struct windowed *w, int round) {
    static const size_t lengths[] = {1, 4099, WINDOW_BYTES / 8};
    const size_t bytes = lengths[round / 4 % 3];
    const int kind = round % 4, nranks = w->ranks->nranks, all = nranks;
    for (int to = 0; to < nranks; to++)
        put_sent(w, (size_t)to * bytes, bytes, round, kind == 1 || kind == 3 ? to : all);
    ranks_barrier(w->ranks);
    if (kind == 0)
        ranks_try(w->ranks, w->rank, collet_allgather(w->in, w->out, bytes, COLLET_UINT8, w->comm, w->stream));
    if (kind == 1)
        ranks_try(w->ranks, w->rank, collet_alltoall(w->in, w->out, bytes, COLLET_UINT8, w->comm, w->stream));
    if (kind == 2)
        ranks_try(w->ranks, w->rank, collet_broadcast(w->in, w->out, bytes, COLLET_UINT8, 1, w->comm, w->stream));
    must(collet_group_start(), "collet_group_start");
    for (int peer = 0; peer < nranks && kind == 3; peer++) {
        const size_t at = (size_t)peer * bytes;
        ranks_try(w->ranks, w->rank, collet_send(w->in + at, bytes, COLLET_UINT8, peer, w->comm, w->stream));
        ranks_try(w->ranks, w->rank, collet_recv(w->out + at, bytes, COLLET_UINT8, peer, w->comm, w->stream));
    }
    must(collet_group_end(), "collet_group_end");
    side->stream_wait(w->stream);
    for (int from = 0; from < nranks; from++)
        if (kind != 2 || from == 1)
            check_came(w, kind == 2 ? 0 : (size_t)from * bytes, bytes, round, from,
                       kind == 1 || kind == 3 ? w->rank : all);
    ranks_barrier(w->ranks);
}

static struct windowed windowed_begin(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config)};
    struct windowed w = {.ranks = ranks, .rank = rank};
    struct gpu_window_place place;
    char gpu[128];
    void *memory;
    ngpus = side->count(gpu, sizeof(gpu));
    config.device = COLLET_DEVICE_CUDA(rank % ngpus);
    side->use(rank % ngpus);
    ranks_new_id(ranks, rank);
    must(collet_comm_init_rank_config(&w.comm, ranks->nranks, ranks->id, rank, &config),
         "collet_comm_init_rank_config");
    must(collet_mem_alloc(&memory, WINDOW_BYTES, config.device), "collet_mem_alloc");
    must(collet_win_register(w.comm, memory, WINDOW_BYTES, &w.window), "collet_win_register");
    w.in = memory;
    w.out = w.in + WINDOW_BYTES / 2;
    w.stream = side->stream();
    if (rank == 0 && gpu_window_find(w.comm->chan, memory, 1, &place)) {
        printf("  windows are%s lent between processes; copy engines %s; switches %s their sums\n",
               gpu_window_is_lent(place.window) ? "" : " not",
               w.comm->chan->copies != NULL ? "fill them" : "do nothing",
               gpu_window_has_team(place.window) ? "make" : "do not make");
        fflush(stdout);
    }
    return w;
}

static void windowed_end(const struct windowed *w) {
    must(collet_win_deregister(w->comm, w->window), "collet_win_deregister");
    side->stream_free(w->stream);
    must(collet_comm_destroy(w->comm), "collet_comm_destroy");
    must(collet_mem_free(w->in), "collet_mem_free");
}

static void run_windows(struct ranks *ranks, int rank) {
    const struct windowed w = windowed_begin(ranks, rank);
    for (int round = 0; round < 12; round++)
        run_windowed(&w, round);
    windowed_end(&w);
}

/* Numbers whose sums are exact in 16 bits. */
static float summand(int rank, size_t k, int round) { return (float)((k * 7 + (size_t)(rank * 3 + round)) % 13); }

static void number_put(void *numbers, enum collet_type type, size_t k, float number) {
    if (type == COLLET_FLOAT32)
        ((float *)numbers)[k] = number;
    else
        ((uint16_t *)numbers)[k] = type == COLLET_FLOAT16 ? type_store_half(number) : type_store_bfloat16(number);
}

static void sum_windowed(const struct windowed *w, enum collet_type type, bool in_place, int round) {
    static char numbers[WINDOW_BYTES / 2], sums[WINDOW_BYTES / 2];
    const size_t count = slow ? 18001 : 70001, bytes = count * collet_type_size(type);
    char *out = in_place ? w->in : w->out;
    for (size_t k = 0; k < count; k++) {
        float sum = 0;
        for (int rank = 0; rank < w->ranks->nranks; rank++)
            sum += summand(rank, k, round);
        number_put(numbers, type, k, summand(w->rank, k, round));
        number_put(sums, type, k, sum);
    }
    side->copy(w->in, numbers, bytes);
    ranks_try(w->ranks, w->rank, collet_allreduce(w->in, out, count, type, COLLET_SUM, w->comm, w->stream));
    side->stream_wait(w->stream);
    side->copy(numbers, out, bytes);
    if (memcmp(numbers, sums, bytes) != 0)
        ranks_fail(w->ranks, "round %d: a sum of %zu %s is wrong", round, count, type_name(type));
}

static void run_sums(struct ranks *ranks, int rank) {
    static const enum collet_type types[] = {COLLET_FLOAT32, COLLET_FLOAT16, COLLET_BFLOAT16};
    const struct windowed w = windowed_begin(ranks, rank);
    for (int round = 0; round < 12; round++)
        sum_windowed(&w, types[round % 3], round % 2 == 0, round);
    windowed_end(&w);
}

static void part_windows(void) {
    static const struct {
        const char *name, *cumem, *policy, *algorithm;
        void (*run)(struct ranks *ranks, int rank);
    } ways[] = {{"windows, handles", "0", "default", "", run_windows},
                {"windows, descriptors", "1", "default", "", run_windows},
                {"copy engines, handles", "0", "zero", "", run_windows},
                {"copy engines, descriptors", "1", "zero", "", run_windows},
                {"sums by switches", "1", "default", "nvls", run_sums}};
    for (int k = 0; k < 5; k++) {
        struct ranks_job job = {.processes = 2, .limit_s = slow ? 250 : 25, .run = ways[k].run};
        char why[RANKS_TEXT_BYTES] = "";
        setenv("COLLET_CUMEM_ENABLE", ways[k].cumem, 1);
        setenv("COLLET_CTA_POLICY", ways[k].policy, 1);
        setenv("COLLET_ALGO", ways[k].algorithm, 1);
        judge(ranks_run(&job, why), ways[k].name, why);
    }
    unsetenv("COLLET_CUMEM_ENABLE");
    unsetenv("COLLET_CTA_POLICY");
    unsetenv("COLLET_ALGO");
}

/* ---- what this machine can do: each is tried, apart, as it may hang or crash ---- */

static void try_one_gpu(void) {
    for (int gpu = 0, all = ngpus; gpu < all; gpu++) {
        struct collet_comm *comm;
        const float one = 1;
        float got = 0;
        side->use(gpu);
        must(collet_comm_init_all(&comm, 1, (const int[]){COLLET_DEVICE_CUDA(gpu)}), "collet_comm_init_all");
        float *number = side->memory(sizeof(one), MEMORY_PLAIN);
        void *stream = side->stream();
        side->copy(number, &one, sizeof(one));
        must(collet_allreduce(number, number, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream), "collet_allreduce");
        side->stream_wait(stream);
        side->copy(&got, number, sizeof(got));
        judge(got == 1, "a sum of one rank", "is another number");
        must(collet_comm_destroy(comm), "collet_comm_destroy");
    }
}

static void try_all_gpus(void) {
    struct team team;
    team_create(&team, RANKS, "");
    struct numbers numbers = ones(&team);
    sum_once(&team, &numbers, team.streams);
    team_wait(&team);
    expect(&team, "a sum", &numbers, RANKS);
    team_destroy(&team);
}

static void try_kind(enum gpu_side_memory kind) {
    struct team team;
    team_create(&team, 1, "");
    struct trial_call call = call_of(PROG_ALLREDUCE, COLLET_FLOAT32, COLLET_SUM, false, 1);
    run_case(&team, &call, kind);
    team_destroy(&team);
}
static void try_pool(void) { try_kind(MEMORY_POOL); }
static void try_managed(void) { try_kind(MEMORY_MANAGED); }

static void try_lines(void) {
    if (ngpus < 2)
        printf("there is one GPU\n");
    failures += ngpus < 2 || !lines_go_between_gpus();
}

static void try_switches(void) {
    struct collet_comm *comms[2];
    struct collet_window *windows[2];
    struct gpu_window_place place;
    void *memory[2];
    if (ngpus < 2) {
        printf("there is one GPU\n");
        failures++;
        return;
    }
    must(collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)}),
         "collet_comm_init_all");
    must(collet_group_start(), "collet_group_start");
    for (int gpu = 0; gpu < 2; gpu++) {
        must(collet_mem_alloc(&memory[gpu], WINDOW_BYTES, COLLET_DEVICE_CUDA(gpu)), "collet_mem_alloc");
        must(collet_win_register(comms[gpu], memory[gpu], WINDOW_BYTES, &windows[gpu]), "collet_win_register");
    }
    must(collet_group_end(), "collet_group_end");
    const bool found = gpu_window_find(comms[0]->chan, memory[0], 1, &place);
    if (found && gpu_window_has_team(place.window))
        return;
    printf("no switch knows a window of both (COLLET_DEBUG=INFO says why)\n");
    failures++;
}

static const struct ability {
    const char *name;
    void (*run)(void);
} abilities[] = {
    {"a rank on each GPU, alone", try_one_gpu},
    {"4 ranks on the GPUs there are", try_all_gpus},
    {"LL128 between GPUs 0 and 1", try_lines},
    {"sums by switches, of GPUs 0 and 1", try_switches},
    {"graphs", part_graphs},
    {"memory of pools", try_pool},
    {"managed memory", try_managed},
};
#define ABILITY_SECONDS 8

/* Of the part's seconds, if it has any: so some that hang do not take the time of all others. */
static unsigned ability_seconds(void) {
    unsigned alone = ABILITY_SECONDS * (slow ? 20 : 1);
    uint64_t now = os_now_ns(), left = part_end_ns > now ? (part_end_ns - now) / 1000000000u : 0;
    return part_seconds > 0 && left < alone ? (unsigned)left : alone;
}

static void run_ability(const struct ability *ability, int to) {
    char gpu[160];
    dup2(to, STDOUT_FILENO);
    alarm(ability_seconds());
    ngpus = side->count(gpu, sizeof(gpu));
    ability->run();
    fflush(stdout);
    _exit(failures > 0);
}

/* The last line of what comes through the pipe. */
static void last_line(FILE *from, char *line, size_t room) {
    char next[512];
    snprintf(line, room, "nothing was said");
    while (fgets(next, sizeof(next), from) != NULL)
        snprintf(line, room, "%s", next + strspn(next, " "));
    line[strcspn(line, "\n")] = '\0';
}

/* That a machine cannot do something is no failure. */
static void part_abilities(void) {
    for (size_t k = 0; k < sizeof(abilities) / sizeof(*abilities); k++) {
        char why[512];
        int pipes[2], status;
        if (ability_seconds() == 0) {
            printf("  cannot  %s: not tried, the time is up\n", abilities[k].name);
            continue;
        }
        fflush(stdout);
        if (pipe(pipes) != 0)
            return;
        pid_t child = fork();
        if (child == 0)
            run_ability(&abilities[k], pipes[1]);
        close(pipes[1]);
        FILE *said = fdopen(pipes[0], "r");
        last_line(said, why, sizeof(why));
        fclose(said);
        waitpid(child, &status, 0);
        if (status == 0)
            printf("  can     %s\n", abilities[k].name);
        else if (WIFSIGNALED(status))
            printf("  cannot  %s: %s\n", abilities[k].name, strsignal(WTERMSIG(status)));
        else
            printf("  cannot  %s: %s\n", abilities[k].name, why);
        cases++;
    }
}

/* ---- main ---- */

static const struct part {
    const char *name;
    void (*run)(void);
    bool in_all; /* run when none is named */
    bool forks;  /* so it comes before this process has touched a GPU */
} parts[] = {
    {"abilities", part_abilities, false, true},
    {"processes", part_processes, true, true},
    {"windows", part_windows, true, true},
    {"small", part_small, false, false},
    {"small128", part_small128, false, false},
    {"simple", part_simple, true, false},
    {"ll", part_ll, true, false},
    {"ll128", part_ll128, true, false},
    {"chosen", part_chosen, true, false},
    {"memory", part_memory, true, false},
    {"streams", part_streams, true, false},
    {"graphs", part_graphs, true, false},
    {"device", part_device, true, false},
    {"abort", part_abort, true, false},
};

static int run_part(const struct part *part) {
    uint64_t start = os_now_ns();
    cases = failures = 0;
    part_end_ns = start + (uint64_t)part_seconds * 1000000000u;
    random_state = 88172645463325252ull ^ (seed > 0 ? seed : start);
    printf("%s, seed %llu\n", part->name, (unsigned long long)random_state);
    part->run();
    printf("part %-10s %5d cases %4d wrong %7.1f s\n", part->name, cases, failures,
           (double)(os_now_ns() - start) / 1e9);
    fflush(stdout);
    return failures;
}

static bool named(const char *name, int argc, char **argv) {
    for (int k = 1; k < argc; k++)
        if (strcmp(argv[k], name) == 0)
            return true;
    return false;
}

/* How many GPUs there are, and their name; −1 and why they cannot be used. */
static int count_gpus(char *text, size_t room) { return side == NULL ? 0 : side->count(text, room); }

/* The same, asked in a child: a process that forks later must not have looked. */
static int count_gpus_apart(char *text, size_t room) {
    struct {
        int n;
        char text[160];
    } answer = {0, ""};
    int pipes[2];
    if (pipe(pipes) != 0)
        return 0;
    if (fork() == 0) {
        answer.n = count_gpus(answer.text, sizeof(answer.text));
        _exit(write(pipes[1], &answer, sizeof(answer)) < 0);
    }
    close(pipes[1]);
    ssize_t got = read(pipes[0], &answer, sizeof(answer));
    close(pipes[0]);
    snprintf(text, room, "%s", got < 0 ? "" : answer.text);
    return answer.n;
}

int main(int argc, char **argv) {
    char gpu[160] = "";
    int wrong = 0, named_parts = named("none", argc, argv);
    emulated = named("--emulated", argc, argv);
    slow = emulated || named("--slow", argc, argv);
#if defined(COLLET_CUDA)
    side = &gpu_side_cuda;
#endif
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], "--seconds") == 0)
            part_seconds = atoi(argv[k + 1]);
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], "--seed") == 0)
            seed = strtoull(argv[k + 1], NULL, 10);
    if (emulated) {
        side = &gpu_side_emulated;
        gpu_driver_use(&emulated_gpu_driver);
    }
    bool forks = false;
    for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
        named_parts += named(parts[k].name, argc, argv);
        forks |= parts[k].forks && named(parts[k].name, argc, argv);
    }
    forks |= named_parts == 0;
    int found = forks ? count_gpus_apart(gpu, sizeof(gpu)) : count_gpus(gpu, sizeof(gpu));
    if (found == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (found < 0) {
        printf("there may be a GPU, but it cannot be used: %s\n", gpu);
        return 1;
    }
    printf("%d GPU(s): %s\n", found, gpu);
    for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
        if (named_parts ? !named(parts[k].name, argc, argv) : !parts[k].in_all)
            continue;
        if (!parts[k].forks)
            ngpus = side->count(gpu, sizeof(gpu));
        wrong += run_part(&parts[k]);
    }
    return wrong > 0;
}
