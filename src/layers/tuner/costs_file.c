/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of all constants of a cost table, and with them reading and writing.
 */
#include "layers/tuner/costs_file.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/plain.h"
#include "exec/exec.h"
#include "topo/probe/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 48
#define CONSTANTS_MAX (6 * LINK_CLASS_COUNT * COSTS_PROTOCOLS + 18)

static const char *const class_names[LINK_CLASS_COUNT] = {
    [LINK_MEMORY] = "memory",     [LINK_MEMORY_FAR] = "memory-far",    [LINK_MEMORY_MEASURED] = "memory-measured",
    [LINK_LENT] = "memory-lent",  [LINK_LENT_CMA] = "memory-lent-cma", [LINK_NET] = "net",
    [LINK_GPU] = "gpu",           [LINK_GPU_NVLINK] = "gpu-nvlink",    [LINK_GPU_PCI] = "gpu-pci",
    [LINK_GPU_HOST] = "gpu-host", [LINK_GPU_NET] = "gpu-net"};

/* The place of one constant in a table. Exactly one of `number` and `count` is not NULL. */
struct constant {
    char name[NAME_BYTES];
    const char *unit;
    double *number;
    int *count;
};

struct constants {
    struct constant list[CONSTANTS_MAX];
    int count;
};

static void add_constant(struct constants *all, double *number, const char *unit, const char *a, const char *b,
                         const char *c) {
    struct constant *constant = &all->list[all->count++];
    snprintf(constant->name, sizeof constant->name, "%s%s%s%s%s", a, *b ? "." : "", b, *c ? "." : "", c);
    constant->number = number;
    constant->unit = unit;
}

static void add_step_constants(struct constants *all, struct step_cost *step, const char *class, const char *protocol) {
    add_constant(all, &step->step_ns, "ns", class, protocol, "step");
    add_constant(all, &step->peer_ns, "ns", class, protocol, "peer");
    add_constant(all, &step->byte_ns, "ns/byte", class, protocol, "byte");
    add_constant(all, &step->alpha_ns, "ns", class, protocol, "alpha");
    add_constant(all, &step->wire_byte_ns, "ns/byte", class, protocol, "wire_byte");
    add_constant(all, &step->fence_ns, "ns", class, protocol, "fence");
}

static void list_constants(struct cost_table *costs, struct constants *all) {
    *all = (struct constants){.count = 0};
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++)
            /* The constants of LINK_MEMORY_MEASURED follow from host.*. Some protocols use the constants of another protocol. */
            if (class != LINK_MEMORY_MEASURED && protocol_costs_as((uint32_t)p) == (enum protocol)p)
                add_step_constants(all, &costs->step[class][p], class_names[class], protocol_names[p]);
    add_constant(all, &costs->switch_ns, "ns", "host", "switch", "");
    add_constant(all, &costs->turns_share, "share", "host", "turns", "");
    add_constant(all, &costs->host.line_ns, "ns", "host", "line", "");
    add_constant(all, &costs->host.slot_ns, "ns", "host", "slot", "");
    add_constant(all, &costs->host.slot_byte_ns, "ns/byte", "host", "slot_byte", "");
    add_constant(all, &costs->host.lent_byte_ns, "ns/byte", "host", "lent_byte", "");
    add_constant(all, &costs->host.kernel_ns, "ns", "host", "kernel", "");
    add_constant(all, &costs->host.kernel_byte_ns, "ns/byte", "host", "kernel_byte", "");
    add_constant(all, &costs->host.own_byte_ns, "ns/byte", "host", "own_byte", "");
    add_constant(all, &costs->host.memory_gbps, "GB/s", "host", "memory", "");
    add_constant(all, &costs->host.cache_bytes, "bytes", "host", "cache", "");
    add_constant(all, &costs->gpu_call_ns, "ns", "gpu", "call", "");
    add_constant(all, &costs->gpu_block_ns, "ns", "gpu", "block", "");
    add_constant(all, &costs->gpu_turn_ns, "ns", "gpu", "turn", "");
    add_constant(all, &costs->gpu_memory_gbps, "GB/s", "gpu", "memory", "");
    add_constant(all, &costs->gpu_lent_share, "share", "gpu", "lent", "");
    add_constant(all, &costs->switched_share, "share", "gpu", "switched", "");
    all->list[all->count++] = (struct constant){"gpu.blocks", "blocks", NULL, &costs->gpu_blocks};
}

/* ---- writing ---- */

