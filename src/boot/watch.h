/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: one thread per process that waits for everything the control plane waits for. It is started at first need,
 * sleeps while nothing happens, never ends before its process, and does not exist in a forked child.
 */
#ifndef COLLET_BOOT_WATCH_H
#define COLLET_BOOT_WATCH_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Work for the watch thread. The object that it concerns contains it. */
struct watch_task {
    void (*run)(struct watch_task *task);
    struct watch *watch;
    struct watch_task *next;
    bool queued;
};

/* For any thread: */
enum collet_result watch_start(struct watch **watch_p); /* finds it if it runs already */
void watch_task_init(struct watch_task *task, struct watch *watch, void (*run)(struct watch_task *task));
void watch_post(struct watch_task *task); /* runs it soon, once, even if it was posted several times */
bool watch_task_queued(struct watch_task *task);

/* Only for the watch thread. It runs one callback at a time. A callback may free any object, also its own, after it has removed
 * the object from the watch. */
struct watch_fd {
    int fd;
    void (*ready)(struct watch_fd *watched, uint32_t events); /* EPOLLIN, … */
};
enum collet_result watch_add(struct watch_fd *watched, uint32_t events);
void watch_change(struct watch_fd *watched, uint32_t events);
/* Call it before close(): if a forked child holds the descriptor too, it would still report events. */
void watch_remove(struct watch_fd *watched);

struct watch_timer {
    void (*fire)(struct watch_timer *timer);
    uint64_t due_ns;
    struct watch_timer *next, **link; /* link NULL: off */
};
void watch_timer_set(struct watch_timer *timer, uint64_t due_ns); /* a time of os_now_ns(); replaces an earlier one */
void watch_timer_stop(struct watch_timer *timer);

/* The object that contains this member. */
#define WATCH_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
