/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread collet-proxy. See proxy.h.
 */
#include "layers/gpu/proxy.h"

#include "base/memory.h"
#include "base/thread.h"
#include "base/wait.h"
#include "boot/process.h"
#include "seams/observe.h"
#include "transport/transport.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* A rank, as one of its proxy threads sees it. The lock of that proxy guards all fields but `launches`. If all threads of a rank look at
 * something, it is changed with the locks of all. */
struct proxy_client {
    struct proxy *proxy;
    struct chan *chan;
    struct proxy_client *next;  /* next client of the proxy */
    struct proxy_client *other; /* the rank's client of its next thread */
    int held;
    uint64_t launches, landed;  /* launches: pairs with the driver, which reads it without the lock */
    enum collet_result failure; /* failure of a connection; SUCCESS: none */
    uint64_t failed_ns;
    char failure_text[ERR_TEXT_BYTES];
};

struct proxy {
    int gpu;             /* number of the GPU; −1: host memory */
    int number;          /* number of this thread among the threads for the same GPU, or for host memory */
    unsigned generation; /* generation of the process that has the thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    /* Number of threads that want the lock. They count it up before they wait; the proxy reads it (acquire), and lets them have the lock. */
    int wanted;
    bool over;
    uint32_t spin;
    uint32_t turns;
    int nconns;                /* number of its ready connections over wires when the thread last chose CPUs */
    struct os_cpu_set allowed; /* the CPUs on which the thread may run */
    struct proxy_client *clients;
    struct proxy *next;
};

PROCESS_LOCK(all_lock);
static struct proxy *all;

static bool has_failed(const struct chan *chan) { return boot_failed(chan->owner.boot) != COLLET_SUCCESS; }

static bool goes_by_wire(const struct conn *conn) {
    return conn->state == CONN_READY && conn->transport->progress != NULL;
}

static int threads_of(const struct chan *chan) { return chan->owner.config->proxy > 1 ? chan->owner.config->proxy : 1; }

/* Does this thread carry the connection? The opposite connection uses the same sockets, so both must have the same thread. A rank's two
 * neighbours in a ring are two ranks apart, and should have different threads. */
static bool is_mine(const struct proxy_client *client, const struct conn *conn) {
    int place = conn->transport->copies ? conn->peer / 2 + conn->channel + conn->lane : 0;
    return goes_by_wire(conn) && place % threads_of(client->chan) == client->proxy->number;
}

/* ---- the thread ---- */

/* The calling thread runs on those CPUs of `allowed` that are in `wanted`; on all of `allowed` if none is. */
static void prefer_cpus(const struct os_cpu_set *allowed, const struct os_cpu_set *wanted) {
    cpu_set_t cpus, both;
    CPU_ZERO(&cpus);
    CPU_ZERO(&both);
    for (int cpu = 0; cpu < OS_CPUS && cpu < CPU_SETSIZE; cpu++) {
        const bool may = allowed->word[cpu / 64] >> cpu % 64 & 1, is_wanted = wanted->word[cpu / 64] >> cpu % 64 & 1;
        if (may)
            CPU_SET(cpu, &cpus);
        if (may && is_wanted)
            CPU_SET(cpu, &both);
    }
    sched_setaffinity(0, sizeof cpus, CPU_COUNT(&both) > 0 ? &both : &cpus);
}

/* Moves the thread next to the NICs of all its connections, whenever their number has changed. */
static void move_near(struct proxy *proxy) {
    struct os_cpu_set near = {{0}};
    int nconns = 0;
    for (const struct proxy_client *client = proxy->clients; client != NULL; client = client->next)
        for (const struct conn *conn = client->chan->owner.first; conn != NULL; conn = conn->next)
            if (is_mine(client, conn)) {
                const struct os_cpu_set *cpus = conn->transport->cpus != NULL ? conn->transport->cpus(conn) : NULL;
                nconns++;
                if (cpus != NULL)
                    os_cpu_set_add(&near, cpus);
            }
    if (nconns != proxy->nconns && os_cpu_set_count(&near) > 0)
        prefer_cpus(&proxy->allowed, &near);
    proxy->nconns = nconns;
}

static bool is_in_use(const struct proxy_client *client, const struct conn *conn) {
    return conn->holds > 0 || conn->launch > client->landed;
}

#define ATTEND_EVERY_TURNS                                                                                             \
    64u /* then also looks after unused connections: the other end may wait for news from this end */

static void note_failure(struct proxy_client *client, enum collet_result result) {
    client->failure = result;
    client->failed_ns = os_now_ns();
    snprintf(client->failure_text, sizeof(client->failure_text), "%s", err_last());
}

static void tell_failure(const struct proxy_client *client) {
    if (os_now_ns() - client->failed_ns >= BOOT_NEWS_WAIT_NS)
        boot_fail(client->chan->owner.boot, client->failure, client->failure_text);
}

/* One turn over a rank's connections: its executor may wait for them, or they still have something to send. False: there is nothing to
 * do. */
