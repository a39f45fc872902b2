/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes on the host: runs what blocks of a GPU run, with PORT_EMULATED, one lane after the other in one thread. A lane
 * goes on until it waits (port_any, port_pause) or ends; which one is next is drawn from a seed. So lanes run far ahead of
 * each other in every order, and what lacks a barrier goes wrong.
 */
#ifndef COLLET_TESTS_LANES_H
#define COLLET_TESTS_LANES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs body(argument, block) on `lanes` lanes of each of `blocks` blocks until all have ended. In one thread several calls
 * may not be nested; in several threads they run side by side. seed 0: in order. */
typedef void lanes_body(void *argument, uint32_t block);
void lanes_run(uint32_t blocks, uint32_t lanes, uint64_t seed, lanes_body *body, void *argument);

#ifdef __cplusplus
}
#endif

#endif
