/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates each NCCL variable that sets a knob, before base/config.c reads its value:
 *
 *    NCCL_IB_RETRY_CNT=15 ──▶ 7, and a warning: "7 … is the most"     numbers are kept within the knob's bounds
 *    NCCL_NET_GDR_LEVEL=5 ──▶ SYS                                     words become collet's
 *    COLLET_IB_RETRY_CNT=15 ─────────────────────────▶ an error       collet's own variables are not translated
 *
 * The configuration is read before the log is open. So losses are kept, and reported once, when the first rank is created.
 * Read next: words_choice.c, NCCL_ALGO and NCCL_PROTO.
 */
#include "layers/nccl/words_choice.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/names.h"
#include "seams/layer.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

struct variable {
    const char *name, *unit;
    size_t field;
    bool is_number;
    int64_t least, most;
};

static const struct variable VARIABLES[] = {
#define INT_KNOB(field, name, nccl, unit, scope, def, min, max, help)                                                  \
    {nccl, unit, offsetof(struct config, field), true, min, max},
#define TEXT_KNOB(field, name, nccl, unit, scope, def, help) {nccl, unit, offsetof(struct config, field), false, 0, 0},
    CONFIG_KNOBS(INT_KNOB, TEXT_KNOB)
#undef INT_KNOB
#undef TEXT_KNOB
};
#define VARIABLE_COUNT (sizeof VARIABLES / sizeof *VARIABLES)

/* ---- numbers ---- */

/* Reads a number in NCCL's notation. A number of bytes may end in K, M or G. Returns the rest of the text; NULL: there
 * is no number. */
static const char *read_number(const struct variable *variable, const char *value, int64_t *number) {
    char *end;
    const int64_t parsed = strtoll(value, &end, 0);
    int shift = 0;
    for (const char *s = "KMG"; *s != '\0' && *end != '\0' && strcmp(variable->unit, "bytes") == 0; s++)
        if (toupper((unsigned char)*end) == *s)
            shift = *s == 'K' ? 10 : *s == 'M' ? 20 : 30;
    if (__builtin_mul_overflow(parsed, INT64_C(1) << shift, number))
        *number = parsed < 0 ? INT64_MIN : INT64_MAX;
    return end == value ? NULL : end + (shift > 0);
}

/* The variable's maximum. The minimum number of channels is limited by NCCL_MAX_NCHANNELS, because NCCL accepts a
 * minimum above it. */
static int64_t most_of(const struct variable *variable) {
    const char *given =
        variable->field == offsetof(struct config, min_nchannels) ? config_env("NCCL_MAX_NCHANNELS") : NULL;
    const int64_t most = given != NULL ? atoll(given) : 0;
    return most > 0 && most < variable->most ? most : variable->most;
}

static void words_of_number(const struct variable *variable, const char *value, struct words *words) {
    const int64_t most = most_of(variable);
    int64_t number;
    const char *rest = read_number(variable, value, &number);
    if (rest == NULL) {
        words_lose(words, "it is no number, so the default counts");
        return;
    }
    const int64_t kept = number < variable->least ? variable->least : number > most ? most : number;
    if (kept == number && *rest == '\0')
        words_add(words->text, "%s", value);
    else
        words_add(words->text, "%lld", (long long)kept);
    if (kept != number)
        words_lose(words, "%lld counts, which is the %s here", (long long)kept, kept == most ? "most" : "least");
}

/* ---- words ---- */

/* NCCL's name of a subsystem of the log, and collet's name; "": collet has no such lines. */
static const char *const SUBSYSTEMS[][2] = {
    {"INIT", "INIT"}, {"BOOTSTRAP", "BOOT"}, {"ENV", "ENV"},   {"GRAPH", "GRAPH"}, {"TUNING", "PLAN"}, {"NET", "NET"},
    {"COLL", "COLL"}, {"CALL", "COLL"},      {"P2P", "CONN"},  {"SHM", "CONN"},    {"PROXY", "CONN"},  {"NVLS", "CONN"},
    {"REG", "CONN"},  {"DESTROY", "INIT"},   {"ALL", "ALL"},   {"ALLOC", ""},      {"ALLOC_HOST", ""}, {"PROFILE", ""},
    {"RAS", ""},      {"BOOT", "BOOT"},      {"PLAN", "PLAN"}, {"CONN", "CONN"},   {"ERR", "ERR"}};

/* Errors are always logged, so a list without any of collet's subsystems becomes "ERR". */
static void words_of_subsystems(const char *value, struct words *words) {
    char name[NAME_BYTES];
    const bool excludes = *value == '^';
    const char *before = excludes ? "^" : "", *rest = value + excludes;
    while (name_next(&rest, name)) {
        const char *here = NULL;
        for (size_t k = 0; k < sizeof SUBSYSTEMS / sizeof *SUBSYSTEMS; k++)
            if (strcasecmp(SUBSYSTEMS[k][0], name) == 0)
                here = SUBSYSTEMS[k][1];
        if (here == NULL)
            words_lose(words, "%s is no subsystem; the rest counts", name);
        else if (*here != '\0')
            words_add(words->text, "%s%s", words->text[0] == '\0' ? before : ",", here);
    }
    if (words->text[0] == '\0' && !excludes)
        words_add(words->text, "ERR");
}

static void words_of_level(const char *value, struct words *words) {
    enum log_level level;
    if (strcasecmp(value, "ABORT") == 0)
        words_add(words->text, "INFO");
    else if (log_parse_level(value, &level))
        words_add(words->text, "%s", value);
    else
        words_lose(words, "there is no such level, so there is no log");
}

