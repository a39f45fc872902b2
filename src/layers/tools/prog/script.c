/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of all ranks as text that people may change, and an algorithm that reads it:
 *
 *      rank 0                   what follows is its program
 *      blocks 4                 slices of a whole buffer; 1 unless given
 *      tmp 2                    blocks of TMP; none unless given
 *      run 4                    blocks of the longest message of all ranks; 1 unless given
 *      worker                   its steps follow, one per line, operands in their order:
 *      in3 >1                   block 3 of IN goes to rank 1
 *      <3 in0 = !out0 >1.2      what rank 3 sent and block 0 of IN, finished, into block 0 of OUT and on lane 2 to rank 1
 *      <3 !out2:4               a run of 4 blocks from block 2 on; out2:4:8:2 has groups of 2 that begin 8 apart
 *      <3 >1 ~in0               the pieces have the lengths of block 0 of IN, which nothing else in the step says
 *
 * Behind # is a comment.
 */
#include "layers/tools/prog/script.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { PEERS_MAX = 1024, LOCALS_MAX = 1024, WORD_BYTES = 64 };

/* ---- writing ---- */

static const char *const regions[STEP_REGIONS] = {[STEP_IN] = "in", [STEP_OUT] = "out", [STEP_TMP] = "tmp"};

static void put_run(const char *mark, int region, const struct block_run *run, int count, FILE *out) {
    fprintf(out, " %s%s%d", mark, regions[region], run->first);
    if (count > 1)
        fprintf(out, ":%d", count);
    if (count > 1 && (run->stride != 1 || run->group != 1))
        fprintf(out, ":%d:%d", run->stride, run->group);
}

static void put_peer(char mark, const struct prog_peer *peer, FILE *out) {
    fprintf(out, " %c%d", mark, peer->rank);
    if (peer->lane != 0)
        fprintf(out, ".%d", peer->lane);
}

static bool same_run(int region, const struct block_run *run, int other, const struct block_run *that) {
    return region == other && run->first == that->first && run->stride == that->stride && run->group == that->group;
}

/* Do the operands and places of the step already say how long its pieces are? Then its line needs no ~. The rule is that of prog_emit(). */
static bool says_length(const struct prog *prog, const struct prog_step *step) {
    if (step->about_region == STEP_NONE)
        return true;
    if (step->store_region == STEP_OUT)
        return same_run(step->about_region, &step->about, step->store_region, &step->store);
    for (int k = 0; k < step->locals_count; k++) {
        const struct prog_local *local = &prog->locals[step->locals_first + k];
        if (local->region != STEP_TMP)
            return same_run(step->about_region, &step->about, local->region, &local->run);
    }
    return false;
}

static void put_step(const struct prog *prog, const struct prog_step *step, FILE *out) {
    int taken = 0;
    for (int received = 0; received <= step->recv_count; received++) {
        for (; taken < step->locals_count && prog->locals[step->locals_first + taken].at == received; taken++) {
            const struct prog_local *local = &prog->locals[step->locals_first + taken];
            put_run("", local->region, &local->run, step->count, out);
        }
        if (received < step->recv_count)
            put_peer('<', &prog->peers[step->recv_first + received], out);
    }
    if (step->finish)
        fprintf(out, " =");
    if (step->store_region != STEP_NONE)
        put_run("!", step->store_region, &step->store, step->count, out);
    for (int k = 0; k < step->send_count; k++)
        put_peer('>', &prog->peers[step->send_first + k], out);
    if (!says_length(prog, step))
        put_run("~", step->about_region, &step->about, step->count, out);
    fputc('\n', out);
}

static void put_number(const char *name, int number, int usual, FILE *out) {
    if (number != usual)
        fprintf(out, "%s %d\n", name, number);
}

void script_print(const struct cast *cast, FILE *out) {
    for (int m = 0; m < cast->nmembers; m++) {
        const struct prog *prog = cast->members[m].prog;
        fprintf(out, "rank %d\n", prog->rank);
        put_number("blocks", prog->nslices, 1, out);
        put_number("tmp", prog->ntmp, 0, out);
        put_number("run", prog->longest_run, 1, out);
        for (int w = 0; w < prog->nworkers; w++) {
            fprintf(out, "worker\n");
            for (int k = 0; k < prog->workers[w].nsteps; k++)
                put_step(prog, &prog->steps[prog->workers[w].first_step + k], out);
        }
    }
}

/* ---- reading ---- */

struct script_reader {
    struct prog *prog;
    const char *at; /* The rest of the text */
    int line;
    bool mine; /* The lines belong to the program's rank */
};

static void fail(struct script_reader *r, const char *word, const char *expected) {
    if (r->prog->error == COLLET_SUCCESS)
        r->prog->error = err_set(COLLET_ERR_INVALID_ARGUMENT, "line %d: '%s' is not %s", r->line, word, expected);
}

