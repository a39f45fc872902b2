/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients while the backward pass goes on, on host memory. A backward pass makes the gradients of the last layer first.
 * Each layer's are a bucket here, and a bucket that is full goes on a stream: collet carries it while the next layer is
 * being computed.
 *
 *    blocking     layer 7 ──▶ allreduce ──▶ layer 6 ──▶ allreduce ──▶ …
 *
 *    on a stream  layer 7 ──▶ layer 6 ──▶ layer 5 ──▶ …  ──▶ wait      this thread
 *                        └─▶ allreduce ──▶ allreduce ──▶ …             collet, in between
 *
 * What does that save? On a network, much: an allreduce mostly waits for the other hosts, and waiting takes no CPU. Where
 * memory is all that is between the ranks, an allreduce is itself work of a CPU, which nothing can hide if all CPUs compute.
 * So this program measures two cases: one thread of each rank computes, and every CPU does. The computation is made as long
 * as the communication takes, and a half more.
 *
 *   overlap_host --procs 2
 *   make bench-overlap        the same, and over a link that takes 10 ms
 */
#include "common/job.h"

#include <pthread.h>
#include <time.h>

enum { LAYERS = 8, FLOATS = 262144, STEPS = 20, THREADS_MAX = 256 };

#define ENOUGH_SECONDS 0.5

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* --------------------------------------------------------------------------------------------------------- computation */

/* A part of a layer's gradients, and how often each is worked on. */
struct part {
    float *floats, first;
    int count, repetitions;
    pthread_t thread;
};

/* Stands for a part of the backward pass. The result does not depend on how many threads share the layer. */
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

enum what { COMPUTE, COMMUNICATE, BLOCKING, OVERLAPPED };

static float gradients[LAYERS][FLOATS];

/* The seconds of a backward pass, of which parts may be left out. */
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
    CHECK(collet_stream_synchronize(stream)); /* the optimizer would begin here */
    return now() - start;
}

/* The best of some, of the slowest rank. Of slow steps a few do. */
static double best(struct job *job, enum what what, struct collet_stream *stream, int threads, int repetitions) {
    double least = 1e9, all = 0;
    for (int k = 0; k < STEPS && all < ENOUGH_SECONDS; k++) {
        double seconds = step(job, what, stream, threads, repetitions);
        CHECK(collet_allreduce(&seconds, &seconds, 1, COLLET_FLOAT64, COLLET_MAX, job->comm, NULL));
        least = seconds < least ? seconds : least;
        all += seconds;
    }
    return least;
}

/* So many that the layers take `seconds`, on the slowest rank. */
static int repetitions_for(struct job *job, double seconds, struct collet_stream *stream, int threads) {
    int repetitions = 100;
    double once = best(job, COMPUTE, stream, threads, repetitions);
    return 1 + (int)(repetitions * seconds / once);
}

static void compare(struct job *job, const char *who, struct collet_stream *stream, int threads) {
    double communication = best(job, COMMUNICATE, stream, threads, 0);
    int repetitions = repetitions_for(job, 1.5 * communication, stream, threads);
    double computation = best(job, COMPUTE, stream, threads, repetitions);
    double blocking = best(job, BLOCKING, stream, threads, repetitions);
    double overlapped = best(job, OVERLAPPED, stream, threads, repetitions);
    if (job->rank == 0)
        printf("%-22s %9.1f %9.1f %9.1f %9.1f ms   %3.0f %% of the communication hidden\n", who, 1e3 * computation,
               1e3 * communication, 1e3 * blocking, 1e3 * overlapped, 100 * (blocking - overlapped) / communication);
}

/* ---------------------------------------------------------------------------------------------------------------- main */

/* How far the sums on the stream are from those of blocking calls. */
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
