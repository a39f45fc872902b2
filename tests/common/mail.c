/* SPDX-License-Identifier: Apache-2.0 */
#include "common/mail.h"

#include "common/numbers.h"

#include <stdlib.h>

static uint64_t seed_of(const struct letter *letter) { return letter->number * 1000u + (unsigned)letter->to; }

static struct letter *letter_new(struct mail *mail, int from, int to, unsigned number, size_t bytes) {
    ranks_check(mail->ranks, mail->rank, mail->nletters < MAIL_LETTERS_MAX);
    struct letter *letter = &mail->letters[mail->nletters++];
    *letter = (struct letter){.from = from, .to = to, .number = number, .bytes = bytes};
    guard_create(&letter->guard, bytes, number % 8);
    return letter;
}

void mail_open(struct mail *mail, struct ranks *ranks, int rank, struct collet_comm *comm) {
    *mail = (struct mail){.ranks = ranks, .comm = comm, .rank = rank};
}

void mail_send(struct mail *mail, int to, unsigned number, size_t bytes) {
    struct letter *letter = letter_new(mail, mail->rank, to, number, bytes);
    numbers_fill(letter->guard.data, COLLET_UINT8, seed_of(letter), mail->rank, 0, bytes);
    guard_seal(&letter->guard);
    ranks_try(mail->ranks, mail->rank, collet_send(letter->guard.data, bytes, COLLET_UINT8, to, mail->comm, NULL));
}

void mail_recv(struct mail *mail, int from, unsigned number, size_t bytes) {
    struct letter *letter = letter_new(mail, from, mail->rank, number, bytes);
    letter->received = true;
    guard_seal(&letter->guard);
    ranks_try(mail->ranks, mail->rank, collet_recv(letter->guard.data, bytes, COLLET_UINT8, from, mail->comm, NULL));
}

static void letter_check(const struct mail *mail, const struct letter *l) {
    char why[NUMBERS_WHY_BYTES];
    long offset;
    if (!numbers_moved(l->guard.data, COLLET_UINT8, seed_of(l), l->from, 0, l->bytes, why))
        ranks_fail(mail->ranks, "rank %d: message %u from %d to %d: %s", mail->rank, l->number, l->from, l->to, why);
    guard_release(&l->guard, l->guard.data, l->received ? l->bytes : 0);
    if (!guard_kept(&l->guard, &offset))
        ranks_fail(mail->ranks, "rank %d: message %u from %d to %d: byte %ld was written", mail->rank, l->number,
                   l->from, l->to, offset);
}

void mail_settle(struct mail *mail) {
    for (int k = 0; k < mail->nletters; k++) {
        letter_check(mail, &mail->letters[k]);
        guard_destroy(&mail->letters[k].guard);
    }
    mail->nletters = 0;
}

struct mail *mail_new(struct ranks *ranks, int rank) {
    struct mail *mail = calloc(1, sizeof(*mail));
    mail_open(mail, ranks, rank, ranks_comm(ranks, rank, NULL));
    return mail;
}

void mail_destroy(struct mail *mail) {
    ranks_try(mail->ranks, mail->rank, collet_comm_destroy(mail->comm));
    free(mail);
}
