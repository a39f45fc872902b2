/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL_ALGO and NCCL_PROTO have parts. A part may be for one collective:
 *
 *    ring,tree;allreduce:^tree     ring or tree; but for allreduce, all except tree
 *    └ default ┘└── its own ──┘
 *
 * COLLET_ALGO writes each algorithm with its collective. Excluded algorithms follow a ^, at the end:
 *
 *    broadcast:chain,broadcast:tree,…,allgather:ring,^allreduce:tree
 */
#include "layers/nccl/words_choice.h"

#include "base/names.h"
#include "fifo/protocol.h"
#include "layers/tuner/call_options.h"

#include <stdlib.h>
#include <strings.h>

/* Names of NCCL's algorithms, and of the corresponding algorithms here; "": there is none. */
static const struct {
    const char *name, *here;
} ALGORITHM_NAMES[] = {{"Ring", "ring,chain"}, {"Tree", "tree"},      {"PAT", "pat"},       {"NVLS", "nvls"},
                       {"NVLSTree", ""},       {"CollnetDirect", ""}, {"CollnetChain", ""}, {"Collnet", ""}};

/* The corresponding algorithms here. NULL: neither NCCL nor collet has an algorithm of this name. */
static const char *here_of(const char *name) {
    for (size_t k = 0; k < sizeof ALGORITHM_NAMES / sizeof *ALGORITHM_NAMES; k++)
        if (strcasecmp(ALGORITHM_NAMES[k].name, name) == 0)
            return ALGORITHM_NAMES[k].here;
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (strcasecmp(algorithms[k].name, name) == 0)
            return algorithms[k].name;
    return NULL;
}

/* ---- parts ---- */

struct choice_part {
    char function[NAME_BYTES]; /* function to which the part applies; "": it is the default */
    bool excludes;
    char list[CONFIG_TEXT_BYTES];
};

static bool part_next(const char **value, struct choice_part *part) {
    *value += strspn(*value, "; ");
    const size_t length = strcspn(*value, ";");
    if (length == 0)
        return false;
    const size_t function = strcspn(*value, ":");
    const bool has_function = function < length;
    const char *list = *value + (has_function ? function + 1 : 0);
    snprintf(part->function, sizeof part->function, "%.*s", has_function ? (int)function : 0, *value);
    part->excludes = *list == '^';
    list += part->excludes;
    snprintf(part->list, sizeof part->list, "%.*s", (int)(*value + length - list), list);
    *value += length;
    return true;
}

/* Finds the part for a collective: the part that names it, else the default. False: there is none. */
static bool part_of(const char *value, const char *collective, struct choice_part *found) {
    struct choice_part part;
    bool any = false;
    while (part_next(&value, &part)) {
        const bool own = strcasecmp(part.function, collective) == 0;
        if (own || (part.function[0] == '\0' && !any)) {
            *found = part;
            any = true;
        }
    }
    return any;
}

static bool has_functions(const char *value) { return strpbrk(value, ":;") != NULL; }

/* ---- lists ---- */

static bool is_in(const char *list, const char *name) {
    char word[NAME_BYTES];
    while (name_next(&list, word))
        if (strcasecmp(word, name) == 0)
            return true;
    return false;
}

static void add_once(char *list, const char *name) {
    if (!is_in(list, name))
        words_add(list, "%s%s", *list == '\0' ? "" : ",", name);
}

/* ---- algorithms ---- */

struct choice_words {
    char named[CONFIG_TEXT_BYTES], excluded[CONFIG_TEXT_BYTES];
    char missing[CONFIG_TEXT_BYTES]; /* names that have no meaning in collet */
    /* Algorithms that the value excludes, and that are kept because they are needed. */
    char kept[CONFIG_TEXT_BYTES];
    /* Some part names only algorithms that collet does not have: any algorithm may be used for it. */
    bool free;
    bool strange; /* some part has no name that NCCL or collet knows: the value is refused */
};

/* Is this the only algorithm left for its collective that can serve very many ranks? */
static bool is_needed(const struct algorithm *algorithm, const char *excluded) {
    static const struct prog_shape many = {.nranks = 1 << 20, .nnodes = 1, .node_ranks = 1 << 20};
    char name[2 * NAME_BYTES];
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        snprintf(name, sizeof name, "%s:%s", prog_collective_name(a->collective), a->name);
        if (a != algorithm && a->collective == algorithm->collective && algorithm_applies(a, &many) &&
            !is_in(excluded, name))
            return false;
    }
    return true;
}

