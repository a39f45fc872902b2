/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/nccl/nccl_plugin.h"

#include "base/err.h"
#include "base/log.h"
#include "layers/nccl/plug_lib.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum collet_result nccl_plugin_open(const char *kind, const char *name, const char *symbol, void **library_p,
                                    const void **table_p) {
    char file[256], lower[32] = "";
    for (size_t k = 0; kind[k] != '\0' && k < sizeof lower - 1; k++)
        lower[k] = (char)tolower((unsigned char)kind[k]);
    snprintf(file, sizeof file, "libnccl-%s-%s.so", lower, name);
    const char *why;
    *library_p = plug_load(name, &why);
    if (*library_p == NULL && strchr(name, '/') == NULL)
        *library_p = plug_load(file, &why);
    if (*library_p == NULL)
        return err_set(COLLET_ERR_INVALID_USAGE, "NCCL_%s_PLUGIN=%s cannot be loaded: %s", kind, name, why);
    *table_p = dlsym(*library_p, symbol);
    if (*table_p == NULL)
        return err_set(COLLET_ERR_UNSUPPORTED, "NCCL_%s_PLUGIN=%s has no %s: collet takes version 6", kind, name,
                       symbol);
    return COLLET_SUCCESS;
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
