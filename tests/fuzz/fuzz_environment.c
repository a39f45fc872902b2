/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs and launchers' variables with any values: lines of "name=value", or a byte that chooses a knob, and its value. The upper half of
 * these bytes chooses NCCL's variables, whose values are never refused here.
 */
#include "base/config_read.h"
#include "boot/address.h"
#include "boot/id.h"
#include "fuzz.h"
#include "layers/nccl/plug_lib.c"
#include "seams/layer.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 300

/* Whoever names it has NCCL's values translated. */
extern const struct layer layer_nccl;

static void set(const char *name, const char *value, bool on) {
    if (on)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static const char *knob_of(uint8_t number, const struct config *defaults) {
    static struct config_value value;
    size_t count = 0;
    while (config_value(defaults, count, &value))
        count++;
    config_value(defaults, number % count, &value);
    return value.name;
}

/* The name of NCCL's variable, if there is one. */
static bool nccl_name_of(const char *knob, char name[64]) {
    snprintf(name, 64, "NCCL_%s", knob + strlen("COLLET_"));
    return config_reads(name);
}

static void use(const struct config *config) {
    char host[ADDRESS_HOST_BYTES];
    int port, first, last;
    struct config_value value;
    (void)address_parse("COLLET_COMM_ID", config->comm_id, host, &port);
    (void)address_interface_allowed(config->socket_ifname, "eth0");
    (void)config_names_plugin(config->net_plugin);
    (void)config_port_range(config->port_range, &first, &last);
    for (size_t k = 0; config_value(config, k, &value); k++)
        if (memchr(value.text, '\0', sizeof value.text) == NULL)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct config config, defaults;
    char names[4][64], line[LINE_BYTES];
    int n = 0;
    bool strict = false;
    for (; n < 4 && input.size > 0; n++) {
        size_t length;
        const uint8_t number = fuzz_byte(&input);
        const char *knob = knob_of(number, &defaults);
        if (number < 128 || !nccl_name_of(knob, names[n])) {
            snprintf(names[n], sizeof names[n], "%s", knob);
            strict = true;
        }
        const uint8_t *bytes = fuzz_bytes(&input, fuzz_byte(&input), &length);
        if (length > 0)
            memcpy(line, bytes, length);
        line[length] = '\0';
        set(names[n], line, true);
    }
    if (config_read(&config) == COLLET_SUCCESS && layer_nccl.rank_begin != NULL)
        use(&config);
    else if (!strict)
        abort();
    while (n-- > 0)
        set(names[n], "", false);
    return 0;
}
