/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/launchers/launcher_meeting.h"

#include "base/memory.h"
#include "boot/boot.h"
#include "layers/launchers/pmi.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

_Static_assert(PMI_TEXT_BYTES > 2 * COLLET_UNIQUE_ID_BYTES, "an id fits in hexadecimal");

bool launcher_meeting_possible(void) { return pmi_is_here() || pmix_is_here(); }

/* Wipes the text, because it contains an id. */
static void wipe_text(char (*text)[PMI_TEXT_BYTES]) { sodium_memzero(*text, sizeof *text); }

static enum collet_result share_id(int rank, int number, const struct config *config, struct collet_unique_id *id) {
    char key[32];
    __attribute__((cleanup(wipe_text))) char text[PMI_TEXT_BYTES] = "";
    snprintf(key, sizeof key, "collet-%d", number);
    if (rank == 0) {
        COLLET_TRY(boot_unique_id(id));
        sodium_bin2hex(text, sizeof text, (const uint8_t *)id->bytes, sizeof id->bytes);
    }
    enum collet_result result =
        pmi_is_here() ? pmi_share(rank, key, text, config) : pmix_share(rank, key, text, config);
    if (result != COLLET_SUCCESS && rank == 0)
        boot_cancel_id(id, result, err_last());
    COLLET_TRY(result);
    size_t bytes = 0;
    if (sodium_hex2bin((uint8_t *)id->bytes, sizeof id->bytes, text, strlen(text), NULL, &bytes, NULL) != 0 ||
        bytes != sizeof id->bytes)
        return err_set(COLLET_ERR_SYSTEM, "what the launcher handed over from rank 0 is no unique id");
    return COLLET_SUCCESS;
}

PROCESS_LOCK(lock);

enum collet_result launcher_meeting(int rank, const struct config *config, struct collet_unique_id *id) {
    static int meetings; /* Number of meetings of this process so far, equal on all ranks */
    SCOPED_LOCK(&lock);
    return share_id(rank, meetings++, config, id);
}
