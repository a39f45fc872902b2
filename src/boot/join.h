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
    struct tree *tree;             /* the tree, to be linked */
    struct address_set listener;   /* addresses of the tree's door */
    struct dial dial;              /* dials the meeting point */
    struct wire *root;             /* proven wire to the meeting point; NULL: not connected */
    bool met;                      /* it has been connected once */
    bool linking;                  /* the seat of this process has come */
    char meeting[CARD_TEXT_BYTES]; /* the process with the meeting point; known after that */
    bool ready_said;
    bool done;                 /* the meeting point has nothing more to say */
    bool asks;                 /* The meeting point is to be asked who is missing, now or once it is found. */
    char news[ERR_TEXT_BYTES]; /* the answer of the meeting point */
};

/* Starts to dial. hub, tree and listener must be set. hub->work is posted when something changes. */
void join_start(struct join *join);
/* Does what is possible now: announces new ranks, or says that this process is ready. */
void join_continue(struct join *join);
/* Tells the meeting point of a failure, in any state, and leaves it. */
void join_fail(struct join *join, const struct failure *failure);
void join_stop(struct join *join);

/* join_ask() asks the meeting point who is missing. join_waiting_text() describes what is being waited for. */
void join_ask(struct join *join);
void join_waiting_text(const struct join *join, char *text, size_t room);
/* Is there a meeting point that has not yet said which ranks are missing? */
bool join_expects_news(const struct join *join);

#endif
