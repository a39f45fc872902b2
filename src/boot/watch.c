/* SPDX-License-Identifier: Apache-2.0
 *
 *      other threads                     the watch thread
 *   watch_post(task) ─▶ queue ─ eventfd ─▶  ┌─▶ run queued tasks
 *                                           │   fire timers that are due
 *       sockets, pidfds ─────── epoll ───▶  └── handle one ready descriptor, or sleep until the next timer
 *
 * One descriptor per turn: a callback may free objects, and a second event fetched at the same time could belong to one
 * of them. Epoll's own queue keeps it fair.
 *
 * The thread is detached and leaves signals to the program. exit() neither waits for it nor takes anything away from under
 * it: all that it uses is on the heap and never freed by exit handlers.
 */
#include "boot/watch.h"

#include "base/memory.h"
#include "base/os.h"
#include "base/remedy.h"
#include "base/thread.h"
#include "boot/process.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct watch {
    int epoll_fd, wake_fd;
    pthread_mutex_t lock; /* protects the queue */
    struct watch_task *tasks, **tasks_end;
    struct watch_timer *timers; /* only for the thread, like all below */
    struct watch_timer *firing; /* the timers whose time has come, taken from `timers` */
    uint64_t next_due_ns;       /* none of `timers` is due before this; UINT64_MAX: there is none */
};

static _Thread_local struct watch *mine; /* set on the watch thread */

static void run_tasks(struct watch *watch) {
    for (;;) {
        pthread_mutex_lock(&watch->lock);
        struct watch_task *task = watch->tasks;
        if (task != NULL) {
            watch->tasks = task->next;
            if (watch->tasks == NULL)
                watch->tasks_end = &watch->tasks;
            task->queued = false;
        }
        pthread_mutex_unlock(&watch->lock);
        if (task == NULL)
            return;
        task->run(task);
    }
}

static void enlist(struct watch_timer *timer, struct watch_timer **list) {
    timer->next = *list;
    timer->link = list;
    if (timer->next != NULL)
        timer->next->link = &timer->next;
    *list = timer;
}

