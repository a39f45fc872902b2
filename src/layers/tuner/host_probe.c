/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread on each CPU. CPU k passes data on to CPU k + n/2, modulo n: its right one. So each CPU also has a left one, which passes data on
 * to it. All threads do the same at once:
 *
 *   line     stores a line for the right one ─────────────▶ waits for the left one's
 *   slots    fills a slot ─▶ tail                   the left one's tail ─▶ empties its slot ─▶ head, which frees the slot
 *   lent     stores a payload in its memory ─▶ tail     the left one's tail ─▶ copies that payload ─▶ head
 *   kernel   the same, copied by process_vm_readv()
 *   own      copies a payload in its own memory
 *   memory   copies what is in no cache
 *
 * There are so many slots that a slot was emptied some time before it is filled again, as in a FIFO. Why are slots also written past the
 * caches? A line that another CPU has read comes slowly from that CPU, on some machines several times as slowly as one from memory.
 * The kernel copies from the memory of this process itself. For another process the kernel would do the same work, but here all threads
 * ask for one process's pages, as the readers of a broadcast do.
 */
#include "layers/tuner/host_probe.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "base/os.h"
#include "layers/tuner/on_cpus.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 8
#define SLOTS_PER_SAMPLE 4
/* Samples per measurement. The first one finds memory that was not used yet, and does not count. */
#define SAMPLES 5
#define LINES_PER_SAMPLE 8 /* Lines per sample: several, because reading a clock takes as long as a line. */
#define MEMORY_BYTES (1u << 20)
#define LONGEST_NS 2e7 /* Maximum time of the whole probe, because another program may have the CPUs. */
/* While nothing comes, a thread polls this number of times between two looks at the clock and at whether the probe is over. */
#define POLLS_PER_LOOK 1024
#define SEAT_BYTES (2 * (size_t)MEMORY_BYTES)

/* Memory that a thread shares with its neighbours. Each number has two cache lines of its own, because a CPU may fetch the next line
 * with each line. Each store pairs with a neighbour's load. */
struct probe_thread {
    _Alignas(128) int line;     /* Number of the last line that the left thread has stored. */
    _Alignas(128) int tail;     /* Number of payloads that this thread has passed to the right thread. */
    _Alignas(128) int head;     /* Number of payloads of the left thread that this thread has copied. */
    _Alignas(128) char *memory; /* [SEAT_BYTES]: the payload, the place where payloads go to, and the slots. */
    double sample_ns[SAMPLES];
    int sent; /* Number of payloads so far. */
    int lines;
    struct host_times times;
};

struct host_probe {
    struct probe_thread *seats;
    int n;
    bool fully;
    host_probe_copy *past_caches;
    double until_ns;
    _Alignas(128) int ready; /* Number of threads that have come to a barrier, counted on over all barriers. */
    _Alignas(128) int over;
};

static void give_up(void *argument) { __atomic_store_n(&((struct host_probe *)argument)->over, 1, __ATOMIC_RELEASE); }

/* ---- waiting ---- */

static bool is_over(struct host_probe *probe) {
    if (on_cpus_now_ns() > probe->until_ns)
        give_up(probe);
    return __atomic_load_n(&probe->over, __ATOMIC_ACQUIRE) != 0;
}

/* Waits until the number is at least `least`. False: the probe is over. */
static bool await(struct host_probe *probe, const int *number, int least) {
    for (int polls = 1; __atomic_load_n(number, __ATOMIC_ACQUIRE) < least; polls++)
        if (polls % POLLS_PER_LOOK == 0 && is_over(probe))
            return false;
    return true;
}

static bool await_all(struct host_probe *probe) {
    const int arrived = __atomic_add_fetch(&probe->ready, 1, __ATOMIC_ACQ_REL);
    return await(probe, &probe->ready, (arrived + probe->n - 1) / probe->n * probe->n);
}

/* ---- one thread ---- */

struct probe_run {
    struct host_probe *probe;
    struct probe_thread *self, *left, *right;
    uint32_t bytes; /* Bytes of a payload. */
    host_probe_copy *fill;
};