/* Adds the algorithms of the list `here` that the collective has. True: there was at least one. */
static bool answer_name(struct choice_words *answer, bool excludes, enum prog_collective collective, const char *here) {
    char name[NAME_BYTES], full[2 * NAME_BYTES];
    bool any = false;
    while (name_next(&here, name)) {
        const struct algorithm *algorithm = algorithm_find(collective, name);
        snprintf(full, sizeof full, "%s:%s", prog_collective_name(collective), name);
        if (algorithm == NULL)
            continue;
        any = true;
        if (!excludes)
            add_once(answer->named, full);
        else
            add_once(is_needed(algorithm, answer->excluded) ? answer->kept : answer->excluded, full);
    }
    return any;
}

static void answer_part(struct choice_words *answer, const struct choice_part *part, enum prog_collective collective) {
    char name[NAME_BYTES];
    bool any = false, known = false, lacking = false;
    for (const char *rest = part->list; name_next(&rest, name);) {
        const char *here = here_of(name);
        known |= here != NULL;
        if (here == NULL || (*here == '\0' && !part->excludes)) {
            add_once(answer->missing, name);
            lacking = true;
        } else {
            any |= answer_name(answer, part->excludes, collective, here);
        }
    }
    answer->free |= !any && lacking && !part->excludes;
    answer->strange |= !known;
}

/* Collectives whose algorithm NCCL chooses by NCCL_ALGO. */
static const enum prog_collective CHOSEN[] = {PROG_ALLREDUCE, PROG_ALLGATHER, PROG_REDUCESCATTER, PROG_BROADCAST,
                                              PROG_REDUCE};

static bool is_chosen(const char *function) {
    for (size_t k = 0; k < sizeof CHOSEN / sizeof *CHOSEN; k++)
        if (strcasecmp(function, prog_collective_name(CHOSEN[k])) == 0)
            return true;
    return false;
}

/* Reports parts whose function is not one of CHOSEN: its name is misspelled, or collet has nothing to choose for it. */
static void note_functions(const char *value, struct choice_words *answer) {
    struct choice_part part;
    while (part_next(&value, &part))
        if (part.function[0] != '\0' && !is_chosen(part.function))
            add_once(answer->missing, part.function);
}

static void answer_functions(struct choice_words *answer, const char *value) {
    struct choice_part part;
    note_functions(value, answer);
    for (size_t k = 0; k < sizeof CHOSEN / sizeof *CHOSEN; k++)
        if (part_of(value, prog_collective_name(CHOSEN[k]), &part))
            answer_part(answer, &part, CHOSEN[k]);
}

/* Handles a list for all collectives. It may also contain collet's own names of algorithms. */
static void answer_list(struct choice_words *answer, const char *list) {
    char name[NAME_BYTES], full[NAME_BYTES];
    bool known = false;
    while (name_next(&list, name)) {
        const char *here = here_of(name);
        known |= here != NULL;
        if (here == NULL || *here == '\0')
            add_once(answer->missing, name);
        while (here != NULL && name_next(&here, full))
            add_once(answer->named, full);
    }
    answer->free = answer->named[0] == '\0';
    answer->strange = !known;
}

void words_of_algorithms(const char *value, struct words *words) {
    struct choice_words answer = {.free = false};
    if (*value == '^' || has_functions(value))
        answer_functions(&answer, value);
    else
        answer_list(&answer, value);
    const char *comma = answer.named[0] != '\0' && answer.excluded[0] != '\0' ? "," : "";
    const char *caret = answer.excluded[0] != '\0' ? "^" : "";
    if (answer.strange) /* the unchanged value is refused later */
        words_add(words->text, "%s", value);
    else
        words_add(words->text, "%s%s%s%s", answer.named, comma, caret, answer.excluded);
    if (answer.missing[0] != '\0' && !answer.strange)
        words_lose(words, "collet has no %s; %s", answer.missing,
                   answer.free ? "where nothing else is named, it chooses freely" : "the rest counts");
    if (answer.kept[0] != '\0')
        words_lose(words, "it keeps %s, which any number of ranks can use", answer.kept);
}

/* ---- protocols ---- */

static uint32_t protocol_bit(const char *name) {
    for (int p = 0; p < PROTOCOL_COUNT; p++)
        if (strcasecmp(protocol_names[p], name) == 0)
            return 1u << p;
    return 0;
}

/* The protocols that a part allows, as bits. 0: none, or no name is known. Adds unknown names to `missing`. */
static uint32_t protocols_of(const struct choice_part *part, char *missing) {
    char name[NAME_BYTES];
    uint32_t bits = 0;
    for (const char *rest = part->list; name_next(&rest, name); bits |= protocol_bit(name))
        if (protocol_bit(name) == 0)
            add_once(missing, name);
    return part->excludes && bits != 0 ? ~bits & ((1u << PROTOCOL_COUNT) - 1) : bits;
}

