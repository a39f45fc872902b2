/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_words.h"

#include "base/names.h"

#include <strings.h>

/* NCCL_DEBUG is often set to VERSION. */
static const struct {
    const char *name;
    enum log_level level;
} LEVELS[] = {{"", LOG_NONE},     {"VERSION", LOG_NONE}, {"NONE", LOG_NONE},
              {"WARN", LOG_WARN}, {"INFO", LOG_INFO},    {"TRACE", LOG_TRACE}};

const char *const LOG_SUBSYSTEM_NAMES[LOG_SUBSYSTEM_COUNT] = {
#define X(name) #name,
    LOG_SUBSYSTEMS(X)
#undef X
};

bool log_parse_level(const char *text, enum log_level *level) {
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++) {
        if (strcasecmp(text, LEVELS[i].name) == 0) {
            *level = LEVELS[i].level;
            return true;
        }
    }
    return false;
}

static unsigned subsystem_bits(const char *name) {
    for (unsigned i = 0; i < LOG_SUBSYSTEM_COUNT; i++)
        if (strcasecmp(name, LOG_SUBSYSTEM_NAMES[i]) == 0)
            return 1u << i;
    return strcasecmp(name, "ALL") == 0 ? (1u << LOG_SUBSYSTEM_COUNT) - 1 : 0;
}

bool log_parse_subsystems(const char *text, unsigned *bits) {
    char name[NAME_BYTES];
    bool exclude = *text == '^';
    unsigned listed = 0;
    for (text += exclude; name_next(&text, name); listed |= subsystem_bits(name))
        if (subsystem_bits(name) == 0)
            return false;
    *bits = exclude ? ~listed : listed;
    return true;
}
