/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as text, and the version.
 */
#include "api/comm.h"

#include <stdio.h>

const char *collet_error_string(enum collet_result result) {
    switch (result) {
    case COLLET_SUCCESS: return "success";
    case COLLET_IN_PROGRESS: return "in progress";
    case COLLET_ERR_INVALID_ARGUMENT: return "invalid argument";
    case COLLET_ERR_INVALID_USAGE: return "invalid usage";
    case COLLET_ERR_SYSTEM: return "system error";
    case COLLET_ERR_NO_MEMORY: return "out of memory";
    case COLLET_ERR_REMOTE: return "another rank died, left or failed";
    case COLLET_ERR_TIMEOUT: return "timeout";
    case COLLET_ERR_ABORTED: return "aborted";
    case COLLET_ERR_MISMATCH: return "ranks made different calls";
    case COLLET_ERR_UNSUPPORTED: return "unsupported";
    case COLLET_ERR_INTERNAL: return "internal error";
    }
    return "unknown result";
}

const char *collet_last_error(const struct collet_comm *comm) {
    static _Thread_local char text[ERR_TEXT_BYTES];
    if (comm == NULL)
        snprintf(text, sizeof(text), "%s", err_last());
    else
        comm_error_text((struct collet_comm *)comm, text, sizeof(text));
    return text;
}

enum collet_result collet_get_version(int *version) {
    if (version == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "version is NULL: pass the address of an int");
    *version = COLLET_VERSION;
    return COLLET_SUCCESS;
}
