/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 6: write LL.
 *
 * A message with a flag behind it needs a fence: nothing else keeps the flag from showing before the words.
 *
 *      line      0        1        2        3
 *              word 0   word 1   word 2   flag = round          this program: right only if stores show in order
 *
 * NCCL's protocol LL needs no fence. A store of 8 bytes comes whole. So each line carries 4 bytes of the message and 4 bytes
 * of flag, and the reader believes a line when its flag is that of the round. Half of the bytes are flags: that is the price.
 */
#include "check/ll.h"

void lab_put(const uint32_t *words, int nwords, uint32_t round) {
    for (int w = 0; w < nwords; w++)
        store_line(w, words[w]);
    store_line(nwords, round);
}

int lab_get(uint32_t *words, int nwords, uint32_t round) {
    if (load_line(nwords) != round)
        return 0;
    for (int w = 0; w < nwords; w++)
        words[w] = (uint32_t)load_line(w);
    return 1;
}
