/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 6: LL. Each line is loaded once: a second load could see another line than the one whose flag was looked at.
 */
#include "check/ll.h"

void lab_put(const uint32_t *words, int nwords, uint32_t round) {
    for (int w = 0; w < nwords; w++)
        store_line(w, (uint64_t)round << 32 | words[w]);
}

int lab_get(uint32_t *words, int nwords, uint32_t round) {
    for (int w = 0; w < nwords; w++) {
        uint64_t line = load_line(w);
        if (line >> 32 != round)
            return 0;
        words[w] = (uint32_t)line;
    }
    return 1;
}
