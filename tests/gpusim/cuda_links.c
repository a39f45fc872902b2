/* SPDX-License-Identifier: Apache-2.0
 *
 * What joins the machine's GPUs, and where they are. GPUSIM_LINKS says it:
 *
 *    NVL, PCI, none      the same between any two; they reach each other over NVLink and PCI
 *    a file of words     a row per GPU and a word per GPU in it, as `nvidia-smi topo -m` has them: X NV18 NV18, or PHB, or -
 *    a file of XML       a topology as COLLET_TOPO_FILE has it: GPU n is its nth <gpu>, on the bus of the <pci> around it; NVLinks
 *                        join it to the bus they name, or to all GPUs with an NVSwitch; all others are reached over PCI
 */
#include "gpusim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWITCH_CLASS "0x068000"
#define FIRST_BUS 0x10

static enum sim_link links[SIM_GPUS_MAX][SIM_GPUS_MAX];
static char buses[SIM_GPUS_MAX][32];

enum sim_link sim_gpus_link(int gpu, int other) { return links[gpu][other]; }
const char *sim_gpu_bus(int gpu) { return buses[gpu]; }

/* ---- words ---- */

static enum sim_link link_of(const char *word) {
    if (strncmp(word, "NV", 2) == 0)
        return LINK_NVL;
    return strcmp(word, "none") == 0 || strcmp(word, "-") == 0 ? LINK_NONE : LINK_PCI;
}

static void links_from_words(int gpus, const char *name, char *text) {
    char *rest = text;
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++) {
            const char *word = strtok_r(rest, " \t\n", &rest);
            if (word == NULL)
                sim_violation("%s has no word for GPU %d in the row of GPU %d", name, b, a);
            links[a][b] = a == b ? LINK_NVL : link_of(word);
        }
}

/* ---- XML: only its <pci>, <gpu> and <nvlink> are looked at ---- */

/* The value of an attribute of the element that begins at `element`. */
static bool attribute(const char *element, const char *name, char *value, size_t room) {
    const char *end = strchr(element, '>'), *at = strstr(element, name);
    if (end == NULL || at == NULL || at > end)
        return false;
    at += strlen(name);
    snprintf(value, room, "%.*s", (int)strcspn(at, "\""), at);
    return true;
}

/* The nth <gpu>; *bus_p: the <pci> before it. */
static const char *gpu_element(const char *text, int gpu, const char **pci_p) {
    const char *at = text;
    *pci_p = NULL;
    for (; (at = strchr(at, '<')) != NULL; at++) {
        if (strncmp(at, "<pci ", 5) == 0)
            *pci_p = at;
        if (strncmp(at, "<gpu ", 5) == 0 && gpu-- == 0)
            return at;
    }
    return NULL;
}

static void links_of_element(int gpus, int gpu, const char *element, bool *has_switch) {
    const char *end = strstr(element, "</gpu>"), *next = strstr(element + 1, "<gpu ");
    char target[32], class[32] = "";
    if (end == NULL || (next != NULL && next < end))
        return; /* it has none */
    while ((element = strstr(element, "<nvlink ")) != NULL && element < end) {
        if (!attribute(element, "target=\"", target, sizeof(target)))
            sim_violation("an <nvlink> of GPU %d has no target", gpu);
        attribute(element, "tclass=\"", class, sizeof(class));
        has_switch[gpu] |= strcmp(class, SWITCH_CLASS) == 0;
        for (int other = 0; other < gpus; other++)
            if (strcasecmp(buses[other], target) == 0)
                links[gpu][other] = links[other][gpu] = LINK_NVL;
        element++;
    }
}

static void links_from_xml(int gpus, const char *name, const char *text) {
    const char *elements[SIM_GPUS_MAX], *pci;
    bool has_switch[SIM_GPUS_MAX] = {false};
    for (int gpu = 0; gpu < gpus; gpu++) {
        elements[gpu] = gpu_element(text, gpu, &pci);
        if (elements[gpu] == NULL || pci == NULL || !attribute(pci, "busid=\"", buses[gpu], sizeof(buses[gpu])))
            sim_violation("%s has no <gpu> in a <pci> with a busid for GPU %d", name, gpu);
    }
    for (int gpu = 0; gpu < gpus; gpu++)
        links_of_element(gpus, gpu, elements[gpu], has_switch);
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++)
            if (a == b || (has_switch[a] && has_switch[b]))
                links[a][b] = LINK_NVL;
}

/* ---- all ---- */

static char *text_of(FILE *file, const char *name) {
    static char text[1 << 16];
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    if (n == sizeof(text) - 1)
        sim_violation("%s is too long", name);
    text[n] = '\0';
    fclose(file);
    return text;
}

static void links_are_all(int gpus, enum sim_link link) {
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++)
            links[a][b] = a == b ? LINK_NVL : link;
}

void sim_links_read(int gpus) {
    const char *name = getenv("GPUSIM_LINKS");
    FILE *file = name == NULL ? NULL : fopen(name, "r");
    for (int gpu = 0; gpu < gpus; gpu++)
        snprintf(buses[gpu], sizeof(buses[gpu]), "0000:%02X:00.0", FIRST_BUS + gpu);
    if (file == NULL) {
        links_are_all(gpus, link_of(name == NULL ? "NVL" : name));
        return;
    }
    char *text = text_of(file, name);
    links_are_all(gpus, LINK_PCI);
    if (*text == '<')
        links_from_xml(gpus, name, text);
    else
        links_from_words(gpus, name, text);
}
