/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph as an indented tree, and for Graphviz.
 */
#include "topo/probe/speeds.h"
#include "topo/probe/topo.h"

#define NAME_TEXT (TOPO_NAME_BYTES + 16)

static const struct topo_link *link_to_parent(const struct topo *topo, int n) {
    for (int l = topo->nodes[n].first_link; l >= 0; l = topo->links[l].next)
        if (topo->links[l].to == topo->nodes[n].parent && topo->links[l].medium != MEDIUM_NVLINK)
            return &topo->links[l];
    return NULL;
}

static void print_cpu(const struct topo_cpu *cpu, FILE *out) {
    fprintf(out, " %s%s%s", cpu->arch, cpu->vendor[0] == '\0' ? "" : " ", cpu->vendor);
    if (cpu->modelid >= 0)
        fprintf(out, " family %d model %d", cpu->familyid, cpu->modelid);
    if (cpu->cores > 0)
        fprintf(out, ", package %d, %d cores, last-level cache %d MiB", cpu->package, cpu->cores, cpu->llc_mib);
}

static void print_links_of_medium(const struct topo *topo, int n, enum topo_medium medium, FILE *out) {
    char name[NAME_TEXT];
    double gbps = -1;
    /* Links stand in the order in which they were made. Equal links in a row share one mention of their speed. */
    for (int l = 0; l < topo->nlinks; l++) {
        const struct topo_link *link = &topo->links[l];
        if (link->from != n || link->medium != medium)
            continue;
        if (link->gbps != gbps)
            fprintf(out, "%s%s %.1f to %s", gbps < 0 ? "   " : "; ", topo_link_name(topo, link), link->gbps,
                    topo_node_name(topo, link->to, name));
        else
            fprintf(out, ", %s", topo_node_name(topo, link->to, name));
        gbps = link->gbps;
    }
}

static void print_node(const struct topo *topo, int n, int depth, FILE *out) {
    const struct topo_node *node = &topo->nodes[n];
    const struct topo_link *up = link_to_parent(topo, n);
    char name[NAME_TEXT];
    fprintf(out, "%*s%-*s", 2 * depth, "", 34 - 2 * depth, topo_node_name(topo, n, name));
    if (up != NULL && up->medium == MEDIUM_PCI)
        fprintf(out, " %s %5.1f", topo_medium_name(up->medium), up->gbps);
    if (node->kind == TOPO_CPU)
        print_cpu(&node->cpu, out);
    if (node->kind == TOPO_NIC && node->nic.mbits > 0)
        fprintf(out, "   port of %g Gbit/s", (double)node->nic.mbits / 1000);
    else if (node->kind == TOPO_NIC)
        fprintf(out, "   port of unknown speed, taken for %.2f", speed_of_nic(node));
    print_links_of_medium(topo, n, MEDIUM_NVLINK, out);
    print_links_of_medium(topo, n, MEDIUM_SYS, out);
    fputc('\n', out);
    for (int child = topo->hosts[node->host].first_node; child < topo->hosts[node->host].end_node; child++)
        if (topo->nodes[child].parent == n)
            print_node(topo, child, depth + 1, out);
}

static int hosts_like(const struct topo *topo, int host) {
    int count = 0;
    for (int h = 0; h < topo->nhosts; h++)
        count += topo->hosts[h].shape == host;
    return count;
}

void topo_print(const struct topo *topo, FILE *out) {
    fprintf(out, "machine (GB/s, each way)\n");
    for (int h = 0; h < topo->nhosts; h++) {
        if (topo->hosts[h].shape != h)
            continue;
        int equal = hosts_like(topo, h);
        fprintf(out, "host %d", h);
        if (equal > 1)
            fprintf(out, ", and %d more that are equal to it", equal - 1);
        fputc('\n', out);
        for (int n = topo->hosts[h].first_node; n < topo->hosts[h].end_node; n++)
            if (topo->nodes[n].parent < 0)
                print_node(topo, n, 1, out);
    }
}

/* --------------------------------------------------------------------------------------------------------- Graphviz */

static void dot_host(const struct topo *topo, int h, FILE *out) {
    char name[NAME_TEXT];
    fprintf(out, "  subgraph cluster_%d {\n    label=\"host %d\";\n", h, h);
    for (int n = topo->hosts[h].first_node; n < topo->hosts[h].end_node; n++) {
        fprintf(out, "    n%d [label=\"", n);
        for (const char *c = topo_node_name(topo, n, name); *c != '\0'; c++)
            fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        fprintf(out, "\"%s];\n", topo->nodes[n].kind == TOPO_GPU ? ", style=filled" : "");
    }
    fprintf(out, "  }\n");
}

void topo_print_dot(const struct topo *topo, FILE *out) {
    fprintf(out, "graph machine {\n  node [shape=box];\n");
    for (int h = 0; h < topo->nhosts; h++)
        dot_host(topo, h, out);
    if (topo->net >= 0)
        fprintf(out, "  n%d [label=\"NET\", shape=ellipse];\n", topo->net);
    for (int l = 0; l < topo->nlinks; l++) { /* Each pair of links is printed once, not once per direction. */
        const struct topo_link *link = &topo->links[l];
        if (link->from < link->to)
            fprintf(out, "  n%d -- n%d [label=\"%s %.1f\"];\n", link->from, link->to, topo_link_name(topo, link),
                    link->gbps);
    }
    fprintf(out, "}\n");
}
