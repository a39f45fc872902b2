/* SPDX-License-Identifier: Apache-2.0
 *
 * A program has closed descriptors 0, 1 and 2. A library opens a device, gets number 2, and keeps it. Then whatever writes to standard
 * error writes into that device. So they are taken while such a library is called:
 *
 *      SCOPED_LOW;                      /dev/null is 0, 1, 2, as far as these were closed
 *      device = ibv_open_device(…);     gets 3 or more
 *      }                                they are closed again
 *
 * If a thread of the program opens a file at the same time, its number is higher than it would be without that.
 */
#ifndef COLLET_BASE_LOW_H
#define COLLET_BASE_LOW_H

#include <fcntl.h>
#include <unistd.h>

/* Takes those that are closed; a bit for each. */
static inline unsigned low_take(void) {
    unsigned taken = 0;
    for (int fd; (fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0;) {
        if (fd > STDERR_FILENO) {
            close(fd);
            break;
        }
        taken |= 1u << fd;
    }
    return taken;
}

static inline void low_give_back(const unsigned *taken) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (*taken >> fd & 1)
            close(fd);
}

#define SCOPED_LOW const unsigned low_taken_ __attribute__((cleanup(low_give_back), unused)) = low_take()

#endif
