/* SPDX-License-Identifier: Apache-2.0
 *
 *      letter 0   │ size of the message │        letters 1, 2, …   │ up to BOOT_MESSAGE_BYTES of the message │
 */
#include "topo/probe/bundle.h"

#include "base/err.h"

#include <stdlib.h>

enum { BUNDLE_BYTES_MAX = 1 << 28 };

enum collet_result bundle_send(struct boot *boot, int to, uint64_t key, const void *bytes, size_t size) {
    uint64_t all = size;
    if (size < 1 || size > BUNDLE_BYTES_MAX)
        return err_set(COLLET_ERR_INTERNAL, "a message of %zu bytes to rank %d: at most %d are possible", size, to,
                       BUNDLE_BYTES_MAX);
    COLLET_TRY(boot_send(boot, to, key, &all, sizeof all));
    for (size_t at = 0; at < size; at += BOOT_MESSAGE_BYTES) {
        size_t rest = size - at;
        COLLET_TRY(
            boot_send(boot, to, key, (const char *)bytes + at, rest < BOOT_MESSAGE_BYTES ? rest : BOOT_MESSAGE_BYTES));
    }
    return COLLET_SUCCESS;
}

static enum collet_result recv_size(struct bundle *bundle, struct boot *boot, int from, uint64_t key) {
    uint64_t size;
    size_t bytes;
    COLLET_TRY(boot_try_recv(boot, from, key, &size, sizeof size, &bytes));
    if (bytes != sizeof size || size < 1 || size > BUNDLE_BYTES_MAX)
        return err_set(COLLET_ERR_INTERNAL, "rank %d sent a message without a size", from);
    bundle->bytes = malloc(size);
    if (bundle->bytes == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu bytes from rank %d", (size_t)size, from);
    bundle->size = size;
    return COLLET_SUCCESS;
}

enum collet_result bundle_try_recv(struct bundle *bundle, struct boot *boot, int from, uint64_t key) {
    if (bundle->size == 0)
        COLLET_TRY(recv_size(bundle, boot, from, key));
    while (bundle->have < bundle->size) {
        size_t bytes, rest = bundle->size - bundle->have;
        COLLET_TRY(boot_try_recv(boot, from, key, (char *)bundle->bytes + bundle->have, rest, &bytes));
        bundle->have += bytes;
    }
    return COLLET_SUCCESS;
}

void bundle_fini(struct bundle *bundle) {
    free(bundle->bytes);
    *bundle = (struct bundle){.bytes = NULL};
}
