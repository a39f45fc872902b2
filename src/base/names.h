/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of names, such as the values of some knobs: "ring, tree".
 */
#ifndef COLLET_BASE_NAMES_H
#define COLLET_BASE_NAMES_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 64

/* Takes the next name from a list, and moves *list behind it. False: there is none. */
static inline bool name_next(const char **list, char name[NAME_BYTES]) {
    *list += strspn(*list, ", ");
    size_t length = strcspn(*list, ", ");
    snprintf(name, NAME_BYTES, "%.*s", (int)length, *list);
    *list += length;
    return length > 0;
}

/* Is the word in the list? Upper and lower case are equal. */
static inline bool name_is_listed(const char *word, const char *list) {
    char name[NAME_BYTES];
    while (name_next(&list, name))
        if (strcasecmp(name, word) == 0)
            return true;
    return false;
}

#endif
