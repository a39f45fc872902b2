/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of base/os.h for a page in a browser, which has no operating system.
 */
#include "base/os.h"

#include <time.h>

uint64_t os_now_ns(void) { return (uint64_t)clock() * (1000000000u / CLOCKS_PER_SEC); }
const char *os_host_name(void) { return "browser"; }
int os_pid(void) { return 1; }
int os_tid(void) { return 1; }
