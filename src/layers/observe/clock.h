/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of hosts. See clock.c.
 */
#ifndef COLLET_LAYERS_OBSERVE_CLOCK_H
#define COLLET_LAYERS_OBSERVE_CLOCK_H

#include "boot/boot.h"

/* Asks rank 0 for its time, to find the difference between its clock and os_now_ns() here. This takes some round trips. IN_PROGRESS: call
 * again. SUCCESS: boot_clock_ns() returns the time that must be added here. Call it after boot_try_init(). */
enum collet_result boot_try_clock(struct boot *boot);
int64_t boot_clock_ns(const struct boot *boot); /* 0 on rank 0's host, or if boot_try_clock() was not called */

#endif
