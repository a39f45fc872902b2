/* SPDX-License-Identifier: Apache-2.0
 *
 * Suppose that a program has closed descriptors 0, 1 and 2. A library opens a device, and the device gets descriptor 2. Then all code that
 * writes to standard error writes into the device. So these descriptors are taken while such a library is called:
 *
 *      SCOPED_LOW;                      those of 0, 1, 2 that are closed become /dev/null
 *      device = ibv_open_device(…);     the device gets 3 or more
 *      }                                those descriptors are closed again
 *
 * If another thread opens a file at the same time, the file gets a higher descriptor than it would get otherwise.
 */
#ifndef COLLET_BASE_LOW_H
#define COLLET_BASE_LOW_H

#include <fcntl.h>
#include <unistd.h>

/* Opens /dev/null as each of 0, 1, 2 that is closed. Returns a bit for each descriptor that it has taken. */
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
