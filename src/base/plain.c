/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plain.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

static pthread_once_t made = PTHREAD_ONCE_INIT;
static locale_t plain; /* The locale "C". It is never freed; 0: there was no memory for it */

static void make(void) { plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); }

/* Switches the thread to the locale `plain`. If that is 0, nothing changes. */
locale_t plain_begin(void) {
    pthread_once(&made, make);
    return uselocale(plain);
}

void plain_end(locale_t before) { uselocale(before); }

/* Keeps errno, because the format may use %m. */
int plain_text(char *text, size_t room, const char *format, va_list args) {
    const int error = errno;
    const locale_t before = plain_begin();
    errno = error;
    const int length = vsnprintf(text, room, format, args);
    plain_end(before);
    return length;
}
