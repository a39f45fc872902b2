/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of the watch thread: nothing is watched, and timers fire when the target says so. So a target calls what the watch
 * would call.
 */
#include "boot/watch.h"

enum collet_result watch_start(struct watch **watch) {
    *watch = NULL;
    return COLLET_SUCCESS;
}
void watch_task_init(struct watch_task *task, struct watch *watch, void (*run)(struct watch_task *task)) {
    *task = (struct watch_task){.run = run, .watch = watch};
}
void watch_post(struct watch_task *task) { (void)task; }
bool watch_task_queued(struct watch_task *task) { return task->queued; }

static struct watch_fd *watch_latest; /* that was added and not removed; NULL: none */

enum collet_result watch_add(struct watch_fd *watched, uint32_t events) {
    (void)events;
    watch_latest = watched;
    return COLLET_SUCCESS;
}
void watch_change(struct watch_fd *watched, uint32_t events) { (void)watched, (void)events; }
void watch_remove(struct watch_fd *watched) {
    if (watch_latest == watched)
        watch_latest = NULL;
}

static struct watch_timer *watch_timers;

void watch_timer_stop(struct watch_timer *timer) {
    if (timer->link == NULL)
        return;
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    timer->link = NULL;
}

void watch_timer_set(struct watch_timer *timer, uint64_t due_ns) {
    watch_timer_stop(timer);
    timer->due_ns = due_ns;
    timer->next = watch_timers;
    timer->link = &watch_timers;
    if (timer->next != NULL)
        timer->next->link = &timer->next;
    watch_timers = timer;
}

/* Connections that are let go of end when their time is over, if not before. */
__attribute__((unused)) static void watch_fire_all(void) {
    while (watch_timers != NULL) {
        struct watch_timer *timer = watch_timers;
        watch_timer_stop(timer);
        timer->fire(timer);
    }
}
