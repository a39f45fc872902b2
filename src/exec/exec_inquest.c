/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds the job up? A rank that is blocked says so in its own process (boot_say()), and asks: first the rank that it waits
 * for, then the rank that this one waits for, and so on to the end of the chain.
 *
 *      rank 4 ── waits for ──▶ rank 3 ── waits for ──▶ rank 1: has not made this call
 *        │  what are you in?     ▲                       ▲
 *        ├───────────────────────┘                       │     the watch of each process answers, so that a rank need
 *        └───────────────────────────────────────────────┘     not be in a call, and a process that is stopped shows
 *
 * The end of the chain is the text of a timeout. Ranks that are found to be in different calls are a mismatch; all ranks are
 * asked then, so that the text can say which of them called what. One chain at a time is followed per communicator.
 *
 * A chain may leave the communicator: the asked rank waits in another one, of other processes. That rank follows its own chain
 * there, and says whom it has found behind it. So what is known grows by a process per question, until a circle has closed:
 *
 *      process 0 ── waits in A for ──▶ process 1 ── in B for ──▶ process 2 ── in C for ──▶ process 0
 *                                      says: 2, then 2 and 0     says: 0
 */
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "exec/exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAY_AFTER_NS 1000000000u /* time without progress after which a call says that it waits */
#define ANSWER_NS 1000000000u    /* maximum time for an answer */
#define GATHER_NS 4000000000u    /* maximum time until all ranks of a mismatch have described their calls */
#define ASK_AGAIN_NS 200000000u  /* ranks that have not answered are asked again after this long */
#define LEADERS 8                /* one of the lowest LEADERS ranks warns for all ranks of a call */
#define BEHIND 4                 /* maximum number of processes that a record names behind the first */
#define LINKS 16                 /* maximum number of remembered links: a text has room for fewer */

/* A blocked rank publishes this record. */
struct call_record {
    uint64_t sequence, count;
    uint64_t process[2];     /* process of the rank that it waits for */
    uint64_t behind[BEHIND]; /* processes in the chain behind that one (first half of each id); 0: not known */
    uint32_t signature;
    int32_t collective, type, op, root;
    int32_t waits_for;
    int32_t connecting; /* 1: it waits for a connection; 0: for data or credit */
    char comm[32];
};
_Static_assert(sizeof(struct call_record) <= BOOT_STATUS_BYTES, "is a status");

struct inquest {
    const struct exec_call *call; /* the call that is blocked; NULL: none */
    int at;                       /* rank that was asked; −1: none */
    uint64_t question, asked_ns;
    uint64_t next_ns;        /* time at which the next chain begins */
    int links;               /* number of links of this chain so far */
    int asked[LINKS];        /* ranks of the first links */
    uint64_t sequence;       /* collective of the last link; 0: it is a send or receive */
    bool differs;            /* 1: some link is in another call than the link before */
    uint64_t path[BEHIND];   /* processes behind the first rank, in this chain … */
    uint64_t behind[BEHIND]; /* … and in the last complete chain */
    int standstills;         /* number of chains in a row that came back to their beginning, through different calls */
    struct late late;        /* COLLET_WARN_AFTER */
    char chain[400];         /* text of this chain so far */
    char found[400];         /* text of the last complete chain; "": none yet */
};

/* ---- what this rank says ---- */

static struct call_record record_of(const struct exec_call *call, int waits_for) {
    const struct exec_request *r = &call->request;
    const struct conn_owner *owner = &call->chan->owner;
    struct call_record record = {.sequence = call->args.sequence,
                                 .count = r->count,
                                 .signature = call->args.signature,
                                 .collective = (int32_t)r->collective,
                                 .type = (int32_t)r->type,
                                 .op = (int32_t)r->op,
                                 .root = r->root,
                                 .waits_for = waits_for,
                                 .connecting = call->state == EXEC_CONNECTING};
    const struct inquest *inquest = call->chan->inquest;
    if (inquest != NULL && inquest->call == call)
        memcpy(record.behind, inquest->behind, sizeof(record.behind));
    memcpy(record.process, owner->peers[waits_for].process, sizeof(record.process));
    snprintf(record.comm, sizeof(record.comm), "%s", call->chan->name);
    return record;
}

