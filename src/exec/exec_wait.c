/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits end without success if the communicator fails, if a rank that the call waits for dies, leaves or makes another call, or after a
 * timeout. Every wait of the executor calls exec_look().
 *
 * A rank that has been blocked for a second compares its call with those of others: exec_compare.c.
 */
#include "base/err.h"
#include "exec/exec.h"
#include "seams/observe.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

/* A rank that has not come to the call's meeting (gpu_meet.c); −1: none is known. */
static int absent_rank(const struct chan *chan, const struct exec_meeting *meeting) {
    if (chan->owner.rank != 0)
        return meeting->met == MEET_DONE ? -1 : 0;
    return meeting->arrived + 1 < chan->owner.nranks ? meeting->arrived + 1 : -1;
}

/* The ranks that a CONNECTING call waits for: first those of its connections, then the one that is missing in the meeting. */
static int connecting_peer(const struct exec_call *call, int *index) {
    const struct exec_program *program = call->program;
    for (; *index < program->nconns; ++*index)
        if (program->conns[*index]->state != CONN_READY)
            return program->conns[(*index)++]->peer;
    if (call->chan->owner.gpu == NULL || prog_is_p2p(call->request.collective) || (*index)++ > program->nconns)
        return -1;
    return absent_rank(call->chan, &program->meeting);
}

/* Enumerates the ranks for which a call waits. Start with index 0, and call again with the same index until it returns −1. */
static int blocked_peer(const struct exec_call *call, int *index) {
    const struct exec_program *program = call->program;
    if (call->state == EXEC_CONNECTING)
        return connecting_peer(call, index);
    int nworkers = program->first_worker[call->args.nchannels];
    for (; *index < nworkers; ++*index)
        if (!program->workers[*index].done)
            return exec_blocking_rank(program, (*index)++);
    /* All workers are done, but a wire still has work. */
    for (; call->running == 0 && *index < nworkers + program->nconns; ++*index)
        if (!conn_is_idle(program->conns[*index - nworkers]))
            return program->conns[(*index)++ - nworkers]->peer;
    return -1;
}

static const char *name_of(const struct exec_call *call) { return prog_collective_name(call->request.collective); }

/* ---- missing ranks ---- */

/* Sets the error: rank `peer` is gone, and this call waits for it. The text names the rank that was gone first, because others may have
 * ended because of that one. But if `peer` has left its communicator in good order, the text names `peer`. */
static enum collet_result err_gone(const struct exec_call *call, int peer, enum peer_state state) {
    const struct conn_owner *owner = &call->chan->owner;
    const int first = boot_first_gone(owner->boot), culprit = first >= 0 && state != PEER_LEFT ? first : peer;
    const struct peer_info *info = &owner->peers[culprit];
    char other[64] = "it";
    if (culprit != peer)
        snprintf(other, sizeof(other), "rank %d, which is gone too,", peer);
    return err_set(COLLET_ERR_REMOTE, "rank %d (host %s, pid %d) %s while rank %d waited for %s in %s (call %llu)",
                   culprit, info->host, info->pid, boot_fate(owner->boot, culprit), owner->rank, other, name_of(call),
                   (unsigned long long)call->args.sequence);
}

static enum collet_result check_missing(const struct exec_call *call, uint64_t idle_ns) {
    const bool far = call->program->nremote > 0;
    int index = 0;
    if (idle_ns < boot_grace_ns(far))
        return COLLET_SUCCESS;
    for (int peer; (peer = blocked_peer(call, &index)) >= 0;) {
        enum peer_state state = boot_peer_settled(call->chan->owner.boot, peer, far);
        if (state != PEER_ALIVE)
            return err_gone(call, peer, state);
    }
    return COLLET_SUCCESS;
}

static enum collet_result news_for_call(const void *whom) {
    const struct exec_call *call = (const struct exec_call *)whom;
    const struct boot *boot = call->chan->owner.boot;
    COLLET_TRY(boot_check(boot));
    COLLET_TRY(boot_missing_count(boot) > 0 ? check_missing(call, UINT64_MAX) : COLLET_SUCCESS);
    const int gone = boot_first_gone(boot); /* The wire that failed need not be the wire on which the call waits */
    return gone >= 0 ? err_gone(call, gone, boot_peer_state(boot, gone, NULL)) : COLLET_SUCCESS;
}

enum collet_result exec_explain(const struct exec_call *call, enum collet_result result) {
    return boot_explain(result, news_for_call, call);
}

/* ---- mismatched calls ---- */

