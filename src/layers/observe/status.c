/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch looks at calls that other threads run, as exec_dump() does: the record may be a moment old.
 */
#include "layers/observe/status.h"

#include "api/engine.h"
#include "base/os.h"
#include "boot/hub.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define READS_RACILY __attribute__((no_sanitize("thread")))

/* ---- the record ---- */

READS_RACILY static struct status_call status_call(const struct comms_entry *entry, const struct exec_call *call,
                                                   uint64_t now_ns) {
    const uint64_t since_ns = call->idle_since_ns;
    const bool idle = since_ns != 0 && since_ns < now_ns;
    struct status_call status = {.facts = exec_facts(call),
                                 .idle_ns = idle ? now_ns - since_ns : 0,
                                 .waits_for = idle ? call->waits_for : -1,
                                 .connecting = call->state == EXEC_CONNECTING,
                                 .sending = call->waits_sending,
                                 .protocol = (uint8_t)call->args.protocol};
    const bool differs = entry->differing == call;
    if (differs)
        status.waits_for = call->waits_for;
    status.blocked = status.waits_for >= 0 && (differs || status.idle_ns >= exec_blocked_ns(call->chan));
    if (call->program != NULL)
        snprintf(status.algorithm, sizeof(status.algorithm), "%s", call->program->source->name);
    return status;
}

READS_RACILY void status_make(const struct comms_entry *entry, struct status *status) {
    const struct collet_comm *comm = entry->comm;
    const struct lane *lanes = comm->engine.lanes;
    const uint64_t now_ns = os_now_ns();
    *status = (struct status){.calls = engine_collectives(comm), .failure = boot_failed(comm->boot)};
    for (int k = 0; k < CONN_COUNTERS; k++)
        status->counters[k] = __atomic_load_n(&comm->chan->counters[k], __ATOMIC_RELAXED);
    snprintf(status->name, sizeof(status->name), "%s", comm->name);
    snprintf(status->error, sizeof(status->error), "%s", boot_failed_text(comm->boot));
    memcpy(status->behind, entry->behind, sizeof(status->behind));
    for (int k = 0; k < 2 + 2 * comm->nranks; k++)
        if (lanes[k].call.state != EXEC_IDLE) {
            if (status->ncalls < STATUS_CALLS)
                status->call[status->ncalls] = status_call(entry, &lanes[k].call, now_ns);
            status->ncalls++;
        }
}

const struct status_call *status_blocked(const struct status *status) {
    for (int k = 0; k < status->ncalls && k < STATUS_CALLS; k++)
        if (status->call[k].blocked)
            return &status->call[k];
    return NULL;
}

/* If this other communicator of the process has a blocked call, adds it to the record. False: it has no blocked call. */
static bool take_elsewhere(const struct comms_entry *entry, struct status *status) {
    struct status other;
    status_make(entry, &other);
    const struct status_call *blocked = status_blocked(&other);
    if (blocked == NULL)
        return false;
    status->elsewhere.call = *blocked;
    memcpy(status->elsewhere.process, boot_peers(entry->comm->boot)[blocked->waits_for].process,
           sizeof(status->elsewhere.process));
    memcpy(status->elsewhere.name, other.name, sizeof(other.name));
    memcpy(status->behind, other.behind, sizeof(other.behind));
    return true;
}

#define ENDS(text) (memchr(text, '\0', sizeof(text)) != NULL)

static bool is_sound(const struct status_call *call) { return ENDS(call->algorithm) && exec_facts_valid(&call->facts); }

bool status_read(const void *bytes, size_t nbytes, struct status *status) {
    if (nbytes <= offsetof(struct status, error) || nbytes > sizeof(*status))
        return false;
    *status = (struct status){0};
    memcpy(status, bytes, nbytes);
    bool sound = ENDS(status->name) && ENDS(status->error) && ENDS(status->elsewhere.name) && status->ncalls >= 0 &&
                 is_sound(&status->elsewhere.call);
    for (int k = 0; k < STATUS_CALLS; k++)
        sound = sound && is_sound(&status->call[k]);
    return sound;
}

/* ---- question and answer ---- */

struct letter *status_question(int to, int from, enum status_asker asker, uint64_t number) {
    return letter_create(to, from, boot_key(BOOT_QUERY, asker), &number, sizeof number);
}

/* Fills in the record of a rank, if its communicator is open. If none of its calls is blocked, adds a blocked call of
 * another communicator. */
static void fill(const struct hub *hub, int rank, struct status_answer *answer) {
    const struct comms_entry *entries = comms_lock();
    for (const struct comms_entry *entry = entries; entry != NULL && answer->bytes == 0; entry = comms_next(entry))
        if (entry->comm->boot->hub == hub && entry->comm->rank == rank) {
            status_make(entry, &answer->status);
            answer->bytes = (uint32_t)(offsetof(struct status, error) + strlen(answer->status.error) + 1);
        }
    bool found = answer->bytes == 0 || status_blocked(&answer->status) != NULL;
    for (const struct comms_entry *entry = entries; entry != NULL && !found; entry = comms_next(entry))
        found = entry->comm->boot->hub != hub && take_elsewhere(entry, &answer->status);
    comms_unlock();
}

struct letter *status_answer(struct hub *hub, const struct letter *question) {
    struct status_answer answer = {.now_ns = os_now_ns()};
    if (question->bytes != sizeof answer.question)
        return NULL;
    memcpy(&answer.question, question->data, sizeof answer.question);
    pthread_mutex_lock(&hub->lock);
    const bool has_left = hub->local[question->to] == NULL;
    pthread_mutex_unlock(&hub->lock);
    if (has_left)
        return NULL;
    fill(hub, question->to, &answer);
    return letter_create(question->from, question->to, boot_key(BOOT_REPORT, question->key & BOOT_KEY_REST), &answer,
                         offsetof(struct status_answer, status) + answer.bytes);
}

bool status_read_answer(const void *data, size_t bytes, struct status_answer *answer) {
    const size_t head = offsetof(struct status_answer, status);
    if (bytes < head || bytes > sizeof *answer)
        return false;
    *answer = (struct status_answer){0};
    memcpy(answer, data, head);
    return answer->bytes == bytes - head &&
           (answer->bytes == 0 || status_read((const char *)data + head, bytes - head, &answer->status));
}

enum collet_result status_ask(struct boot *boot, int rank, uint64_t *number) {
    static uint64_t questions;
    *number = __atomic_add_fetch(&questions, 1, __ATOMIC_RELAXED);
    return boot_send(boot, rank, boot_key(BOOT_QUERY, STATUS_RANK), number, sizeof *number);
}

enum collet_result status_try_answer(struct boot *boot, int rank, uint64_t number, struct status_answer *answer) {
    char data[sizeof(struct status_answer)];
    size_t bytes = 0;
    do /* skips late answers to earlier questions */
        COLLET_TRY(boot_try_recv(boot, rank, boot_key(BOOT_REPORT, STATUS_RANK), data, sizeof data, &bytes));
    while (!status_read_answer(data, bytes, answer) || answer->question != number);
    return COLLET_SUCCESS;
}
