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

/* From now on the rank is one of those that share its GPU in this process and communicator. Until leave. */
enum collet_result gpu_company_join(const struct chan *chan);
void gpu_company_leave(const struct chan *chan);

/* As gpu_launch_set(), for the ranks of this thread. Waits until all others of the company make this call, or one of them launches it
 * alone; TIMEOUT names those that did not. */
enum collet_result gpu_company_launch(struct gpu_entry *set, int n);

/* As gpu_waves_launch(), for the messages of this thread. Waits until their other ends in the company are there. */
enum collet_result gpu_company_exchange(struct gpu_entry *messages, int n);

/* ---- for gpu_party.c and gpu_messages.c: who is there ---- */

struct party; /* gpu_party.h */

/* The newest message of a pair and direction whose one end was launched without the other. */
struct lone {
    struct lone *next;
    int peer;
    enum prog_collective kind;
    uint64_t sequence;
};

struct member {
    struct member *next;
    const struct chan *chan;
    uint64_t caller; /* the thread that has made its newest call: gpu_company_thread(); 0: nobody has called yet */
    struct party *messages; /* of this rank, that wait for their other ends; NULL: none do */
    struct lone *lones;     /* ends at this rank */
};

/* Guarded by the lock. */
struct company {
    struct company *next;
    const void *peers; /* the communicator's table */
    int ordinal, nmembers;
    struct member *members;
    struct party *parties; /* that have come with collectives, and wait for the rest */
    uint64_t alone;        /* atomic: the newest collective that a rank has launched alone */
    uint64_t nlones;       /* atomic: so often have messages been launched alone */
    int left;              /* a rank that is no member any more, and will not come; −1: none */
    int grace_ms;          /* so long messages wait for their other ends: gpu_messages.c */
};

#define COMPANY_GRACE_MS 1000 /* at first, and at most */

pthread_mutex_t *gpu_company_lock(void);

/* With the lock, all of these. */
struct company *gpu_company_find(const struct conn_owner *owner);
struct member *gpu_company_member(const struct company *company, int rank); /* NULL: it is elsewhere */

/* Has it so many ranks that the queues of the GPU may not hold a kernel of each? */
bool gpu_company_is_crowded(const struct company *company);
int gpu_company_queues(void);

/* Of no other thread, ever: a new one may get the pthread_self() of one that has ended. */
uint64_t gpu_company_thread(void);

#endif
