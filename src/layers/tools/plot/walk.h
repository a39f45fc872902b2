/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads JSON from its beginning to its end, and tells a listener each value with its path.
 *
 *    {"results": [{"size": 8, "root": "-1"}]}   ──▶   .results[].size 8 ▸ .results[].root -1 ▸ end of .results[] ▸ …
 */
#ifndef COLLET_LAYERS_TOOLS_PLOT_WALK_H
#define COLLET_LAYERS_TOOLS_PLOT_WALK_H

#include <stdbool.h>

struct walk_listener {
    /* Called for each value. `text` is a string without its quotes, a number, or a word such as true. */
    void (*value)(void *context, const char *path, const char *text);
    void (*end)(void *context, const char *path); /* Called at the end of an object or a list. */
    void *context;
};

/* Reads JSON and tells a listener of each value. False: the text is no JSON, or is nested too deeply. The listener was told
 * of all that came before. */
bool walk_json(const char *text, const struct walk_listener *listener);

#endif
