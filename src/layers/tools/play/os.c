/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page in a browser has of an operating system (base/os.h).
 */
#include "base/os.h"

#include <time.h>

uint64_t os_now_ns(void) { return (uint64_t)clock() * (1000000000u / CLOCKS_PER_SEC); }
const char *os_host_name(void) { return "browser"; }
int os_pid(void) { return 1; }
int os_tid(void) { return 1; }
