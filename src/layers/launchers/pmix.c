/* SPDX-License-Identifier: Apache-2.0
 *
 * PMIx through libpmix.so.2, which is opened at run time. The functions and types that are used are declared here as the
 * PMIx standard defines them. libpmix has a thread of its own, which calls back; all waiting is done here.
 */
#include "layers/launchers/pmi.h"

#include "base/config.h"
#include "base/low.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/thread.h"
#include "layers/launchers/meeting_wait.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#define LIBRARY "libpmix.so.2"

enum { PMIX_OK = 0, PMIX_DONE_AT_ONCE = -157, PMIX_TO_MANY = 3, PMIX_IS_STRING = 3 };

struct pmix_proc {
    char nspace[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        char *string;
        uint64_t room[4];
    } data;
};

typedef void pmix_done(int status, void *ticket);
typedef void pmix_found(int status, struct pmix_value *value, void *ticket);

static struct {
    void *handle;
    int pid; /* Process that has called Init */
    struct pmix_proc self;
    int (*Init)(struct pmix_proc *self, void *infos, size_t ninfos);
    int (*Put)(uint8_t scope, const char *key, struct pmix_value *value);
    int (*Commit)(void);
    int (*Fence_nb)(const struct pmix_proc *procs, size_t n, const void *infos, size_t ninfos, pmix_done *done,
                    void *ticket);
    int (*Get_nb)(const struct pmix_proc *proc, const char *key, const void *infos, size_t ninfos, pmix_found *found,
                  void *ticket);
    int (*Finalize)(const void *infos, size_t ninfos);
} pmix;

/* The result of a callback. Only one call waits for its callback at a time. A callback brings the ticket of its call: if the ticket is
 * not the current one, the callback is late and is ignored. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uintptr_t ticket;
    bool come;
    int status;
    char text[PMI_TEXT_BYTES];
} answer = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* libpmix loads plugins from folders that variables name. So a program with more rights than its user must not use it. */
bool pmix_is_here(void) { return config_env("PMIX_NAMESPACE") != NULL && getauxval(AT_SECURE) == 0; }

/* ------------------------------------------------------------------------------------------------------------ waiting */

static void on_found(int status, struct pmix_value *value, void *ticket) {
    SCOPED_LOCK(&answer.lock);
    if (answer.ticket == (uintptr_t)ticket) {
        answer.come = true;
        answer.status = status;
        if (status == PMIX_OK && value != NULL && value->type == PMIX_IS_STRING && value->data.string != NULL)
            snprintf(answer.text, sizeof answer.text, "%s", value->data.string);
        pthread_cond_signal(&answer.changed);
    }
}

static void on_done(int status, void *ticket) { on_found(status, NULL, ticket); }

static void *new_ticket(void) {
    SCOPED_LOCK(&answer.lock);
    answer.come = false;
    answer.text[0] = '\0';
    return (void *)++answer.ticket;
}

/* Sleeps until meeting_wait_look() must be called again. */
static void nap(const struct meeting_wait *wait) {
    const uint64_t due_ns = meeting_wait_due_ns(wait) + 1;
    struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};
    pthread_cond_clockwait(&answer.changed, &answer.lock, CLOCK_MONOTONIC, &until);
}

static enum collet_result wait_for_answer(const char *what, int status, struct meeting_wait *wait) {
    char missing[96];
    if (status == PMIX_DONE_AT_ONCE)
        return COLLET_SUCCESS;
    SCOPED_LOCK(&answer.lock);
    snprintf(missing, sizeof missing, "the launcher's PMIx_%s has not ended: a rank may be missing", what);
    for (; status == PMIX_OK && !answer.come; nap(wait))
        COLLET_TRY(meeting_wait_look(wait, missing));
    status = answer.come ? answer.status : status;
    if (status != PMIX_OK)
        return err_set(COLLET_ERR_SYSTEM, "the launcher's PMIx_%s failed with status %d", what, status);
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ the library */

static bool find(void *function_p, const char *name) {
    void *function = dlsym(pmix.handle, name);
    memcpy(function_p, &function, sizeof function);
    return function != NULL;
}

static void say_goodbye(void) {
    if (os_pid() == pmix.pid)
        pmix.Finalize(NULL, 0);
}

/* The main function of a thread of its own, because PMIx_Init() has no time limit. A thread that does not end is left
 * alone. */
static void *init(void *ticket) {
    on_done(pmix.Init(&pmix.self, NULL, 0), ticket);
    return NULL;
}

static enum collet_result call_init(struct meeting_wait *wait) {
    pthread_t thread;
    COLLET_TRY(os_thread_start(&thread, "collet-pmix", init, new_ticket()));
    pthread_detach(thread);
    return wait_for_answer("Init", PMIX_OK, wait);
}

static enum collet_result introduce(struct meeting_wait *wait) {
    if (pmix.pid == os_pid())
        return COLLET_SUCCESS;
    SCOPED_LOW;
    if (pmix.handle == NULL)
        pmix.handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (pmix.handle == NULL)
        return err_set(COLLET_ERR_SYSTEM,
                       "the launcher speaks PMIx, but " LIBRARY " cannot be opened (%s): install it, or "
                       "set MASTER_ADDR to an address of rank 0's host",
                       dlerror());
    if (!find(&pmix.Init, "PMIx_Init") || !find(&pmix.Put, "PMIx_Put") || !find(&pmix.Commit, "PMIx_Commit") ||
        !find(&pmix.Fence_nb, "PMIx_Fence_nb") || !find(&pmix.Get_nb, "PMIx_Get_nb") ||
        !find(&pmix.Finalize, "PMIx_Finalize"))
        return err_set(COLLET_ERR_SYSTEM, LIBRARY " lacks a function: %s", dlerror());
    COLLET_TRY(call_init(wait));
    pmix.pid = os_pid();
    atexit(say_goodbye);
    return COLLET_SUCCESS;
}

static enum collet_result publish(const char *key, char *text) {
    struct pmix_value value = {.type = PMIX_IS_STRING, .data.string = text};
    int status = pmix.Put(PMIX_TO_MANY, key, &value);
    if (status == PMIX_OK)
        status = pmix.Commit();
    if (status != PMIX_OK)
        return err_set(COLLET_ERR_SYSTEM, "the launcher's PMIx_Put failed with status %d", status);
    return COLLET_SUCCESS;
}

enum collet_result pmix_share(int rank, const char *key, char text[PMI_TEXT_BYTES], const struct config *config) {
    struct meeting_wait wait;
    meeting_wait_begin(&wait, config);
    COLLET_TRY(introduce(&wait));
    if (rank == 0)
        COLLET_TRY(publish(key, text));
    void *ticket = new_ticket();
    COLLET_TRY(wait_for_answer("Fence", pmix.Fence_nb(NULL, 0, NULL, 0, on_done, ticket), &wait));
    if (rank == 0)
        return COLLET_SUCCESS;
    struct pmix_proc publisher = pmix.self;
    publisher.rank = 0;
    ticket = new_ticket();
    COLLET_TRY(wait_for_answer("Get", pmix.Get_nb(&publisher, key, NULL, 0, on_found, ticket), &wait));
    SCOPED_LOCK(&answer.lock);
    memcpy(text, answer.text, PMI_TEXT_BYTES);
    return COLLET_SUCCESS;
}
