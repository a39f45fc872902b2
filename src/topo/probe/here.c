/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine of this process is probed only once, because this takes some ten milliseconds and a program makes many
 * communicators. A forked process uses the graph of its parent.
 */
#include "topo/probe/topo.h"

#include "base/config.h"
#include "base/fork_lock.h"
#include "base/memory.h"
#include "base/log.h"

#include <pthread.h>
#include <string.h>

/* The graph of one file. path "" stands for no file. Graphs are kept as long as the process lives, because any caller that
 * has got one may still use it. */
struct seen {
    struct seen *next;
    struct topo *topo;
    char path[];
};

FORK_LOCK(lock); /* A FORK_LOCK, because libhwloc has locks of its own. */
static struct seen *all_seen;

/* Reads the file, if one is named and can be read; otherwise probes this machine. A bad file causes a warning. "" names no
 * file. */
static enum collet_result topo_load(const char *file_path, double clock_s, struct topo **topo_p) {
    if (file_path[0] == '\0')
        return topo_probe(clock_s, topo_p);
    if (topo_read_file(file_path, TOPO_THIS_MACHINE, topo_p) == COLLET_SUCCESS)
        return COLLET_SUCCESS;
    log_always(GRAPH, "COLLET_TOPO_FILE: %s; going on with what this machine has", err_last());
    return topo_probe(clock_s, topo_p);
}

static enum collet_result look(const struct config *config, struct seen **seen_p) {
    const char *file_path = config->topo_file;
    size_t bytes = strlen(file_path) + 1;
    struct topo *topo;
    COLLET_TRY(topo_load(file_path, (double)config->init_timeout / 2, &topo));
    enum collet_result status = memory_get(seen_p, 1, sizeof **seen_p + bytes, "no memory for a graph of this machine");
    if (status != COLLET_SUCCESS) {
        topo_destroy(topo);
        return status;
    }
    **seen_p = (struct seen){.next = all_seen, .topo = topo};
    memcpy((*seen_p)->path, file_path, bytes);
    all_seen = *seen_p;
    return COLLET_SUCCESS;
}

enum collet_result topo_here(const struct config *config, const struct topo **topo_p) {
    SCOPED_LOCK(&lock);
    struct seen *seen = all_seen;
    while (seen != NULL && strcmp(seen->path, config->topo_file) != 0)
        seen = seen->next;
    if (seen == NULL)
        COLLET_TRY(look(config, &seen));
    *topo_p = seen->topo;
    return COLLET_SUCCESS;
}