static bool client_turn(struct proxy_client *client, bool *moved) {
    bool active = client->held > 0 || client->landed != client->launches, work = false;
    if (has_failed(client->chan))
        return false;
    if (client->failure != COLLET_SUCCESS) {
        tell_failure(client);
        return active;
    }
    for (struct conn *conn = client->chan->owner.first; conn != NULL; conn = conn->next) {
        if (!is_mine(client, conn))
            continue;
        work |= active;
        if (conn->transport->attend != NULL && client->proxy->turns % ATTEND_EVERY_TURNS == 0) /* chan/attend.c */
            conn->transport->attend(conn);
        if (!is_in_use(client, conn) && conn->transport->idle(conn))
            continue;
        enum collet_result result =
            recorder_carry(client->chan->recorder, RECORDER_PROXY + (enum recorder_thread)client->proxy->number, conn);
        work = true;
        *moved |= result == COLLET_SUCCESS;
        if (result >= 0)
            continue;
        note_failure(client, result);
        break;
    }
    return work;
}

#define SLEEP_NS 200000000

/* Sleeps until there is work. While the rank computes outside collet, the thread still attends to its connections now and then. */
static void await_work(struct proxy *proxy) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLEEP_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&proxy->work, &proxy->lock, &until) != 0)
        proxy->turns = ATTEND_EVERY_TURNS - 1; /* so the next turn attends */
}

