/* SPDX-License-Identifier: Apache-2.0
 *
 * From the text of a function to decoded instructions, one statement at a time. What is not known is an error that names it.
 * Registers are virtual here, as nvcc names them: ptx_flow.c gives them rows.
 *
 *    .reg .b32 %r<2579>;          2579 registers %r0 …
 *    { .param .b32 param0; … }    a variable of the frame until the brace closes
 *    $L__BB0_4:                   a label; branches to it are settled at the end
 *    @%p4 bra $L__BB3_4;          guard, name with modifiers, operands
 */
#include "gpusim/ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATEMENT_MAX 16384
#define NAME_MAX 512
#define NAMES_MAX 4096

/* Registers %p<n>, or a single one. */
struct group {
    char prefix[32];
    uint32_t first, count; /* count 0: a single one */
};

struct label {
    char *name;
    uint32_t at; /* UINT32_MAX: not seen yet */
};

struct parser {
    struct gpusim_module *module;
    struct ptx_function *f;
    const char *next;
    uint32_t line;
    char statement[STATEMENT_MAX];
    const char *s; /* of the statement */
    struct group *groups;
    uint32_t ngroups, nregisters;
    struct ptx_variable *variables;
    uint32_t nvariables;
    uint32_t scope_variables[16], scope_groups[16], depth;
    struct label *labels;
    uint32_t nlabels, buckets[NAMES_MAX]; /* by hash: number + 1 */
    uint32_t *next_label;
    uint32_t code_room, constants_room;
    bool failed;
};

enum operand_kind { NOTHING, REGISTER, IMMEDIATE, SYMBOL, SPECIAL, VECTOR };
struct operand {
    enum operand_kind kind;
    int32_t row; /* of a register or an immediate */
    struct ptx_variable *variable;
    uint8_t special, dimension;
    int64_t offset;
    uint32_t n; /* of a vector */
    int32_t rows[4];
    char name[NAME_MAX];
};

static void *grow(void *array, uint32_t used, uint32_t *room, size_t size) {
    if (used < *room)
        return array;
    *room = *room == 0 ? 64 : *room * 2;
    array = realloc(array, *room * size);
    if (array == NULL)
        abort();
    return array;
}

static void parser_fail(struct parser *p, const char *what, const char *text) {
    if (!p->failed)
        gpusim_fail("%s, line %u of the PTX: %s '%.120s'", p->f->name, p->line, what, text);
    p->failed = true;
}

/* ---- text ---- */

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.'; }

static void skip_blanks(struct parser *p) {
    for (;; p->next++) {
        if (p->next[0] == '/' && p->next[1] == '/')
            p->next += strcspn(p->next, "\n");
        if (*p->next == '\n')
            p->line++;
        if (*p->next == '\0' || !isspace((unsigned char)*p->next))
            return;
    }
}

/* Up to one of the characters, which is left; false: the text ends. Comments and line ends become blanks. */
static bool take_until(struct parser *p, const char *stops) {
    size_t n = 0;
    while (*p->next != '\0' && (strchr(stops, *p->next) == NULL || (p->next[0] == ':' && p->next[1] == ':') ||
                                (p->next[0] == ':' && p->next[-1] == ':'))) {
        if (p->next[0] == '/' && p->next[1] == '/') {
            p->next += strcspn(p->next, "\n");
            continue;
        }
        if (n == STATEMENT_MAX - 1)
            return false;
        p->line += *p->next == '\n';
        p->statement[n++] = *p->next == '\n' || *p->next == '\t' ? ' ' : *p->next;
        p->next++;
    }
    p->statement[n] = '\0';
    p->s = p->statement;
    return *p->next != '\0';
}

static void skip(struct parser *p) {
    while (*p->s == ' ' || *p->s == '\r')
        p->s++;
}

static bool take(struct parser *p, char c) {
    skip(p);
    if (*p->s != c)
        return false;
    p->s++;
    return true;
}

static void take_name(struct parser *p, char *name) {
    size_t n = 0;
    skip(p);
    while ((is_name(*p->s) || *p->s == ':') && n < NAME_MAX - 1) /* also .acc::f32 */
        name[n++] = *p->s++;
    name[n] = '\0';
}

/* ---- registers, constants, variables, labels ---- */

static int32_t register_of(struct parser *p, const char *name) {
    size_t length = strlen(name), stem = length;
    while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
        stem--;
    for (uint32_t k = p->ngroups; k-- > 0;) {
        const struct group *group = &p->groups[k];
        if (group->count == 0 && strcmp(group->prefix, name) == 0)
            return (int32_t)group->first;
        uint32_t number = (uint32_t)strtoul(name + stem, NULL, 10);
        if (stem < length && number < group->count && strlen(group->prefix) == stem &&
            memcmp(group->prefix, name, stem) == 0)
            return (int32_t)(group->first + number);
    }
    return PTX_NO_ROW;
}