void costs_print(const struct cost_table *costs, const char *prefix, FILE *out) {
    struct constants all;
    struct cost_table copy = *costs;
    list_constants(&copy, &all);
    const locale_t before = plain_begin();
    for (const struct constant *c = all.list; c < &all.list[all.count]; c++)
        if (strncmp(c->name, prefix, strlen(prefix)) == 0)
            fprintf(out, "%-24s %-10.4g %s\n", c->name, c->number != NULL ? *c->number : *c->count, c->unit);
    plain_end(before);
}

/* ---- reading ---- */

struct file_place {
    const char *path;
    int line;
};

#define BAD(place, ...) bad_line(place, err_set(COLLET_ERR_INVALID_USAGE, __VA_ARGS__))

/* Puts file and line in front of the error that has just been set. */
static enum collet_result bad_line(const struct file_place *place, enum collet_result result) {
    char what[256];
    snprintf(what, sizeof what, "%s", err_last());
    return err_set(result, "COLLET_TUNER_FILE: %s:%d: %s", place->path, place->line, what);
}

static struct constant *find(struct constants *all, const char *name) {
    for (struct constant *c = all->list; c < &all->list[all->count]; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static enum collet_result store(const struct file_place *place, struct constant *c, const char *text) {
    char *end;
    const locale_t before = plain_begin();
    double value = strtod(text, &end);
    plain_end(before);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0)
        return BAD(place, "%s is \"%s\": expected a number, 0 or more", c->name, text);
    if (c->count != NULL && (value < 1 || value > 65536 || value != floor(value)))
        return BAD(place, "%s is \"%s\": expected a whole number from 1 to 65536", c->name, text);
    if (c->count != NULL)
        *c->count = (int)value;
    else
        *c->number = value;
    return COLLET_SUCCESS;
}

static enum collet_result read_line(const struct file_place *place, char *line, struct constants *all, bool *seen) {
    char *rest;
    line[strcspn(line, "#\n")] = '\0';
    const char *name = strtok_r(line, " \t\r", &rest);
    if (name == NULL)
        return COLLET_SUCCESS;
    const char *value = strtok_r(NULL, " \t\r", &rest), *unit = strtok_r(NULL, " \t\r", &rest);
    struct constant *c = find(all, name);
    if (c == NULL)
        return BAD(place, "\"%.64s\" is no constant of the cost model; collet-tune --print shows all", name);
    if (value == NULL || unit == NULL || strcmp(unit, c->unit) != 0)
        return BAD(place, "expected \"%s NUMBER %s\"", c->name, c->unit);
    if (strtok_r(NULL, " \t\r", &rest) != NULL)
        return BAD(place, "something is left behind \"%s %.32s %s\"; comments begin with #", c->name, value, unit);
    if (seen[c - all->list])
        return BAD(place, "%s is there a second time", c->name);
    seen[c - all->list] = true;
    return store(place, c, value);
}

static enum collet_result read_lines(FILE *in, const char *path, struct cost_table *costs) {
    struct cost_table read = *costs;
    struct constants all;
    bool seen[CONSTANTS_MAX] = {false};
    struct file_place place = {path, 0};
    char *line = NULL;
    size_t room = 0;
    enum collet_result result = COLLET_SUCCESS;
    list_constants(&read, &all);
    while (result == COLLET_SUCCESS && getline(&line, &room, in) >= 0) {
        place.line++;
        result = read_line(&place, line, &all, seen);
    }
    if (result == COLLET_SUCCESS && ferror(in))
        result = err_set(COLLET_ERR_INVALID_USAGE, "COLLET_TUNER_FILE: cannot read %s", path);
    free(line);
    if (result == COLLET_SUCCESS)
        *costs = read;
    return result;
}

static enum collet_result read_text(const char *text, size_t bytes, const char *name, struct cost_table *costs) {
    FILE *in = fmemopen((void *)(uintptr_t)text, bytes, "re");
    if (in == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to read %s", name);
    enum collet_result result = read_lines(in, name, costs);
    fclose(in);
    return result;
}

enum collet_result costs_read(const char *path, struct cost_table *costs) {
    SCOPED_FREE char *text = NULL;
    size_t bytes;
    COLLET_TRY(text_load("COLLET_TUNER_FILE", path, COLLET_ERR_INVALID_USAGE, &text, &bytes));
    return read_text(text, bytes, path, costs);
}

enum collet_result costs_read_text(const char *text, const char *name, struct cost_table *costs) {
    return read_text(text, strlen(text), name, costs);
}
