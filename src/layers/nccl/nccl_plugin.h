/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins of all kinds have in common: a shared library with a table, and a logger.
 */
#ifndef COLLET_LAYERS_NCCL_NCCL_PLUGIN_H
#define COLLET_LAYERS_NCCL_NCCL_PLUGIN_H

#include "collet.h"
#include "compat/nccl_tuner.h"

/* NCCL_<kind>_PLUGIN=name: a path, the name of a file, or of NCCL's pattern for such files. *table_p: what the library calls
 * `symbol`. *library_p is written even on failure. */
enum collet_result nccl_plugin_open(const char *kind, const char *name, const char *symbol, void **library_p,
                                    const void **table_p);
void nccl_plugin_close(void *library); /* NULL is fine */

void nccl_plugin_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *format, ...);

#endif