/* Paths have names in NCCL's newer versions, and numbers in older ones. A number above 4 is SYS. */
static void words_of_path(const char *value, struct words *words) {
    static const char *const numbers[] = {"LOC", "PIX", "PXB", "PHB", "SYS"};
    static const char *const names[][2] = {{"LOC", "LOC"}, {"NVL", "PIX"}, {"NVB", "PIX"}, {"C2C", "PIX"},
                                           {"PIX", "PIX"}, {"PXB", "PXB"}, {"P2C", "PXB"}, {"PXN", "PXB"},
                                           {"PHB", "PHB"}, {"SYS", "SYS"}};
    char *end;
    const long number = strtol(value, &end, 0);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcasecmp(names[k][0], value) == 0)
            words_add(words->text, "%s", names[k][1]);
    if (end != value && *end == '\0' && number >= 0)
        words_add(words->text, "%s", numbers[number < 4 ? number : 4]);
    if (words->text[0] == '\0')
        words_lose(words, "it is neither LOC, PIX, PXB, PHB, SYS nor 0 to 4, so the default counts");
}

/* A device's name may be followed by its port, rail and plane: "mlx5_0:1:0:1", "mlx5_0::0:1". */
static void words_of_devices(const char *value, struct words *words) {
    char name[CONFIG_TEXT_BYTES];
    const char *rest = value;
    bool lost = false;
    for (bool first = true; *rest != '\0'; first = false) {
        const size_t length = strcspn(rest, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, rest);
        char *port = strchr(name, ':'), *rail = port != NULL ? strchr(port + 1, ':') : NULL;
        if (rail != NULL) {
            *(rail == port + 1 ? port : rail) = '\0';
            lost = true;
        }
        words_add(words->text, "%s%s", first ? "" : ",", name);
        rest += length + (rest[length] == ',');
    }
    if (lost)
        words_lose(words, "rails and planes count for nothing: collet finds rails by the topology");
}

static void words_of_text(bool is_good, const char *value, const char *otherwise, struct words *words) {
    if (is_good)
        words_add(words->text, "%s", value);
    else
        words_lose(words, "%s, so the default counts", otherwise);
}

static void words_of(const struct variable *variable, const char *value, struct words *words) {
    struct config_addresses range;
    switch (variable->field) {
    case offsetof(struct config, debug): words_of_level(value, words); return;
    case offsetof(struct config, debug_subsys): words_of_subsystems(value, words); return;
    case offsetof(struct config, algo): words_of_algorithms(value, words); return;
    case offsetof(struct config, proto): words_of_protocols(value, words); return;
    case offsetof(struct config, net_gdr_level): words_of_path(value, words); return;
    case offsetof(struct config, ib_hca): words_of_devices(value, words); return;
    case offsetof(struct config, cta_policy):
        words_of_text(config_policy_is_known(value), value, "there is no such policy", words);
        return;
    case offsetof(struct config, ib_addr_range):
        words_of_text(config_addresses_read(value, &range), value, "it is no range of addresses", words);
        return;
    case offsetof(struct config, socket_family):
        words_of_text(strcmp(value, "AF_INET") == 0 || strcmp(value, "AF_INET6") == 0, value,
                      "it is neither AF_INET nor AF_INET6", words);
        return;
    case offsetof(struct config, topo_file):
        words_of_text(access(value, R_OK) == 0, value, "the file cannot be read", words);
        return;
    default: words_add(words->text, "%s", value);
    }
}

/* ---- the seam ---- */

PROCESS_LOCK(lock);
static struct {
    char value[CONFIG_TEXT_BYTES];
    struct words words;
} said[VARIABLE_COUNT];

/* Returns a copy of the text. It stays valid as long as the variable keeps its value. */
static const char *keep(size_t k, const char *value, const struct words *words) {
    SCOPED_LOCK(&lock);
    if (strncmp(said[k].value, value, CONFIG_TEXT_BYTES - 1) != 0 ||
        memcmp(&said[k].words, words, sizeof *words) != 0) {
        snprintf(said[k].value, sizeof said[k].value, "%s", value);
        said[k].words = *words;
    }
    return said[k].words.text;
}

static const char *translate(const char *name, const char *value) {
    size_t k = 0;
    while (k < VARIABLE_COUNT && (VARIABLES[k].name == NULL || strcmp(VARIABLES[k].name, name) != 0))
        k++;
    if (k == VARIABLE_COUNT || value[0] == '\0')
        return value;
    struct words words = {.text = ""};
    if (VARIABLES[k].is_number)
        words_of_number(&VARIABLES[k], value, &words);
    else if (strlen(value) < CONFIG_TEXT_BYTES)
        words_of(&VARIABLES[k], value, &words);
    else
        words_lose(&words, "it is longer than %d bytes, so the default counts", CONFIG_TEXT_BYTES - 1);
    return keep(k, value, &words);
}

__attribute__((constructor)) static void words_begin(void) { config_take_translator(translate); }

static void tell_losses(void) {
    for (size_t k = 0; k < VARIABLE_COUNT; k++)
        if (said[k].words.loss[0] != '\0')
            log_always(ENV, "%s=%s: %s", VARIABLES[k].name, said[k].value, said[k].words.loss);
}

static enum collet_result words_tell(struct boot *boot) {
    static pthread_once_t told = PTHREAD_ONCE_INIT;
    (void)boot;
    pthread_once(&told, tell_losses);
    return COLLET_SUCCESS;
}

const struct layer layer_nccl = {.rank_begin = words_tell};
