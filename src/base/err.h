/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors. The function that finds an error calls err_set() once, with the cause and the remedy. Its callers only pass the code on,
 * with COLLET_TRY.
 */
#ifndef COLLET_BASE_ERR_H
#define COLLET_BASE_ERR_H

#include "collet.h"

#include <stdbool.h>

/* The only propagation macro: returns from the calling function unless expr is COLLET_SUCCESS. */
#define COLLET_TRY(expr)                                                                                               \
    do {                                                                                                               \
        enum collet_result try_result_ = (expr);                                                                       \
        if (try_result_ != COLLET_SUCCESS)                                                                             \
            return try_result_;                                                                                        \
    } while (0)

#define ERR_TEXT_BYTES 512

/* Stores the formatted text as the calling thread's last error, logs it at WARN, and returns code. The format may use %m. If err_is_told is
 * true, nothing is logged, because this program prints err_last() itself. */
extern bool err_is_told;
enum collet_result err_set(enum collet_result code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like err_set(), for a text that another rank or thread has already logged: so nothing is logged. Returns code. */
enum collet_result err_adopt(enum collet_result code, const char *text);

/* The calling thread's last error text; "": there was no error. */
const char *err_last(void);

#endif
