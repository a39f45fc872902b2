/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include "base/log_words.h"
#include "base/names.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

const struct knob KNOBS[] = {
#define INT_KNOB(field, name, nccl, unit, scope, def, min, max, help)                                                  \
    {"COLLET_" name, nccl, unit, help, offsetof(struct config, field), def, min, max, NULL, CONFIG_##scope},
#define TEXT_KNOB(field, name, nccl, unit, scope, def, help)                                                           \
    {"COLLET_" name, nccl, unit, help, offsetof(struct config, field), 0, 0, 0, def, CONFIG_##scope},
    CONFIG_KNOBS(INT_KNOB, TEXT_KNOB)
#undef INT_KNOB
#undef TEXT_KNOB
};
_Static_assert(sizeof KNOBS / sizeof *KNOBS == KNOB_COUNT, "one for each line of the table");

/* The knob's field: its text, or its number (int64_t). */
static void *field_of(struct config *config, const struct knob *knob) { return (char *)config + knob->offset; }

bool knob_is_secret(const struct knob *knob) { return strcmp(knob->unit, "secret") == 0; }

/* In a set-user-ID program, the user must not be able to load plugins, or to read and write files, with the program's rights. */
static bool is_refused(const struct knob *knob) { return strcmp(knob->unit, "path") == 0 && getauxval(AT_SECURE) != 0; }

static config_translator *translate;
void config_take_translator(config_translator *taken) { translate = taken; }

const char *config_env(const char *name) {
    const char *value = getenv(name);
    if (value != NULL && translate != NULL)
        value = translate(name, value);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

/* The multiple that a suffix K, M or G means; 0: the letter is no suffix. */
static int64_t multiple_of(char suffix) {
    static const char suffixes[] = "KMG";
    const char *found = memchr(suffixes, toupper((unsigned char)suffix), 3);
    return found == NULL ? 0 : INT64_C(1024) << 10 * (found - suffixes);
}

static bool parse_int(const struct knob *knob, const char *value, int64_t *number) {
    char *end;
    errno = 0;
    long long parsed = strtoll(value, &end, 0);
    if (end == value || errno != 0)
        return false;
    int64_t scaled = parsed;
    if (*end != '\0' && strcmp(knob->unit, "bytes") == 0) {
        int64_t multiple = multiple_of(*end++);
        if (multiple == 0 || __builtin_mul_overflow(parsed, multiple, &scaled))
            return false;
    }
    if (*end != '\0' || scaled < knob->min || scaled > knob->max)
        return false;
    *number = scaled;
    return true;
}

bool config_port_range(const char *text, int *first, int *last) {
    int end = 0;
    return sscanf(text, "%5d-%5d%n", first, last, &end) == 2 && text[end] == '\0' && *first >= 1 && *first <= *last &&
           *last <= 65535;
}

bool config_addresses_read(const char *text, struct config_addresses *range) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    char address[CONFIG_TEXT_BYTES];
    int bits, end = 0;
    *range = (struct config_addresses){.bits = 0};
    if (text[0] == '\0')
        return true;
    if (sscanf(text, "%191[^/]/%3d%n", address, &bits, &end) != 2 || text[end] != '\0' || bits < 0)
        return false;
    range->bits = bits;
    if (inet_pton(AF_INET6, address, range->first) == 1)
        return bits <= 128;
    memcpy(range->first, mapped, sizeof mapped);
    range->bits += 96;
    return inet_pton(AF_INET, address, range->first + 12) == 1 && bits <= 32;
}

/* Accepts a list such as "default|zero". */
bool config_policy_is_known(const char *policy) {
    char words[CONFIG_TEXT_BYTES], *rest = words;
    snprintf(words, sizeof words, "%s", policy);
    for (const char *word; (word = strsep(&rest, "|")) != NULL;)
        if (!name_is_listed(word, "default efficiency zero 0 1 2 3"))
            return false;
    return strlen(policy) < sizeof words;
}

/* Checks texts whose words this room knows. Other rooms check the names of algorithms and transports. */
static bool text_is_known(const struct knob *knob, const char *value) {
    enum log_level level;
    unsigned subsystems;
    int first, last;
    struct config_addresses range;
    switch (knob->offset) {
    case offsetof(struct config, debug): return log_parse_level(value, &level);
    case offsetof(struct config, debug_subsys): return log_parse_subsystems(value, &subsystems);
    case offsetof(struct config, device): return name_is_listed(value, "host cuda");
    case offsetof(struct config, port_range): return value[0] == '\0' || config_port_range(value, &first, &last);
    case offsetof(struct config, ib_addr_range): return config_addresses_read(value, &range);
    case offsetof(struct config, determinism): return value[0] == '\0' || name_is_listed(value, "size order");
    case offsetof(struct config, cpu_distance): return name_is_listed(value, "near far auto");
    case offsetof(struct config, kernel_copies): return name_is_listed(value, "faster slower auto");
    case offsetof(struct config, cta_policy): return config_policy_is_known(value);
    case offsetof(struct config, net_gdr_level): return name_is_listed(value, "LOC PIX PXB PHB SYS");
    default: return true;
    }
}

static bool parse_text(const struct knob *knob, const char *value, char *text) {
    if (strlen(value) >= CONFIG_TEXT_BYTES || !text_is_known(knob, value))
        return false;
    strcpy(text, value);
    return true;
}

const char *knob_variable(const struct knob *knob, const char **variable) {
    const char *value = config_env(*variable = knob->name);
    if (value == NULL && knob->nccl_name != NULL)
        value = config_env(*variable = knob->nccl_name);
    return is_refused(knob) ? NULL : value;
}

bool knob_read(struct config *config, const struct knob *knob, const char **variable, const char **value) {
    char *text = field_of(config, knob);
    int64_t *number = field_of(config, knob);
    *value = knob_variable(knob, variable);
    if (knob->default_text != NULL) {
        strcpy(text, knob->default_text);
        return *value == NULL || parse_text(knob, *value, text);
    }
    *number = knob->def;
    return *value == NULL || parse_int(knob, *value, number);
}

bool config_reads(const char *variable) {
    for (size_t i = 0; i < KNOB_COUNT; i++)
        if (strcmp(variable, KNOBS[i].name) == 0 ||
            (KNOBS[i].nccl_name != NULL && strcmp(variable, KNOBS[i].nccl_name) == 0))
            return true;
    return false;
}

/* --------------------------------------------------------------------------------------------- the process's config */

static struct config process_config;

/* Ignores values that are not valid, because this configures the log itself. */
static void read_process_config(void) {
    for (size_t i = 0; i < KNOB_COUNT; i++) {
        const char *variable, *value;
        (void)knob_read(&process_config, &KNOBS[i], &variable, &value);
    }
}

const struct config *config_process(void) {
    static pthread_once_t done = PTHREAD_ONCE_INIT;
    pthread_once(&done, read_process_config);
    return &process_config;
}

/* ----------------------------------------------------------------------------------------------- agreeing, showing */

void config_adopt(struct config *config, const struct config *from) {
    for (size_t i = 0; i < KNOB_COUNT; i++) {
        const struct knob *knob = &KNOBS[i];
        size_t bytes = knob->default_text != NULL ? CONFIG_TEXT_BYTES : sizeof(int64_t);
        if (knob->scope == CONFIG_AGREED && !is_refused(knob))
            memcpy((char *)config + knob->offset, (const char *)from + knob->offset, bytes);
    }
}

bool config_agreed_valid(const struct config *config) {
    for (size_t i = 0; i < KNOB_COUNT; i++) {
        const struct knob *knob = &KNOBS[i];
        const char *at = (const char *)config + knob->offset;
        int64_t number;
        memcpy(&number, at, sizeof number);
        bool valid = knob->default_text != NULL ? memchr(at, '\0', CONFIG_TEXT_BYTES) != NULL
                                                : number == knob->def || (number >= knob->min && number <= knob->max);
        if (knob->scope == CONFIG_AGREED && !valid)
            return false;
    }
    return true;
}

bool config_value(const struct config *config, size_t index, struct config_value *value) {
    if (index >= KNOB_COUNT)
        return false;
    const struct knob *knob = &KNOBS[index];
    struct config *unconst = (struct config *)(uintptr_t)config;
    *value = (struct config_value){.name = knob->name, .help = knob->help};
    if (knob->default_text != NULL) {
        const char *text = field_of(unconst, knob);
        value->is_default = strcmp(text, knob->default_text) == 0;
        snprintf(value->text, sizeof value->text, "%s", *text != '\0' && knob_is_secret(knob) ? "(hidden)" : text);
    } else {
        const int64_t *number = field_of(unconst, knob);
        value->is_default = *number == knob->def;
        snprintf(value->text, sizeof value->text, "%" PRId64 "%s%s", *number, *knob->unit != '\0' ? " " : "",
                 knob->unit);
    }
    return true;
}
