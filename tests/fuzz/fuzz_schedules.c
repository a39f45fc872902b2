/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of other libraries, as XML.
 */
#include "fuzz.h"
#include "layers/schedules/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct algorithm *algorithm;
    if (import_text((const char *)data, size, "fuzz", &algorithm) != COLLET_SUCCESS)
        return 0;
    (void)import_verify(algorithm);
    import_destroy(algorithm);
    return 0;
}
