/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial trees as arithmetic on the bits of a place; binomial.h has the picture.
 */
#include "algo/many/binomial.h"

int binomial_levels(int n) {
    int levels = 0;
    while (levels < BINOMIAL_MAX_CHILDREN && 1u << levels < (unsigned)n)
        levels++;
    return levels;
}

int binomial_level(int n, int place) { return place == 0 ? binomial_levels(n) : __builtin_ctz((unsigned)place); }

/* Places of a level are its odd multiples. */
int binomial_place(int n, int level, int i) { return level == binomial_levels(n) ? 0 : (2 * i + 1) << level; }

int binomial_count(int n, int level) { return level == binomial_levels(n) ? 1 : ((n - 1) / (1 << level) + 1) / 2; }

int binomial_span(int n, int place) {
    int full = place == 0 ? n : 1 << binomial_level(n, place);
    return full < n - place ? full : n - place;
}

/* The longest span is that of the root's farthest child, whose tree may be cut short, or that of the child before, whose tree never is. */
int binomial_longest_span(int n) {
    int levels = binomial_levels(n);
    if (levels < 2)
        return 1;
    int cut = n - (1 << (levels - 1)), full = 1 << (levels - 2);
    return cut > full ? cut : full;
}

int binomial_children(int n, int place, int child[BINOMIAL_MAX_CHILDREN]) {
    int nchildren = 0, level = binomial_level(n, place);
    for (int bit = 0; bit < level && place + (1 << bit) < n; bit++)
        child[nchildren++] = place + (1 << bit);
    return nchildren;
}