static int32_t constant_of(struct parser *p, uint64_t value) {
    struct ptx_function *f = p->f;
    for (uint32_t k = 0; k < f->nconstants; k++)
        if (f->constants[k * PTX_LANES] == value)
            return ~(int32_t)k;
    f->constants = grow(f->constants, f->nconstants, &p->constants_room, PTX_LANES * sizeof(uint64_t));
    for (uint32_t lane = 0; lane < PTX_LANES; lane++)
        f->constants[f->nconstants * PTX_LANES + lane] = value;
    return ~(int32_t)f->nconstants++;
}

static struct ptx_variable *variable_of(struct parser *p, const char *name) {
    for (uint32_t k = p->nvariables; k-- > 0;)
        if (strcmp(p->variables[k].name, name) == 0)
            return &p->variables[k];
    return NULL;
}

/* The variables of the module were declared first. */
static void name_of_module(struct parser *p, const struct ptx_variable *variable) {
    size_t k = (size_t)(variable - p->variables);
    if (k < p->module->nshared)
        p->f->names_of_module |= (uint64_t)1 << k;
}

static uint32_t label_of(struct parser *p, const char *name) {
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    uint32_t *bucket = &p->buckets[hash % NAMES_MAX];
    for (uint32_t k = *bucket; k > 0; k = p->next_label[k - 1])
        if (strcmp(p->labels[k - 1].name, name) == 0)
            return k - 1;
    if (p->nlabels % 256 == 0) {
        p->labels = realloc(p->labels, (p->nlabels + 256) * sizeof(*p->labels));
        p->next_label = realloc(p->next_label, (p->nlabels + 256) * sizeof(*p->next_label));
        if (p->labels == NULL || p->next_label == NULL)
            abort();
    }
    p->labels[p->nlabels] = (struct label){strdup(name), UINT32_MAX};
    p->next_label[p->nlabels] = *bucket;
    *bucket = p->nlabels + 1;
    return p->nlabels++;
}

static uint32_t size_of_type(const char *type) {
    size_t length = strlen(type);
    const char *digits = type + strcspn(type, "0123456789");
    if (length == 0 || strstr(type, "pred") != NULL)
        return 1;
    return (uint32_t)strtoul(digits, NULL, 10) / 8;
}

/* One variable: `.align 8 .b8 name[3928]`, `.b64 name`. The space has been read. */
static bool take_variable(struct parser *p, char *name, uint32_t *align, uint32_t *bytes) {
    char word[NAME_MAX];
    uint32_t size = 0;
    *align = 0;
    for (;;) {
        take_name(p, word);
        if (strcmp(word, ".align") == 0)
            skip(p), *align = (uint32_t)strtoul(p->s, (char **)&p->s, 10);
        else if (strcmp(word, ".ptr") != 0 && word[0] == '.' && size == 0)
            size = size_of_type(word);
        else if (word[0] != '.')
            break;
    }
    if (word[0] == '\0' || size == 0)
        return false;
    strcpy(name, word);
    *bytes = size;
    if (take(p, '[')) {
        *bytes = size * (uint32_t)strtoul(p->s, (char **)&p->s, 10);
        take(p, ']');
    }
    if (*align == 0)
        *align = size;
    return true;
}

static uint32_t place(uint32_t *end, uint32_t align, uint32_t bytes) {
    uint32_t at = (*end + align - 1) / align * align;
    *end = at + bytes;
    return at;
}

static void variable_add(struct parser *p, const char *name, enum ptx_space space, uint32_t at, uint32_t bytes) {
    if (p->nvariables % 64 == 0)
        p->variables = realloc(p->variables, (p->nvariables + 64) * sizeof(*p->variables));
    if (p->variables == NULL)
        abort();
    p->variables[p->nvariables++] = (struct ptx_variable){strdup(name), space, at, bytes};
}

/* ---- operands ---- */

static uint64_t take_number(struct parser *p) {
    if (p->s[0] == '0' && (p->s[1] == 'f' || p->s[1] == 'F' || p->s[1] == 'd' || p->s[1] == 'D')) {
        p->s += 2;
        return strtoull(p->s, (char **)&p->s, 16);
    }
    bool negative = *p->s == '-';
    p->s += negative;
    uint64_t value = strtoull(p->s, (char **)&p->s, 0);
    while (*p->s == 'U' || *p->s == 'L')
        p->s++;
    return negative ? 0 - value : value;
}

