/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL's callers give: an ncclConfig_t of any size and version, NCCL's variables, and a line of a file that sets one.
 */
#include "layers/nccl/nccl_conf.c"
#include "layers/nccl/nccl_config.c"
#include "fuzz.h"

/* Those of libnccl.so, which is not here. */
const struct plan_adviser nccl_tuner;
const struct observer nccl_profiler;
void nccl_plugin_miss(const char *kind, const char *name, const char *format, ...) {
    (void)kind, (void)name, (void)format;
}

#define CONFIG_BYTES 96

static void set(const char *name, struct fuzz_input *input) {
    char text[64];
    size_t bytes;
    const uint8_t *value = fuzz_bytes(input, fuzz_byte(input) % sizeof text, &bytes);
    memcpy(text, bytes > 0 ? (const char *)value : "", bytes);
    text[bytes] = '\0';
    setenv(name, text, 1);
}

static void take_a_line(struct fuzz_input *input) {
    char line[64];
    size_t bytes;
    int settings = 0;
    const uint8_t *text = fuzz_bytes(input, fuzz_byte(input) % (sizeof line - 8), &bytes);
    snprintf(line, sizeof line, "FUZZ_%.*s", (int)bytes, bytes > 0 ? (const char *)text : "");
    const char *end = strpbrk(line, "= \t\n\v\f\r");
    char name[64];
    snprintf(name, sizeof name, "%.*s", end != NULL ? (int)(end - line) : 0, line);
    if (take_line(line, &settings) && settings > 0 && getenv(name) == NULL)
        abort();
    unsetenv(name);
}

/* Its pointers are the caller's: none, or a text. */
static void make_config(struct fuzz_input *input, char config[CONFIG_BYTES]) {
    static const unsigned versions[] = {21400, 21700, 21800, 22600, 22700, 22800, 22900, 23000, 23005};
    static const char *const names[] = {NULL, "Socket", "IB", "another"};
    const size_t size = CONFIG_BYTES;
    const unsigned magic = 0xcafebeef, version = versions[fuzz_byte(input) % 9];
    memcpy(config, &size, sizeof size);
    memcpy(config + 8, &magic, sizeof magic);
    memcpy(config + 12, &version, sizeof version);
    for (size_t at = 16; at < CONFIG_BYTES; at += 4) {
        const int value = fuzz_byte(input) % 4 - 1;
        memcpy(config + at, &value, sizeof value);
    }
    fuzz_patch(input, config, CONFIG_BYTES);
    const char *net = names[fuzz_byte(input) % 4], *name = names[fuzz_byte(input) % 4];
    memcpy(config + 32, &net, sizeof net);
    memcpy(config + 48, &name, sizeof name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const variables[] = {"NCCL_COMM_BLOCKING", "NCCL_MIN_CTAS",    "NCCL_MAX_CTAS",
                                            "NCCL_NET",           "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"};
    struct fuzz_input input = {data, size};
    struct collet_config options;
    char config[CONFIG_BYTES];
    size_t claimed;
    const uint8_t kind = fuzz_byte(&input);
    make_config(&input, config);
    if (kind >> 6 & 1)
        take_a_line(&input);
    for (int k = 0; k < 6; k++)
        if (kind >> k & 1)
            set(variables[k], &input);
    memcpy(&claimed, config, sizeof claimed);
    if (claimed < CONFIG_BYTES) { /* no byte behind what the caller says is its */
        char *exact = malloc(claimed + (claimed < sizeof claimed ? sizeof claimed : 0));
        memcpy(exact, config, claimed < sizeof claimed ? sizeof claimed : claimed);
        (void)nccl_config_read(exact, &options);
        free(exact);
    } else if (claimed == CONFIG_BYTES && nccl_config_read(config, &options) == COLLET_SUCCESS &&
               (options.min_channels < 0 || options.max_channels < 0)) {
        abort();
    }
    for (int k = 0; k < 6; k++)
        unsetenv(variables[k]);
    return 0;
}
