/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/common/text.h"

#include <stdlib.h>
#include <string.h>

char *text_read(FILE *file) {
    char *text = NULL;
    size_t room = 0;
    if (file == NULL || getdelim(&text, &room, '\0', file) > 0)
        return text;
    free(text); /* Nothing was read into it. */
    return feof(file) ? strdup("") : NULL;
}
