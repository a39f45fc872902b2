/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/transport.h"

#include <stdio.h>

void conn_text_changed(const struct conn *conn, uint64_t step, const char *found, char text[ERR_TEXT_BYTES]) {
    const struct conn_owner *owner = conn->owner;
    char link[CONN_LINK_BYTES] = "memory";
    if (conn->transport->link_text != NULL)
        conn->transport->link_text(conn, step, link);
    snprintf(text, ERR_TEXT_BYTES,
             "data changed on the way from rank %d (host %s) to rank %d (host %s), by %s, %s: slot %llu, %s",
             conn->peer, owner->peers[conn->peer].host, owner->rank, owner->peers[owner->rank].host,
             conn->transport->name, link, (unsigned long long)(step - (uint64_t)owner->config->first_step), found);
}
