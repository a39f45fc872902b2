/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of floats, over and over, to be checked by kernels and measured. A thread drives all ranks of a communicator, in a group, or
 * one of them.
 */
#ifndef COLLET_TESTS_ACCEPT_SUMS_H
#define COLLET_TESTS_ACCEPT_SUMS_H

#include "gpu/accept.h"

struct sums {
    int nranks;       /* of the communicator */
    int first, count; /* the ranks of this thread */
    struct collet_comm *comms[RANKS_MOST];
    void *streams[RANKS_MOST];
    float *in[RANKS_MOST], *out[RANKS_MOST];
    int gpus[RANKS_MOST];
    int *wrong; /* in memory that host and GPU see: two words of each rank */
};

/* Before the first communicator of the process: buffers of so many bytes, and kernels. Rank k of all is on GPU k·ngpus/nranks. */
void sums_prepare(struct sums *s, int nranks, int first, int count, size_t bytes);
void sums_finish(struct sums *s); /* the communicators are destroyed already */

enum collet_result sums_call(const struct sums *s, size_t elems);
enum collet_result sums_call_in(const struct sums *s, size_t elems, void *stream); /* of all, on one GPU */
void sums_wait(const struct sums *s);

void sums_fill(const struct sums *s, size_t elems);
bool sums_are_right(const struct sums *s, size_t elems, char why[TRIAL_WHY_BYTES]); /* waits */

/* What the library says of such a call: its choice, without the prediction, which it returns; 0: there is none. */
double sums_plan(const struct sums *s, size_t elems, char plan[160]);

/* Microseconds of what enqueue() puts into the stream, in a graph of several and replayed: time on the GPU, whatever the host does. */
double time_in_graph(void *stream, void (*enqueue)(void *argument), void *argument, int calls, int replays);

#endif
