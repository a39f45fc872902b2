/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/nccl/nccl_plugin.h"

#include "base/log.h"
#include "layers/nccl/plug_lib.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

bool nccl_plugin_open(const char *kind, const char *name, const char *symbol, void **library_p, const void **table_p) {
    char lower[32] = "", why[512];
    for (size_t k = 0; kind[k] != '\0' && k < sizeof lower - 1; k++)
        lower[k] = (char)tolower((unsigned char)kind[k]);
    *library_p = plug_find(lower, name, why, sizeof why);
    *table_p = *library_p != NULL ? dlsym(*library_p, symbol) : NULL;
    if (*library_p == NULL)
        nccl_plugin_miss(kind, name, "cannot be loaded: %s", why);
    else if (*table_p == NULL)
        nccl_plugin_miss(kind, name, "has no %s: collet takes version 6", symbol);
    return *table_p != NULL;
}

void nccl_plugin_miss(const char *kind, const char *name, const char *format, ...) {
    static const char *const kinds[] = {"TUNER", "PROFILER", "ENV"};
    static bool told[sizeof kinds / sizeof *kinds];
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kind, kinds[k]) == 0 && !__atomic_exchange_n(&told[k], true, __ATOMIC_RELAXED))
            log_always(ENV, "NCCL_%s_PLUGIN=%s %s; going on without it", kind, name, text);
}

void nccl_plugin_close(void *library) {
    if (library != NULL)
        dlclose(library);
}

void nccl_plugin_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *format,
                     ...) {
    char text[512];
    va_list args;
    (void)flags, (void)file, (void)line;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_at(level <= NCCL_LOG_WARN ? LOG_WARN : level == NCCL_LOG_INFO ? LOG_INFO : LOG_TRACE, PLAN, "%s", text);
}
