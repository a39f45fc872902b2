/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that live agree on one verdict, also if some of them die on the way.
 *
 *      each rank ── vote ──▶ the lowest rank that lives ── verdict ──▶ each rank that lives
 *                            (the judge) has all their votes
 *
 * A judge says when it begins to wait. So a rank that came early waits on: the judge will name whoever does not come.
 *
 * If the judge dies half-way, some ranks have its verdict and others have not. Those turn to the next rank that lives:
 *
 *      rank 0 dies; rank 2 has its verdict, and has gone on
 *      rank 3 ── vote ──▶ rank 1, the judge now ── vote ──▶ rank 2's watch, which remembers
 *             ◀─ verdict ──────────────────────  ◀─ verdict ──
 *
 * So there is one verdict for all that live:
 *    A judge needs an answer of every rank that lives: its vote, or the verdict that it has had.
 *    A rank that has turned to the next judge takes nothing from an earlier one any more. So its vote says that it has had no
 *    verdict, and will have none but the new judge's.
 *
 * It works on a communicator that has failed. Deaths are news of the tree (tree.h): all ranks that can reach each other hear
 * of the same deaths. Ranks that lose each other, and live, come to verdicts of their own.
 */
#ifndef COLLET_LAYERS_ELASTIC_CONSENT_H
#define COLLET_LAYERS_ELASTIC_CONSENT_H

#include "boot/hub.h"

#include "base/err.h"

/* What a rank says. */
struct consent_vote {
    uint64_t number; /* of the consent, among those with the same key; consent_start() counts */
    int32_t code;    /* SUCCESS: yes; else no, and why */
    int32_t zero;
    char text[ERR_TEXT_BYTES];
};

/* What all have to say. Code and text are those of the lowest rank that said no; REMOTE only if none said another. */
#define CONSENT_GIFT_BYTES COLLET_UNIQUE_ID_BYTES
struct consent_verdict {
    struct consent_vote sum;
    char gift[CONSENT_GIFT_BYTES]; /* of the judge; if the code is SUCCESS */
    uint8_t lives[];               /* for each of terms.ranks, in their order: does it live? */
};

/* Who takes part, and in what. */
struct consent_terms {
    struct boot *boot;
    uint64_t key;     /* its last 56 bits; no other consent of these ranks has it at the same time */
    const int *ranks; /* those that take part, in the same order on each */
    int nranks, self; /* how many, and the caller's index among them */
    /* A rank that destroys its communicator says no. Else it is taken for dead. */
    bool leaving_is_no;
    /* Makes the judge's gift, if all have said yes. NULL: there is none. */
    enum collet_result (*give)(void *giver, const uint8_t *lives, char gift[CONSENT_GIFT_BYTES]);
    void *giver;
    const char *call; /* what each rank has to call, for messages */
    int timeout_s;    /* for the judge to wait for votes */
};

struct consent {
    struct consent_terms terms;
    struct consent_vote vote;
    struct consent_vote *votes; /* by index in terms.ranks; number 0: it has not come */
    struct consent_verdict *verdict;
    int judge;                              /* index in terms.ranks */
    uint64_t deadline_ns, say_ns, pause_ns; /* when to give up; when to vote again, and how long to wait then */
};

/* Votes: code SUCCESS or a failure, whose text is the thread's last error. terms->ranks and ->call must stay until
 * consent_fini(). */
enum collet_result consent_start(struct consent *consent, const struct consent_terms *terms, enum collet_result code);

/* SUCCESS when consent->verdict is there, IN_PROGRESS, or why it will not be. */
enum collet_result consent_try(struct consent *consent);

/* Has a rank said no already, to the consent of these terms that this rank has yet to start? The last no that came. */
bool consent_hears_no(const struct consent_terms *terms, struct consent_vote *no);

/* This rank cannot even vote: whoever asks hears that it says no, and why. Of terms it takes boot, key and nranks. Needs no memory
 * that could be missing, so long as each such consent is followed by one that this rank has started. */
void consent_refuse(const struct consent_terms *terms, enum collet_result code, const char *text);

/* This rank will not take part to the end: the same, and it says so at once. Also if consent_start() has failed. */
void consent_give_up(struct consent *consent, enum collet_result code, const char *text);

void consent_fini(struct consent *consent); /* harmless on a zeroed one */

/* Moments of the layer (seams/layer.h). A rank always has memory for one verdict to spare: so it can say no when there is no memory. */
enum collet_result consent_stock(struct boot *boot);
/* Is the letter a vote for this process? One that a rank sends to a higher one only asks. */
bool consent_hear(struct hub *hub, const struct letter *letter, struct letter **answer);
void consent_forget(struct hub *hub);

#endif
