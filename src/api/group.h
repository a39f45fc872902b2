/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: the calls that a thread collects, and how calls run, alone or together.
 */
#ifndef COLLET_API_GROUP_H
#define COLLET_API_GROUP_H

#include "api/comm.h"

struct window_post;

/* Runs a checked call, or adds a copy of it to the thread's open group. Takes ownership of the request's extents, also on failure. */
enum collet_result group_call(struct post *post);

/* Waits until comm has joined and *comm->to is set. In an open group, it returns at once, and the end of the group waits. */
enum collet_result group_join(struct collet_comm *comm);

/* Registers a window (window.h). In an open group, it returns at once, and the end of the group registers the window. */
enum collet_result group_window(const struct window_post *post);

/* INVALID_USAGE: the thread's open group has calls on comm or stream, which must run before `function` does. comm or stream may be NULL:
 * the caller has none. */
enum collet_result group_check_none_queued(const struct collet_comm *comm, const struct collet_stream *stream,
                                           const char *function);

/* INVALID_USAGE: the thread has an open group, and `function` is not allowed in one. */
enum collet_result group_check_closed(const char *function);

/* Ends the thread's open group like collet_group_end(). But if that was the outermost group, its calls do not run: instead() gets them. */
typedef enum collet_result group_calls(const struct post *calls, int ncalls, void *whom);
enum collet_result group_end_instead(group_calls *instead, void *whom);

/* Makes the open group fail, so none of its calls run. Returns result. */
enum collet_result group_poison(enum collet_result result);

#endif
