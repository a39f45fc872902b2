/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/inquest.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ANSWER_NS 1000000000u   /* maximum time for an answer */
#define GATHER_NS 4000000000u   /* maximum time until all ranks of a mismatch have described their calls */
#define ASK_AGAIN_NS 200000000u /* ranks that have not answered are asked again after this long */
#define FORGET_NS 2000000000u   /* a call that has not been looked at for this long is no longer blocked */
#define LEADERS 8               /* one of the lowest LEADERS ranks warns for all ranks of a call */

static bool is_collective(const struct status_call *call) {
    return !prog_is_p2p((enum prog_collective)call->facts.collective);
}

static const char *name_of(const struct status_call *call) {
    return prog_collective_name((enum prog_collective)call->facts.collective);
}

/* The blocked call of another rank in this communicator. NULL: there is none, or the answer does not come from a rank. */
static const struct status_call *blocked_in(const struct status_answer *answer, int nranks) {
    const struct status_call *call = status_blocked(&answer->status);
    return call != NULL && call->waits_for >= 0 && call->waits_for < nranks ? call : NULL;
}

/* ---- asking all ranks ---- */

struct roll {
    struct status_call *blocked; /* [rank]: the call in which the rank is blocked */
    uint64_t *calls;             /* [rank]: number of the rank's collectives so far */
    uint64_t *questions;         /* [rank]: number of the question */
    uint8_t *waits, *answered;   /* [rank] */
    struct arena arena;
};

static enum collet_result roll_create(struct roll *roll, int nranks) {
    const size_t n = (size_t)nranks;
    *roll = (struct roll){0};
    roll->blocked = arena_get(&roll->arena, n, sizeof(*roll->blocked));
    roll->calls = arena_get(&roll->arena, n, sizeof(*roll->calls));
    roll->questions = arena_get(&roll->arena, n, sizeof(*roll->questions));
    roll->waits = arena_get(&roll->arena, n, 1);
    roll->answered = arena_get(&roll->arena, n, 1);
    return arena_check(&roll->arena, "no memory to ask %d ranks", nranks);
}

static void roll_hear(struct roll *roll, struct boot *boot, int rank, int nranks) {
    struct status_answer answer;
    if (status_try_answer(boot, rank, roll->questions[rank], &answer) != COLLET_SUCCESS)
        return;
    const struct status_call *call = blocked_in(&answer, nranks);
    roll->answered[rank] = 1;
    roll->calls[rank] = answer.status.calls;
    roll->waits[rank] = call != NULL;
    if (call != NULL)
        roll->blocked[rank] = *call;
}

/* Asks ranks 0 … nranks−1, until enough[rank] is set for each rank, or until wait_ns is over. (`enough` is one of the two byte arrays
 * above.) A failure means that the communicator has failed. */
