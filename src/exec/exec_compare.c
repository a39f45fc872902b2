/* SPDX-License-Identifier: Apache-2.0
 *
 * If ranks are in different calls, the header of a slot often shows it. But ranks may also wait on different connections, or in LL,
 * whose lines have no header. So a rank whose collective is blocked sends the name of its call to the rank that it waits for, and compares
 * its call with what others have sent:
 *
 *      rank 0 ── allreduce, call 7 ──▶ rank 1: is blocked in broadcast, call 7 ─▶ MISMATCH
 *
 * A newer message of a rank replaces its older one, so a rank that is never blocked keeps at most one message per rank.
 */
#include "base/err.h"
#include "exec/exec.h"
#include "seams/observe.h"

#include <stdio.h>

#define BLOCKED_NS 1000000000u

uint64_t exec_blocked_ns(const struct chan *chan) {
    const uint64_t quarter_ns = (uint64_t)chan->timeout_ms * 250000;
    return quarter_ns < BLOCKED_NS ? quarter_ns : BLOCKED_NS;
}

/* ---- the facts of a call ---- */

/* Another thread may call this while the call runs, to look at a rank: see layers/observe/status.c. */
__attribute__((no_sanitize("thread"))) struct call_facts exec_facts(const struct exec_call *call) {
    const struct exec_request *r = &call->request;
    return (struct call_facts){.sequence = call->args.sequence,
                               .count = r->count,
                               .signature = call->args.signature,
                               .root = r->root,
                               .collective = (uint8_t)r->collective,
                               .type = (uint8_t)r->type,
                               .named_type = r->named_type,
                               .op = (uint8_t)r->op};
}

bool exec_facts_valid(const struct call_facts *facts) {
    return facts->collective < PROG_COLLECTIVE_COUNT && type_valid((enum collet_type)facts->type) &&
           (facts->named_type == 0 || type_valid((enum collet_type)(facts->named_type - 1)));
}

void exec_describe(const struct call_facts *facts, char *text, size_t room) {
    const struct prog_facts *of = &prog_facts[facts->collective];
    const enum collet_type type = (enum collet_type)(facts->named_type != 0 ? facts->named_type - 1 : facts->type);
    const size_t count = facts->count * type_size((enum collet_type)facts->type) / type_size(type);
    char op[32] = "", root[32] = "";
    if (of->reduces)
        snprintf(op, sizeof op, ", op %s", op_name((enum collet_op)facts->op));
    if (of->root != PROG_NO_ROOT)
        snprintf(root, sizeof root, ", %s %d", of->root == PROG_PEER ? "peer" : "root", facts->root);
    snprintf(text, room, "%s of %llu %s%s%s", of->name, (unsigned long long)count, type_name(type), op, root);
}

/* ---- ranks compare ---- */

bool exec_hear(const struct chan *chan, int rank, struct call_facts *facts) {
    size_t bytes;
    return boot_try_recv(chan->owner.boot, rank, boot_key(BOOT_CALL, 0), facts, sizeof *facts, &bytes) ==
               COLLET_SUCCESS &&
           bytes == sizeof *facts && exec_facts_valid(facts);
}

enum collet_result exec_err_differs(struct exec_call *call, int peer, const char *text) {
    call->waits_for = peer;
    COLLET_TRY(recorder_tell(call->chan->recorder, CALL_DIFFERS, NULL, call));
    return err_set(COLLET_ERR_MISMATCH, "%s", text);
}

static enum collet_result compare(struct exec_call *call, int rank, const struct call_facts *theirs) {
    const struct call_facts mine = exec_facts(call);
    char my_text[96], their_text[96], text[ERR_TEXT_BYTES];
    if (theirs->sequence != mine.sequence || theirs->signature == mine.signature)
        return COLLET_SUCCESS;
    exec_describe(&mine, my_text, sizeof(my_text));
    exec_describe(theirs, their_text, sizeof(their_text));
    snprintf(text, sizeof(text), "call %llu is %s on rank %d but %s on rank %d: all ranks must make the same call",
             (unsigned long long)mine.sequence, my_text, call->chan->owner.rank, their_text, rank);
    return exec_err_differs(call, rank, text);
}

enum collet_result exec_compare(struct exec_call *call, uint64_t idle_ns, uint64_t now_ns) {
    const uint64_t blocked_ns = exec_blocked_ns(call->chan);
    const struct call_facts mine = exec_facts(call);
    struct call_facts theirs;
    if (idle_ns < blocked_ns || now_ns - call->told_ns < blocked_ns / 2 || call->waits_for < 0 ||
        prog_is_p2p(call->request.collective))
        return COLLET_SUCCESS;
    call->told_ns = now_ns;
    COLLET_TRY(boot_send(call->chan->owner.boot, call->waits_for, boot_key(BOOT_CALL, 0), &mine, sizeof mine));
    for (int rank = 0; rank < call->chan->owner.nranks; rank++)
        if (exec_hear(call->chan, rank, &theirs))
            COLLET_TRY(compare(call, rank, &theirs));
    return COLLET_SUCCESS;
}
