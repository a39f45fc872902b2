/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel tells that an element of a region is wrong, and no more. Which, and how many, the host finds out.
 */
#include "gpu/accept.h"
#include "gpu/accept_expect.h"

#include <stdio.h>
#include <stdlib.h>

void expect_explain(const struct expect_region *region, char *why, size_t room) {
    struct expect_region copy = *region;
    unsigned long long wrong = 0, first = 0;
    copy.memory = malloc(region->elems * region->elem_bytes);
    if (copy.memory == NULL)
        abort();
    side->copy(copy.memory, region->memory, region->elems * region->elem_bytes);
    for (uint64_t elem = region->elems; elem-- > 0;)
        if (!expect_is_right(&copy, elem, expect_load(&copy, elem))) {
            wrong++;
            first = elem;
        }
    snprintf(why, room, "%llu of %llu elements are wrong; the first, %llu, is %#llx, not %#llx%s", wrong,
             (unsigned long long)region->elems, first, (unsigned long long)expect_load(&copy, first),
             (unsigned long long)expect_after(&copy, first),
             wrong > 0 ? "" : "; a kernel has found one, the host none");
    free(copy.memory);
}
