/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in files, on sockets and in the log have one format, whatever the locale of the program. printf() and strtod() use the program's
 * locale, which may have a decimal comma. Between plain_begin() and plain_end(), this thread reads and writes numbers in the locale "C":
 *
 *      const locale_t before = plain_begin();
 *      fprintf(out, "%.9g", 0.5);                    always 0.5, never 0,5
 *      plain_end(before);
 *
 * plain_text() is vsnprintf() in the locale "C".
 */
#ifndef COLLET_BASE_PLAIN_H
#define COLLET_BASE_PLAIN_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

locale_t plain_begin(void);
void plain_end(locale_t before);
int plain_text(char *text, size_t room, const char *format, va_list args);

#endif
