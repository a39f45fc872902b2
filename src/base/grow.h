/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow as entries are appended.
 */
#ifndef COLLET_BASE_GROW_H
#define COLLET_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` entries after `used` ones, in an array that has room for *room entries. An array that grows at least doubles.
 * array_p: address of the pointer to the first entry. False: there is no memory, and the array is unchanged. */
static inline bool grow(void *array_p, size_t used, size_t more, int *room, size_t entry_bytes) {
    void *array;
    size_t wanted = used + more, doubled = 2 * (size_t)*room;
    if (wanted <= (size_t)*room)
        return true;
    if (wanted < doubled)
        wanted = doubled;
    if (wanted < 16)
        wanted = 16;
    memcpy(&array, array_p, sizeof array);
    array = realloc(array, wanted * entry_bytes);
    if (array == NULL)
        return false;
    memcpy(array_p, &array, sizeof array);
    *room = (int)wanted;
    return true;
}

#endif