static bool record_is_valid(const struct call_record *record, int nranks) {
    return record->collective >= 0 && record->collective < PROG_COLLECTIVE_COUNT &&
           type_valid((enum collet_type)record->type) && record->waits_for >= 0 &&
           (nranks == 0 || record->waits_for < nranks) && memchr(record->comm, '\0', sizeof(record->comm)) != NULL;
}

static bool is_collective(const struct call_record *record) {
    return !prog_is_p2p((enum prog_collective)record->collective);
}

void exec_describe(const struct exec_request *request, char *text, size_t room) {
    const struct prog_facts *facts = &prog_facts[request->collective];
    const enum collet_type type =
        request->named_type != 0 ? (enum collet_type)(request->named_type - 1) : request->type;
    const size_t count = request->count * type_size(request->type) / type_size(type);
    char op[32] = "", root[32] = "";
    if (facts->reduces)
        snprintf(op, sizeof op, ", op %s", op_name(request->op));
    if (facts->root != PROG_NO_ROOT)
        snprintf(root, sizeof root, ", %s %d", facts->root == PROG_PEER ? "peer" : "root", request->root);
    snprintf(text, room, "%s of %llu %s%s%s", facts->name, (unsigned long long)count, type_name(type), op, root);
}

static void describe_record(const struct call_record *record, char *text, size_t room) {
    exec_describe(&(struct exec_request){.collective = (enum prog_collective)record->collective,
                                         .count = record->count,
                                         .type = (enum collet_type)record->type,
                                         .op = (enum collet_op)record->op,
                                         .root = record->root},
                  text, room);
}

static void say_anew(struct exec_call *call, int waits_for) {
    const struct call_record record = record_of(call, waits_for);
    call->told_peer = waits_for;
    boot_say(call->chan->owner.boot, &record, sizeof(record));
}

static void say(struct exec_call *call, int waits_for) {
    if (call->told_peer != waits_for)
        say_anew(call, waits_for);
}

void exec_take_back(struct exec_call *call) {
    struct inquest *inquest = call->chan->inquest;
    call->told_peer = -1;
    boot_say(call->chan->owner.boot, NULL, 0);
    if (inquest != NULL && inquest->call == call)
        inquest->call = NULL;
}

/* ---- all ranks are asked ---- */

struct roll {
    struct call_record *records; /* [rank] */
    uint64_t *calls;             /* [rank]: number of its collectives so far */
    uint64_t *questions;         /* [rank] */
    uint8_t *waits, *answered;   /* [rank] */
    struct arena arena;
};

static enum collet_result roll_create(struct roll *roll, int nranks) {
    const size_t n = (size_t)nranks;
    *roll = (struct roll){0};
    roll->records = arena_get(&roll->arena, n, sizeof(*roll->records));
    roll->calls = arena_get(&roll->arena, n, sizeof(*roll->calls));
    roll->questions = arena_get(&roll->arena, n, sizeof(*roll->questions));
    roll->waits = arena_get(&roll->arena, n, 1);
    roll->answered = arena_get(&roll->arena, n, 1);
    return arena_check(&roll->arena, "no memory to ask %d ranks", nranks);
}

static void roll_hear(struct roll *roll, struct boot *boot, int rank, int nranks) {
    struct boot_answer answer;
    if (boot_try_answer(boot, rank, roll->questions[rank], &answer) != COLLET_SUCCESS)
        return;
    roll->answered[rank] = 1;
    roll->calls[rank] = answer.calls;
    memcpy(&roll->records[rank], answer.status, sizeof(*roll->records));
    roll->waits[rank] =
        answer.bytes == sizeof(*roll->records) && !answer.elsewhere && record_is_valid(&roll->records[rank], nranks);
}

/* Asks ranks 0 … nranks−1, until enough[rank] is set for each of them or wait_ns is over. (`enough` is one of the two byte arrays above.)
 * A failure means that the communicator has failed. */
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
                COLLET_TRY(boot_ask(boot, rank, &roll->questions[rank]));
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

