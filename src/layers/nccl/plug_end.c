/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/nccl/plug_end.h"

#include "base/os.h"

#include <stdarg.h>
#include <stdio.h>

void plug_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]) {
    const struct plug_end *end = conn->impl;
    (void)step;
    snprintf(text, CONN_LINK_BYTES, "device %s of %s", end->host->devices[end->device].nic.name,
             end->host->table->name);
}

void plug_set_broken(struct conn *conn, const char *format, ...) {
    struct plug_end *end = conn->impl;
    va_list args;
    if (end->failures++ > 0) /* only the first failure is kept */
        return;
    va_start(args, format);
    vsnprintf(end->broken, sizeof(end->broken), format, args);
    va_end(args);
    end->broken_ns = os_now_ns();
}

void plug_call_failed(struct conn *conn, const char *call, int result) {
    char link[CONN_LINK_BYTES];
    plug_link_text(conn, 0, link);
    plug_set_broken(conn, "the connection %s rank %d (host %s, %s) broke: %s has failed with error %d",
                    conn->side == CONN_PRODUCER ? "to" : "from", conn->peer, conn->owner->peers[conn->peer].host, link,
                    call, result);
}

bool plug_test(struct conn *conn, void **request, int *bytes) {
    struct plug_end *end = conn->impl;
    int done = 0;
    if (*request == NULL)
        return true;
    int result = end->host->table->test(*request, &done, bytes);
    if (result != PLUG_SUCCESS)
        plug_call_failed(conn, "test", result);
    if (result != PLUG_SUCCESS || !done)
        return false;
    *request = NULL;
    return true;
}
