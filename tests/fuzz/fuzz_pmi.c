/* SPDX-License-Identifier: Apache-2.0
 *
 * A launcher (PMI-1) that answers with anything.
 */
#include "layers/launchers/pmi.c"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct config config = {.init_timeout = 1};
    static char before[32];
    int pair[2];
    char text[PMI_TEXT_BYTES] = "text", line[LINE_BYTES];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    snprintf(before, sizeof before, "%d", pair[0]);
    setenv("PMI_FD", before, 1);
    launcher.pid = 0; /* no introduction yet */
    if (size > 0 && send(pair[1], data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        size = 0;
    shutdown(pair[1], SHUT_WR);
    if (size > 0 && data[0] % 2 == 0) {
        launcher.fd = pair[0];
        meeting_wait_begin(&launcher.wait, &config);
        while (read_line(line) == COLLET_SUCCESS) {
            char value[16];
            (void)field(line, "value", value, sizeof value);
        }
    } else if (size > 0) {
        (void)pmi_share(data[0] / 2 % 2, "key", text, &config);
        if (memchr(text, '\0', sizeof text) == NULL)
            abort();
    }
    launcher.pid = 0; /* no goodbye either */
    close(pair[0]);
    close(pair[1]);
    return 0;
}
