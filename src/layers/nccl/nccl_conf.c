/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL also reads variables from files. A variable that is already set is not changed, so the first source that sets it
 * counts:
 *
 *    the environment ─▶ NCCL_CONF_FILE, or else ~/.nccl.conf ─▶ /etc/nccl.conf
 *
 * The files are read when libnccl.so.2 is loaded, before anything asks for a variable. Like NCCL, collet puts their
 * variables into the environment, so plugins find them too. libcollet.so reads no such file.
 *
 * A program that has more rights than its user (AT_SECURE) reads only the administrator's file: the user's file must not
 * control it.
 */
#include "layers/nccl/nccl_conf.h"

#include "base/config.h"
#include "base/log.h"
#include "base/os.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#define LINE_BYTES 4096

static struct conf_file {
    char path[PATH_MAX];
    bool is_read;
    bool is_wanted; /* NCCL_CONF_FILE names the file */
    int settings;   /* number of lines "NAME=value", whether or not the variable was already set */
    int first_bad;  /* number of the first malformed line; 0: there is none */
} files[2];

static char *trim(char *text) {
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static bool is_name(const char *name) {
    const size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return length > 0 && name[length] == '\0' && !isdigit((unsigned char)*name);
}

/* Reads a line "NAME=value". Blanks around the name and the value are ignored, and so are empty lines and lines that
 * begin with a #. False: the line is malformed, or the variable cannot be set. */
static bool take_line(char *line, int *settings) {
    char *name = trim(line), *value = strchr(name, '=');
    if (*name == '\0' || *name == '#')
        return true;
    if (value == NULL)
        return false;
    *value++ = '\0';
    name = trim(name);
    if (!is_name(name))
        return false;
    *settings += 1;
    return setenv(name, trim(value), 0) == 0;
}

static void read_file(struct conf_file *conf) {
    char line[LINE_BYTES];
    struct stat about;
    FILE *file = stat(conf->path, &about) == 0 && S_ISREG(about.st_mode) ? os_fopen(conf->path, "re") : NULL;
    if (file == NULL)
        return;
    conf->is_read = true;
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++)
        if (!take_line(line, &conf->settings) && conf->first_bad == 0)
            conf->first_bad = number;
    fclose(file);
}

__attribute__((constructor)) static void conf_begin(void) {
    const char *named = config_env("NCCL_CONF_FILE"), *home = config_env("HOME");
    const bool is_secure = getauxval(AT_SECURE) != 0;
    files[0].is_wanted = named != NULL;
    if (named != NULL)
        snprintf(files[0].path, sizeof files[0].path, "%s", named);
    else if (home != NULL)
        snprintf(files[0].path, sizeof files[0].path, "%s/.nccl.conf", home);
    snprintf(files[1].path, sizeof files[1].path, "/etc/nccl.conf");
    for (int k = is_secure; k < 2; k++)
        read_file(&files[k]);
}

void nccl_conf_tell(void) {
    for (int k = 0; k < 2; k++) {
        if (files[k].is_read)
            log_info(ENV, "%s: %d variable(s); what the environment sets stays", files[k].path, files[k].settings);
        else if (files[k].is_wanted)
            log_always(ENV, "NCCL_CONF_FILE=%s: %s", files[k].path,
                       getauxval(AT_SECURE) != 0 ? "it is not read: this program has more rights than its user"
                                                 : "there is no such file that can be read; no variable comes from it");
        if (files[k].first_bad != 0)
            log_always(ENV, "%s: line %d is no VARIABLE=value; the other lines count", files[k].path,
                       files[k].first_bad);
    }
}
