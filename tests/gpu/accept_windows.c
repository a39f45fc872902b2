/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of two processes: lanes, copy engines and switches fill them.
 */
#include "gpu/accept.h"
#include "api/comm.h"
#include "base/types.h"
#include "layers/gpu/windows.h"
#include "common/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Each rank writes into the other's half for results, and into its own. */
static void put_windowed(const struct windowed *w, int round) {
    const size_t bytes = round % 2 == 0 ? 4099 : WINDOW_BYTES / 8, all = WINDOW_BYTES / 2;
    for (int to = 0; to < w->ranks->nranks; to++)
        put_sent(w, (size_t)to * bytes, bytes, round, to);
    ranks_barrier(w->ranks);
    for (int to = 0; to < w->ranks->nranks; to++)
        ranks_try(w->ranks, w->rank,
                  collet_put_signal(w->in + (size_t)to * bytes, bytes, to, w->window, all + (size_t)w->rank * bytes,
                                    w->comm, w->stream));
    for (int from = 0; from < w->ranks->nranks; from++)
        ranks_try(w->ranks, w->rank, collet_wait_signal(from, 1, w->window, w->comm, w->stream));
    side->stream_wait(w->stream);
    for (int from = 0; from < w->ranks->nranks; from++)
        check_came(w, (size_t)from * bytes, bytes, round, from, w->rank);
    ranks_barrier(w->ranks);
}

/* Nothing is put where NVLink joins no GPUs. */
static void run_puts(struct ranks *ranks, int rank) {
    const struct windowed w = windowed_begin(ranks, rank);
    struct gpu_window_place place;
    const bool reached = gpu_window_find(w.comm->chan, w.in, 1, &place) && gpu_window_is_symmetric(place.window);
    for (int round = 0; round < 12 && reached; round++)
        put_windowed(&w, round);
    windowed_end(&w);
}

/* A transfer's pieces have odd lengths, and lie in the opposite order in the peer's half for results. The last piece is long. */
#define PIECES 500
#define SCATTERED_BYTES (WINDOW_BYTES / 4)
static size_t length_of(size_t k, size_t at) { return k + 1 < PIECES ? 1 + k * 37 % 200 : SCATTERED_BYTES - at; }

static struct collet_transfer *prepare_windowed(const struct windowed *w, enum collet_transfer_kind kind) {
    struct collet_local_piece local[PIECES];
    struct collet_remote_piece remote[PIECES];
    struct collet_transfer *transfer;
    for (size_t k = 0, at = 0; k < PIECES; at += local[k].bytes, k++) {
        const size_t bytes = length_of(k, at), half = WINDOW_BYTES / 2;
        local[k] = (struct collet_local_piece){w->in + at, bytes};
        remote[k] = (struct collet_remote_piece){w->window, half + SCATTERED_BYTES - at - bytes, bytes};
    }
    must(collet_transfer_prepare(kind, local, remote, PIECES, 1 - w->rank, w->comm, &transfer),
         "collet_transfer_prepare");
    return transfer;
}

static void check_scattered(const struct windowed *w, int round) {
    static unsigned char text[SCATTERED_BYTES];
    side->copy(text, w->out, SCATTERED_BYTES);
    for (size_t k = 0, at = 0; k < PIECES; at += length_of(k, at), k++)
        for (size_t i = 0, bytes = length_of(k, at); i < bytes; i++)
            if (text[SCATTERED_BYTES - at - bytes + i] != sent_byte(round, 1 - w->rank, w->rank, at + i)) {
                ranks_fail(w->ranks, "round %d: byte %zu of piece %zu is wrong", round, i, k);
                return;
            }
}

/* Each rank scatters bytes in the other's window, and gathers them from there. */
static void transfer_windowed(const struct windowed *w, struct collet_transfer *put, struct collet_transfer *get,
                              int round) {
    static unsigned char text[SCATTERED_BYTES];
    char note[COLLET_NOTE_BYTES];
    size_t note_bytes;
    put_sent(w, 0, SCATTERED_BYTES, round, 1 - w->rank);
    ranks_barrier(w->ranks);
    ranks_try(w->ranks, w->rank, collet_transfer_post(put, "blocks", 6, w->stream));
    ranks_try(w->ranks, w->rank, collet_note_wait(1 - w->rank, note, &note_bytes, w->comm));
    check_scattered(w, round);
    ranks_try(w->ranks, w->rank, collet_transfer_wait(put));
    put_sent(w, 0, SCATTERED_BYTES, round + 1, w->rank);
    ranks_try(w->ranks, w->rank, collet_transfer_post(get, NULL, 0, w->stream));
    ranks_try(w->ranks, w->rank, collet_transfer_wait(get));
    side->copy(text, w->in, SCATTERED_BYTES);
    for (size_t k = 0; k < SCATTERED_BYTES; k++)
        if (text[k] != sent_byte(round, w->rank, 1 - w->rank, k)) {
            ranks_fail(w->ranks, "round %d: byte %zu came back wrong", round, k);
            break;
        }
    ranks_barrier(w->ranks);
}

static void run_transfers(struct ranks *ranks, int rank) {
    const struct windowed w = windowed_begin(ranks, rank);
    struct gpu_window_place place;
    if (gpu_window_find(w.comm->chan, w.in, 1, &place) && gpu_window_is_symmetric(place.window)) {
        struct collet_transfer *put = prepare_windowed(&w, COLLET_TRANSFER_PUT);
        struct collet_transfer *get = prepare_windowed(&w, COLLET_TRANSFER_GET);
        for (int round = 0; round < 12; round += 2)
            transfer_windowed(&w, put, get, round);
        must(collet_transfer_release(put), "collet_transfer_release");
        must(collet_transfer_release(get), "collet_transfer_release");
    }
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

void part_windows(void) {
    static const struct {
        const char *name, *cumem, *policy, *algorithm;
        void (*run)(struct ranks *ranks, int rank);
    } ways[] = {{"windows, handles", "0", "default", "", run_windows},
                {"windows, descriptors", "1", "default", "", run_windows},
                {"copy engines, handles", "0", "zero", "", run_windows},
                {"copy engines, descriptors", "1", "zero", "", run_windows},
                {"puts and signals", "0", "default", "", run_puts},
                {"transfers", "0", "default", "", run_transfers},
                {"sums by switches", "1", "default", "nvls", run_sums}};
    const int nways = sizeof ways / sizeof *ways;
    report_expect(nways);
    for (int k = 0; k < nways; k++) {
        struct ranks_job job = {.processes = 2, .limit_s = slow ? 250 : 25, .run = ways[k].run};
        char why[RANKS_TEXT_BYTES] = "";
        setenv("COLLET_CUMEM_ENABLE", ways[k].cumem, 1);
        setenv("COLLET_CTA_POLICY", ways[k].policy, 1);
        setenv("COLLET_ALGO", ways[k].algorithm, 1);
        report_doing("%s", ways[k].name);
        judge(ranks_run(&job, why), ways[k].name, why);
    }
    unsetenv("COLLET_CUMEM_ENABLE");
    unsetenv("COLLET_CTA_POLICY");
    unsetenv("COLLET_ALGO");
}