/* Appends protocols: "allreduce:LL,allreduce:Simple". If they do not fit, nothing is appended, and the loss says so. */
static void add_protocols(struct words *words, const char *collective, uint32_t bits) {
    char names[CONFIG_TEXT_BYTES] = "", full[2 * NAME_BYTES];
    for (int p = 0; p < PROTOCOL_COUNT; p++) {
        snprintf(full, sizeof full, "%s%s%s", collective, *collective != '\0' ? ":" : "", protocol_names[p]);
        if (bits >> p & 1)
            add_once(names, full);
    }
    if (strlen(words->text) + strlen(names) + sizeof "," > CONFIG_TEXT_BYTES)
        words_lose(words, "it is too long: what is for %s counts for nothing", collective);
    else
        words_add(words->text, "%s%s", strlen(words->text) > 1 ? "," : "", names);
}

/* Collectives that no part names use the default part. */
void words_of_protocols(const char *value, struct words *words) {
    struct choice_words answer = {.free = false};
    struct choice_part part;
    note_functions(value, &answer);
    for (int c = -1; c < (int)(sizeof CHOSEN / sizeof *CHOSEN) && !answer.strange; c++) {
        const char *collective = c < 0 ? "" : prog_collective_name(CHOSEN[c]);
        if (!part_of(value, collective, &part) || strcasecmp(part.function, collective) != 0)
            continue;
        const uint32_t bits = protocols_of(&part, answer.missing), all = (1u << PROTOCOL_COUNT) - 1;
        const bool excludes = c < 0 && part.excludes; /* the default part: collet's list begins with a ^, too */
        answer.strange = bits == 0;
        words_add(words->text, "%s", excludes ? "^" : "");
        add_protocols(words, collective, excludes ? all & ~bits : bits);
    }
    if (answer.strange) { /* the unchanged value is refused later */
        words->text[0] = '\0';
        words_add(words->text, "%s", value);
    } else if (answer.missing[0] != '\0') {
        words_lose(words, "collet has no %s; the rest counts", answer.missing);
    }
}

/* ---- one call ---- */

/* The algorithms of the list `here` that the collective has, as bits. */
static uint32_t algorithm_bits(enum prog_collective collective, const char *here) {
    char name[NAME_BYTES];
    uint32_t bits = 0;
    while (here != NULL && name_next(&here, name)) {
        const struct algorithm *algorithm = algorithm_find(collective, name);
        bits |= algorithm != NULL ? call_options_bit(algorithm) : 0;
    }
    return bits;
}

static uint32_t all_algorithms(enum prog_collective collective) {
    uint32_t bits = 0;
    for (int k = 0; algorithms[k].name != NULL; k++)
        bits |= algorithms[k].collective == collective ? call_options_bit(&algorithms[k]) : 0;
    return bits;
}

/* A name that is unknown here is reported as missing. It is not reported if it is excluded and NCCL knows it. */
static void select_name(struct selection *selection, enum prog_collective collective, const char *name, bool excludes) {
    const uint32_t protocol = protocol_bit(name), chosen = algorithm_bits(collective, here_of(name));
    selection->protocols |= protocol;
    selection->algorithms |= chosen;
    if (protocol == 0 && chosen == 0 && (!excludes || here_of(name) == NULL))
        add_once(selection->missing, name);
}

static void select_others(struct selection *selection, enum prog_collective collective) {
    const uint32_t all = all_algorithms(collective), every = (1u << PROTOCOL_COUNT) - 1;
    selection->is_empty = selection->algorithms == all || selection->protocols == every;
    selection->algorithms = selection->algorithms != 0 ? all & ~selection->algorithms : 0;
    selection->protocols = selection->protocols != 0 ? every & ~selection->protocols : 0;
}

void words_of_selection(const char *value, enum prog_collective collective, struct selection *selection) {
    struct choice_part part;
    char name[NAME_BYTES];
    bool any = false;
    *selection = (struct selection){.algorithms = 0};
    if (!part_of(value, prog_collective_name(collective), &part))
        return;
    for (const char *rest = part.list; name_next(&rest, name); any = true)
        select_name(selection, collective, name, part.excludes);
    if (part.excludes)
        select_others(selection, collective);
    else
        selection->is_empty = any && selection->algorithms == 0 && selection->protocols == 0;
    selection->is_empty |= part.excludes && !any;
}
