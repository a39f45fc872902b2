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

/* A rank's vote. */
struct consent_vote {
    uint64_t number; /* number of the consent, among those with its key; consent_start() counts */
    int32_t code;    /* SUCCESS: yes. Else: no, with the reason */
    int32_t zero;
    char text[ERR_TEXT_BYTES];
};

/* The sum of all votes. Its code and text are those of the lowest rank that said no; REMOTE only if no rank gave another reason. */
#define CONSENT_GIFT_BYTES COLLET_UNIQUE_ID_BYTES
struct consent_verdict {
    struct consent_vote sum;
    char gift[CONSENT_GIFT_BYTES]; /* from the judge, if the code is SUCCESS */
    uint8_t lives[];               /* [index in terms.ranks] is this rank alive? */
};

/* The ranks that take part, and the call that they make. */
struct consent_terms {
    struct boot *boot;
    uint64_t key;     /* only the last 56 bits; unique among these ranks' consents at any time */
    const int *ranks; /* ranks that take part, in the same order on each rank */
    int nranks, self; /* number of ranks; index of this rank among them */
    /* A rank that destroys its communicator counts as a "no". Otherwise it counts as dead. */
    bool leaving_is_no;
    /* Makes the judge's gift if all say yes. NULL: there is no gift. */
    enum collet_result (*give)(void *giver, const uint8_t *lives, char gift[CONSENT_GIFT_BYTES]);
    void *giver;
    const char *call; /* the call that each rank must make, for texts */
    int timeout_s;    /* maximum time for which the judge waits for votes */
};

struct consent {
    struct consent_terms terms;
    struct consent_vote vote;
    struct consent_vote *votes; /* [index in terms.ranks]; number 0: no vote yet */
    struct consent_verdict *verdict;
    int judge;                              /* index in terms.ranks */
    uint64_t deadline_ns, say_ns, pause_ns; /* time to give up; time of the next vote; pause after it */
};

/* Votes. code: SUCCESS, or a failure whose text is the thread's last error. terms->ranks and ->call must stay valid until
 * consent_fini(). */
enum collet_result consent_start(struct consent *consent, const struct consent_terms *terms, enum collet_result code);

/* SUCCESS: consent->verdict is set. IN_PROGRESS: call again. Else why there will be none. */
enum collet_result consent_try(struct consent *consent);

/* Has any rank already said no to this rank's next consent with these terms? *no: the last such vote. */
bool consent_hears_no(const struct consent_terms *terms, struct consent_vote *no);

/* For a rank that cannot even vote: others that ask are told that it says no, and why. Uses boot, key and nranks of terms. It needs no new
 * memory, if this rank starts a consent after each such call. */
void consent_refuse(const struct consent_terms *terms, enum collet_result code, const char *text);

/* For a rank that stops early: says no, as consent_refuse(), and tells the others at once. Also if consent_start() failed. */
void consent_give_up(struct consent *consent, enum collet_result code, const char *text);

void consent_fini(struct consent *consent); /* does nothing if zeroed */

/* Called for the layer (seams/layer.h). Each rank has spare memory for one verdict, so it can say no when there is no memory. */
enum collet_result consent_stock(struct boot *boot);
/* Is this letter a vote for this process? A vote that a rank sends to a higher rank is only a question. */
bool consent_hear(struct hub *hub, const struct letter *letter, struct letter **answer);
void consent_forget(struct hub *hub);

#endif