enum collet_result exec_err_mismatch(struct exec_call *call, const struct interp_worker *w) {
    const struct fifo_slot_header *header = fifo_header(w->op->recv_ends[w->blocked_on]);
    const int peer = exec_blocking_rank(call->program, (int)(w - call->program->workers));
    char mine[96], text[ERR_TEXT_BYTES];
    if (call->program->pair_ops != NULL)
        COLLET_TRY(exec_pairs_check(call, w));
    const struct call_facts facts = exec_facts(call);
    exec_describe(&facts, mine, sizeof(mine));
    snprintf(text, sizeof(text),
             "rank %d is in its call %llu, %s, but rank %d sent %u bytes of another call (its %llu): all ranks must "
             "make the same calls, and a send and its receive must have equal byte counts",
             call->chan->owner.rank, (unsigned long long)call->args.sequence, mine, peer, fifo_word_bytes(header->word),
             (unsigned long long)header->sequence);
    return prog_is_p2p(call->request.collective) ? err_set(COLLET_ERR_MISMATCH, "%s", text)
                                                 : exec_err_differs(call, peer, text);
}

/* ---- time ---- */

enum collet_result exec_err_timeout(const struct chan *chan, uint64_t idle_ns, enum prog_collective collective,
                                    uint64_t sequence, const char *peers, const char *found) {
    return err_set(COLLET_ERR_TIMEOUT,
                   "rank %d made no progress for %.1f s in %s (call %llu), waiting for rank %s%s%s (COLLET_TIMEOUT or "
                   "config.timeout_ms sets the limit)",
                   chan->owner.rank, (double)idle_ns / 1e9, prog_collective_name(collective),
                   (unsigned long long)sequence, peers, found[0] ? "; " : ": did it make this call?", found);
}

static enum collet_result err_timeout(const struct exec_call *call, uint64_t idle_ns) {
    char peers[96] = "";
    int index = 0, last = -1;
    for (int peer; (peer = blocked_peer(call, &index)) >= 0;) {
        size_t at = strlen(peers);
        if (peer != last && at + 12 < sizeof(peers))
            snprintf(peers + at, sizeof(peers) - at, "%s%d", at ? ", " : "", last = peer);
    }
    return exec_err_timeout(call->chan, idle_ns, call->request.collective, call->args.sequence, peers,
                            call->chan->found != NULL ? call->chan->found : "");
}

/* A rank may have sent its last message just before it was gone, and this rank may have had no CPU since. So a missing rank ends the call
 * only at the second look, after one more try. */
static enum collet_result check_missing_twice(struct exec_call *call, uint64_t idle_ns) {
    const bool tried = call->last_try;
    enum collet_result result = check_missing(call, idle_ns);
    call->last_try = result != COLLET_SUCCESS;
    return tried ? result : COLLET_SUCCESS;
}

/* Stores what the call waits for, for other threads that look at this rank. */
static void note_wait(struct exec_call *call) {
    const struct exec_program *program = call->program;
    int index = 0;
    call->waits_for = blocked_peer(call, &index);
    call->waits_sending = call->state == EXEC_RUNNING && index > 0 &&
                          index <= program->first_worker[call->args.nchannels] &&
                          program->workers[index - 1].blocked_sending != 0;
}

static enum collet_result check_call(struct exec_call *call, uint64_t idle_ns, uint64_t now_ns) {
    if (boot_missing_count(call->chan->owner.boot) > 0)
        COLLET_TRY(check_missing_twice(call, idle_ns));
    note_wait(call);
    COLLET_TRY(exec_compare(call, idle_ns, now_ns));
    COLLET_TRY(recorder_tell(call->chan->recorder, CALL_WAITS, NULL, call));
    /* A dead rank is a better answer than a timeout. */
    const bool news = boot_missing_count(call->chan->owner.boot) > 0;
    const uint64_t more_ns = news ? 2 * boot_grace_ns(true) : 0;
    return idle_ns / 1000000u < (uint64_t)call->chan->timeout_ms + more_ns / 1000000u ? COLLET_SUCCESS
                                                                                      : err_timeout(call, idle_ns);
}

/* Each call has its own timeout: progress of other calls does not count. */
enum collet_result exec_look(struct exec_call *call, uint64_t now_ns) {
    COLLET_TRY(boot_check(call->chan->owner.boot));
    if (call->idle_since_ns == 0) {
        call->chan->found = NULL;
        call->told_ns = 0;
        call->idle_since_ns = now_ns;
        call->last_try = false;
    }
    return now_ns > call->idle_since_ns ? check_call(call, now_ns - call->idle_since_ns, now_ns) : COLLET_SUCCESS;
}
