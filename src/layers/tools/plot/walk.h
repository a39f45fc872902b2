/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, read from its beginning to its end: each value is told with its path.
 *
 *    {"results": [{"size": 8, "root": "-1"}]}   ──▶   .results[].size 8 ▸ .results[].root -1 ▸ end of .results[] ▸ …
 */
#ifndef COLLET_LAYERS_TOOLS_PLOT_WALK_H
#define COLLET_LAYERS_TOOLS_PLOT_WALK_H

#include <stdbool.h>

struct walk_listener {
    void (*value)(void *context, const char *path,
                  const char *text);              /* a string without its quotes, a number, true … */
    void (*end)(void *context, const char *path); /* of an object or a list */
    void *context;
};

/* False if text is no JSON, or nested more deeply than files of tables are. What was told until then has been told. */
bool walk_json(const char *text, const struct walk_listener *listener);

#endif
