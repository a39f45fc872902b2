/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads on two CPUs; each payload is passed through slots that are written through the caches, then through slots that are
 * written past them, and then by the kernel:
 *
 *   sender     fills slots 0 … 3, one after the other ──▶ tail                              tail ──▶ …
 *   receiver                           empties each ──▶ its memory, head      process_vm_readv() ──▶ its memory, head
 *   sample     │◀──────────── until the sender sees head ─────────────▶│     │◀──────────── likewise ────────────▶│
 *
 * Why both kinds of slots? A line that the receiver's CPU has read comes slowly from there, on some machines several times as slowly
 * as one from memory. Slots avoid such lines (fifo/fifo_place.h).
 * A process reads its own memory here. The kernel does the same work for that of another process.
 */
#include "layers/tuner/copy_probe.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "base/os.h"
#include "layers/tuner/two_cpus.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4u
#define SLOT_BYTES (COPY_PROBE_BYTES / SLOTS)
#define SAMPLES 7           /* of each way */
#define LONGEST_NS 3e6      /* maximum time of a sample: another program may have the CPU */
#define POLLS_PER_LOOK 1024 /* while nothing comes: polls until it looks at the clock, and whether the probe is over */

enum way { THROUGH_CACHES, PAST_CACHES, BY_KERNEL, WAYS }; /* the way of payload k is k modulo WAYS */
#define PAYLOADS (WAYS * (1 + SAMPLES))

struct relay {
    /* Each number has two cache lines of its own, because a CPU may fetch a line's neighbour too. Each thread's store pairs with the other's
 * load. */
    _Alignas(128) int tail; /* slots that were filled */
    _Alignas(128) int head; /* payloads that have arrived */
    _Alignas(128) int over;
    char *from, *slots, *to;
    copy_probe_fn *fill[BY_KERNEL];
    double took_ns[WAYS][SAMPLES];
    bool done;
    int refused; /* as in struct copy_times; set by the receiver */
};

static void give_up(void *argument) { __atomic_store_n(&((struct relay *)argument)->over, 1, __ATOMIC_RELEASE); }

/* ---- sender ---- */

static bool await_head(const struct relay *relay, int head, double until_ns) {
    for (int polls = 1; __atomic_load_n(&relay->head, __ATOMIC_ACQUIRE) != head; polls++)
        if (polls % POLLS_PER_LOOK == 0 &&
            (__atomic_load_n(&relay->over, __ATOMIC_ACQUIRE) || two_cpus_now_ns() > until_ns))
            return false;
    return true;
}

/* The memory of the payload with that number. */
static bool send_one(struct relay *relay, int payload, double *took_ns) {
    const double from_ns = two_cpus_now_ns();
    for (unsigned k = 0; k < SLOTS; k++) {
        if (payload % WAYS != BY_KERNEL)
            relay->fill[payload % WAYS](relay->slots + k * SLOT_BYTES, relay->from + k * SLOT_BYTES, SLOT_BYTES);
        __atomic_store_n(&relay->tail, payload * (int)SLOTS + (int)k + 1, __ATOMIC_RELEASE);
    }
    bool arrived = await_head(relay, payload + 1, from_ns + LONGEST_NS + TWO_CPUS_BIRTH_NS);
    *took_ns = two_cpus_now_ns() - from_ns;
    return arrived;
}

/* The first payload of each way waits for the other thread to be born, and for its memory, and is no sample. */
static void *send_all(void *argument) {
    struct relay *relay = (struct relay *)argument;
    double no_sample_ns;
    memset(relay->from, 1, COPY_PROBE_BYTES);
    relay->done = true;
    for (int payload = 0; payload < PAYLOADS && relay->done; payload++)
        relay->done = send_one(relay, payload,
                               payload < WAYS ? &no_sample_ns : &relay->took_ns[payload % WAYS][payload / WAYS - 1]);
    give_up(relay);
    return NULL;
}

/* ---- receiver ---- */

static bool await_tail(const struct relay *relay, int tail) {
    for (int polls = 1; __atomic_load_n(&relay->tail, __ATOMIC_ACQUIRE) < tail; polls++)
        if (polls % POLLS_PER_LOOK == 0 && __atomic_load_n(&relay->over, __ATOMIC_ACQUIRE))
            return false;
    return true;
}

static bool read_by_kernel(struct relay *relay) {
    bool read = os_process_read(os_pid(), relay->to, (uintptr_t)relay->from, COPY_PROBE_BYTES);
    relay->refused = read ? 0 : errno;
    return read;
}

static bool receive_one(struct relay *relay, int payload) {
    const int first = payload * (int)SLOTS;
    if (payload % WAYS == BY_KERNEL)
        return await_tail(relay, first + (int)SLOTS) && read_by_kernel(relay);
    for (unsigned k = 0; k < SLOTS; k++) {
        if (!await_tail(relay, first + (int)k + 1))
            return false;
        memcpy(relay->to + k * SLOT_BYTES, relay->slots + k * SLOT_BYTES, SLOT_BYTES);
    }
    return true;
}

static void *receive_all(void *argument) {
    struct relay *relay = (struct relay *)argument;
    memset(relay->to, 2, COPY_PROBE_BYTES);
    for (int payload = 0; payload < PAYLOADS; payload++) {
        if (!receive_one(relay, payload))
            break;
        __atomic_store_n(&relay->head, payload + 1, __ATOMIC_RELEASE);
    }
    if (relay->head < PAYLOADS)
        give_up(relay);
    return NULL;
}

/* ---- both ---- */

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples) {
    qsort(samples, SAMPLES, sizeof(samples[0]), by_time);
    return samples[SAMPLES / 2];
}

bool copy_probe(int cpu_a, int cpu_b, copy_probe_fn *past_caches, struct copy_times *times) {
    SCOPED_FREE char *memory = malloc((size_t)3 * COPY_PROBE_BYTES);
    *times = (struct copy_times){.refused = 0};
    if (memory == NULL)
        return false;
    struct relay relay = {.from = memory,
                          .slots = memory + COPY_PROBE_BYTES,
                          .to = memory + 2 * COPY_PROBE_BYTES,
                          .fill = {[THROUGH_CACHES] = memcpy, [PAST_CACHES] = past_caches}};
    const bool ran = two_cpus_run(cpu_a, send_all, cpu_b, receive_all, give_up, &relay);
    times->refused = relay.refused;
    if (!ran || !relay.done)
        return false;
    const double through_ns = median(relay.took_ns[THROUGH_CACHES]), past_ns = median(relay.took_ns[PAST_CACHES]);
    times->slots_ns = through_ns < past_ns ? through_ns : past_ns;
    times->kernel_ns = median(relay.took_ns[BY_KERNEL]);
    return true;
}
