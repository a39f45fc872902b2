/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines from one line of text. The comment of topo_synthetic() in topo.h has the grammar and the assumptions.
 */
#include "topo/probe/topo.h"

#include "base/err.h"
#include "topo/probe/speeds.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 128, NODES_MAX = 131072, GBIT_MAX = 100000 };

enum fabric { FABRIC_PCI, FABRIC_MESH, FABRIC_NVSWITCH };

/* Figures of a generation of GPUs, and of the PCI links of hosts that have them. */
static const struct generation {
    const char *word;
    int sm, nvlinks;
    double pci_gts;
} generations[] = {{"a100", 80, 12, 16}, {"v100", 70, 6, 8}, {"h100", 90, 18, 32}, {"b200", 100, 18, 32}};

struct recipe {
    int nodes, cpus, switches, gpus, nics; /* −1: the text does not say it. */
    int nic_gbit;
    const struct generation *generation;
    enum fabric fabric;
};

/* ---------------------------------------------------------------------------------------------------------- reading */

struct scanner {
    const char *text, *at;
};

static void skip_spaces(struct scanner *s) { s->at += strspn(s->at, " \t"); }

static enum collet_result expected(const struct scanner *s, const char *what) {
    size_t length = strcspn(s->at, " \t:");
    if (*s->at == ':')
        length = 1;
    if (length == 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "synthetic machine \"%.100s\": at its end, expected %s", s->text,
                       what);
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "synthetic machine \"%.100s\": at \"%.*s\" (character %d), expected %s",
                   s->text, (int)(length < 40 ? length : 40), s->at, (int)(s->at - s->text) + 1, what);
}

static bool at_number(struct scanner *s) {
    skip_spaces(s);
    return *s->at >= '0' && *s->at <= '9';
}

static enum collet_result read_number(struct scanner *s, int max, int *number_p) {
    char what[64], *end;
    snprintf(what, sizeof what, "a number from 1 to %d", max);
    if (!at_number(s))
        return expected(s, what);
    long number = strtol(s->at, &end, 10);
    if (number < 1 || number > max)
        return expected(s, what);
    s->at = end;
    *number_p = (int)number;
    return COLLET_SUCCESS;
}

/* If `word` or its plural comes next, reads it. False: something else comes next. */
static bool read_word(struct scanner *s, const char *word) {
    skip_spaces(s);
    size_t length = strlen(word);
    if (strncmp(s->at, word, length) != 0)
        return false;
    length += s->at[length] == 's';
    if (strchr(" \t:", s->at[length]) == NULL) /* strchr() also finds the zero at the end. */
        return false;
    s->at += length;
    return true;
}

/* Reads the options that follow the word of a part. */
static enum collet_result read_options(struct scanner *s, const char *word, struct recipe *recipe) {
    if (strcmp(word, "nic") == 0 && at_number(s))
        return read_number(s, GBIT_MAX, &recipe->nic_gbit);
    for (size_t g = 0; strcmp(word, "gpu") == 0 && g < sizeof generations / sizeof *generations; g++)
        if (read_word(s, generations[g].word))
            recipe->generation = &generations[g];
    if (strcmp(word, "gpu") == 0)
        recipe->fabric = read_word(s, "nvswitch") ? FABRIC_NVSWITCH : read_word(s, "mesh") ? FABRIC_MESH : FABRIC_PCI;
    if (strcmp(word, "gpu") == 0 && recipe->fabric == FABRIC_PCI)
        read_word(s, "pci");
    return COLLET_SUCCESS;
}

static enum collet_result read_part(struct scanner *s, bool first, struct recipe *recipe) {
    struct {
        const char *word;
        int *count, max;
    } parts[] = {{"node", &recipe->nodes, NODES_MAX},
                 {"cpu", &recipe->cpus, PARTS_MAX},
                 {"switch", &recipe->switches, PARTS_MAX},
                 {"gpu", &recipe->gpus, PARTS_MAX},
                 {"nic", &recipe->nics, PARTS_MAX}};
    struct scanner start;
    int count;
    skip_spaces(s);
    start = *s;
    COLLET_TRY(read_number(s, NODES_MAX, &count));
    for (size_t p = first ? 0 : 1; p < sizeof parts / sizeof *parts; p++) {
        if (!read_word(s, parts[p].word))
            continue;
        if (*parts[p].count >= 0)
            return expected(&start, "each part only once");
        if (count > parts[p].max)
            return read_number(&start, parts[p].max, &count);
        *parts[p].count = count;
        return read_options(s, parts[p].word, recipe);
    }
    skip_spaces(s);
    return expected(s, first ? "node, cpu, switch, gpu or nic" : "cpu, switch, gpu or nic");
}

