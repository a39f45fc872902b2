/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows who sends to whom, lane by lane, as the forms that the connections make:
 *
 *      0 > 1 > 2 > 0            a ring; a chain does not come back
 *      3                        a tree. > the parent sends to the child, < the child to the parent,
 *        <> 1                   <> each to the other
 *          <> 0
 *      each to each: 0,1,2,3
 *      0 > 1 2                  any other form, rank by rank
 *
 * Where a lane has such another form on several nodes, it is taken apart: connections inside nodes, and across nodes.
 */
#include "layers/tools/prog/show.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_SHOWN = 100, RANKS_SHOWN = 32 };
enum ways { OUT_OF = 1, INTO = 2 };

/* What one member does with another one on a lane: a sends to b (OUT_OF), receives from b (INTO), or both. Each pair of members has two
 * links, one as seen from each member. */
struct link {
    int lane, a, b;
    unsigned ways;
};

struct graph {
    const struct cast *cast;
    const struct prog_shape *shape;
    struct link *links, *part; /* All links; the links that are looked at now */
    int nlinks, npart;
    int *first;         /* [members + 1]: index in `part` of the member's first link */
    int *group, *stack; /* [member]: lowest member of its group; scratch memory */
    int lines;          /* Number of lines printed so far */
    FILE *out;
};

static int compare_links(const void *x, const void *y) {
    const struct link *a = x, *b = y;
    return a->lane != b->lane ? a->lane - b->lane : a->a != b->a ? a->a - b->a : a->b - b->b;
}

/* Makes two links of every connection, sorts the links, and merges links between the same members. */
static void collect(struct graph *g, const struct cast_conns *conns) {
    int kept = 0;
    for (int c = 0; c < conns->count; c++) {
        struct cast_conn conn = conns->list[c];
        g->links[2 * c] = (struct link){conn.lane, conn.src, conn.dst, OUT_OF};
        g->links[2 * c + 1] = (struct link){conn.lane, conn.dst, conn.src, INTO};
    }
    qsort(g->links, 2 * (size_t)conns->count, sizeof(*g->links), compare_links);
    for (int i = 0; i < 2 * conns->count; i++) {
        if (kept > 0 && compare_links(&g->links[kept - 1], &g->links[i]) == 0)
            g->links[kept - 1].ways |= g->links[i].ways;
        else
            g->links[kept++] = g->links[i];
    }
    g->nlinks = kept;
}

static int rank_of(const struct graph *g, int member) { return g->cast->members[member].rank; }

static int node_of(const struct graph *g, int member) {
    return prog_shape_span(g->shape, prog_shape_position(g->shape, rank_of(g, member))).node;
}

static int degree(const struct graph *g, int member, unsigned ways) {
    int n = 0;
    for (int i = g->first[member]; i < g->first[member + 1]; i++)
        n += (g->part[i].ways & ways) != 0 ? 1 : 0;
    return n;
}

/* Counts a line. Returns whether it may still be printed. */
static bool is_shown(struct graph *g) { return g->lines++ < LINES_SHOWN; }

/* ---- the groups of a part ---- */

static void find_group(struct graph *g, int lowest) {
    int top = 0;
    for (g->stack[top++] = lowest, g->group[lowest] = lowest; top > 0;) {
        int member = g->stack[--top];
        for (int i = g->first[member]; i < g->first[member + 1]; i++)
            if (g->group[g->part[i].b] < 0) {
                g->group[g->part[i].b] = lowest;
                g->stack[top++] = g->part[i].b;
            }
    }
}

enum scope { ALL, INSIDE, ACROSS };

static void select_part(struct graph *g, int lane, enum scope scope) {
    int n = 0, nmembers = g->cast->nmembers;
    for (int i = 0; i < g->nlinks; i++)
        if (g->links[i].lane == lane &&
            (scope == ALL || (node_of(g, g->links[i].a) == node_of(g, g->links[i].b)) == (scope == INSIDE)))
            g->part[n++] = g->links[i];
    g->npart = n;
    for (int m = 0, i = 0; m <= nmembers; m++) {
        for (; i < n && g->part[i].a < m;)
            i++;
        g->first[m] = i;
    }
    for (int m = 0; m < nmembers; m++)
        g->group[m] = -1;
    for (int m = 0; m < nmembers; m++)
        if (g->group[m] < 0)
            find_group(g, m);
}

