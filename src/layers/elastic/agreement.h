/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that are alive agree on one decision, even if some of them die at the same time.
 *
 *      each rank ── vote ──▶ the lowest rank that lives ── decision ──▶ each rank that lives
 *                            (the coordinator) has all votes
 *
 * A coordinator says when it begins to wait, so a rank that came early waits longer. The coordinator will name the ranks
 * that do not come.
 *
 * If the coordinator dies halfway, some ranks have its decision and others have not. The others turn to the next rank that
 * is alive:
 *
 *      rank 0 dies; rank 2 has its decision, and has gone on
 *      rank 3 ── vote ──▶ rank 1, the coordinator now ── vote ──▶ rank 2's watch, which remembers
 *             ◀─ decision ──────────────────────  ◀─ decision ──
 *
 * So all ranks that are alive have one decision:
 *    A coordinator needs an answer from every rank that is alive: its vote, or the decision that it already has.
 *    A rank that has turned to the next coordinator ignores earlier coordinators. So its vote says that it has no decision, and will
 *    accept only the new coordinator's.
 *
 * Agreements work on a communicator that has failed. News of deaths travels in the tree (tree.h), so all ranks that can
 * reach each other learn of the same deaths. Ranks that are alive but have lost each other make separate decisions.
 */
#ifndef COLLET_LAYERS_ELASTIC_AGREEMENT_H
#define COLLET_LAYERS_ELASTIC_AGREEMENT_H

#include "boot/hub.h"

#include "base/err.h"

/* A rank's vote. */
struct agreement_vote {
    uint64_t number; /* number of the agreement, among agreements with the same key; agreement_start() counts */
    int32_t code;    /* SUCCESS: the vote is yes. Else it is no, and this is the reason */
    int32_t zero;
    char text[ERR_TEXT_BYTES];
};

/* The sum of all votes. Its code and text come from the lowest rank that said no. REMOTE counts only if no rank gave another reason. */
#define AGREEMENT_PAYLOAD_BYTES COLLET_UNIQUE_ID_BYTES
struct agreement_decision {
    struct agreement_vote sum;
    char payload[AGREEMENT_PAYLOAD_BYTES]; /* the coordinator's payload, if the code is SUCCESS */
    uint8_t lives[];                       /* [index in terms.ranks] is this rank alive? */
};

/* The ranks that take part, and the call that they make. */
struct agreement_terms {
    struct boot *boot;
    /* Key of the letters; only its last 56 bits count. No other agreement of these ranks has this key at the same time. */
    uint64_t key;
    const int *ranks; /* ranks that take part, in the same order on each rank */
    int nranks, self; /* number of ranks; index of this rank among them */
    /* True: a rank that destroys its communicator counts as a "no". False: such a rank counts as dead. */
    bool leaving_is_no;
    /* Makes the coordinator's payload if all say yes. NULL: there is no payload. */
    enum collet_result (*give)(void *giver, const uint8_t *lives, char payload[AGREEMENT_PAYLOAD_BYTES]);
    void *giver;
    const char *call; /* name of the call that each rank must make, for error texts */
    int timeout_s;    /* maximum time for which the coordinator waits for votes */
};

struct agreement {
    struct agreement_terms terms;
    struct agreement_vote vote;
    struct agreement_vote *votes; /* [index in terms.ranks]; number 0: no vote yet */
    struct agreement_decision *decision;
    int coordinator; /* index in terms.ranks */
    /* deadline_ns: time to give up. say_ns: time of the next vote. pause_ns: pause after that vote. */
    uint64_t deadline_ns, say_ns, pause_ns;
};

/* Votes. code: SUCCESS, or a failure whose text is the thread's last error. terms->ranks and ->call must stay valid until
 * agreement_fini(). */
enum collet_result agreement_start(struct agreement *agreement, const struct agreement_terms *terms,
                                   enum collet_result code);

/* SUCCESS: agreement->decision is set. IN_PROGRESS: call again. Any other code says why there will be no decision. */
enum collet_result agreement_try(struct agreement *agreement);

/* Has any rank already said no to this rank's next agreement with these terms? *no: the last such vote. */
bool agreement_hears_no(const struct agreement_terms *terms, struct agreement_vote *no);

/* For a rank that cannot even vote: if other ranks ask, they are told that this rank says no, and why. Uses boot, key and nranks of terms.
 * Needs no new memory, if this rank starts an agreement after each such call. */
void agreement_refuse(const struct agreement_terms *terms, enum collet_result code, const char *text);

/* For a rank that stops early: says no, like agreement_refuse(), and tells the other ranks at once. This works even if
 * agreement_start() has failed. */
void agreement_give_up(struct agreement *agreement, enum collet_result code, const char *text);

void agreement_fini(struct agreement *agreement); /* does nothing if zeroed */

/* Called for the layer (seams/layer.h). Each rank has spare memory for one decision, so it can say no when there is no memory. */
enum collet_result agreement_stock(struct boot *boot);
/* Is this letter a vote for this process? A vote that a rank sends to a higher rank is only a question. */
bool agreement_hear(struct hub *hub, const struct letter *letter, struct letter **answer);
void agreement_forget(struct hub *hub);

#endif