static const struct {
    const char *name;
    enum ptx_special special;
} specials[] = {
    {"%tid", SPECIAL_TID},
    {"%ntid", SPECIAL_NTID},
    {"%ctaid", SPECIAL_CTAID},
    {"%nctaid", SPECIAL_NCTAID},
    {"%laneid", SPECIAL_LANE},
    {"%warpid", SPECIAL_WARP},
    {"%smid", SPECIAL_SM},
    {"%clock64", SPECIAL_CLOCK},
    {"%clock", SPECIAL_CLOCK},
    {"%globaltimer", SPECIAL_TIMER},
    {"%lanemask_lt", SPECIAL_LANEMASK_LT},
};

static bool special_of(const char *name, struct operand *o) {
    const char *point = strchr(name, '.');
    size_t length = point != NULL ? (size_t)(point - name) : strlen(name);
    for (size_t k = 0; k < sizeof(specials) / sizeof(*specials); k++)
        if (strlen(specials[k].name) == length && memcmp(specials[k].name, name, length) == 0) {
            o->kind = SPECIAL;
            o->special = (uint8_t)specials[k].special;
            o->dimension = point != NULL ? (uint8_t)(point[1] - 'x') : 0;
            return true;
        }
    return false;
}

static void take_operand(struct parser *p, struct operand *o) {
    o->kind = NOTHING;
    o->row = o->rows[0] = o->rows[1] = o->rows[2] = o->rows[3] = PTX_NO_ROW;
    o->variable = NULL;
    o->offset = 0;
    o->name[0] = '\0';
    skip(p);
    if (isdigit((unsigned char)*p->s) || *p->s == '-') {
        o->kind = IMMEDIATE;
        o->row = constant_of(p, take_number(p));
        return;
    }
    if (take(p, '{')) {
        for (o->n = 0; o->n < 4 && !take(p, '}'); o->n++) {
            struct operand part;
            take_operand(p, &part);
            o->rows[o->n] = part.row;
            take(p, ',');
        }
        take(p, '}');
        o->kind = VECTOR;
        return;
    }
    take_name(p, o->name);
    if ((o->row = register_of(p, o->name)) != PTX_NO_ROW) {
        o->kind = REGISTER;
        return;
    }
    if (o->name[0] == '\0' || strcmp(o->name, "_") == 0 || special_of(o->name, o))
        return;
    if ((o->variable = variable_of(p, o->name)) != NULL) {
        o->kind = SYMBOL;
        name_of_module(p, o->variable);
    }
    if (take(p, '+'))
        skip(p), o->offset = (int64_t)take_number(p);
}

/* [base + offset]: of a register, a number or a variable. */
static void take_address(struct parser *p, struct ptx_insn *insn) {
    struct operand o;
    if (!take(p, '[')) {
        parser_fail(p, "expected an address:", p->s);
        return;
    }
    take_operand(p, &o);
    insn->src[0] = o.row;
    insn->offset = o.offset;
    if (o.kind == REGISTER && take(p, '+'))
        skip(p), insn->offset = (int64_t)take_number(p);
    if (o.kind == SYMBOL) {
        insn->offset += o.variable->at;
        insn->space = (uint8_t)o.variable->space;
    }
    if (o.kind != REGISTER && o.kind != SYMBOL && o.kind != IMMEDIATE)
        parser_fail(p, "an unknown address:", o.name);
    take(p, ']');
}

static int32_t take_row(struct parser *p) {
    struct operand o;
    take_operand(p, &o);
    if (o.kind != REGISTER && o.kind != IMMEDIATE)
        parser_fail(p, "expected a register or a number:", o.name);
    take(p, ',');
    return o.row;
}

static int32_t take_dst(struct parser *p) {
    struct operand o;
    take_operand(p, &o);
    take(p, ',');
    if (o.kind != REGISTER && strcmp(o.name, "_") != 0)
        parser_fail(p, "expected a register:", o.name);
    return o.row;
}

/* ---- instructions ---- */

/* Is it among the modifiers of the instruction's name? */
static bool has(const char *name, const char *modifier) {
    size_t length = strlen(modifier);
    for (const char *at = strchr(name, '.'); at != NULL; at = strchr(at + 1, '.'))
        if (strncmp(at + 1, modifier, length) == 0 && (at[length + 1] == '.' || at[length + 1] == '\0'))
            return true;
    return false;
}

