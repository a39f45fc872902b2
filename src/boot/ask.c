/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions: what does a rank wait in? Ranks that wait for long say so here, in their own process; nothing travels until
 * somebody asks.
 *
 *      rank 4 ── QUESTION ──▶ tree ──▶ watch of rank 3's process: what rank 3 has said, or else what another
 *             ◀── ANSWER ──── tree ◀── communicator's rank of that process has
 */
#include "boot/hub.h"
#include "boot/process.h"

#include "base/err.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

void boot_say(struct boot *boot, const void *status, size_t bytes) {
    struct process *process = process_lock();
    if (boot->said_bytes == 0 && bytes > 0) {
        boot->next_sayer = process->sayers;
        boot->sayer_link = &process->sayers;
        if (boot->next_sayer != NULL)
            boot->next_sayer->sayer_link = &boot->next_sayer;
        process->sayers = boot;
    } else if (boot->said_bytes > 0 && bytes == 0) {
        *boot->sayer_link = boot->next_sayer;
        if (boot->next_sayer != NULL)
            boot->next_sayer->sayer_link = boot->sayer_link;
    }
    boot->said_bytes = bytes <= BOOT_STATUS_BYTES ? bytes : BOOT_STATUS_BYTES;
    if (bytes > 0)
        memcpy(boot->said, status, boot->said_bytes);
    process_unlock();
}

void boot_count_at(struct boot *boot, const uint64_t *calls) {
    process_lock();
    if (boot->calls != NULL)
        boot->hub->last_calls[boot->rank] = *boot->calls;
    boot->calls = calls;
    process_unlock();
}

/* The caller holds both locks. */
static void fill_answer(const struct process *process, const struct boot *boot, struct boot_answer *answer) {
    const struct boot *sayer = boot;
    if (boot->said_bytes == 0)
        for (sayer = process->sayers; sayer != NULL && sayer->hub == boot->hub;)
            sayer = sayer->next_sayer;
    if (boot->calls != NULL)
        answer->calls = __atomic_load_n(boot->calls, __ATOMIC_RELAXED);
    if (sayer == NULL)
        return;
    answer->bytes = (uint32_t)sayer->said_bytes;
    answer->elsewhere = sayer != boot;
    memcpy(answer->status, sayer->said, sayer->said_bytes);
}

struct letter *hub_answer(struct hub *hub, const struct letter *question) {
    struct boot_answer answer = {0};
    if (question->bytes != sizeof answer.question)
        return NULL;
    memcpy(&answer.question, question->data, sizeof answer.question);
    answer.now_ns = os_now_ns();
    struct process *process = process_lock();
    pthread_mutex_lock(&hub->lock);
    const struct boot *boot = hub->local[question->to];
    if (boot != NULL)
        fill_answer(process, boot, &answer);
    pthread_mutex_unlock(&hub->lock);
    process_unlock();
    if (boot == NULL)
        return NULL;
    return letter_create(question->from, question->to, boot_key(BOOT_ANSWER, 0), &answer, sizeof answer);
}

enum collet_result boot_ask(struct boot *boot, int rank, uint64_t *question) {
    *question = ++boot->questions;
    return boot_send(boot, rank, boot_key(BOOT_QUESTION, 0), question, sizeof *question);
}

enum collet_result boot_try_answer(struct boot *boot, int rank, uint64_t question, struct boot_answer *answer) {
    size_t bytes = 0;
    do /* skips late answers to earlier questions */
        COLLET_TRY(boot_try_recv(boot, rank, boot_key(BOOT_ANSWER, 0), answer, sizeof *answer, &bytes));
    while (bytes != sizeof *answer || answer->question != question || answer->bytes > BOOT_STATUS_BYTES);
    return COLLET_SUCCESS;
}
