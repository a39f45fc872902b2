/* SPDX-License-Identifier: Apache-2.0
 *
 * A network of its own for each process of a test, and a switch between them. A cable can be pulled out of the switch: then packets
 * vanish both ways, and nobody is told.
 *
 *            switch             in the network of whoever called cables_open(), the parent of the others
 *        ┌──────┼──────┐
 *      eth0   eth0   eth0       10.78.0.<k + 1> in the network of process k
 */
#ifndef COLLET_TESTS_CABLES_H
#define COLLET_TESTS_CABLES_H

#include <stdbool.h>

bool cables_open(void);         /* before any thread; false: this machine does not permit it, or has no iproute2 */
bool cables_plug(int k);        /* a child of that process, before any thread: it is process k */
void cables_pull(unsigned set); /* of the processes whose bits are set; by the process that has the switch */

#endif
