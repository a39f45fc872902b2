/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/nccl/wording.h"

#include <stdarg.h>
#include <string.h>

static void add(char *text, const char *format, va_list args) {
    const size_t used = strlen(text);
    vsnprintf(text + used, CONFIG_TEXT_BYTES - used, format, args);
}

void words_add(char *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(text, format, args);
    va_end(args);
}

void words_lose(struct words *words, const char *format, ...) {
    va_list args;
    words_add(words->loss, "%s", words->loss[0] != '\0' ? "; " : "");
    va_start(args, format);
    add(words->loss, format, args);
    va_end(args);
}
