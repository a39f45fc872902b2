/* SPDX-License-Identifier: Apache-2.0 */
#include "common/ports.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS_FIRST 12000
#define PORTS_COUNT 20000

static bool is_free(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int bound = bind(fd, (struct sockaddr *)&address, sizeof(address));
    close(fd);
    return bound == 0;
}

/* Neighbouring processes begin far apart. */
int port_free(void) {
    static int calls;
    for (int tries = 0; tries < PORTS_COUNT; tries++) {
        int port = PORTS_FIRST + (getpid() * 37 + 3 * calls++) % PORTS_COUNT;
        if (is_free(port) && is_free(port + 2))
            return port;
    }
    abort();
}
