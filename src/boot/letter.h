/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters: messages between ranks, on their way and in mailboxes.
 */
#ifndef COLLET_BOOT_LETTER_H
#define COLLET_BOOT_LETTER_H

#include <stddef.h>
#include <stdint.h>

/* A message to a rank, or a notice to all ranks. */
struct letter {
    struct letter *next;
    int32_t to; /* LETTER_TO_ALL: `key` is the new state of rank `from` */
    int32_t from;
    uint64_t key;
    uint64_t number; /* set by the link */
    uint32_t bytes;
    char data[];
};
#define LETTER_TO_ALL (-1)

struct letter_queue {
    struct letter *first, **end;
};
void letter_queue_init(struct letter_queue *queue);
void letter_queue_clear(struct letter_queue *queue); /* frees all of them */
void letter_append(struct letter_queue *queue, struct letter *letter);
struct letter *letter_take(struct letter_queue *queue); /* takes the first one; NULL: empty */
/* Creates a letter; NULL: no memory. data NULL: the caller writes the data. */
struct letter *letter_create(int to, int from, uint64_t key, const void *data, size_t bytes);
void letter_free(struct letter *letter); /* wipes it first: it may contain another communicator's id. NULL is fine */
#define SCOPED_LETTER __attribute__((cleanup(letter_free_at)))
void letter_free_at(struct letter **letter);

#endif
