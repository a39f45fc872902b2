/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks of hosts. See clock.c.
 */
#ifndef COLLET_LAYERS_OBSERVE_CLOCK_H
#define COLLET_LAYERS_OBSERVE_CLOCK_H

#include "boot/boot.h"

/* Finds out, by questions to rank 0, what to add to os_now_ns() here to get what it is there: IN_PROGRESS until
 * boot_clock_ns() is right, which takes some round trips. After boot_try_init(). */
enum collet_result boot_try_clock(struct boot *boot);
int64_t boot_clock_ns(const struct boot *boot); /* 0 on rank 0's host, and if nobody has tried */

#endif
