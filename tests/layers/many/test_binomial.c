/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial trees: for every number of places, each place lies in one level and below one parent.
 */
#include "algo/many/binomial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Below 2^k places lie k levels: 1 → 0, 2 → 1, 3 and 4 → 2, 5 … 8 → 3. */
static int ceil_log2(int n) {
    int log2 = 0;
    while (1 << log2 < n)
        log2++;
    return log2;
}

static void trees_span_all_places_level_by_level(void **state) {
    (void)state;
    for (int n = 1; n <= 300; n++) {
        int nplaces = 0, nchildren = 0, child[BINOMIAL_MAX_CHILDREN];
        assert_int_equal(binomial_levels(n), ceil_log2(n));
        for (int level = 0; level <= binomial_levels(n); level++)
            for (int i = 0; i < binomial_count(n, level); i++, nplaces++) {
                int place = binomial_place(n, level, i), count = binomial_children(n, place, child);
                assert_in_range(place, 0, n - 1);
                assert_int_equal(binomial_level(n, place), level);
                for (int c = 0; c < count; c++) {
                    assert_in_range(child[c], place + 1, n - 1);
                    assert_int_equal(binomial_parent(child[c]), place);
                }
                nchildren += count;
            }
        assert_int_equal(nplaces, n);
        assert_int_equal(nchildren, n - 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_span_all_places_level_by_level),
    };
    return cmocka_run_group_tests_name("binomial trees", tests, NULL, NULL);
}
