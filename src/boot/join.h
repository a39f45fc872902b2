/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's side of the meeting point: brings the ranks of one process there, for as long as init goes on. Belongs to
 * the watch thread.
 */
#ifndef COLLET_BOOT_JOIN_H
#define COLLET_BOOT_JOIN_H

#include "boot/tree.h"

struct join {
    struct hub *hub;
    struct tree *tree;             /* to be linked */
    struct address_set listener;   /* where the tree's door is */
    struct dial dial;              /* to the meeting point */
    struct wire *root;             /* to the meeting point, proven; NULL: not, or not any more */
    bool met;                      /* we have been connected to it */
    bool linking;                  /* the process's seat has come */
    char meeting[CARD_TEXT_BYTES]; /* who has the meeting point; from then on */
    bool ready_said;
    bool done;                 /* the meeting point has nothing more to say */
    bool asks;                 /* who is missing */
    char news[ERR_TEXT_BYTES]; /* who is missing, in the meeting point's words */
};

/* Begins to dial. hub, tree and listener must be set. Whatever becomes of it, hub->work is posted. */
void join_start(struct join *join);
/* Does what has become possible: announces new ranks, says that this process is ready. */
void join_continue(struct join *join);
/* Tells the meeting point of a failure, in whatever state, and leaves it. */
void join_fail(struct join *join, const struct failure *failure);
void join_stop(struct join *join);

/* Who or what is being waited for. join_ask() lets the meeting point say it, soon. */
void join_ask(struct join *join);
void join_waiting_text(const struct join *join, char *text, size_t room);
/* Is there a meeting point that has never said which ranks are missing? */
bool join_expects_news(const struct join *join);

#endif
