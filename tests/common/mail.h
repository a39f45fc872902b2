/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of one rank whose bytes can be checked: they are a function of sender, receiver and a number.
 *
 *      mail_send, mail_recv … ─▶ (the calls are complete) ─▶ mail_settle
 */
#ifndef COLLET_TESTS_MAIL_H
#define COLLET_TESTS_MAIL_H

#include "common/guard.h"
#include "common/ranks.h"

#define MAIL_LETTERS_MAX 128

struct mail {
    struct ranks *ranks;
    struct collet_comm *comm;
    int rank, nletters;
    struct letter {
        struct guard guard;
        int from, to;
        bool received;
        unsigned number;
        size_t bytes;
    } letters[MAIL_LETTERS_MAX]; /* under way */
};

/* Letters of a rank on a communicator of its own; mail_destroy destroys it. */
struct mail *mail_new(struct ranks *ranks, int rank);
void mail_destroy(struct mail *mail);
void mail_open(struct mail *mail, struct ranks *ranks, int rank, struct collet_comm *comm);
void mail_send(struct mail *mail, int to, unsigned number, size_t bytes);
void mail_recv(struct mail *mail, int from, unsigned number, size_t bytes);
/* All calls are complete: is what was sent unchanged, and what was received right? Ends the job if not. */
void mail_settle(struct mail *mail);

#endif