static enum collet_result roll_call(struct roll *roll, const struct chan *chan, int nranks, const uint8_t *enough,
                                    uint64_t wait_ns) {
    struct boot *boot = chan->owner.boot;
    const uint64_t begun_ns = os_now_ns();
    uint64_t ask_ns = begun_ns;
    for (int left = nranks; left > 0 && os_now_ns() - begun_ns < wait_ns;) {
        const bool ask = os_now_ns() >= ask_ns;
        left = 0;
        for (int rank = 0; rank < nranks; rank++) {
            if (enough[rank] || rank == chan->owner.rank)
                continue;
            if (ask)
                COLLET_TRY(status_ask(boot, rank, &roll->questions[rank]));
            roll_hear(roll, boot, rank, chan->owner.nranks);
            left += !enough[rank];
        }
        if (ask)
            ask_ns += ASK_AGAIN_NS;
        COLLET_TRY(boot_check(boot));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return COLLET_SUCCESS;
}

/* Writes "ranks 0-2,5": the ranks whose byte is set. Stops if the text has no more room. */
static size_t put_ranks(const uint8_t *in, int nranks, char *text, size_t room) {
    int n = 0;
    for (int rank = 0; rank < nranks; rank++)
        n += in[rank] != 0;
    size_t used = (size_t)snprintf(text, room, n == 1 ? "rank" : "ranks");
    for (int first = 0; first < nranks && used + 24 < room; first++) {
        int last = first;
        if (!in[first])
            continue;
        while (last + 1 < nranks && in[last + 1])
            last++;
        used += (size_t)snprintf(text + used, room - used, last > first ? "%s%d-%d" : "%s%d",
                                 text[used - 1] == 'k' || text[used - 1] == 's' ? " " : ",", first, last);
        first = last;
    }
    return used;
}

/* ---- a mismatch ---- */

/* Writes "ranks 0-2 called …, rank 3 called …" from the calls of collective number `sequence`. False: all known calls are equal. */
static bool put_groups(struct roll *roll, int nranks, uint64_t sequence, char *text, size_t room) {
    uint8_t *same = roll->answered; /* nobody needs `answered` any more */
    char call[96], before[96] = "";
    size_t used = 0;
    int groups = 0;
    for (int rank = 0; rank < nranks; rank++)
        roll->waits[rank] =
            roll->waits[rank] && is_collective(&roll->blocked[rank]) && roll->blocked[rank].facts.sequence == sequence;
    for (int first = 0; first < nranks; first++) {
        if (!roll->waits[first])
            continue;
        for (int rank = 0; rank < nranks; rank++) {
            same[rank] =
                roll->waits[rank] && roll->blocked[rank].facts.signature == roll->blocked[first].facts.signature;
            roll->waits[rank] = roll->waits[rank] && !same[rank];
        }
        exec_describe(&roll->blocked[first].facts, call, sizeof(call));
        if (used + 160 > room)
            break;
        used += (size_t)snprintf(text + used, room - used, "%s", groups++ ? ", " : "");
        used += put_ranks(same, nranks, text + used, 120 < room - used ? 120 : room - used);
        used += (size_t)snprintf(text + used, room - used, " called %s%s", call,
                                 strcmp(call, before) == 0 ? ", with other options" : "");
        memcpy(before, call, sizeof(call));
    }
    return groups > 1;
}

/* " of communicator NAME"; "" if the communicator has no name. */
static const char *put_name(const struct exec_call *call, char text[64]) {
    const char *name = call->chan->name;
    snprintf(text, 64, "%s%s", name[0] ? " of communicator " : "", name);
    return text;
}

/* Waits until the other ranks have described their calls: they may be blocked later than this rank. */
enum collet_result inquest_differs(const struct inquest *inquest, const struct exec_call *call) {
    const struct conn_owner *owner = &call->chan->owner;
    struct roll roll;
    char groups[360], name[64];
    bool known = false;
    COLLET_TRY(roll_create(&roll, owner->nranks));
    inquest->entry->differing = call;
    enum collet_result result = roll_call(&roll, call->chan, owner->nranks, roll.waits, GATHER_NS);
    inquest->entry->differing = NULL;
    if (result == COLLET_SUCCESS) {
        roll.blocked[owner->rank].facts = exec_facts(call);
        roll.waits[owner->rank] = 1;
        known = put_groups(&roll, owner->nranks, call->args.sequence, groups, sizeof(groups));
    }
    arena_free(&roll.arena);
    COLLET_TRY(result);
    if (!known)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_MISMATCH, "call %llu%s: %s: all ranks must make the same call",
                   (unsigned long long)call->args.sequence, put_name(call, name), groups);
}

/* ---- the chain ---- */

static void add(struct inquest *inquest, const char *format, ...) {
    size_t used = strlen(inquest->chain);
    if (used > 0)
        used += (size_t)snprintf(inquest->chain + used, sizeof(inquest->chain) - used, "; ");
    if (used >= sizeof(inquest->chain))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(inquest->chain + used, sizeof(inquest->chain) - used, format, arguments);
    va_end(arguments);
}

