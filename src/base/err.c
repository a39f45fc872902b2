/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/log.h"
#include "base/plain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

bool err_is_told;
static _Thread_local char last_text[ERR_TEXT_BYTES];

enum collet_result err_set(enum collet_result code, const char *format, ...) {
    /* Formats into another buffer first: an argument may be the text of an earlier failure, which lies in last_text. */
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    plain_text(text, sizeof text, format, args);
    va_end(args);

    if (!err_is_told)
        log_warn(ERR, "%s", text);
    return err_adopt(code, text);
}

enum collet_result err_adopt(enum collet_result code, const char *text) {
    int saved_errno = errno;
    if (text != last_text)
        snprintf(last_text, sizeof last_text, "%s", text);
    errno = saved_errno;
    return code;
}

const char *err_last(void) { return last_text; }
