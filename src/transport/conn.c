/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/conn.h"

#include "base/names.h"

static uint32_t least_bytes(const struct config *config, uint32_t default_bytes) {
    return config->direct_bytes > 0 ? (uint32_t)config->direct_bytes : default_bytes;
}

uint32_t conn_least_lent(const struct config *config, const char *way, uint32_t default_bytes) {
    return name_is_listed(way, config->direct) ? least_bytes(config, default_bytes) : 0;
}

bool conn_is_direct(const struct conn_owner *owner, const char *way) {
    if (owner->gpu != NULL && strcmp(way, "process") != 0 && strcmp(way, "shared") != 0)
        return false;
    return name_is_listed(way, owner->config->direct) && (owner->kernel_from > 0 || strcmp(way, "cma") != 0);
}

void conn_allow_loans(struct conn *conn, enum loan_way way, uint32_t default_bytes) {
    conn->end.loans.way = way;
    conn->end.loans.least_bytes = least_bytes(conn->owner->config, default_bytes);
}

void conn_allow_heap(struct conn *conn, struct heap_view *view) {
    conn->end.loans.way = LOAN_HOST;
    conn->end.loans.least_common_bytes = least_bytes(conn->owner->config, LOAN_HEAP_BYTES);
    conn->end.loans.heap = heap_own();
    conn->end.loans.view = view;
}