static void begin_chain(struct inquest *inquest, const struct exec_call *call) {
    inquest->at = call->waits_for;
    inquest->asked_ns = 0;
    inquest->links = 0;
    inquest->differs = false;
    memset(inquest->path, 0, sizeof(inquest->path));
    inquest->sequence = prog_is_p2p(call->request.collective) ? 0 : call->args.sequence;
    inquest->chain[0] = '\0';
}

static void end_chain(struct inquest *inquest, const struct exec_call *call, bool came_back) {
    memcpy(inquest->found, inquest->chain, sizeof(inquest->found));
    memcpy(inquest->entry->behind, inquest->path, sizeof(inquest->path));
    inquest->standstills = came_back && inquest->differs ? inquest->standstills + 1 : 0;
    inquest->at = -1;
    inquest->next_ns = os_now_ns() + exec_blocked_ns(call->chan);
    if (inquest->standstills == 2)
        log_always(COLL,
                   "rank %d waits for rank %d in %s (call %llu); %s. If no other thread or stream is to make the calls "
                   "that are missing, no rank can go on",
                   call->chan->owner.rank, call->waits_for, prog_collective_name(call->request.collective),
                   (unsigned long long)call->args.sequence, inquest->found);
}

/* Returns the rank of this communicator that is in that process; −1: there is none, or there are several. */
static int rank_of_process(const struct conn_owner *owner, const uint64_t process[2]) {
    int found = -1;
    for (int rank = 0; rank < owner->nranks; rank++)
        if (memcmp(owner->peers[rank].process, process, sizeof(owner->peers[rank].process)) == 0) {
            if (found >= 0)
                return -1;
            found = rank;
        }
    return found;
}

static void add_to_path(struct inquest *inquest, uint64_t process) {
    for (int k = 0; k < COMMS_BEHIND; k++)
        if (inquest->path[k] == 0) {
            inquest->path[k] = process;
            return;
        }
}

/* The chain goes on in other communicators, whose ranks have followed it so far. Does it come back to this process? */
static bool comes_back(struct inquest *inquest, const struct conn_owner *owner, const struct status *status) {
    const uint64_t *here = owner->peers[owner->rank].process;
    bool back = false;
    for (int k = 0; k < COMMS_BEHIND; k++)
        add_to_path(inquest, status->behind[k]);
    for (int k = 0; k < COMMS_BEHIND; k++)
        back |= inquest->path[k] == here[0];
    /* If several ranks live in this process, they may wait for each other. */
    back = back && rank_of_process(owner, here) == owner->rank;
    if (back)
        add(inquest, "that rank waits, perhaps through others, for the process of rank %d", owner->rank);
    return back;
}

/* Adds a link: the asked rank waits, too. Returns the rank for which it waits. */
static int add_link(struct inquest *inquest, const struct conn_owner *owner, const struct status_call *call) {
    const bool same = is_collective(call) && call->facts.sequence == inquest->sequence;
    const char *phase = call->connecting ? "a connection with " : "";
    inquest->differs |= !same;
    add_to_path(inquest, owner->peers[call->waits_for].process[0]);
    if (same)
        add(inquest, "rank %d waits for %srank %d in it", inquest->at, phase, call->waits_for);
    else
        add(inquest, "rank %d waits for %srank %d in %s (call %llu)", inquest->at, phase, call->waits_for,
            name_of(call), (unsigned long long)call->facts.sequence);
    inquest->sequence = is_collective(call) ? call->facts.sequence : 0;
    return call->waits_for;
}

/* Adds a link: the asked rank waits in another communicator, for some process. Returns that process's rank in
 * this communicator; −1: the chain ends. */
static int add_link_elsewhere(struct inquest *inquest, const struct conn_owner *owner,
                              const struct status_elsewhere *elsewhere) {
    const struct status_call *call = &elsewhere->call;
    inquest->differs = true;
    inquest->sequence = 0;
    add_to_path(inquest, elsewhere->process[0]);
    add(inquest, "rank %d is in %s (call %llu) of communicator %s, waiting for %sits rank %d", inquest->at,
        name_of(call), (unsigned long long)call->facts.sequence, elsewhere->name[0] ? elsewhere->name : "(unnamed)",
        call->connecting ? "a connection with " : "", call->waits_for);
    return rank_of_process(owner, elsewhere->process);
}

