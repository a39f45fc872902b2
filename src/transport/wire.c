/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/wire.h"

void wire_allow_loans(struct conn *conn, int (*only)(uint64_t address, uint32_t bytes)) {
    if (conn->owner->config->proxy || !conn_is_direct(conn->owner, "wire"))
        return;
    conn_allow_loans(conn, LOAN_WIRE, LOAN_WIRE_BYTES);
    conn->end.loans.only = only;
}