/* Numbers that tell the form of a group (ring, tree …), counted over its members. */
struct form {
    int members, pairs, sends, most_in, most_out, source, nsources, sink, nsinks;
};

static struct form form_of(const struct graph *g, int group) {
    struct form form = {0};
    for (int m = group; m < g->cast->nmembers; m++) {
        if (g->group[m] != group)
            continue;
        int in = degree(g, m, INTO), out = degree(g, m, OUT_OF);
        form.members++;
        form.pairs += g->first[m + 1] - g->first[m]; /* Each pair counts twice */
        form.sends += out;
        form.most_in = in > form.most_in ? in : form.most_in;
        form.most_out = out > form.most_out ? out : form.most_out;
        form.source = in == 0 ? m : form.source;
        form.nsources += in == 0 ? 1 : 0;
        form.sink = out == 0 ? m : form.sink;
        form.nsinks += out == 0 ? 1 : 0;
    }
    form.pairs /= 2;
    return form;
}

static bool is_chain(const struct form *form) { return form->most_in <= 1 && form->most_out <= 1; }
static bool is_tree(const struct form *form) { return form->pairs == form->members - 1; }
static bool is_complete(const struct form *form) { return form->sends == form->members * (form->members - 1); }

/* ---- printing them ---- */

static int next_of(const struct graph *g, int member) {
    for (int i = g->first[member]; i < g->first[member + 1]; i++)
        if ((g->part[i].ways & OUT_OF) != 0)
            return g->part[i].b;
    return -1;
}

static void show_chain(struct graph *g, int start) {
    fprintf(g->out, "  %d", rank_of(g, start));
    int at = next_of(g, start), shown = 1;
    for (; at >= 0 && at != start && shown < RANKS_SHOWN; at = next_of(g, at), shown++)
        fprintf(g->out, " > %d", rank_of(g, at));
    int more = 0;
    for (; at >= 0 && at != start; at = next_of(g, at))
        more++;
    if (more > 0)
        fprintf(g->out, " > (%d more)", more);
    if (at == start)
        fprintf(g->out, " > %d", rank_of(g, start));
    fputc('\n', g->out);
}

/* The member of the group that finishes a sum and sends the result on the lane: the root of a tree. If there is none, the lowest member. */
static int finisher(const struct graph *g, int group, int lane) {
    for (int m = group; m < g->cast->nmembers; m++) {
        const struct prog *prog = g->cast->members[m].prog;
        for (int s = 0; g->group[m] == group && s < prog->nsteps; s++)
            if (prog->steps[s].finish && prog->steps[s].send_count > 0 &&
                prog->peers[prog->steps[s].send_first].lane == lane)
                return m;
    }
    return group;
}

static void show_tree(struct graph *g, int member, int parent, unsigned ways, int depth) {
    static const char *const arrows[] = {"", "> ", "< ", "<> "}; /* [ways]: as the parent sees them */
    if (is_shown(g))
        fprintf(g->out, "  %*s%s%d\n", 2 * (depth < RANKS_SHOWN ? depth : RANKS_SHOWN), "", arrows[ways],
                rank_of(g, member));
    for (int i = g->first[member]; i < g->first[member + 1]; i++)
        if (g->part[i].b != parent)
            show_tree(g, g->part[i].b, member, g->part[i].ways, depth + 1);
}

static void show_members(const struct graph *g, int group) {
    for (int m = group, shown = 0; m < g->cast->nmembers && shown <= RANKS_SHOWN; m++)
        if (g->group[m] == group && shown++ < RANKS_SHOWN)
            fprintf(g->out, "%s%d", shown > 1 ? "," : "", rank_of(g, m));
        else if (g->group[m] == group)
            fprintf(g->out, ",..");
}

static void show_crowd(struct graph *g, int group) {
    for (int m = group; m < g->cast->nmembers; m++) {
        if (g->group[m] != group || degree(g, m, OUT_OF) == 0 || !is_shown(g))
            continue;
        fprintf(g->out, "  %d >", rank_of(g, m));
        int shown = 0;
        for (int i = g->first[m]; i < g->first[m + 1]; i++)
            if ((g->part[i].ways & OUT_OF) != 0 && shown++ < RANKS_SHOWN)
                fprintf(g->out, " %d", rank_of(g, g->part[i].b));
        fprintf(g->out, shown > RANKS_SHOWN ? " (%d more)\n" : "\n", shown - RANKS_SHOWN);
    }
}

