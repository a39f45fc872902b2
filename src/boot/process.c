/* SPDX-License-Identifier: Apache-2.0
 *
 * One static struct, forgotten by a forked child. The child's handler only assigns: any lock of the parent may have been
 * held at the moment of the fork, and what those locks protect belongs to threads that do not exist in the child.
 */
#include "boot/process.h"

#include "base/mapping.h"
#include "base/os.h"
#include "base/remedy.h"
#include "collet.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static struct process the_process = {.lock = PTHREAD_MUTEX_INITIALIZER};
/* Keeps the parent's state reachable, so leak checkers do not report it. */
static struct process parents_process __attribute__((used));
unsigned process_forks;
static bool sodium_works;

static void forget_parent(void) {
    parents_process = the_process;
    the_process = (struct process){.lock = PTHREAD_MUTEX_INITIALIZER};
    process_forks++;
}

/* Runs before there are threads: libsodium starts with a lock. A child that is forked at that moment could never take it. */
__attribute__((constructor)) static void process_begin(void) {
    pthread_atfork(NULL, NULL, forget_parent);
    sodium_works = sodium_init() >= 0;
}

struct process *process_lock(void) {
    if (!sodium_works)
        abort();
    pthread_mutex_lock(&the_process.lock);
    while (the_process.identity[0] == 0)
        os_random(the_process.identity, sizeof the_process.identity);
    return &the_process;
}

void process_unlock(void) { pthread_mutex_unlock(&the_process.lock); }

struct process *process_without_lock(void) {
    process_lock(); /* if nobody did that yet, it makes the identity */
    process_unlock();
    return &the_process;
}

const uint64_t *process_identity(void) { return process_without_lock()->identity; }

bool process_is_here(const uint64_t identity[2]) {
    return memcmp(identity, process_identity(), sizeof the_process.identity) == 0;
}

static enum collet_result make_probe(struct probe *probe) {
    void *memory;
    enum collet_result result = os_shared_create("collet-probe", PROBE_BYTES, &memory, &probe->fd);
    if (result != COLLET_SUCCESS) {
        probe->fd = -1;
        return os_is_short() ? result : COLLET_SUCCESS;
    }
    os_random(probe->nonce, PROBE_NONCE_BYTES);
    memcpy(memory, probe->nonce, PROBE_NONCE_BYTES);
    return COLLET_SUCCESS;
}

enum collet_result process_probe(struct probe *probe) {
    struct process *process = process_lock();
    enum collet_result result = process->probe_made ? COLLET_SUCCESS : make_probe(&process->probe);
    process->probe_made = result == COLLET_SUCCESS;
    *probe = process->probe;
    process_unlock();
    return result;
}
