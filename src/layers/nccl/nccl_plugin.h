/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins of all kinds have in common: a shared library that exports a table of functions, and a logger.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_PLUGIN_H
#define COLLET_LAYERS_NCCL_NCCL_PLUGIN_H

#include "collet.h"
#include "compat/nccl_tuner.h"

#include <stdbool.h>

/* Opens the plugin of NCCL_<kind>_PLUGIN=name. The name is a path, a file name, or X of libnccl-<kind>-X.so. *table_p:
 * the library's symbol `symbol`. False: a warning says why, and the job goes on without the plugin. *library_p is
 * written in any case; the caller closes it. */
bool nccl_plugin_open(const char *kind, const char *name, const char *symbol, void **library_p, const void **table_p);
/* Writes the warning that the job goes on without the plugin: once per process for each kind. */
void nccl_plugin_miss(const char *kind, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void nccl_plugin_close(void *library); /* NULL is fine */

void nccl_plugin_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *format, ...);

#endif
