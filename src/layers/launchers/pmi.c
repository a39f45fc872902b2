/* SPDX-License-Identifier: Apache-2.0
 *
 * PMI-1 on the socket that PMI_FD names: one line there, one line back.
 *
 *    cmd=init pmi_version=1 pmi_subversion=1    cmd=response_to_init … rc=0
 *    cmd=get_my_kvsname                         cmd=my_kvsname kvsname=<store>
 *    cmd=put kvsname=<store> key=… value=…      cmd=put_result rc=0 …
 *    cmd=barrier_in                             cmd=barrier_out             when all ranks have said it
 *    cmd=get kvsname=<store> key=…              cmd=get_result rc=0 … value=…
 *    cmd=finalize                               cmd=finalize_ack
 */
#include "layers/launchers/pmi.h"

#include "base/config.h"
#include "base/err.h"
#include "base/os.h"
#include "layers/launchers/meeting_wait.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define GOODBYE_NS 2000000000ull
#define PAUSE_MS 100 /* Milliseconds between two looks at the time */

static struct {
    int fd;
    /* The process that has sent init. A forked child must not talk to the launcher for it. */
    int pid;
    char store[256];
    struct meeting_wait wait; /* The wait for other ranks. One thread at a time uses it */
} launcher;

bool pmi_is_here(void) { return config_env("PMI_FD") != NULL; }

/* Reads byte by byte, because an MPI library in this process may want to read what follows the line. */
static enum collet_result read_line(char line[LINE_BYTES]) {
    for (size_t used = 0; used + 1 < LINE_BYTES;) {
        struct pollfd poller = {.fd = launcher.fd, .events = POLLIN};
        COLLET_TRY(
            meeting_wait_look(&launcher.wait, "the launcher (PMI_FD) has not answered in time: a rank may be missing"));
        if (poll(&poller, 1, PAUSE_MS) < 1)
            continue;
        ssize_t n = read(launcher.fd, line + used, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 1)
            return err_set(COLLET_ERR_SYSTEM, "the launcher (PMI_FD) has closed its connection");
        if (line[used] == '\n') {
            line[used] = '\0';
            return COLLET_SUCCESS;
        }
        used++;
    }
    return err_set(COLLET_ERR_SYSTEM, "the launcher (PMI_FD) sent a line that is too long");
}

/* Copies the text after name= in a line. NULL: the line has no such name, or the text does not fit. */
static const char *field(const char *line, const char *name, char *text, size_t room) {
    size_t length = strlen(name);
    for (const char *word = line; word != NULL; word = strchr(word, ' ')) {
        word += strspn(word, " ");
        if (strncmp(word, name, length) != 0 || word[length] != '=')
            continue;
        size_t bytes = strcspn(word + length + 1, " ");
        if (bytes >= room)
            return NULL;
        memcpy(text, word + length + 1, bytes);
        text[bytes] = '\0';
        return text;
    }
    return NULL;
}

/* Sends a line and reads the next line, which must be the answer `answer`, without an error. */
static enum collet_result ask(const char *question, const char *answer, char line[LINE_BYTES]) {
    char name[64], rc[16];
    size_t length = strlen(question);
    if (write(launcher.fd, question, length) != (ssize_t)length)
        return err_set(COLLET_ERR_SYSTEM, "cannot write to the launcher (PMI_FD): %m");
    COLLET_TRY(read_line(line));
    bool failed = field(line, "rc", rc, sizeof rc) != NULL && strcmp(rc, "0") != 0;
    if (failed || field(line, "cmd", name, sizeof name) == NULL || strcmp(name, answer) != 0)
        return err_set(COLLET_ERR_SYSTEM, "the launcher (PMI_FD) answered \"%.*s\" with \"%.200s\"",
                       (int)strcspn(question, "\n"), question, line);
    return COLLET_SUCCESS;
}

/* If an MPI library has said goodbye and closed the socket, this fails without harm. */
static void say_goodbye(void) {
    char line[LINE_BYTES];
    launcher.wait = (struct meeting_wait){
        .config = config_process(), .deadline_ns = os_now_ns() + GOODBYE_NS, .late.due_ns = UINT64_MAX};
    if (os_pid() == launcher.pid)
        (void)ask("cmd=finalize\n", "finalize_ack", line);
}

static enum collet_result introduce(void) {
    char line[LINE_BYTES];
    if (launcher.pid == os_pid())
        return COLLET_SUCCESS;
    launcher.fd = atoi(config_env("PMI_FD"));
    COLLET_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line));
    COLLET_TRY(ask("cmd=get_my_kvsname\n", "my_kvsname", line));
    if (field(line, "kvsname", launcher.store, sizeof launcher.store) == NULL)
        return err_set(COLLET_ERR_SYSTEM, "the launcher (PMI_FD) did not name its store: \"%.200s\"", line);
    launcher.pid = os_pid();
    atexit(say_goodbye);
    return COLLET_SUCCESS;
}

enum collet_result pmi_share(int rank, const char *key, char text[PMI_TEXT_BYTES], const struct config *config) {
    char line[LINE_BYTES], question[LINE_BYTES];
    meeting_wait_begin(&launcher.wait, config);
    COLLET_TRY(introduce());
    if (rank == 0) {
        snprintf(question, sizeof question, "cmd=put kvsname=%s key=%s value=%s\n", launcher.store, key, text);
        COLLET_TRY(ask(question, "put_result", line));
    }
    COLLET_TRY(ask("cmd=barrier_in\n", "barrier_out", line));
    if (rank == 0)
        return COLLET_SUCCESS;
    snprintf(question, sizeof question, "cmd=get kvsname=%s key=%s\n", launcher.store, key);
    COLLET_TRY(ask(question, "get_result", line));
    if (field(line, "value", text, PMI_TEXT_BYTES) == NULL)
        return err_set(COLLET_ERR_SYSTEM, "the launcher (PMI_FD) has no %s of rank 0", key);
    return COLLET_SUCCESS;
}
