/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "windows".
 */
#include "seams/windows.h"

#include "base/err.h"

enum collet_result window_register_all(const struct window_post *posts, int nposts) {
    (void)posts, (void)nposts;
    return err_set(COLLET_ERR_UNSUPPORTED, "this build of collet has no windows");
}