static enum collet_result read_recipe(const char *text, struct recipe *recipe) {
    struct scanner s = {text, text};
    bool first = true;
    *recipe = (struct recipe){.nodes = -1,
                              .cpus = -1,
                              .switches = -1,
                              .gpus = -1,
                              .nics = -1,
                              .nic_gbit = 100,
                              .generation = &generations[0]};
    do {
        s.at += first ? 0 : 1;
        COLLET_TRY(read_part(&s, first, recipe));
        first = false;
        skip_spaces(&s);
    } while (*s.at == ':');
    if (*s.at != '\0')
        return expected(&s, "\":\" or the end");
    if (recipe->cpus < 0 && recipe->gpus < 0 && recipe->nics < 0 && recipe->switches < 0)
        return expected(&s, "\": \" and what a node has");
    return COLLET_SUCCESS;
}

static int at_least(int number, int least) { return number > least ? number : least; }

static void fill_in(struct recipe *r) {
    r->nodes = at_least(r->nodes, 1);
    r->gpus = at_least(r->gpus, 0);
    r->nics = at_least(r->nics, 0);
    if (r->switches < 0)
        r->switches = r->nics > 0 ? r->nics : (r->gpus + 1) / 2;
    if (r->cpus < 0)
        r->cpus = r->switches >= 2 ? 2 : 1;
}

/* --------------------------------------------------------------------------------------------------------- building */

static void set_pci(struct topo_node *node, const struct recipe *r, int domain, int device, uint32_t class) {
    snprintf(node->pci.busid, sizeof node->pci.busid, "%04x:%02x:00.0", domain & 0xffff, device & 0xff);
    node->pci.class = class;
    node->pci.link_gts = r->generation->pci_gts;
    node->pci.link_lanes = 16;
}

/* The parent of device i: with n devices and k parents it is number i·k/n. Switches are spread over CPUs in the same way. */
static int share_of(int i, int n, int nparents) { return i * nparents / n; }

static void link_gpus(struct topo *topo, const struct recipe *r, int first_gpu) {
    double gbps = speed_of_gpu_link(&topo->nodes[first_gpu].gpu);
    int nvs = -1;
    if (r->fabric == FABRIC_NVSWITCH)
        nvs = topo_add_node(topo, &(struct topo_node){.kind = TOPO_NVS, .parent = -1});
    int nvlinks = r->generation->nvlinks, mesh_links = r->gpus > 1 ? at_least(nvlinks / (r->gpus - 1), 1) : 0;
    for (int a = first_gpu; a < first_gpu + r->gpus; a++) {
        topo_add_link(topo, a, nvs, MEDIUM_NVLINK, nvlinks, nvlinks * gbps);
        for (int b = first_gpu; b < first_gpu + r->gpus && r->fabric == FABRIC_MESH; b++)
            if (a != b)
                topo_add_link(topo, a, b, MEDIUM_NVLINK, mesh_links, mesh_links * gbps);
    }
}

static void build_host(struct topo *topo, const struct recipe *r) {
    int switches[PARTS_MAX], cpus[PARTS_MAX];
    for (int c = 0; c < r->cpus; c++) {
        struct topo_node cpu = topo_blank(TOPO_CPU, -1);
        cpu.cpu.numaid = c;
        snprintf(cpu.cpu.arch, sizeof cpu.cpu.arch, "x86_64");
        cpus[c] = topo_add_node(topo, &cpu);
    }
    for (int s = 0; s < r->switches; s++) {
        struct topo_node pci = topo_blank(TOPO_PCI, cpus[share_of(s, r->switches, r->cpus)]);
        set_pci(&pci, r, 0, s, 0x060400);
        switches[s] = topo_add_node(topo, &pci);
    }
    for (int g = 0; g < r->gpus; g++) {
        struct topo_node gpu = topo_blank(TOPO_GPU, switches[share_of(g, r->gpus, r->switches)]);
        set_pci(&gpu, r, 1, g, 0x030200);
        gpu.gpu.sm = r->generation->sm;
        gpu.gpu.gdr = true;
        topo_add_node(topo, &gpu);
    }
    if (r->gpus > 0 && topo->status == COLLET_SUCCESS)
        link_gpus(topo, r, topo->nnodes - r->gpus);
    for (int k = 0; k < r->nics; k++) {
        struct topo_node nic = topo_blank(TOPO_NIC, switches[share_of(k, r->nics, r->switches)]);
        set_pci(&nic, r, 2, k, 0x020000);
        snprintf(nic.nic.name, sizeof nic.nic.name, "nic%d", k);
        nic.nic.mbits = 1000LL * r->nic_gbit;
        nic.nic.port = 1;
        nic.nic.gdr = true;
        topo_add_node(topo, &nic);
    }
}

enum collet_result topo_synthetic(const char *text, struct topo **topo_p) {
    struct recipe recipe;
    struct topo *host;
    COLLET_TRY(read_recipe(text, &recipe));
    fill_in(&recipe);
    COLLET_TRY(topo_create(&host));
    build_host(host, &recipe);
    enum collet_result status = topo_finish(host);
    if (status == COLLET_SUCCESS && recipe.nodes == 1) {
        *topo_p = host;
        return COLLET_SUCCESS;
    }
    if (status == COLLET_SUCCESS)
        status = topo_repeat(host, recipe.nodes, topo_p);
    topo_destroy(host);
    return status;
}