static void add_end(struct inquest *inquest, uint64_t calls) {
    if (inquest->sequence == 0)
        add(inquest, "rank %d waits in no call", inquest->at);
    else if (calls < inquest->sequence)
        add(inquest, "rank %d has not made this call (its last is call %llu)", inquest->at, (unsigned long long)calls);
    else
        add(inquest, "rank %d has made this call and waits for nobody in it", inquest->at);
}

/* No answer came. */
static void add_silence(struct inquest *inquest, const struct conn_owner *owner) {
    const struct peer_info *peer = &owner->peers[inquest->at];
    if (peer->node == owner->peers[owner->rank].node && os_process_is(peer->pid, OS_STOPPED))
        add(inquest, "rank %d is stopped (process %d, by a signal or a debugger)", inquest->at, peer->pid);
    else
        add(inquest, "rank %d does not answer: its process (host %s, pid %d) is stopped, or out of reach", inquest->at,
            peer->host, peer->pid);
}

/* Does the chain go on to rank `next`? It ends if that rank is already part of it. Counts the link. */
static bool goes_on(struct inquest *inquest, const struct conn_owner *owner, int next) {
    if (inquest->links < INQUEST_LINKS)
        inquest->asked[inquest->links] = inquest->at;
    inquest->links++;
    for (int k = 0; k < inquest->links && k < INQUEST_LINKS; k++)
        if (inquest->asked[k] == next)
            return false;
    return next >= 0 && next != owner->rank && inquest->links <= owner->nranks;
}

static void hear(struct inquest *inquest, const struct exec_call *call, const struct status_answer *answer) {
    const struct conn_owner *owner = &call->chan->owner;
    const struct status *status = &answer->status;
    const struct status_call *here = blocked_in(answer, owner->nranks);
    if (here == NULL && !status->elsewhere.call.blocked) {
        add_end(inquest, status->calls);
        end_chain(inquest, call, false);
        return;
    }
    const int next =
        here != NULL ? add_link(inquest, owner, here) : add_link_elsewhere(inquest, owner, &status->elsewhere);
    if (here != NULL && inquest->links == 0 && next == owner->rank && prog_is_p2p(call->request.collective) &&
        (enum prog_collective)here->facts.collective == call->request.collective)
        add(inquest, "both %s first: put the send and the receive of each rank into one group",
            call->request.collective == PROG_SEND ? "send" : "receive");
    if (!goes_on(inquest, owner, next)) {
        end_chain(inquest, call, next >= 0 || comes_back(inquest, owner, status));
        return;
    }
    inquest->at = next;
    inquest->asked_ns = 0;
}

static enum collet_result follow(struct inquest *inquest, const struct exec_call *call, uint64_t now_ns) {
    struct boot *boot = call->chan->owner.boot;
    struct status_answer answer;
    if (inquest->asked_ns == 0) {
        inquest->asked_ns = now_ns;
        return status_ask(boot, inquest->at, &inquest->question);
    }
    enum collet_result result = status_try_answer(boot, inquest->at, inquest->question, &answer);
    if (result == COLLET_IN_PROGRESS && now_ns - inquest->asked_ns < ANSWER_NS)
        return COLLET_SUCCESS;
    if (result == COLLET_SUCCESS) {
        hear(inquest, call, &answer);
    } else {
        add_silence(inquest, &call->chan->owner);
        end_chain(inquest, call, false);
    }
    return COLLET_SUCCESS;
}

/* ---- COLLET_WARN_AFTER ---- */

/* Must this rank warn for all ranks? Not if a lower rank waits in the same collective. */
static bool is_leader(const struct roll *roll, int rank, const struct exec_call *call) {
    for (int lower = 0; lower < rank && lower < LEADERS; lower++)
        if (roll->waits[lower] && is_collective(&roll->blocked[lower]) &&
            roll->blocked[lower].facts.sequence == call->args.sequence)
            return false;
    return true;
}

