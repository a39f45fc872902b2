/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config_read.h"

#include "base/err.h"
#include "base/log.h"
#include "base/spelling.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum collet_result refuse(const struct knob *knob, const char *variable, const char *value) {
    const char *shown = knob_is_secret(knob) ? "(hidden)" : value;
    if (knob->default_text == NULL)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "%s=%.64s: expected a whole number from %" PRId64 " to %" PRId64 "%s%s (%s)", variable, shown,
                       knob->min, knob->max, *knob->unit != '\0' ? " in " : "", knob->unit, knob->help);
    if (strlen(value) >= CONFIG_TEXT_BYTES)
        return err_set(COLLET_ERR_INVALID_USAGE, "%s=%.64s… is too long: at most %d bytes are accepted", variable,
                       shown, CONFIG_TEXT_BYTES - 1);
    return err_set(COLLET_ERR_INVALID_USAGE, "%s=%.64s: expected %s", variable, shown, knob->help);
}

/* Prefixes of COLLET_… variables that are no knobs: scripts, tests, perf programs and the PyTorch backend read them. */
static const char *const OTHERS[] = {"COLLET_TEST", "COLLET_LAB", "COLLET_NO_INSTALL", "COLLET_TORCH"};

static bool is_known(const char *name) {
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (strncmp(name, OTHERS[i], strlen(OTHERS[i])) == 0)
            return true;
    return config_reads(name);
}

static void warn_unknown(const char *name) {
    struct spelling spelling = {name, SPELLING_FAR, ""};
    for (size_t i = 0; i < KNOB_COUNT; i++)
        spelling_offer(&spelling, KNOBS[i].name);
    log_always(ENV, "%s is unknown%s", name,
               spelling.hint[0] != '\0' ? spelling.hint : "; collet-info lists what can be set");
}

/* Logs the COLLET_… variables that nothing reads, and the values of knobs that are set. */
static void log_environment(void) {
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        char name[SPELLING_WORD_MAX + 1];
        size_t length = strcspn(*entry, "=");
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        if (strncmp(name, "COLLET_", strlen("COLLET_")) == 0 && !is_known(name))
            warn_unknown(name);
    }
    for (size_t i = 0; i < KNOB_COUNT; i++) {
        const char *variable, *value = knob_variable(&KNOBS[i], &variable);
        if (value != NULL)
            log_info(ENV, "%s=%s", variable, knob_is_secret(&KNOBS[i]) ? "(hidden)" : value);
        else if (config_env(variable) != NULL)
            log_always(ENV, "%s counts for nothing: this program has more rights than its user", variable);
    }
}

enum collet_result config_read(struct config *config) {
    static pthread_once_t logged = PTHREAD_ONCE_INIT;
    pthread_once(&logged, log_environment);
    for (size_t i = 0; i < KNOB_COUNT; i++) {
        const char *variable, *value;
        if (!knob_read(config, &KNOBS[i], &variable, &value))
            return refuse(&KNOBS[i], variable, value);
    }
    return COLLET_SUCCESS;
}