/* The timeout for epoll_wait() in ms: −1 without timers. */
static int sleep_ms(const struct watch *watch, uint64_t now_ns) {
    if (watch->next_due_ns == UINT64_MAX)
        return -1;
    const uint64_t ms = watch->next_due_ns > now_ns ? (watch->next_due_ns - now_ns) / 1000000 + 1 : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Moves the timers whose time has come to the list `firing`. */
static void find_due(struct watch *watch, uint64_t now_ns) {
    struct watch_timer *next;
    watch->next_due_ns = UINT64_MAX;
    for (struct watch_timer *timer = watch->timers; timer != NULL; timer = next) {
        next = timer->next;
        if (timer->due_ns <= now_ns) {
            watch_timer_stop(timer);
            enlist(timer, &watch->firing);
        } else if (timer->due_ns < watch->next_due_ns) {
            watch->next_due_ns = timer->due_ns;
        }
    }
}

/* Runs the timers whose time has come. Returns how long to sleep. A timer that becomes due in this time waits for the next turn, so
 * descriptors have their turn. */
static int fire_timers(struct watch *watch) {
    const uint64_t now_ns = os_now_ns();
    struct watch_timer *timer;
    if (now_ns >= watch->next_due_ns)
        find_due(watch, now_ns);
    while ((timer = watch->firing) != NULL) {
        watch_timer_stop(timer);
        timer->fire(timer);
    }
    return sleep_ms(watch, os_now_ns());
}

static void *watch_main(void *argument) {
    struct watch *watch = mine = argument;
    pthread_setname_np(pthread_self(), "collet-watch"); /* fails without /proc: then there is no name */
    for (;;) {
        run_tasks(watch);
        int timeout_ms = fire_timers(watch);
        struct epoll_event event;
        if (epoll_wait(watch->epoll_fd, &event, 1, timeout_ms) != 1)
            continue;
        struct watch_fd *watched = event.data.ptr;
        if (watched != NULL) {
            watched->ready(watched, event.events);
        } else {
            uint64_t count;
            while (read(watch->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
                ;
        }
    }
    return NULL;
}

static enum collet_result start_thread(struct watch *watch) {
    sigset_t before;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    os_signals_block(&before);
    int error = pthread_create(&thread, &attributes, watch_main, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    errno = error;
    return error == 0 ? COLLET_SUCCESS
                      : err_set(COLLET_ERR_SYSTEM, "cannot start the watch thread: %m" OS_THREAD_REMEDY);
}

static enum collet_result watch_create(struct watch **watch_p) {
    struct watch *watch;
    COLLET_TRY(memory_get(&watch, 1, sizeof *watch, "no memory for the watch"));
    struct epoll_event event = {.events = EPOLLIN};
    pthread_mutex_init(&watch->lock, NULL);
    watch->tasks_end = &watch->tasks;
    watch->next_due_ns = UINT64_MAX;
    OS_DESCRIPTOR(watch->epoll_fd, epoll_create1(EPOLL_CLOEXEC));
    OS_DESCRIPTOR(watch->wake_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    enum collet_result result;
    if (watch->epoll_fd < 0 || watch->wake_fd < 0 ||
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->wake_fd, &event) != 0)
        result = err_set(COLLET_ERR_SYSTEM, "cannot create the descriptors of the watch: %m%s", os_remedy());
    else
        result = start_thread(watch);
    if (result != COLLET_SUCCESS) {
        close(watch->epoll_fd);
        close(watch->wake_fd);
        free(watch);
        return result;
    }
    *watch_p = watch;
    return COLLET_SUCCESS;
}

enum collet_result watch_start(struct watch **watch_p) {
    struct process *process = process_lock();
    enum collet_result result = process->watch != NULL ? COLLET_SUCCESS : watch_create(&process->watch);
    if (result == COLLET_SUCCESS)
        *watch_p = process->watch;
    process_unlock();
    return result;
}

void watch_task_init(struct watch_task *task, struct watch *watch, void (*run)(struct watch_task *task)) {
    *task = (struct watch_task){.run = run, .watch = watch};
}

void watch_post(struct watch_task *task) {
    struct watch *watch = task->watch;
    pthread_mutex_lock(&watch->lock);
    bool wake = !task->queued;
    if (wake) {
        task->queued = true;
        task->next = NULL;
        *watch->tasks_end = task;
        watch->tasks_end = &task->next;
    }
    pthread_mutex_unlock(&watch->lock);
    const uint64_t one = 1;
    if (wake)
        while (write(watch->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
            ;
}

bool watch_task_queued(struct watch_task *task) {
    SCOPED_LOCK(&task->watch->lock);
    return task->queued;
}

enum collet_result watch_add(struct watch_fd *watched, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watched};
    if (epoll_ctl(mine->epoll_fd, EPOLL_CTL_ADD, watched->fd, &event) != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot watch a descriptor: %m");
    return COLLET_SUCCESS;
}

void watch_change(struct watch_fd *watched, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watched};
    epoll_ctl(mine->epoll_fd, EPOLL_CTL_MOD, watched->fd, &event);
}

void watch_remove(struct watch_fd *watched) { epoll_ctl(mine->epoll_fd, EPOLL_CTL_DEL, watched->fd, NULL); }

void watch_timer_set(struct watch_timer *timer, uint64_t due_ns) {
    watch_timer_stop(timer);
    timer->due_ns = due_ns;
    if (due_ns < mine->next_due_ns)
        mine->next_due_ns = due_ns;
    enlist(timer, &mine->timers);
}

void watch_timer_stop(struct watch_timer *timer) {
    if (timer->link == NULL)
        return;
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    timer->link = NULL;
}
