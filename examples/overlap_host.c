/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduces gradients while the backward pass runs, on host memory. A backward pass computes the gradients of the last layer first.
 * Here the gradients of a layer are a bucket. A full bucket is reduced on a stream: collet does this while the next layer is
 * computed.
 *
 *    blocking     layer 7 ──▶ allreduce ──▶ layer 6 ──▶ allreduce ──▶ …
 *
 *    on a stream  layer 7 ──▶ layer 6 ──▶ layer 5 ──▶ …  ──▶ wait      this thread
 *                        └─▶ allreduce ──▶ allreduce ──▶ …             collet, in between
 *
 * How much time does this save? Much on a network: an allreduce mostly waits for other hosts, and waiting needs no CPU. If all ranks
 * are on one host, an allreduce itself needs a CPU, which is not free if all CPUs compute. So this program measures two cases: in
 * the first, one thread of each rank computes; in the second, every CPU computes. The computation takes one and a half times as long
 * as the communication.
 *
 *   overlap_host --procs 2
 *   make bench-overlap        runs this program, also over a link with a latency of 10 ms
 */
#include "common/job.h"

#include <pthread.h>
#include <time.h>

enum { LAYERS = 8, FLOATS = 262144, STEPS_MIN = 5, STEPS_MAX = 200, THREADS_MAX = 256 };

#define ENOUGH_SECONDS 1.0

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* --------------------------------------------------------------------------------------------------------- computation */

/* A part of a layer's gradients, and how many times each gradient is computed. */
struct part {
    float *floats, first;
    int count, repetitions;
    pthread_t thread;
};

/* Stands for a part of the backward pass. Its result does not depend on how many threads share the layer. */
static void *part_compute(void *part_) {
    struct part *part = part_;
    for (int i = 0; i < part->count; i++)
        part->floats[i] = part->first;
    for (int k = 0; k < part->repetitions; k++)
        for (int i = 0; i < part->count; i++)
            part->floats[i] = part->floats[i] * 0.999f + 0.001f * part->first;
    return NULL;
}

static void layer_compute(float *gradients, float first, int threads, int repetitions) {
    struct part parts[THREADS_MAX];
    for (int t = 0; t < threads; t++) {
        int begin = FLOATS * t / threads, end = FLOATS * (t + 1) / threads;
        parts[t] = (struct part){
            .floats = gradients + begin, .first = first, .count = end - begin, .repetitions = repetitions};
    }
    for (int t = 1; t < threads; t++)
        if (pthread_create(&parts[t].thread, NULL, part_compute, &parts[t]) != 0)
            exit(1);
    part_compute(&parts[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(parts[t].thread, NULL);
}

/* -------------------------------------------------------------------------------------------------------------- a step */

enum what { COMPUTE, COMMUNICATE, BLOCKING, OVERLAPPED, KINDS };

static float gradients[LAYERS][FLOATS];

/* Returns the seconds of a backward pass. Computation or communication may be left out. */
static double step(struct job *job, enum what what, struct collet_stream *stream, int threads, int repetitions) {
    CHECK(collet_barrier(job->comm, NULL));
    double start = now();
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        if (what != COMMUNICATE)
            layer_compute(gradients[layer], (float)(job->rank + layer), threads, repetitions);
        if (what == COMPUTE)
            continue;
        CHECK(collet_allreduce(gradients[layer], gradients[layer], FLOATS, COLLET_FLOAT32, COLLET_SUM, job->comm,
                               what == OVERLAPPED ? stream : NULL));
        job_count(job, ALLREDUCE, sizeof gradients[layer]);
    }
    CHECK(collet_stream_synchronize(stream)); /* The optimizer would begin here */
    return now() - start;
}

/* Returns the seconds that the slowest rank needs for a step. */
static double slowest(struct job *job, enum what what, struct collet_stream *stream, int threads, int repetitions) {
    double seconds = step(job, what, stream, threads, repetitions);
    CHECK(collet_allreduce(&seconds, &seconds, 1, COLLET_FLOAT64, COLLET_MAX, job->comm, NULL));
    return seconds;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 2];
}

/* How many times must each gradient be computed so that computing takes one and a half times as long as the communication? */
static int repetitions_for(struct job *job, struct collet_stream *stream, int threads) {
    enum { ONCE = 100, TRIES = 5 };
    double computing[TRIES], communicating[TRIES];
    for (int k = 0; k < TRIES; k++) {
        computing[k] = slowest(job, COMPUTE, stream, threads, ONCE);
        communicating[k] = slowest(job, COMMUNICATE, stream, threads, 0);
    }
    return 1 + (int)(ONCE * 1.5 * median(communicating, TRIES) / median(computing, TRIES));
}

/* A machine is slow for some seconds, and a link is slow at first. So the kinds of steps take turns, and their medians count. */
static void compare(struct job *job, const char *who, struct collet_stream *stream, int threads) {
    static double seconds[KINDS][STEPS_MAX];
    int repetitions = repetitions_for(job, stream, threads), steps = 0;
    for (double all = 0; steps < STEPS_MAX && (steps < STEPS_MIN || all < ENOUGH_SECONDS); steps++)
        for (int kind = 0; kind < KINDS; kind++)
            all += seconds[kind][steps] = slowest(job, (enum what)kind, stream, threads, repetitions);
    double of[KINDS];
    for (int kind = 0; kind < KINDS; kind++)
        of[kind] = median(seconds[kind], steps);
    if (job->rank == 0)
        printf("%-22s %9.1f %9.1f %9.1f %9.1f ms   %3.0f %% of the communication hidden\n", who, 1e3 * of[COMPUTE],
               1e3 * of[COMMUNICATE], 1e3 * of[BLOCKING], 1e3 * of[OVERLAPPED],
               100 * (of[BLOCKING] - of[OVERLAPPED]) / of[COMMUNICATE]);
}

/* ---------------------------------------------------------------------------------------------------------------- main */

/* The largest difference between the sums of calls on the stream and of blocking calls. */
static double difference(struct job *job, struct collet_stream *stream) {
    static float blocking[LAYERS][FLOATS];
    double largest = 0;
    step(job, BLOCKING, stream, 1, 10);
    memcpy(blocking, gradients, sizeof gradients);
    step(job, OVERLAPPED, stream, 1, 10);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < FLOATS; i++) {
            double d = (double)(gradients[layer][i] - blocking[layer][i]);
            largest = d > largest ? d : -d > largest ? -d : largest;
        }
    return largest;
}

static int report(struct job *job, double largest) {
    CHECK(collet_allreduce(&largest, &largest, 1, COLLET_FLOAT64, COLLET_MAX, job->comm, NULL));
    if (job->rank == 0)
        printf("check: the sums are %s those of blocking calls\n", largest == 0 ? "bit for bit" : "NOT");
    job_print_table(job);
    return largest == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    struct job job = job_start(argc, argv);
    struct collet_stream *stream;
    CHECK(collet_stream_create(&stream));
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN) / job.nranks;
    int every = cpus < 1 ? 1 : cpus > THREADS_MAX ? THREADS_MAX : cpus;
    if (job.rank == 0)
        printf("%-22s %9s %9s %9s %9s\n", "", "compute", "communic.", "blocking", "on stream");
    compare(&job, "one thread computes", stream, 1);
    compare(&job, "every CPU computes", stream, every);
    int status = report(&job, difference(&job, stream));
    CHECK(collet_stream_destroy(stream));
    CHECK(collet_comm_destroy(job.comm));
    return status;
}