/* Reads the next word of the line. False: there are no more words in the line. */
static bool next_word(struct script_reader *r, char word[WORD_BYTES]) {
    r->at += strspn(r->at, " \t\r");
    size_t length = *r->at == '#' ? 0 : strcspn(r->at, " \t\r\n#");
    snprintf(word, WORD_BYTES, "%.*s", (int)length, r->at);
    r->at += length;
    return length > 0;
}

static void next_line(struct script_reader *r) {
    r->at += strcspn(r->at, "\n");
    r->at += *r->at == '\n';
    r->line++;
}

/* Reads a run of blocks, such as "out2:4:8:2". */
static bool read_run(struct script_reader *r, const char *word, struct local *local) {
    char name[4] = "", rest = 0;
    int first, count = 1, stride = 1, group = 1;
    int n = sscanf(word, "%3[a-z]%d:%d:%d:%d%c", name, &first, &count, &stride, &group, &rest);
    for (int region = STEP_IN; region < STEP_REGIONS; region++)
        if (n >= 2 && rest == 0 && strcmp(name, regions[region]) == 0 && first >= 0 && count > 0 && group > 0) {
            *local = (struct local){(enum step_region)region, {first, count, stride, group}};
            return true;
        }
    fail(r, word, "a run of blocks, like in2 or out2:4");
    return false;
}

/* Reads a peer: "3" or "3.1", the text behind < or >. All peers from which a step receives are on one lane; so are all peers to which it
 * sends. */
static void read_peer(struct script_reader *r, const char *word, int ranks[PEERS_MAX], struct peers *peers) {
    int rank = -1, lane = 0;
    char rest = 0;
    if (sscanf(word + 1, "%d.%d%c", &rank, &lane, &rest) < 1 || rest != 0 || rank < 0 || rank >= r->prog->nranks ||
        lane < 0 || lane >= PROG_LANE_P2P + 1 || peers->count >= PEERS_MAX ||
        (peers->count > 0 && peers->lane != lane)) {
        fail(r, word, "a rank of this job, like <3, or >3.1 on lane 1; those of one step are on one lane");
        return;
    }
    ranks[peers->count] = rank;
    *peers = LISTED(ranks, peers->count + 1, lane);
}

static void read_step(struct script_reader *r, const char *first) {
    static int received[PEERS_MAX], sent[PEERS_MAX]; /* Static, because they are large */
    static struct local_operand locals[LOCALS_MAX];
    struct step_text text = {.origin = {"script", r->line}};
    int nlocals = 0;
    char word[WORD_BYTES];
    snprintf(word, sizeof word, "%s", first);
    do {
        struct local local = {0};
        if (*word == '<') {
            read_peer(r, word, received, &text.recv);
        } else if (*word == '>') {
            read_peer(r, word, sent, &text.send);
        } else if (strcmp(word, "=") == 0) {
            text.finish = true;
        } else if (read_run(r, word + (*word == '!' || *word == '~'), &local)) {
            if (*word == '!')
                text.store = local;
            else if (*word == '~')
                text.length_of = local;
            else if (nlocals < LOCALS_MAX)
                locals[nlocals++] = (struct local_operand){text.recv.count, local};
        }
    } while (r->prog->error == COLLET_SUCCESS && next_word(r, word));
    text.local_list = (struct local_list){locals, nlocals};
    prog_emit(r->prog, text);
}

/* Reads a line such as "blocks 4". False: the line does not begin with one of these names. */
static bool read_number(struct script_reader *r, const char *word) {
    static const char *const names[] = {"blocks", "tmp", "run", "rank"};
    char value[WORD_BYTES] = "", *end;
    int k = 0;
    while (k < 4 && strcmp(word, names[k]) != 0)
        k++;
    if (k == 4)
        return false;
    const long number = next_word(r, value) ? strtol(value, &end, 10) : -1;
    if (number < 0 || number > 1 << 20 || *end != '\0')
        fail(r, value, "a number");
    else if (k < 3 && !r->mine)
        return true;
    else if (k == 0 && number > 0)
        prog_slices(r->prog, (int)number);
    else if (k == 1 && number > 0)
        prog_tmp(r->prog, (int)number);
    else if (k == 2)
        prog_longest_run(r->prog, (int)number);
    else if (k == 3)
        r->mine = number == r->prog->rank;
    return true;
}

/* The build() of the algorithms that script_algorithm() makes. Their `schedule` points to the text. */
static void script_build(struct prog *prog) {
    struct script_reader r = {.prog = prog, .at = (const char *)(const void *)prog->schedule, .line = 1};
    for (char word[WORD_BYTES]; *r.at != '\0' && prog->error == COLLET_SUCCESS; next_line(&r))
        if (!next_word(&r, word) || read_number(&r, word) || !r.mine)
            continue;
        else if (strcmp(word, "worker") == 0)
            prog_worker(prog);
        else
            read_step(&r, word);
}

struct algorithm script_algorithm(const struct algorithm *of, int nranks, const char *text) {
    struct algorithm changed = *of;
    changed.build = script_build;
    changed.applies = NULL;
    changed.nranks = nranks;
    changed.schedule = (const struct schedule *)(const void *)text;
    return changed;
}