static enum collet_result warn_for_all(const struct inquest *inquest, const struct exec_call *call, struct roll *roll) {
    const struct conn_owner *owner = &call->chan->owner;
    char list[200], who[240], name[64];
    int missing = 0;
    COLLET_TRY(roll_call(roll, call->chan, owner->rank < LEADERS ? owner->rank : LEADERS, roll->answered, ANSWER_NS));
    if (!is_leader(roll, owner->rank, call))
        return COLLET_SUCCESS;
    COLLET_TRY(roll_call(roll, call->chan, owner->nranks, roll->answered, ANSWER_NS));
    roll->calls[owner->rank] = call->args.sequence;
    for (int rank = 0; rank < owner->nranks; rank++)
        /* A rank without an answer counts as missing. */
        missing += roll->waits[rank] = roll->calls[rank] < call->args.sequence;
    put_ranks(roll->waits, owner->nranks, list, sizeof(list));
    snprintf(who, sizeof(who), "all of %d have made it", owner->nranks);
    if (missing > 0)
        snprintf(who, sizeof(who), "%s of %d %s not made it", list, owner->nranks, missing == 1 ? "has" : "have");
    log_always(COLL, "%s (call %llu%s) %s: %s%s%s", prog_collective_name(call->request.collective),
               (unsigned long long)call->args.sequence, put_name(call, name), late_text(&inquest->late), who,
               inquest->found[0] ? "; " : "", inquest->found);
    return COLLET_SUCCESS;
}

static enum collet_result warn_late(const struct inquest *inquest, const struct exec_call *call) {
    struct roll roll;
    if (prog_is_p2p(call->request.collective)) {
        log_always(COLL, "rank %d %s, for rank %d in %s (call %llu)%s%s", call->chan->owner.rank,
                   late_text(&inquest->late), call->waits_for, prog_collective_name(call->request.collective),
                   (unsigned long long)call->args.sequence, inquest->found[0] ? "; " : "", inquest->found);
        return COLLET_SUCCESS;
    }
    COLLET_TRY(roll_create(&roll, call->chan->owner.nranks));
    enum collet_result result = warn_for_all(inquest, call, &roll);
    arena_free(&roll.arena);
    return result;
}

/* ---- a blocked call ---- */

/* Does this call ask now? One call of the communicator asks at a time. Another call may begin when nobody has
 * looked at that call for FORGET_NS. */
static bool is_mine(struct inquest *inquest, const struct exec_call *call, uint64_t idle_ns, uint64_t now_ns) {
    const bool same = inquest->call == call && inquest->since_ns == call->idle_since_ns;
    if (!same && now_ns - inquest->looked_ns < FORGET_NS && inquest->call != call)
        return false;
    if (!same) {
        *inquest = (struct inquest){.call = call, .since_ns = call->idle_since_ns, .at = -1, .entry = inquest->entry};
        memset(inquest->entry->behind, 0, sizeof(inquest->entry->behind));
        late_begin(&inquest->late, now_ns - idle_ns, call->chan->owner.config->warn_after);
    }
    inquest->looked_ns = now_ns;
    return true;
}

enum collet_result inquest_look(struct inquest *inquest, const struct exec_call *call) {
    const uint64_t now_ns = os_now_ns(), idle_ns = now_ns - call->idle_since_ns;
    const uint64_t blocked_ns = exec_blocked_ns(call->chan);
    /* Other ranks must be blocked before they are asked. */
    if (call->waits_for < 0 || idle_ns < blocked_ns + blocked_ns / 2)
        return COLLET_SUCCESS;
    if (is_mine(inquest, call, idle_ns, now_ns)) {
        if (late_look(&inquest->late))
            COLLET_TRY(warn_late(inquest, call));
        if (inquest->at < 0 && now_ns >= inquest->next_ns)
            begin_chain(inquest, call);
        if (inquest->at >= 0)
            COLLET_TRY(follow(inquest, call, now_ns));
    }
    call->chan->found = inquest->found[0] != '\0' ? inquest->found : inquest->chain;
    return COLLET_SUCCESS;
}