/* Writes "ranks 0-2,5": the ranks whose byte is set. It stops if the text has no more room. */
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

/* Writes "ranks 0-2 called …, rank 3 called …" from the records of collective number `sequence`. False: all known calls are equal. */
static bool put_groups(struct roll *roll, int nranks, uint64_t sequence, char *text, size_t room) {
    uint8_t *same = roll->answered; /* this array is not needed any more */
    char call[96], before[96] = "";
    size_t used = 0;
    int groups = 0;
    for (int rank = 0; rank < nranks; rank++)
        roll->waits[rank] =
            roll->waits[rank] && is_collective(&roll->records[rank]) && roll->records[rank].sequence == sequence;
    for (int first = 0; first < nranks; first++) {
        if (!roll->waits[first])
            continue;
        for (int rank = 0; rank < nranks; rank++) {
            same[rank] = roll->waits[rank] && roll->records[rank].signature == roll->records[first].signature;
            roll->waits[rank] = roll->waits[rank] && !same[rank];
        }
        describe_record(&roll->records[first], call, sizeof(call));
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

enum collet_result exec_explain_mismatch(struct exec_call *call, int peer, const char *otherwise) {
    const struct conn_owner *owner = &call->chan->owner;
    struct roll roll;
    char groups[360], name[64];
    bool known = false;
    COLLET_TRY(roll_create(&roll, owner->nranks));
    say(call, peer);
    enum collet_result result = roll_call(&roll, call->chan, owner->nranks, roll.waits, GATHER_NS);
    if (result == COLLET_SUCCESS) {
        roll.records[owner->rank] = record_of(call, peer);
        roll.waits[owner->rank] = 1;
        known = put_groups(&roll, owner->nranks, call->args.sequence, groups, sizeof(groups));
    }
    arena_free(&roll.arena);
    COLLET_TRY(result);
    if (!known)
        return err_set(COLLET_ERR_MISMATCH, "%s", otherwise);
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

static void begin_chain(struct inquest *inquest, const struct exec_call *call, int peer) {
    inquest->at = peer;
    inquest->asked_ns = 0;
    inquest->links = 0;
    inquest->differs = false;
    memset(inquest->path, 0, sizeof(inquest->path));
    inquest->sequence = prog_is_p2p(call->request.collective) ? 0 : call->args.sequence;
    inquest->chain[0] = '\0';
}

static void end_chain(struct inquest *inquest, struct exec_call *call, bool came_back) {
    const int64_t quarter_ns = call->chan->timeout_ms * 250000;
    memcpy(inquest->found, inquest->chain, sizeof(inquest->found));
    if (memcmp(inquest->behind, inquest->path, sizeof(inquest->behind)) != 0) {
        memcpy(inquest->behind, inquest->path, sizeof(inquest->behind));
        say_anew(call, call->told_peer);
    }
    inquest->standstills = came_back && inquest->differs ? inquest->standstills + 1 : 0;
    inquest->at = -1;
    inquest->next_ns = os_now_ns() + (quarter_ns < SAY_AFTER_NS ? (uint64_t)quarter_ns : SAY_AFTER_NS);
    if (inquest->standstills == 2)
        log_always(COLL,
                   "rank %d waits for rank %d in %s (call %llu); %s. If no other thread or stream is to make the calls "
                   "that are missing, no rank can go on",
                   call->chan->owner.rank, call->told_peer, prog_collective_name(call->request.collective),
                   (unsigned long long)call->args.sequence, inquest->found);
}

/* The rank of this communicator that is in this process; −1: none, or several. */
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
    for (int k = 0; k < BEHIND; k++)
        if (inquest->path[k] == 0) {
            inquest->path[k] = process;
            return;
        }
}

/* The chain goes on in other communicators. Does it come back to this process, as far as their ranks have followed it? */
static bool comes_back(struct inquest *inquest, const struct conn_owner *owner, const struct call_record *record) {
    const uint64_t *here = owner->peers[owner->rank].process;
    bool back = false;
    for (int k = 0; k < BEHIND; k++)
        add_to_path(inquest, record->behind[k]);
    for (int k = 0; k < BEHIND; k++)
        back |= inquest->path[k] == here[0];
    back = back && rank_of_process(owner, here) == owner->rank; /* ranks of one process may wait for each other */
    if (back)
        add(inquest, "that rank waits, perhaps through others, for the process of rank %d", owner->rank);
    return back;
}

/* Adds a link: the rank that was asked waits too. Returns the rank that it waits for; −1: the chain ends. */
static int add_link(struct inquest *inquest, const struct conn_owner *owner, const struct call_record *record,
                    bool elsewhere) {
    const char *what = prog_collective_name((enum prog_collective)record->collective);
    const bool same = !elsewhere && is_collective(record) && record->sequence == inquest->sequence;
    const char *phase = record->connecting ? "a connection with " : "";
    int next = record->waits_for;
    inquest->differs |= !same;
    add_to_path(inquest, record->process[0]);
    if (elsewhere) {
        next = rank_of_process(owner, record->process);
        add(inquest, "rank %d is in %s (call %llu) of communicator %s, waiting for %sits rank %d", inquest->at, what,
            (unsigned long long)record->sequence, record->comm[0] ? record->comm : "(unnamed)", phase,
            record->waits_for);
    } else if (same) {
        add(inquest, "rank %d waits for %srank %d in it", inquest->at, phase, next);
    } else {
        add(inquest, "rank %d waits for %srank %d in %s (call %llu)", inquest->at, phase, next, what,
            (unsigned long long)record->sequence);
    }
    inquest->sequence = !elsewhere && is_collective(record) ? record->sequence : 0;
    return next;
}

static void add_end(struct inquest *inquest, uint64_t calls) {
    if (inquest->sequence == 0)
        add(inquest, "rank %d waits in no call", inquest->at);
    else if (calls < inquest->sequence)
        add(inquest, "rank %d has not made this call (its last is call %llu)", inquest->at, (unsigned long long)calls);
    else
        add(inquest, "rank %d has made this call and waits for nobody in it", inquest->at);
}

/* Finds a rank of this host whose process is stopped; −1: none. */
static int find_stopped(const struct conn_owner *owner, int first) {
    const int node = owner->peers[owner->rank].node;
    for (int k = 0; k < owner->nranks; k++) {
        const int rank = (first + k) % owner->nranks;
        if (owner->peers[rank].node == node && os_process_stopped(owner->peers[rank].pid))
            return rank;
    }
    return -1;
}

/* No answer came. Questions and answers pass through other processes, so the stopped process may be one of those. */
static void add_silence(struct inquest *inquest, const struct conn_owner *owner) {
    const int stopped = find_stopped(owner, inquest->at), silent = boot_silent_rank(owner->boot);
    const struct peer_info *peer = &owner->peers[stopped >= 0 ? stopped : inquest->at];
    if (stopped >= 0)
        add(inquest, "rank %d is stopped (process %d, by a signal or a debugger)", stopped, peer->pid);
    else
        add(inquest, "rank %d does not answer: its process (host %s, pid %d) is stopped, or out of reach", inquest->at,
            peer->host, peer->pid);
    if (silent >= 0)
        add(inquest, "nothing is heard of rank %d (host %s)", silent, owner->peers[silent].host);
}

/* Does the chain go on to rank `next`? It ends if that rank is already part of it. Counts the link. */
static bool goes_on(struct inquest *inquest, const struct conn_owner *owner, int next) {
    if (inquest->links < LINKS)
        inquest->asked[inquest->links] = inquest->at;
    inquest->links++;
    for (int k = 0; k < inquest->links && k < LINKS; k++)
        if (inquest->asked[k] == next)
            return false;
    return next >= 0 && next != owner->rank && inquest->links <= owner->nranks;
}

/* Another rank waits in the collective with the same number. Is it a different call? */
static enum collet_result compare(struct exec_call *call, const struct call_record *theirs, int rank) {
    char my_text[96], their_text[96], text[ERR_TEXT_BYTES];
    if (prog_is_p2p(call->request.collective) || !is_collective(theirs) || theirs->sequence != call->args.sequence ||
        theirs->signature == call->args.signature)
        return COLLET_SUCCESS;
    exec_describe(&call->request, my_text, sizeof(my_text));
    describe_record(theirs, their_text, sizeof(their_text));
    snprintf(text, sizeof(text), "call %llu is %s on rank %d but %s on rank %d: all ranks must make the same call",
             (unsigned long long)call->args.sequence, my_text, call->chan->owner.rank, their_text, rank);
    return exec_explain_mismatch(call, call->told_peer, text);
}

static enum collet_result hear(struct inquest *inquest, struct exec_call *call, const struct boot_answer *answer) {
    const struct conn_owner *owner = &call->chan->owner;
    struct call_record record;
    memcpy(&record, answer->status, sizeof(record));
    if (answer->bytes != sizeof(record) || !record_is_valid(&record, answer->elsewhere ? 0 : owner->nranks)) {
        add_end(inquest, answer->calls);
        end_chain(inquest, call, false);
        return COLLET_SUCCESS;
    }
    if (!answer->elsewhere)
        COLLET_TRY(compare(call, &record, inquest->at));
    const int next = add_link(inquest, owner, &record, answer->elsewhere);
    if (inquest->links == 0 && next == owner->rank && prog_is_p2p(call->request.collective) &&
        (enum prog_collective)record.collective == call->request.collective)
        add(inquest, "both %s first: put the send and the receive of each rank into one group",
            call->request.collective == PROG_SEND ? "send" : "receive");
    if (!goes_on(inquest, owner, next)) {
        end_chain(inquest, call, next >= 0 || comes_back(inquest, owner, &record));
        return COLLET_SUCCESS;
    }
    inquest->at = next;
    inquest->asked_ns = 0;
    return COLLET_SUCCESS;
}

static enum collet_result follow(struct inquest *inquest, struct exec_call *call, uint64_t now_ns) {
    struct boot *boot = call->chan->owner.boot;
    struct boot_answer answer;
    if (inquest->asked_ns == 0) {
        inquest->asked_ns = now_ns;
        return boot_ask(boot, inquest->at, &inquest->question);
    }
    enum collet_result result = boot_try_answer(boot, inquest->at, inquest->question, &answer);
    if (result == COLLET_SUCCESS)
        return hear(inquest, call, &answer);
    if (result == COLLET_IN_PROGRESS && now_ns - inquest->asked_ns < ANSWER_NS)
        return COLLET_SUCCESS;
    add_silence(inquest, &call->chan->owner);
    end_chain(inquest, call, false);
    return COLLET_SUCCESS;
}

/* ---- COLLET_WARN_AFTER ---- */

/* Must this rank warn for all? Not if a lower rank is in the same collective. */
static bool is_leader(const struct roll *roll, int rank, const struct exec_call *call) {
    for (int lower = 0; lower < rank && lower < LEADERS; lower++)
        if (roll->waits[lower] && is_collective(&roll->records[lower]) &&
            roll->records[lower].sequence == call->args.sequence)
            return false;
    return true;
}

static enum collet_result warn_for_all(const struct exec_call *call, struct roll *roll) {
    const struct conn_owner *owner = &call->chan->owner;
    const struct inquest *inquest = call->chan->inquest;
    char list[200], who[240], name[64];
    int missing = 0;
    COLLET_TRY(roll_call(roll, call->chan, owner->rank < LEADERS ? owner->rank : LEADERS, roll->answered, ANSWER_NS));
    if (!is_leader(roll, owner->rank, call))
        return COLLET_SUCCESS;
    COLLET_TRY(roll_call(roll, call->chan, owner->nranks, roll->answered, ANSWER_NS));
    roll->calls[owner->rank] = call->args.sequence;
    for (int rank = 0; rank < owner->nranks; rank++)
        missing += roll->waits[rank] = roll->calls[rank] < call->args.sequence; /* no answer counts as missing */
    put_ranks(roll->waits, owner->nranks, list, sizeof(list));
    snprintf(who, sizeof(who), "all of %d have made it", owner->nranks);
    if (missing > 0)
        snprintf(who, sizeof(who), "%s of %d %s not made it", list, owner->nranks, missing == 1 ? "has" : "have");
    log_always(COLL, "%s (call %llu%s) %s: %s%s%s", prog_collective_name(call->request.collective),
               (unsigned long long)call->args.sequence, put_name(call, name), late_text(&inquest->late), who,
               inquest->found[0] ? "; " : "", inquest->found);
    return COLLET_SUCCESS;
}

static enum collet_result warn_late(const struct exec_call *call) {
    struct roll roll;
    if (prog_is_p2p(call->request.collective)) {
        log_always(COLL, "rank %d %s, for rank %d in %s (call %llu)%s%s", call->chan->owner.rank,
                   late_text(&call->chan->inquest->late), call->told_peer,
                   prog_collective_name(call->request.collective), (unsigned long long)call->args.sequence,
                   call->chan->inquest->found[0] ? "; " : "", call->chan->inquest->found);
        return COLLET_SUCCESS;
    }
    COLLET_TRY(roll_create(&roll, call->chan->owner.nranks));
    enum collet_result result = warn_for_all(call, &roll);
    arena_free(&roll.arena);
    return result;
}

/* ---- a blocked call ---- */

/* Gets the inquest of the communicator; *inquest_p NULL: it is busy with another call. */
static enum collet_result inquest_of(const struct exec_call *call, struct chan *chan, struct inquest **inquest_p) {
    if (chan->inquest == NULL) {
        COLLET_TRY(memory_get(&chan->inquest, 1, sizeof(*chan->inquest), "no memory for questions to other ranks"));
        chan->inquest->at = -1;
    }
    if (chan->inquest->call == NULL)
        *chan->inquest = (struct inquest){.call = call, .at = -1};
    *inquest_p = chan->inquest->call == call ? chan->inquest : NULL;
    return COLLET_SUCCESS;
}

enum collet_result exec_inquire(struct exec_call *call, int peer, uint64_t idle_ns, uint64_t now_ns) {
    const uint64_t quarter_ns = (uint64_t)call->chan->timeout_ms * 250000;
    const uint64_t say_ns = quarter_ns < SAY_AFTER_NS ? quarter_ns : SAY_AFTER_NS;
    struct inquest *inquest;
    if (idle_ns < say_ns || peer < 0)
        return COLLET_SUCCESS;
    say(call, peer);
    if (idle_ns < say_ns + say_ns / 2) /* the other ranks need time to say that they wait */
        return COLLET_SUCCESS;
    COLLET_TRY(inquest_of(call, call->chan, &inquest));
    if (inquest == NULL)
        return COLLET_SUCCESS;
    if (inquest->late.since_ns == 0)
        late_begin(&inquest->late, now_ns - idle_ns, call->chan->owner.config->warn_after);
    if (late_look(&inquest->late))
        COLLET_TRY(warn_late(call));
    if (inquest->at < 0 && now_ns >= inquest->next_ns)
        begin_chain(inquest, call, peer);
    return inquest->at >= 0 ? follow(inquest, call, now_ns) : COLLET_SUCCESS;
}

/* If the last question is still open: what the answers before it say. One call asks at a time, so this may be about another one. */
const char *exec_found(const struct exec_call *call) {
    const struct inquest *inquest = call->chan->inquest;
    if (inquest == NULL || inquest->call == NULL)
        return "";
    return inquest->found[0] != '\0' ? inquest->found : inquest->chain;
}

/* ---- for a rank in no call ---- */

uint64_t exec_said(const struct boot_answer *answer, int nranks, char *text, size_t room) {
    struct call_record record;
    if (answer->bytes != sizeof(record) || answer->elsewhere)
        return 0;
    memcpy(&record, answer->status, sizeof(record));
    if (!record_is_valid(&record, nranks) || !is_collective(&record))
        return 0;
    describe_record(&record, text, room);
    return record.sequence;
}