static void show_group(struct graph *g, int group, int lane) {
    struct form form = form_of(g, group);
    if (is_chain(&form) && is_shown(g)) {
        show_chain(g, form.nsources > 0 ? form.source : group);
    } else if (is_tree(&form) && !is_chain(&form)) {
        int root = form.nsources == 1 ? form.source : form.nsinks == 1 ? form.sink : finisher(g, group, lane);
        show_tree(g, root, -1, 0, 0);
    } else if (is_complete(&form) && !is_chain(&form) && is_shown(g)) {
        fprintf(g->out, "  each to each: ");
        show_members(g, group);
        fputc('\n', g->out);
    } else if (!is_chain(&form) && !is_complete(&form)) {
        show_crowd(g, group);
    }
}

/* Does some group have none of the forms that have a name? */
static bool has_crowd(const struct graph *g) {
    for (int m = 0; m < g->cast->nmembers; m++) {
        struct form form = g->group[m] == m ? form_of(g, m) : (struct form){.members = 1};
        if (!is_chain(&form) && !is_tree(&form) && !is_complete(&form))
            return true;
    }
    return false;
}

static void show_part(struct graph *g, int lane, enum scope scope) {
    static const char *const titles[] = {"", ", inside nodes", ", across nodes"};
    if (g->npart > 0 && is_shown(g))
        fprintf(g->out, "lane %d%s\n", lane, titles[scope]);
    for (int m = 0; m < g->cast->nmembers; m++)
        if (g->group[m] == m && g->first[m + 1] > g->first[m])
            show_group(g, m, lane);
}

static void show_lanes(struct graph *g) {
    for (int i = 0; i < g->nlinks; i++) {
        int lane = g->links[i].lane;
        if (i > 0 && g->links[i - 1].lane == lane)
            continue;
        select_part(g, lane, ALL);
        bool apart = g->shape->nnodes > 1 && has_crowd(g);
        for (enum scope scope = apart ? INSIDE : ALL; scope <= (apart ? ACROSS : ALL); scope++) {
            select_part(g, lane, scope);
            show_part(g, lane, scope);
        }
    }
    if (g->nlinks == 0)
        fprintf(g->out, "nobody sends\n");
    if (g->lines > LINES_SHOWN)
        fprintf(g->out, "%d more lines are not shown\n", g->lines - LINES_SHOWN);
}

static void show_dot(struct graph *g) {
    fprintf(g->out, "digraph %s_%s {\n", prog_collective_name(g->cast->algorithm->collective),
            g->cast->algorithm->name);
    for (int node = 0; node < g->shape->nnodes; node++) {
        fprintf(g->out, "  subgraph cluster_%d { label=\"node %d\";", node, node);
        for (int m = 0; m < g->cast->nmembers; m++)
            if (node_of(g, m) == node)
                fprintf(g->out, " %d;", rank_of(g, m));
        fprintf(g->out, " }\n");
    }
    for (int i = 0; i < g->nlinks; i++)
        if ((g->links[i].ways & OUT_OF) != 0)
            fprintf(g->out, "  %d -> %d [label=\"lane %d\"];\n", rank_of(g, g->links[i].a), rank_of(g, g->links[i].b),
                    g->links[i].lane);
    fprintf(g->out, "}\n");
}

enum collet_result show_chains(const struct cast *cast, const struct prog_shape *shape, bool dot, FILE *out) {
    struct cast_conns conns;
    struct graph g = {.cast = cast, .shape = shape, .out = out};
    bool enough = cast_connect(cast, &conns);
    size_t n = 2 * (size_t)conns.count + 1, nmembers = (size_t)cast->nmembers;
    g.links = arena_get(&conns.arena, n, sizeof(*g.links));
    g.part = arena_get(&conns.arena, n, sizeof(*g.part));
    g.first = arena_get(&conns.arena, nmembers + 1, sizeof(*g.first));
    g.group = arena_get(&conns.arena, nmembers, sizeof(*g.group));
    g.stack = arena_get(&conns.arena, nmembers, sizeof(*g.stack));
    enough = enough && !conns.arena.failed;
    if (enough) {
        collect(&g, &conns);
        (dot ? show_dot : show_lanes)(&g);
    }
    cast_disconnect(&conns);
    return enough ? COLLET_SUCCESS : err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu connections", n / 2);
}