static char *payload_of(const struct probe_thread *seat) { return seat->memory; }
static char *place_of(const struct probe_thread *seat) { return seat->memory + HOST_PROBE_LONG; }
static char *slot_of(const struct probe_thread *seat, int number) {
    return seat->memory + (2 + (size_t)(number % SLOTS)) * HOST_PROBE_LONG;
}

/* Takes a sample and returns its time in ns. Below 0: the probe is over. */
typedef double sample_fn(struct probe_run *bench);

static double sample_line(struct probe_run *bench) {
    const double from_ns = on_cpus_now_ns();
    for (int k = 0; k < LINES_PER_SAMPLE; k++) {
        __atomic_store_n(&bench->right->line, ++bench->self->lines, __ATOMIC_RELEASE);
        if (!await(bench->probe, &bench->self->line, bench->self->lines))
            return -1;
    }
    return (on_cpus_now_ns() - from_ns) / LINES_PER_SAMPLE;
}

static double sample_slots(struct probe_run *bench) {
    struct probe_thread *self = bench->self;
    const double from_ns = on_cpus_now_ns();
    for (int k = 0; k < SLOTS_PER_SAMPLE; k++, self->sent++) {
        if (!await(bench->probe, &bench->right->head, self->sent - SLOTS + 1))
            return -1;
        bench->fill(slot_of(self, self->sent), payload_of(self), bench->bytes);
        __atomic_store_n(&self->tail, self->sent + 1, __ATOMIC_RELEASE);
        if (!await(bench->probe, &bench->left->tail, self->sent + 1))
            return -1;
        memcpy(place_of(self), slot_of(bench->left, self->sent), bench->bytes);
        __atomic_store_n(&self->head, self->sent + 1, __ATOMIC_RELEASE);
    }
    return (on_cpus_now_ns() - from_ns) / SLOTS_PER_SAMPLE;
}

/* Takes a sample of a copy. Only the copy itself is timed. */
static double sample_copy(struct probe_run *bench, bool by_kernel) {
    struct probe_thread *self = bench->self;
    if (!await(bench->probe, &bench->right->head, self->sent))
        return -1;
    memset(payload_of(self), self->sent, bench->bytes);
    __atomic_store_n(&self->tail, ++self->sent, __ATOMIC_RELEASE);
    if (!await(bench->probe, &bench->left->tail, self->sent))
        return -1;
    const double from_ns = on_cpus_now_ns();
    if (!by_kernel)
        memcpy(place_of(self), payload_of(bench->left), bench->bytes);
    else if (!os_process_read(os_pid(), place_of(self), (uintptr_t)payload_of(bench->left), bench->bytes))
        self->times.refused = errno;
    const double ns = on_cpus_now_ns() - from_ns;
    __atomic_store_n(&self->head, self->sent, __ATOMIC_RELEASE);
    return ns;
}

static double sample_lent(struct probe_run *bench) { return sample_copy(bench, false); }
static double sample_kernel(struct probe_run *bench) { return sample_copy(bench, true); }

