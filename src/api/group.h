/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: the calls that a thread collects, and how calls run, alone or together.
 */
#ifndef COLLET_API_GROUP_H
#define COLLET_API_GROUP_H

#include "api/comm.h"

struct window_post;

/* Runs a checked call, or appends it to the thread's open group. Takes request->extents over, also on failure. */
enum collet_result group_call(struct collet_comm *comm, const struct exec_request *request, const void *in, void *out,
                              void *stream);

/* Waits until comm has joined and *comm->to has it, or leaves that to the end of the open group. */
enum collet_result group_join(struct collet_comm *comm);

/* Registers a window (window.h), or leaves that to the end of the open group. */
enum collet_result group_window(const struct window_post *post);

/* INVALID_USAGE if calls on comm or stream still wait in the thread's open group: `function` cannot go before them. NULL is
 * no communicator and no stream. */
enum collet_result group_check_none_queued(const struct collet_comm *comm, const struct collet_stream *stream,
                                           const char *function);

/* INVALID_USAGE if the thread has an open group, in which `function` cannot be. */
enum collet_result group_check_closed(const char *function);

/* Ends the thread's open group like collet_group_end(), but if it is the outermost one, none of its calls run: instead() gets
 * them. */
typedef enum collet_result group_calls(const struct post *calls, int ncalls, void *whom);
enum collet_result group_end_instead(group_calls *instead, void *whom);

/* Records a call's error in the open group, so that nothing of it runs; returns result. */
enum collet_result group_poison(enum collet_result result);

#endif
