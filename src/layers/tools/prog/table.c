/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of text. No line ends in blanks, and a column in which nothing stands is left out.
 */
#include "layers/tools/prog/show.h"

#include <stdarg.h>
#include <string.h>

enum { COLUMNS_MAX = 64 };

void show_add(char field[SHOW_FIELD_BYTES], const char *format, ...) {
    size_t used = strlen(field), room = SHOW_FIELD_BYTES - used;
    va_list args;
    va_start(args, format);
    if ((size_t)vsnprintf(field + used, room, format, args) >= room)
        strcpy(field + SHOW_FIELD_BYTES - 3, "..");
    va_end(args);
}

void show_table(const void *what, void (*write)(const void *what, int row, int column, char field[SHOW_FIELD_BYTES]),
                int rows, int columns, bool alike, FILE *out) {
    int widths[COLUMNS_MAX] = {0};
    for (int pass = 0; pass < 2; pass++) /* Pass 0 measures the columns, pass 1 prints */
        for (int row = -1; row < rows; row++) {
            int at = 0, begin = 0;
            for (int c = 0; c < columns; c++) {
                char field[SHOW_FIELD_BYTES] = "";
                write(what, row, c, field);
                int width = (int)strlen(field);
                int *widest = &widths[alike && c > 0 ? 1 : c];
                *widest = width > *widest ? width : *widest;
                if (pass == 1 && width > 0)
                    at = begin + fprintf(out, "%*s%s", begin - at, "", field) - (begin - at);
                begin += *widest > 0 ? *widest + 2 : 0;
            }
            if (pass == 1)
                fputc('\n', out);
        }
}