static double sample_own(struct probe_run *bench) {
    const double from_ns = on_cpus_now_ns();
    memcpy(place_of(bench->self), payload_of(bench->self), bench->bytes);
    return on_cpus_now_ns() - from_ns;
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Finds the median of all samples but the first one. False: the probe is over. */
static bool measure(struct probe_run *bench, uint32_t bytes, sample_fn *sample, double *median_ns) {
    double *ns = bench->self->sample_ns;
    bench->bytes = bytes;
    for (int k = 0; k < SAMPLES; k++)
        if ((ns[k] = sample(bench)) < 0)
            return false;
    qsort(ns + 1, SAMPLES - 1, sizeof *ns, by_time);
    *median_ns = ns[SAMPLES / 2];
    return await_all(bench->probe);
}

/* Measures a long payload, and a short one too if everything is measured. */
static bool measure_sizes(struct probe_run *bench, sample_fn *sample, double ns[PROBE_SIZES]) {
    return (!bench->probe->fully || measure(bench, HOST_PROBE_SHORT, sample, &ns[PROBE_SHORT])) &&
           measure(bench, HOST_PROBE_LONG, sample, &ns[PROBE_LONG]);
}

static bool measure_slots(struct probe_run *bench, host_probe_copy *fill, double ns[PROBE_SIZES]) {
    bench->fill = fill;
    return measure_sizes(bench, sample_slots, ns);
}

/* Measures a copy of memory that is in no cache. The bytes that were used last are copied last. So the first bytes have left the caches
 * by then, if the caches hold less than SEAT_BYTES. */
static bool measure_memory(struct probe_run *bench) {
    char *from = bench->self->memory, *to = from + MEMORY_BYTES;
    memset(from, 1, SEAT_BYTES);
    if (!await_all(bench->probe))
        return false;
    const double from_ns = on_cpus_now_ns();
    memcpy(to, from, MEMORY_BYTES);
    const double ns = on_cpus_now_ns() - from_ns;
    /* The factor is 3: a copy reads a byte, and a store reads it before it writes. */
    bench->self->times.memory_gbps = 3.0 * MEMORY_BYTES * bench->probe->n / ns;
    return await_all(bench->probe);
}

static void take_part(void *argument, int k) {
    struct host_probe *probe = (struct host_probe *)argument;
    const int n = probe->n;
    struct probe_thread *self = &probe->seats[k];
    struct probe_run bench = {.probe = probe,
                              .self = self,
                              .left = &probe->seats[(k + n - n / 2) % n],
                              .right = &probe->seats[(k + n / 2) % n]};
    struct host_times *times = &self->times;
    memset(payload_of(self), k, HOST_PROBE_LONG);
    const bool compared = await_all(probe) && measure_slots(&bench, memcpy, times->slots) &&
                          measure_slots(&bench, probe->past_caches, times->past) &&
                          measure_sizes(&bench, sample_kernel, times->kernel);
    const bool done = compared && (!probe->fully || (measure(&bench, 0, sample_line, &times->line) &&
                                                     measure(&bench, HOST_PROBE_LONG, sample_lent, &times->lent) &&
                                                     measure(&bench, HOST_PROBE_LONG, sample_own, &times->own) &&
                                                     measure_memory(&bench)));
    if (!done)
        give_up(probe);
}

/* ---- all of them ---- */

static void raise(double *most, double ns) { *most = ns > *most ? ns : *most; }

static void agree(const struct host_probe *probe, struct host_times *times) {
    for (int k = 0; k < probe->n; k++) {
        const struct host_times *one = &probe->seats[k].times;
        raise(&times->line, one->line);
        for (int size = 0; size < PROBE_SIZES; size++) {
            raise(&times->slots[size], one->slots[size]);
            raise(&times->past[size], one->past[size]);
            raise(&times->kernel[size], one->kernel[size]);
        }
        raise(&times->lent, one->lent);
        raise(&times->own, one->own);
        if (k == 0 || one->memory_gbps < times->memory_gbps)
            times->memory_gbps = one->memory_gbps;
        times->refused = one->refused != 0 ? one->refused : times->refused;
    }
    if (times->refused != 0)
        memset(times->kernel, 0, sizeof times->kernel);
}

bool host_probe(const int *cpus, int n, host_probe_copy *past_caches, bool fully, struct host_times *times) {
    SCOPED_FREE char *room = malloc((size_t)n * SEAT_BYTES);
    SCOPED_FREE struct probe_thread *seats = aligned_alloc(_Alignof(struct probe_thread), (size_t)n * sizeof *seats);
    *times = (struct host_times){.refused = 0};
    if (room == NULL || seats == NULL)
        return false;
    memset(seats, 0, (size_t)n * sizeof *seats);
    for (int k = 0; k < n; k++)
        seats[k].memory = room + (size_t)k * SEAT_BYTES;
    struct host_probe probe = {
        .seats = seats, .n = n, .fully = fully, .past_caches = past_caches, .until_ns = on_cpus_now_ns() + LONGEST_NS};
    if (!on_cpus_run(cpus, n, LONGEST_NS + ON_CPUS_BUSY_NS, take_part, give_up, &probe) || probe.over)
        return false;
    agree(&probe, times);
    return true;
}