static bool is(const char *name, const char *base) {
    size_t length = strlen(base);
    return strncmp(name, base, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

static uint8_t which(const char *name, const char *const *words, uint8_t otherwise) {
    for (uint8_t k = 0; words[k] != NULL; k++)
        if (has(name, words[k]))
            return k;
    return otherwise;
}

static void memory_of(const char *name, struct ptx_insn *insn) {
    static const char *const spaces[] = {"generic", "global", "shared", "local", "param", NULL};
    static const char *const orders[] = {"weak", "relaxed", "acquire", "release", "acq_rel", NULL};
    static const char *const scopes[] = {"cta", "gpu", "sys", NULL};
    const char *type = strrchr(name, '.') + 1;
    insn->space = which(name, spaces, SPACE_GENERIC);
    if (strstr(name, ".const") != NULL)
        insn->space = SPACE_GLOBAL;
    if (strstr(name, ".shared::cta") != NULL)
        insn->space = SPACE_SHARED;
    insn->order = has(name, "volatile") ? ORDER_RELAXED : which(name, orders, ORDER_WEAK);
    insn->scope = which(name, scopes, SCOPE_SYS);
    insn->words = has(name, "v2") ? 2 : has(name, "v4") ? 4 : 1;
    insn->bytes = (uint8_t)size_of_type(type);
    insn->is_signed = type[0] == 's';
}

static void parse_load(struct parser *p, const char *name, struct ptx_insn *insn) {
    struct operand o;
    memory_of(name, insn);
    insn->op = OP_LOAD;
    take_operand(p, &o);
    for (uint32_t k = 0; k < insn->words; k++)
        insn->dst[k] = o.kind == VECTOR ? o.rows[k] : o.row;
    if (!take(p, ',') || (o.kind == VECTOR ? o.n != insn->words : insn->words != 1))
        parser_fail(p, "a load of another form:", name);
    take_address(p, insn);
}

static void parse_store(struct parser *p, const char *name, struct ptx_insn *insn) {
    struct operand o;
    memory_of(name, insn);
    insn->op = OP_STORE;
    take_address(p, insn);
    take(p, ',');
    take_operand(p, &o);
    for (uint32_t k = 0; k < insn->words; k++)
        insn->src[1 + k] = o.kind == VECTOR ? o.rows[k] : o.row;
    if (o.kind == VECTOR ? o.n != insn->words : o.row == PTX_NO_ROW || insn->words != 1)
        parser_fail(p, "a store of another form:", name);
}

/* multimem.ld_reduce and multimem.st of floating point: what ptxas takes of them. */
static void parse_multi(struct parser *p, const char *name, struct ptx_insn *insn) {
    static const char *const kinds[] = {"exch", "add", "cas", "min", "max", NULL};
    static const char *const floats[] = {"f32", "f16x2", "bf16x2", NULL};
    if (has(name, "st"))
        parse_store(p, name, insn);
    else
        parse_load(p, name, insn);
    insn->op = has(name, "st") ? OP_MULTI_STORE : OP_MULTI_LOAD;
    insn->bytes = 4;
    insn->kind = which(name, kinds, UINT8_MAX);
    insn->floats = which(name, floats, UINT8_MAX);
    bool adds = insn->kind == ATOMIC_ADD, wide = strstr(name, ".acc::f32") != NULL;
    if (insn->floats == UINT8_MAX || insn->space != SPACE_GLOBAL || has(name, "st") == has(name, "ld_reduce") ||
        (has(name, "st") ? insn->kind != UINT8_MAX || wide : insn->kind == UINT8_MAX) ||
        (!adds && has(name, "ld_reduce") && (insn->floats == FLOATS_ONE || wide)) ||
        (adds && wide != (insn->floats != FLOATS_ONE)))
        parser_fail(p, "an unknown instruction", name);
}

static void parse_atomic(struct parser *p, const char *name, struct ptx_insn *insn) {
    static const char *const kinds[] = {"exch", "add", "cas", "min", "max", "and", "or", "xor", "inc", NULL};
    memory_of(name, insn);
    insn->op = OP_ATOMIC;
    insn->scope = has(name, "sys") ? SCOPE_SYS : has(name, "cta") ? SCOPE_CTA : SCOPE_GPU;
    if (insn->order == ORDER_WEAK)
        insn->order = ORDER_RELAXED;
    insn->kind = which(name, kinds, UINT8_MAX);
    if (insn->kind == UINT8_MAX || strchr("fn", strrchr(name, '.')[1]) != NULL)
        parser_fail(p, "an unknown instruction", name);
    if (is(name, "atom"))
        insn->dst[0] = take_dst(p);
    take_address(p, insn);
    take(p, ',');
    insn->src[1] = take_row(p);
    if (insn->kind == ATOMIC_CAS)
        insn->src[2] = take_row(p);
}

static void parse_fence(struct parser *p, const char *name, struct ptx_insn *insn) {
    insn->op = has(name, "alias") ? OP_ALIAS_FENCE : OP_FENCE;
    if (has(name, "proxy") != has(name, "alias"))
        parser_fail(p, "an unknown instruction", name);
    insn->scope = has(name, "sys") ? SCOPE_SYS : has(name, "cta") ? SCOPE_CTA : SCOPE_GPU;
    insn->order = has(name, "acquire") ? ORDER_ACQUIRE : has(name, "release") ? ORDER_RELEASE : ORDER_ACQ_REL;
}

/* The number of a barrier is a number. */
static uint32_t take_count(struct parser *p) {
    uint64_t value = 0;
    int32_t row = take_row(p);
    if (row >= 0)
        parser_fail(p, "expected a number", p->statement);
    else
        value = p->f->constants[(uint32_t)~row * PTX_LANES];
    return (uint32_t)value;
}

static void parse_barrier(struct parser *p, const char *name, struct ptx_insn *insn) {
    static const char *const reductions[] = {"and", "or", "popc", NULL};
    if (has(name, "warp")) {
        insn->op = OP_WARP_SYNC;
        insn->src[0] = take_row(p);
        return;
    }
    insn->op = has(name, "red") ? OP_BARRIER_REDUCE : has(name, "arrive") ? OP_BARRIER_ARRIVE : OP_BARRIER;
    if (insn->op == OP_BARRIER_REDUCE) {
        insn->kind = which(name, reductions, REDUCE_OR);
        insn->dst[0] = take_dst(p);
    }
    insn->target = take_count(p);
    insn->src[1] = PTX_NO_ROW;
    if (insn->op == OP_BARRIER_REDUCE)
        insn->src[0] = take_row(p);
    else if (skip(p), *p->s != '\0')
        insn->src[1] = take_row(p);
    if (insn->target >= 16)
        parser_fail(p, "no such barrier:", p->statement);
}

static void parse_vote(struct parser *p, const char *name, struct ptx_insn *insn) {
    static const char *const kinds[] = {"any", "all", "uni", "ballot", NULL};
    insn->op = OP_VOTE;
    insn->kind = which(name, kinds, VOTE_ANY);
    insn->dst[0] = take_dst(p);
    insn->src[1] = take_row(p);
    insn->src[0] = take_row(p); /* the mask, as in OP_WARP_SYNC */
}

static void parse_shuffle(struct parser *p, const char *name, struct ptx_insn *insn) {
    static const char *const kinds[] = {"up", "down", "bfly", "idx", NULL};
    insn->op = OP_SHUFFLE;
    insn->kind = which(name, kinds, SHUFFLE_IDX);
    insn->dst[0] = take_dst(p);
    insn->dst[1] = PTX_NO_ROW;
    if (take(p, '|'))
        insn->dst[1] = take_dst(p);
    for (uint32_t k = 1; k <= 3; k++)
        insn->src[k] = take_row(p);
    insn->src[0] = take_row(p);
}

static struct ptx_function *function_of(struct gpusim_module *module, const char *name) {
    for (uint32_t k = 0; k < module->nfunctions; k++)
        if (strcmp(module->functions[k].name, name) == 0)
            return &module->functions[k];
    return NULL;
}

static uint32_t take_frame_variable(struct parser *p) {
    struct operand o;
    take_operand(p, &o);
    take(p, ',');
    if (o.kind != SYMBOL || o.variable->space != SPACE_LOCAL)
        parser_fail(p, "expected a variable of the frame:", o.name);
    return o.kind == SYMBOL ? o.variable->at : 0;
}

/* call (result), name, (arguments) */
static void parse_call(struct parser *p, struct ptx_insn *insn) {
    struct ptx_call call = {0};
    char name[NAME_MAX];
    insn->op = OP_CALL;
    if (take(p, '(')) {
        call.result_to = take_frame_variable(p);
        take(p, ')');
        take(p, ',');
    }
    take_name(p, name);
    call.callee = function_of(p->module, name);
    if (call.callee == NULL || call.callee == p->f || !ptx_function_parse(p->module, call.callee)) {
        parser_fail(p, "a call of an unknown function", name);
        return;
    }
    take(p, ',');
    if (take(p, '('))
        for (; !take(p, ')') && call.nargs < GPUSIM_PARAMS_MAX && !p->failed; call.nargs++)
            call.from[call.nargs] = take_frame_variable(p);
    if (call.nargs != call.callee->nparams)
        parser_fail(p, "a call with other arguments:", name);
    struct ptx_function *f = p->f;
    f->calls = realloc(f->calls, (f->ncalls + 1) * sizeof(call));
    if (f->calls == NULL)
        abort();
    f->calls[f->ncalls] = call;
    insn->target = f->ncalls++;
    f->names_of_module |= call.callee->names_of_module;
    if (call.callee->all_rows > f->all_rows)
        f->all_rows = call.callee->all_rows;
    if (call.callee->all_local_bytes > f->all_local_bytes)
        f->all_local_bytes = call.callee->all_local_bytes;
}

/* mov.b64 of vectors, of special registers and of variables' addresses; false: it is of registers. */
static bool parse_move(struct parser *p, const char *name, struct ptx_insn *insn) {
    const char *at = p->s;
    struct operand dst, src;
    take_operand(p, &dst);
    take(p, ',');
    take_operand(p, &src);
    insn->bytes = (uint8_t)size_of_type(strrchr(name, '.'));
    insn->dst[0] = dst.row;
    if (dst.kind == VECTOR || src.kind == VECTOR) {
        insn->op = dst.kind == VECTOR ? OP_UNPACK : OP_PACK;
        insn->words = (uint8_t)(dst.kind == VECTOR ? dst.n : src.n);
        insn->bytes /= insn->words;
        insn->src[0] = src.row;
        memcpy(dst.kind == VECTOR ? insn->dst : insn->src, dst.kind == VECTOR ? dst.rows : src.rows, sizeof(dst.rows));
    } else if (src.kind == SPECIAL) {
        insn->op = OP_SPECIAL;
        insn->kind = src.special;
        insn->words = src.dimension;
    } else if (src.kind == SYMBOL) {
        static const uint16_t ops[] = {
            [SPACE_SHARED] = ARITH_mov_u64, [SPACE_LOCAL] = OP_LOCAL_AT, [SPACE_PARAM] = OP_PARAM_AT};
        insn->op = ops[src.variable->space];
        insn->offset = src.offset + src.variable->at;
        if (src.variable->space == SPACE_SHARED)
            insn->src[0] = constant_of(p, (uint64_t)insn->offset);
    } else {
        p->s = at;
        return false;
    }
    return true;
}

static const char *const arithmetic[] = {
#define PTX_NAME(name, ...) #name,
    PTX_ARITHMETIC(PTX_NAME)};

static int compare_names(const void *a, const void *b) {
    return strcmp(arithmetic[*(const uint16_t *)a], arithmetic[*(const uint16_t *)b]);
}

/* The number of a row whose name this is; OP_ARITHMETIC − 1: there is none. */
static uint16_t arithmetic_of(const char *name) {
    enum { ROWS = sizeof(arithmetic) / sizeof(*arithmetic) };
    static uint16_t sorted[ROWS];
    if (sorted[0] == sorted[1]) {
        for (uint16_t k = 0; k < ROWS; k++)
            sorted[k] = k;
        qsort(sorted, ROWS, sizeof(*sorted), compare_names);
    }
    char key[64];
    snprintf(key, sizeof(key), "%.63s", name);
    for (char *c = key; *c != '\0'; c++)
        *c = *c == '.' ? '_' : *c;
    for (int low = 0, high = ROWS - 1; low <= high;) {
        int middle = (low + high) / 2, order = strcmp(key, arithmetic[sorted[middle]]);
        if (order == 0)
            return (uint16_t)(OP_ARITHMETIC + sorted[middle]);
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return OP_ARITHMETIC - 1;
}

static void parse_arithmetic(struct parser *p, const char *name, struct ptx_insn *insn) {
    insn->op = arithmetic_of(name);
    if (insn->op < OP_ARITHMETIC) {
        parser_fail(p, "an unknown instruction", name);
        return;
    }
    insn->dst[0] = take_dst(p);
    for (uint32_t k = 0; k < 4 && (skip(p), *p->s != '\0'); k++)
        insn->src[k] = take_row(p);
}

static void parse_others(struct parser *p, const char *name, struct ptx_insn *insn) {
    if (is(name, "bra")) {
        char label[NAME_MAX];
        take_name(p, label);
        insn->op = OP_BRANCH;
        insn->target = label_of(p, label);
    } else if (is(name, "ret") || is(name, "exit")) {
        insn->op = p->f->entry || is(name, "exit") ? OP_EXIT : OP_RETURN;
    } else if (is(name, "trap")) {
        insn->op = OP_TRAP;
    } else if (is(name, "nanosleep")) {
        insn->op = OP_SLEEP;
        insn->src[0] = take_row(p);
    } else if (is(name, "activemask")) {
        insn->op = OP_ACTIVE_MASK;
        insn->dst[0] = take_dst(p);
    } else if (strcmp(name, "cvta.shared.u64") == 0 || strcmp(name, "cvta.to.shared.u64") == 0) {
        insn->op = has(name, "to") ? OP_SHARED_TO : OP_SHARED_AT;
        insn->dst[0] = take_dst(p);
        insn->src[0] = take_row(p);
    } else {
        parse_arithmetic(p, name, insn);
    }
}

static void parse_instruction(struct parser *p) {
    struct ptx_insn insn = {.guard = PTX_NO_ROW, .line = p->line};
    char name[NAME_MAX];
    for (int k = 0; k < 5; k++)
        insn.src[k] = insn.dst[k < 4 ? k : 0] = PTX_NO_ROW;
    if (take(p, '@')) {
        insn.guard_not = take(p, '!');
        take_name(p, name);
        insn.guard = register_of(p, name);
    }
    take_name(p, name);
    if (is(name, "ld"))
        parse_load(p, name, &insn);
    else if (is(name, "st"))
        parse_store(p, name, &insn);
    else if (is(name, "multimem"))
        parse_multi(p, name, &insn);
    else if (is(name, "atom") || is(name, "red"))
        parse_atomic(p, name, &insn);
    else if (is(name, "membar") || is(name, "fence"))
        parse_fence(p, name, &insn);
    else if (is(name, "bar") || is(name, "barrier"))
        parse_barrier(p, name, &insn);
    else if (is(name, "vote"))
        parse_vote(p, name, &insn);
    else if (is(name, "shfl"))
        parse_shuffle(p, name, &insn);
    else if (is(name, "call"))
        parse_call(p, &insn);
    else if (!is(name, "mov") || !parse_move(p, name, &insn))
        parse_others(p, name, &insn);
    struct ptx_function *f = p->f;
    f->code = grow(f->code, f->ncode, &p->code_room, sizeof(insn));
    f->code[f->ncode++] = insn;
}

/* ---- declarations ---- */

static void declare_registers(struct parser *p) {
    char name[NAME_MAX];
    take_name(p, name); /* the type */
    do {
        take_name(p, name);
        uint32_t count = take(p, '<') ? (uint32_t)strtoul(p->s, (char **)&p->s, 10) : 0;
        take(p, '>');
        if (p->ngroups % 32 == 0)
            p->groups = realloc(p->groups, (p->ngroups + 32) * sizeof(*p->groups));
        if (p->groups == NULL)
            abort();
        struct group *group = &p->groups[p->ngroups++];
        snprintf(group->prefix, sizeof(group->prefix), "%.31s", name);
        group->first = p->nregisters;
        group->count = count;
        p->nregisters += count == 0 ? 1 : count;
    } while (take(p, ','));
}

static void declare_variable(struct parser *p, enum ptx_space space) {
    char name[NAME_MAX];
    uint32_t align, bytes, *end = space == SPACE_SHARED ? &p->f->shared_bytes : &p->f->local_bytes;
    if (take_variable(p, name, &align, &bytes))
        variable_add(p, name, space, place(end, align, bytes), bytes);
    else
        parser_fail(p, "an unknown declaration", p->statement);
}

static void parse_directive(struct parser *p) {
    char word[NAME_MAX];
    take_name(p, word);
    if (strcmp(word, ".reg") == 0)
        declare_registers(p);
    else if (strcmp(word, ".local") == 0 || strcmp(word, ".param") == 0)
        declare_variable(p, SPACE_LOCAL);
    else if (strcmp(word, ".shared") == 0)
        declare_variable(p, SPACE_SHARED);
    else if (strcmp(word, ".pragma") != 0)
        parser_fail(p, "an unknown directive", word);
}

/* The head up to the brace: result, name, parameters, bounds. */
static void parse_head(struct parser *p) {
    struct ptx_function *f = p->f;
    char word[NAME_MAX];
    uint32_t align, bytes;
    take_until(p, "{");
    const char *list = strstr(p->s, f->name);
    p->s = strchr(p->s, '(');
    if (!f->entry && p->s != NULL && p->s < list) {
        p->s = strstr(p->s, ".param") + 6;
        take_variable(p, word, &align, &bytes);
        f->result_bytes = bytes;
        f->result_at = place(&f->local_bytes, align, bytes);
        variable_add(p, word, SPACE_LOCAL, f->result_at, bytes);
    }
    p->s = strchr(list, '(');
    for (p->s = p->s == NULL ? "" : p->s + 1; !take(p, ')') && *p->s != '\0'; take(p, ',')) {
        uint32_t *end = f->entry ? &f->params_end : &f->local_bytes;
        take_name(p, word); /* .param */
        if (!take_variable(p, word, &align, &bytes) || f->nparams == GPUSIM_PARAMS_MAX) {
            parser_fail(p, "parameters of another form:", p->statement);
            return;
        }
        f->param_bytes[f->nparams] = bytes;
        f->param_at[f->nparams] = place(end, align, bytes);
        variable_add(p, word, f->entry ? SPACE_PARAM : SPACE_LOCAL, f->param_at[f->nparams++], bytes);
    }
    const char *bound = strstr(p->s, ".maxntid");
    unsigned x = 0, y = 1, z = 1;
    if (bound != NULL && sscanf(bound, ".maxntid %u , %u , %u", &x, &y, &z) >= 1)
        f->max_threads = x * y * z;
}

/* ---- a function ---- */

static void scope_begin(struct parser *p) {
    if (p->depth == 16) {
        parser_fail(p, "scopes are nested too deeply", "");
        return;
    }
    p->scope_variables[p->depth] = p->nvariables;
    p->scope_groups[p->depth++] = p->ngroups;
}

static void scope_end(struct parser *p) {
    p->depth--;
    while (p->nvariables > p->scope_variables[p->depth])
        free(p->variables[--p->nvariables].name);
    p->ngroups = p->scope_groups[p->depth];
}

static void parse_body(struct parser *p) {
    p->next++; /* the first brace */
    scope_begin(p);
    while (p->depth > 0 && !p->failed) {
        skip_blanks(p);
        if (*p->next == '{' || *p->next == '}') {
            (*p->next++ == '{' ? scope_begin : scope_end)(p);
            continue;
        }
        if (strncmp(p->next, ".loc ", 5) == 0 || strncmp(p->next, ".loc\t", 5) == 0) {
            p->next += strcspn(p->next, "\n");
            continue;
        }
        if (!take_until(p, ";:")) {
            parser_fail(p, "the text ends, or is too long", "");
            break;
        }
        if (*p->next == ':') {
            uint32_t label = label_of(p, p->statement);
            p->labels[label].at = p->f->ncode;
        } else if (*p->statement == '.')
            parse_directive(p);
        else
            parse_instruction(p);
        p->next++;
    }
}

static void settle_branches(struct parser *p) {
    for (uint32_t k = 0; k < p->f->ncode; k++) {
        struct ptx_insn *insn = &p->f->code[k];
        if (insn->op != OP_BRANCH)
            continue;
        const struct label *label = &p->labels[insn->target];
        p->line = insn->line;
        if (label->at >= p->f->ncode)
            parser_fail(p, "a branch to nowhere:", label->name);
        insn->target = label->at;
    }
}

/* What functions share lies at the same place for all of them: a kernel and what it calls mean the same memory. */
static void declare_shared_of_module(struct parser *p) {
    for (uint32_t k = 0; k < p->module->nshared; k++) {
        p->next = p->module->shared[k];
        take_until(p, ";");
        parse_directive(p);
    }
}

static uint32_t occupied_bytes(const struct parser *p) {
    uint32_t bytes = p->f->shared_bytes;
    for (uint32_t k = 0; k < p->module->nshared; k++)
        bytes -= (p->f->names_of_module >> k & 1) != 0 ? 0 : p->variables[k].bytes;
    return bytes;
}

bool ptx_function_parse(struct gpusim_module *module, struct ptx_function *f) {
    if (f->parsed)
        return true;
    struct parser *p = calloc(1, sizeof(*p));
    if (p == NULL)
        abort();
    p->module = module;
    p->f = f;
    declare_shared_of_module(p);
    p->next = f->text;
    p->line = f->line;
    parse_head(p);
    if (!p->failed)
        parse_body(p);
    if (!p->failed)
        settle_branches(p);
    f->occupied_bytes = occupied_bytes(p);
    f->local_bytes = (f->local_bytes + 15) / 16 * 16;
    f->parsed = !p->failed && ptx_flow(f, p->nregisters);
    f->all_rows += f->nrows;
    f->all_local_bytes += f->local_bytes;
    while (p->nvariables > 0)
        free(p->variables[--p->nvariables].name);
    for (uint32_t k = 0; k < p->nlabels; k++)
        free(p->labels[k].name);
    free(p->variables);
    free(p->groups);
    free(p->labels);
    free(p->next_label);
    free(p);
    return f->parsed;
}