static void *proxy_main(void *proxy_) {
    struct proxy *proxy = proxy_;
    struct waiter waiter = {.spin = 0};
    os_cpu_set_get(&proxy->allowed);
    pthread_mutex_lock(&proxy->lock);
    while (!proxy->over) {
        bool moved = false, work = false;
        if (proxy->turns++ % ATTEND_EVERY_TURNS == 0)
            move_near(proxy);
        for (struct proxy_client *client = proxy->clients; client != NULL; client = client->next)
            work |= client_turn(client, &moved);
        if (!work) {
            await_work(proxy);
            wait_progressed(&waiter);
            continue;
        }
        waiter.spin = proxy->spin;
        pthread_mutex_unlock(&proxy->lock);
        if (moved)
            wait_progressed(&waiter);
        else
            wait_pause(&waiter);
        while (__atomic_load_n(&proxy->wanted, __ATOMIC_ACQUIRE) > 0)
            sched_yield();
        pthread_mutex_lock(&proxy->lock);
    }
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

/* ---- others that want the lock ---- */

static void lock_take(struct proxy *proxy) {
    __atomic_add_fetch(&proxy->wanted, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_lock(&proxy->lock);
    __atomic_sub_fetch(&proxy->wanted, 1, __ATOMIC_ACQ_REL);
}

static void proxy_lock_give(struct proxy *proxy) {
    pthread_cond_signal(&proxy->work);
    pthread_mutex_unlock(&proxy->lock);
}

static struct proxy_client *client_of(const struct chan *chan) {
    return __atomic_load_n(&chan->proxy, __ATOMIC_ACQUIRE); /* pairs with proxy_serve() */
}

/* All threads of a rank, always in the same order. */
#define EACH_CLIENT(client, chan)                                                                                      \
    struct proxy_client *client = client_of(chan);                                                                     \
    client != NULL;                                                                                                    \
    client = client->other

void proxy_pause(struct chan *chan) {
    for (EACH_CLIENT(client, chan))
        lock_take(client->proxy);
}

void proxy_resume(struct chan *chan) {
    for (EACH_CLIENT(client, chan))
        proxy_lock_give(client->proxy);
}

void proxy_count(struct chan *chan, struct conn *const *conns, int nconns, int more) {
    if (client_of(chan) == NULL)
        return;
    proxy_pause(chan);
    for (EACH_CLIENT(client, chan))
        client->held += more;
    for (int k = 0; k < nconns; k++)
        conns[k]->holds += more;
    proxy_resume(chan);
}

void proxy_launched(struct chan *chan, struct conn *const *conns, int nconns) {
    if (client_of(chan) == NULL)
        return;
    proxy_pause(chan);
    for (EACH_CLIENT(client, chan))
        __atomic_add_fetch(&client->launches, 1, __ATOMIC_RELEASE); /* pairs with proxy_launches() */
    for (int k = 0; k < nconns; k++)
        conns[k]->launch = client_of(chan)->launches;
    proxy_resume(chan);
}

uint64_t proxy_launches(const struct chan *chan) {
    const struct proxy_client *client = client_of(chan);
    return client != NULL ? __atomic_load_n(&client->launches, __ATOMIC_ACQUIRE) : 0;
}

void proxy_landed(struct chan *chan, uint64_t launches) {
    proxy_pause(chan);
    for (EACH_CLIENT(client, chan))
        client->landed = launches;
    proxy_resume(chan);
}

/* ---- coming and going ---- */

static enum collet_result proxy_create(int gpu, int number, struct proxy **proxy_p) {
    pthread_condattr_t steady;
    struct proxy *proxy;
    COLLET_TRY(memory_get(&proxy, 1, sizeof *proxy, "no memory for a proxy"));
    proxy->gpu = gpu;
    proxy->number = number;
    proxy->generation = process_forks;
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&proxy->work, &steady);
    pthread_condattr_destroy(&steady);
    enum collet_result result = os_thread_start(&proxy->thread, "collet-proxy", proxy_main, proxy);
    if (result != COLLET_SUCCESS) {
        free(proxy);
        return result;
    }
    proxy->next = all;
    all = proxy;
    *proxy_p = proxy;
    return COLLET_SUCCESS;
}

/* The caller holds all_lock. */
static enum collet_result proxy_get(int gpu, int number, struct proxy **proxy_p) {
    for (*proxy_p = all; *proxy_p != NULL; *proxy_p = (*proxy_p)->next)
        if ((*proxy_p)->gpu == gpu && (*proxy_p)->number == number && (*proxy_p)->generation == process_forks)
            return COLLET_SUCCESS;
    return proxy_create(gpu, number, proxy_p);
}

/* The caller holds all_lock. */
static enum collet_result client_create(struct chan *chan, int number, struct proxy_client **client_p) {
    int gpu = chan->owner.gpu != NULL ? chan->owner.gpu->ordinal : -1;
    struct proxy_client *client;
    COLLET_TRY(memory_get(&client, 1, sizeof *client, "no memory for the proxy of a rank"));
    client->chan = chan;
    enum collet_result result = proxy_get(gpu, number, &client->proxy);
    if (result != COLLET_SUCCESS) {
        free(client);
        return result;
    }
    lock_take(client->proxy);
    client->next = client->proxy->clients;
    client->proxy->clients = client;
    client->proxy->spin = chan->patience.spin;
    proxy_lock_give(client->proxy);
    *client_p = client;
    return COLLET_SUCCESS;
}

static bool is_drained(const struct proxy_client *client) {
    if (client->failure != COLLET_SUCCESS || has_failed(client->chan))
        return true;
    for (const struct conn *conn = client->chan->owner.first; conn != NULL; conn = conn->next)
        if (is_mine(client, conn) && !conn->transport->idle(conn))
            return false;
    return true;
}

static bool are_drained(struct chan *chan) {
    bool done = true;
    proxy_pause(chan);
    for (EACH_CLIENT(client, chan))
        done &= is_drained(client);
    proxy_resume(chan);
    return done;
}

static void drain(struct chan *chan) {
    struct waiter waiter = {.spin = 0};
    uint64_t limit_ns = (uint64_t)chan->timeout_ms * 1000000u;
    while (!are_drained(chan))
        if (wait_pause(&waiter) && wait_idle_ns(&waiter) > limit_ns)
            return;
}

/* Takes the rank off its proxy. The caller holds all_lock. True: it was the last rank, and the proxy belongs to nobody now. */
static bool unlink_client(struct proxy_client *client) {
    struct proxy *proxy = client->proxy;
    struct proxy_client **link = &proxy->clients;
    lock_take(proxy);
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    bool last = proxy->over = proxy->clients == NULL;
    proxy_lock_give(proxy);
    struct proxy **listed = &all;
    while (*listed != proxy)
        listed = &(*listed)->next;
    if (last)
        *listed = proxy->next;
    return last;
}

static void client_destroy(struct proxy_client *client) {
    struct proxy *proxy = client->proxy;
    pthread_mutex_lock(&all_lock);
    bool last = unlink_client(client);
    pthread_mutex_unlock(&all_lock);
    free(client);
    if (!last)
        return;
    pthread_join(proxy->thread, NULL);
    pthread_mutex_destroy(&proxy->lock);
    pthread_cond_destroy(&proxy->work);
    free(proxy);
}

static void destroy_all(struct proxy_client *clients) {
    for (struct proxy_client *other; clients != NULL; clients = other) {
        other = clients->other;
        client_destroy(clients);
    }
}

enum collet_result proxy_serve(struct chan *chan) {
    struct proxy_client *clients = NULL, **last = &clients;
    enum collet_result result = COLLET_SUCCESS;
    if (client_of(chan) != NULL)
        return COLLET_SUCCESS;
    pthread_mutex_lock(&all_lock);
    for (int number = 0; number < threads_of(chan) && result == COLLET_SUCCESS; number++) {
        result = client_create(chan, number, last);
        if (result == COLLET_SUCCESS)
            last = &(*last)->other;
    }
    pthread_mutex_unlock(&all_lock);
    if (result != COLLET_SUCCESS)
        destroy_all(clients);
    else
        __atomic_store_n(&chan->proxy, clients, __ATOMIC_RELEASE); /* pairs with client_of() */
    return result;
}

void proxy_leave(struct chan *chan) {
    if (client_of(chan) == NULL)
        return;
    drain(chan);
    destroy_all(client_of(chan));
    __atomic_store_n(&chan->proxy, NULL, __ATOMIC_RELEASE); /* pairs with attend_one() */
}
