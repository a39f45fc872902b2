/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports for tests that listen where other tests may run at the same time.
 */
#ifndef COLLET_TESTS_PORTS_H
#define COLLET_TESTS_PORTS_H

/* A port that nobody listens on, nor on the port two above it, where the ranks of torchrun's variables meet. It lies below
 * the ports that the kernel gives to outgoing connections, and the next call returns another one. */
int port_free(void);

#endif
