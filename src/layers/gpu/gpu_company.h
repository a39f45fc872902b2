/* SPDX-License-Identifier: Apache-2.0
 *
 * A company: the ranks of one process and communicator that share a GPU. Their threads launch one by one, or together.
 *
 *    thread of rank 0    comes ─ waits ───────────────────▶ goes on        stream 0   ──┐        ┌─▶
 *    thread of rank 1    comes ─ waits ───────────────────▶ goes on        stream 1   ──┤  grid  ├─▶
 *    thread of rank 2              comes last ─ launches ─▶ goes on        stream 2   ──┴────────┴─▶
 *
 * Why not a launch by each thread? A GPU has few queues, and the streams of a process share them. In a queue, work waits for all
 * work before it, even if that belongs to another stream:
 *
 *    a queue    rank 0's kernel   (runs, and waits for rank 3)
 *               the next work of rank 0's stream   (waits for that kernel)
 *               rank 3's kernel   (waits behind it, without end)
 *
 * Also, a thread may wait for the whole GPU before its call. Then it waits for a kernel that waits for this very call. One grid that holds
 * the calls of all ranks waits for none of them. So these ranks cannot block each other, whatever else is in the program's streams.
 *
 * A collective waits for all ranks of the company: gpu_party.c. A message waits for its other end: gpu_messages.c.
 */
#ifndef COLLET_LAYERS_GPU_GPU_COMPANY_H
#define COLLET_LAYERS_GPU_GPU_COMPANY_H

#include "layers/gpu/gpu_launch.h"

#include <pthread.h>

/* ---- what others call ---- */

/* Adds the rank to the ranks of this process and communicator that share its GPU, until gpu_company_leave(). */
enum collet_result gpu_company_join(const struct chan *chan);
void gpu_company_leave(const struct chan *chan);

/* Like gpu_launch_set(), for the ranks of this thread. Waits until all other ranks of the company make this call, or one of them launches
 * the call alone. TIMEOUT names the ranks that did not make the call. */
enum collet_result gpu_company_launch(struct gpu_entry *set, int n);

/* Like gpu_waves_launch(), for the messages of this thread. Waits for the other ends of these messages, if they are in the company. */
enum collet_result gpu_company_exchange(struct gpu_entry *messages, int n);

/* ---- for gpu_party.c and gpu_messages.c: who is there ---- */

struct party; /* gpu_party.h */

/* Notes, for one pair of ranks and one direction, the newest message of which one end was launched without the other end. */
struct lone {
    struct lone *next;
    int peer;
    enum prog_collective kind;
    uint64_t sequence;
};

struct company_member {
    struct company_member *next;
    const struct chan *chan;
    uint64_t caller; /* number of the thread that made the rank's newest call (gpu_company_thread()); 0: no call yet */
    struct party *messages; /* messages of this rank that wait for their other ends; NULL: none */
    struct lone *lones;     /* messages with an end at this rank */
};

/* The lock guards it. */
struct company {
    struct company *next;
    const void *peers; /* the communicator's table */
    int ordinal, nmembers;
    struct company_member *members;
    struct party *parties; /* calls of threads that have come with a collective, and wait for the other ranks */
    uint64_t alone;        /* atomic: number of the newest collective that a rank has launched alone */
    uint64_t nlones;       /* atomic: how often messages were launched alone */
    int left;              /* a rank that has left the company, and makes no more calls; −1: none */
    int grace_ms;          /* time that messages wait for their other ends (gpu_messages.c) */
};

#define COMPANY_GRACE_MS 1000 /* the first value, and the maximum */

pthread_mutex_t *gpu_company_lock(void);

/* The caller of all functions below holds the lock. */
struct company *gpu_company_find(const struct conn_owner *owner);
struct company_member *gpu_company_member(const struct company *company, int rank); /* NULL: the rank is elsewhere */

/* Are there more ranks than queues of the GPU? Then the kernels of two ranks may share a queue. */
bool gpu_company_is_crowded(const struct company *company);
int gpu_company_queues(void);

/* Returns the number of the calling thread. No other thread ever has it. (A new thread may get the pthread_self() of one that has ended.) */
uint64_t gpu_company_thread(void);

#endif
