/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 6: memory that two ranks share, and that shows stores in any order.
 */
#ifndef COURSE_CHECK_LL_H
#define COURSE_CHECK_LL_H

#include <stdint.h>

/* One store, one load: of 8 bytes, which come whole or not at all. `line` is a number from 0 on. There are twice as many lines
 * as words. */
void store_line(int line, uint64_t value);
uint64_t load_line(int line);

/* Yours. put() hands nwords words of 4 bytes over. get() looks whether they are there: 0: not all of them yet; 1: all, and
 * it has written them to `words`. Rounds are numbered from 1. Lines still have what round − 1 wrote. */
void lab_put(const uint32_t *words, int nwords, uint32_t round);
int lab_get(uint32_t *words, int nwords, uint32_t round);

#endif
