/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a process whose ranks share a GPU: the ranks of one communicator and GPU, and what they do by turns or together.
 *
 *    thread of rank 0    comes ─ waits ───────────────────▶ goes on        stream 0   ──┐        ┌─▶
 *    thread of rank 1    comes ─ waits ───────────────────▶ goes on        stream 1   ──┤  grid  ├─▶
 *    thread of rank 2              comes last ─ launches ─▶ goes on        stream 2   ──┴────────┴─▶
 *
 * Why not a launch by each thread? A GPU has few queues, and the streams of a process share them. In a queue, work waits for what was
 * put before it, though it may be of another stream:
 *
 *    a queue    rank 0's kernel   (runs, and waits for rank 3)
 *               what rank 0's stream has next   (waits for that kernel)
 *               rank 3's kernel   (waits behind it, without end)
 *
 * And a thread may wait for the whole GPU before its call: so for a kernel that waits for that call. One grid that holds all of them waits
 * for none of them. So these ranks cannot keep each other waiting, whatever streams the program has, and whatever else is in them.
 *
 * Collectives wait for all ranks of the company: gpu_party.c. Messages wait for the other ends of theirs: gpu_messages.c.
 */
#ifndef COLLET_LAYERS_GPU_GPU_COMPANY_H
#define COLLET_LAYERS_GPU_GPU_COMPANY_H

#include "layers/gpu/gpu_launch.h"

#include <pthread.h>

/* ---- what others call ---- */

/* Adds the rank to the ranks of this process and communicator that share its GPU, until gpu_company_leave(). */
enum collet_result gpu_company_join(const struct chan *chan);
void gpu_company_leave(const struct chan *chan);

/* Like gpu_launch_set(), for the ranks of this thread. Waits until all other ranks of the company make this call, or one of them launches it
 * alone. TIMEOUT names the ranks that did not make it. */
enum collet_result gpu_company_launch(struct gpu_entry *set, int n);

/* Like gpu_waves_launch(), for the messages of this thread. Waits until the other ends of these in the company are there. */
enum collet_result gpu_company_exchange(struct gpu_entry *messages, int n);

/* ---- for gpu_party.c and gpu_messages.c: who is there ---- */

struct party; /* gpu_party.h */

/* Of one pair and direction: the newest message of which one end was launched without the other end. */
struct lone {
    struct lone *next;
    int peer;
    enum prog_collective kind;
    uint64_t sequence;
};

struct company_member {
    struct company_member *next;
    const struct chan *chan;
    uint64_t caller; /* number of the thread that has made its newest call (gpu_company_thread()); 0: no call yet */
    struct party *messages; /* messages of this rank that wait for their other ends; NULL: none */
    struct lone *lones;     /* ends at this rank */
};

/* Guarded by the lock. */
struct company {
    struct company *next;
    const void *peers; /* the communicator's table */
    int ordinal, nmembers;
    struct company_member *members;
    struct party *parties; /* calls of threads that have come with a collective, and wait for the other ranks */
    uint64_t alone;        /* atomic: number of the newest collective that a rank has launched alone */
    uint64_t nlones;       /* atomic: how often messages were launched alone */
    int left;              /* a rank that has left, and will not come; −1: none */
    int grace_ms;          /* time that messages wait for their other ends (gpu_messages.c) */
};

#define COMPANY_GRACE_MS 1000 /* the first value, and the maximum */

pthread_mutex_t *gpu_company_lock(void);

/* The caller of all of these holds the lock. */
struct company *gpu_company_find(const struct conn_owner *owner);
struct company_member *gpu_company_member(const struct company *company, int rank); /* NULL: it is elsewhere */

/* Are there more ranks than queues of the GPU? Then the kernels of two ranks may share a queue. */
bool gpu_company_is_crowded(const struct company *company);
int gpu_company_queues(void);

/* The number of the calling thread. No other thread ever has it. (A new thread may get the pthread_self() of one that has ended.) */
uint64_t gpu_company_thread(void);

#endif
