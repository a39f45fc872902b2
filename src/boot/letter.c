/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/letter.h"

#include "boot/patience.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

void letter_queue_init(struct letter_queue *queue) { *queue = (struct letter_queue){.end = &queue->first}; }

void letter_append(struct letter_queue *queue, struct letter *letter) {
    letter->next = NULL;
    *queue->end = letter;
    queue->end = &letter->next;
}

struct letter *letter_take(struct letter_queue *queue) {
    struct letter *letter = queue->first;
    if (letter != NULL && (queue->first = letter->next) == NULL)
        queue->end = &queue->first;
    return letter;
}

void letter_free(struct letter *letter) {
    if (letter != NULL)
        sodium_memzero(letter->data, letter->bytes);
    free(letter);
}

void letter_free_at(struct letter **letter) { letter_free(*letter); }

void letter_queue_clear(struct letter_queue *queue) {
    struct letter *letter;
    while ((letter = letter_take(queue)) != NULL)
        letter_free(letter);
}

struct letter *letter_create(int to, int from, uint64_t key, const void *data, size_t bytes) {
    struct letter *letter = patient_malloc(sizeof *letter + bytes);
    if (letter == NULL)
        return NULL;
    *letter = (struct letter){.to = to, .from = from, .key = key, .bytes = (uint32_t)bytes};
    if (data != NULL)
        memcpy(letter->data, data, bytes);
    return letter;
}
