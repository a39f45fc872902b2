/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines in files: NCCL's XML both ways, hwloc's XML, strange files and malformed ones. What a machine says of itself is in
 * test_topo_machine.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"
#include "common/level.h"
#include "common/topo_links.h"
#include "topo/probe/here.c"
#include "topo/probe/speeds.h"
#include "topo/probe/topo.h"
#include "topo/probe/xml_write.c"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIQUES "tests/layers/topology/topo/two_cliques.xml"
#define PAIRS "tests/layers/topology/topo/switched_pairs.xml"
#define HWLOC "tests/layers/topology/topo/hwloc_switch.xml"

static struct topo *read_file(const char *path) {
    struct topo *topo = NULL;
    if (topo_read_file(path, TOPO_RECORDED, &topo) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    return topo;
}

static enum collet_result read_text(const char *text, struct topo **topo_p) {
    return topo_read_text(text, strlen(text), "test.xml", TOPO_RECORDED, topo_p);
}

static struct topo *read_good(const char *text) {
    struct topo *topo = NULL;
    if (read_text(text, &topo) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    return topo;
}

static const struct topo_node *node_at(const struct topo *topo, const char *busid) {
    int n = topo_find_busid(topo, busid);
    if (n < 0)
        fail_msg("there is no %s", busid);
    return &topo->nodes[n];
}

static int count_links(const struct topo *topo, enum topo_medium medium) {
    int count = 0;
    for (int l = 0; l < topo->nlinks; l++)
        count += topo->links[l].medium == medium;
    return count;
}

/* -----------------------------------------------------------------------------------------------------------
 * reading */

static void a_whole_record_is_read(void **state) {
    (void)state;
    struct topo *topo = read_file(CLIQUES);
    assert_int_equal(topo_count(topo, 0, TOPO_CPU), 4);
    assert_int_equal(topo_count(topo, 0, TOPO_PCI), 12);
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 8);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 4);
    assert_int_equal(count_links(topo, MEDIUM_NVLINK), 24);
    assert_int_equal(count_links(topo, MEDIUM_SYS), 12);
    const struct topo_node *cpu = &topo->nodes[0], *gpu = node_at(topo, "0000:38:00.0"),
                           *nic = node_at(topo, "0000:31:00.0");
    assert_int_equal(cpu->cpu.affinity_words, 4);
    assert_int_equal(cpu->cpu.affinity[0], 0xffffffff);
    assert_int_equal(cpu->cpu.affinity[1], 0);
    assert_string_equal(cpu->cpu.vendor, "AuthenticAMD");
    assert_int_equal(gpu->gpu.dev, 3);
    assert_int_equal(gpu->gpu.rank, 3);
    assert_true(gpu->gpu.gdr);
    assert_string_equal(gpu->gpu.gcn, "90a");
    assert_string_equal(nic->nic.name, "rail1");
    assert_int_equal(nic->nic.guid, 0xabc1);
    assert_int_equal(nic->nic.mbits, 200000);
    assert_int_equal(nic->nic.maxconn, 262144);
    topo_destroy(topo);
}

static void functions_that_only_have_a_class_become_what_it_says(void **state) {
    (void)state;
    struct topo *topo = read_file(PAIRS);
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 8);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 4);
    assert_int_equal(node_at(topo, "0000:32:00.0")->gpu.dev, 1); /* numbered in order */
    assert_int_equal(node_at(topo, "0000:63:00.0")->nic.dev, 3);
    topo_destroy(topo);
}

static void switches_and_cpus_are_targets_of_gpu_links(void **state) {
    (void)state;
    struct topo *topo = read_good("<system version='1'><cpu numaid='0'>"
                                  "<pci busid='0000:01:00.0' class='0x030200'><gpu dev='4' sm='90'>"
                                  "<nvlink target='0000:aa:00.0' count='2' tclass='0x068000'/>"
                                  "<nvlink target='0000:bb:00.0' count='3' tclass='0x068000'/>"
                                  "<c2c bw='50000' count='9'/></gpu></pci>"
                                  "<pci busid='0000:02:00.0' class='0x030200'><gpu sm='90'>"
                                  "<nvlink target='0000:AA:00.0' count='5' tclass='0x068000'/></gpu></pci>"
                                  "</cpu></system>");
    int first = topo_find_busid(topo, "0000:01:00.0"), second = topo_find_busid(topo, "0000:02:00.0");
    assert_int_equal(topo_count(topo, 0, TOPO_NVS), 1); /* all switches of a host are one node */
    int nvs = topo->nnodes - 1;
    assert_int_equal(link_between(topo, first, nvs, MEDIUM_NVLINK)->count, 5);
    assert_true(fabs(link_between(topo, nvs, second, MEDIUM_NVLINK)->gbps - 5 * 20.6) < 1e-6);
    assert_true(link_between(topo, first, 0, MEDIUM_NVLINK)->gbps == 450);
    assert_int_equal(topo->nodes[first].gpu.dev, 4);
    assert_int_equal(topo->nodes[second].gpu.dev, 0);
    topo_destroy(topo);
}

static void a_card_with_two_ports_is_no_switch(void **state) {
    (void)state;
    struct topo *topo = read_good("<system><cpu numaid='0'><pci busid='0000:01:00.0' class='0x020700' link_width='16' "
                                  "link_speed='16 GT/s'><nic><net name='a' dev='0' speed='200000'/>"
                                  "<net name='b' dev='1' speed='200000'/></nic></pci>"
                                  "<nic><net name='eth0' dev='2' speed='10000'/></nic></cpu></system>");
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 3);
    assert_int_equal(topo_count(topo, 0, TOPO_PCI), 1); /* the card; the link to it is shared */
    assert_int_equal(count_links(topo, MEDIUM_PCI), 2);
    assert_int_equal(topo->nodes[topo->nnodes - 1].parent, 0);
    topo_destroy(topo);
}

static void what_is_not_known_is_passed_over(void **state) {
    (void)state;
    struct topo *topo =
        read_good("<system version='9' moon='full'><weather/><cpu numaid='-1' host_hash='0x1' colour='red'>"
                  "<pci busid='0000:01:00.0' class='0x030000' vendor='0x1a03'><pcilink target='x'/></pci>"
                  "<pci busid='0000:02:00.0' class='0x030200' link_speed='Unknown' link_width='255'>"
                  "<gpu dev='-1' rank='-1'><nvlink target='0000:77:00.0' count='1' tclass='0x030200'/>"
                  "</gpu></pci></cpu>"
                  "<cpu numaid='-1' host_hash='0x2'/></system>");
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 1); /* a console adapter is none */
    assert_int_equal(topo_count(topo, 0, TOPO_CPU), 1); /* and another host is elsewhere */
    assert_int_equal(count_links(topo, MEDIUM_NVLINK), 0);
    topo_destroy(topo);
}

/* ------------------------------------------------------------------------- strange, but of machines that exist */

/* What the library says at level WARN while a text is read. */
static struct topo *read_and_hear(const char *text, char *said, size_t bytes) {
    fflush(stderr);
    FILE *file = tmpfile();
    int screen = dup(STDERR_FILENO), level = log_level_now;
    log_level_now = LOG_WARN;
    assert_true(file != NULL && screen >= 0);
    dup2(fileno(file), STDERR_FILENO);
    struct topo *topo = read_good(text);
    fflush(stderr);
    dup2(screen, STDERR_FILENO);
    close(screen);
    log_level_now = level;
    rewind(file);
    said[fread(said, 1, bytes - 1, file)] = '\0';
    fclose(file);
    return topo;
}

static void read_and_listen(const char *text, char *said, size_t bytes) {
    topo_destroy(read_and_hear(text, said, bytes));
}

static void two_functions_of_one_bus_id_are_two(void **state) {
    (void)state;
    char said[2048];
    struct topo *topo = read_and_hear("<system><cpu numaid='0'><pci busid='0000:0a:00.0' class='0x030200'><gpu dev='0'>"
                                      "<nvlink target='0000:0B:00.0' count='2'/></gpu></pci>"
                                      "<pci busid='0000:0b:00.0' class='0x030200'><gpu dev='1'/></pci>"
                                      "<pci busid='0000:0B:00.0' class='0x020000'/></cpu></system>",
                                      said, sizeof said);
    assert_non_null(strstr(said, "bus id 0000:0b:00.0 is there already"));
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 2);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 1);
    assert_string_equal(topo->nodes[3].pci.busid, "0000:0b:00.1");
    assert_int_equal(link_between(topo, 1, 2, MEDIUM_NVLINK)->count, 2);
    topo_destroy(topo);
}

static void a_gpu_link_to_its_own_gpu_is_none(void **state) {
    (void)state;
    char said[2048];
    struct topo *topo = read_and_hear("<system><cpu numaid='0'><pci busid='0000:0a:00.0'><gpu dev='0'>"
                                      "<nvlink target='0000:0a:00.0' count='4'/></gpu></pci></cpu></system>",
                                      said, sizeof said);
    assert_non_null(strstr(said, "<nvlink> to its own GPU"));
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 1);
    assert_int_equal(count_links(topo, MEDIUM_NVLINK), 0);
    topo_destroy(topo);
}

static void a_port_may_say_any_speed(void **state) {
    (void)state;
    char said[2048];
    struct topo *topo =
        read_and_hear("<system><cpu numaid='0'><nic><net speed='200000000'/></nic></cpu></system>", said, sizeof said);
    assert_non_null(strstr(said, "200000 Gbit/s, which no network card has"));
    assert_true(topo->nodes[1].nic.mbits == 200000000);
    topo_destroy(topo);
}

static void links_of_gpus_have_the_names_of_their_vendor(void **state) {
    (void)state;
    struct topo *topo = read_good("<system><cpu numaid='0'><pci busid='0000:0a:00.0'><gpu dev='0' gcn='gfx942'>"
                                  "<xgmi target='0000:0b:00.0' count='1'/></gpu></pci>"
                                  "<pci busid='0000:0b:00.0'><gpu dev='1' gcn='gfx942'/></pci></cpu></system>");
    assert_string_equal(topo_link_name(topo, link_between(topo, 1, 2, MEDIUM_NVLINK)), "xGMI");
    assert_string_equal(topo_link_name(topo, link_between(topo, 1, 0, MEDIUM_PCI)), "PCI");
    topo_destroy(topo);
}

static void a_file_that_leaves_links_to_the_driver_says_so(void **state) {
    (void)state;
    char said[2048];
    read_and_listen("<system><cpu numaid='0'><pci busid='0000:0a:00.0' class='0x030200'/>"
                    "<pci busid='0000:0b:00.0' class='0x030200'/></cpu></system>",
                    said, sizeof said);
    assert_non_null(strstr(said, "leaves the links of 2 GPUs to the driver"));
    read_and_listen("<system><cpu numaid='0'><pci busid='0000:0a:00.0' class='0x030200'><gpu dev='0'/></pci>"
                    "<pci busid='0000:0b:00.0' class='0x030200'><gpu dev='1'/></pci></cpu></system>",
                    said, sizeof said);
    assert_null(strstr(said, "driver")); /* it says that there are none */
}

/* Two GPUs with two links between them, and one to the switch and to the CPU. */
static void hwloc_knows_bandwidths_of_gpu_links(void **state) {
    (void)state;
    struct topo *topo = read_good(
        "<topology version='2.0'><object type='Machine' gp_index='1'><object type='NUMANode' os_index='0' cpuset='0x1' "
        "nodeset='0x1' gp_index='2'/><object type='Package' gp_index='3' nodeset='0x1'/>"
        "<object type='Bridge' bridge_type='0-1' gp_index='4'>"
        "<object type='PCIDev' gp_index='5' pci_busid='0000:0a:00.0' pci_type='0302 [10de:1db1] [0000:0000] a1'>"
        "<object type='OSDev' gp_index='6' name='nvml0' osdev_type='12'/></object>"
        "<object type='PCIDev' gp_index='7' pci_busid='0000:0b:00.0' pci_type='0302 [10de:1db1] [0000:0000] a1'>"
        "<object type='OSDev' gp_index='8' name='nvml1' osdev_type='12'/></object>"
        "<object type='PCIDev' gp_index='9' subtype='NVSwitch' pci_busid='0000:0c:00.0' pci_type='0680 [10de:1ac2]'/>"
        "</object></object>"
        "<distances2hetero nbobjs='4' kind='25' name='NVLinkBandwidth'>"
        "<indexes length='18'>OSDev:6 OSDev:8 </indexes><indexes length='17'>PCIDev:9 Package:3</indexes>"
        "<u64values length='30'>1000000 50000 25000 25000 50000 1000000 </u64values>"
        "<u64values length='30'>25000 0 25000 25000 1000000 0 25000 0 0 1000000</u64values>"
        "</distances2hetero></topology>");
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 2);
    int a = topo_find_busid(topo, "0000:0a:00.0"), b = topo_find_busid(topo, "0000:0b:00.0");
    assert_true(link_between(topo, a, b, MEDIUM_NVLINK)->gbps == 40);
    assert_int_equal(link_between(topo, a, b, MEDIUM_NVLINK)->count, 2);
    assert_int_equal(topo_count(topo, 0, TOPO_NVS), 1);
    assert_true(link_between(topo, a, topo->nnodes - 1, MEDIUM_NVLINK)->gbps == 20);
    assert_true(link_between(topo, a, 0, MEDIUM_NVLINK)->gbps == 20);
    topo_destroy(topo);
}

/* ---------------------------------------------------------------------------------------------------------
 * malformed */

static void what_is_wrong_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "test.xml:1"},
        {"not xml", "test.xml:1"},
        {"<system>\n<cpu numaid='0'>\n", "test.xml:3"}, /* truncated */
        {"<system>\n<cpu numaid='0'></system></cpu>", "test.xml:2"},
        {"<machine/>", "neither <system>"},
        {"<system/>", "has no <cpu>"},
        {"<!DOCTYPE system [<!ENTITY a 'x'>]><system><cpu numaid='0'/></system>", "document type of its own"},
        {"<system>\n<cpu numaid='0'/>\n<cpu numaid='0'/></system>", "test.xml:3: <cpu> numaid=\"0\": another"},
        {"<system><cpu numaid='zero'/></system>", "numaid=\"zero\""},
        {"<system><cpu numaid='-7'/></system>", "numaid=\"-7\""},
        {"<system><cpu numaid='99999999999999999999'/></system>", "whole number"},
        {"<system><cpu numaid='0' affinity='xyz'/></system>", "affinity"},
        {"<system><cpu numaid='0' affinity='1,,1'/></system>", "affinity"},
        {"<system><cpu numaid='0'>\n<gpu dev='0'/></cpu></system>", "test.xml:2: <gpu> cannot be inside <cpu>"},
        {"<system><pci busid='a'/></system>", "<pci> cannot be inside <system>"},
        {"<system><cpu numaid='0'><nic><pci busid='a'/></nic></cpu></system>", "cannot be inside <nic>"},
        {"<system><cpu numaid='0'><pci busid='a'><net/></pci></cpu></system>", "cannot be inside <pci>"},
        {"<system><cpu numaid='0'><pci class='1'/></cpu></system>", "has no busid"},
        {"<system><cpu numaid='0'><pci busid='0123456789012345678901234'/></cpu></system>", "at most 23 characters"},
        {"<system><cpu numaid='0'><pci busid='a' link_width='-16'/></cpu></system>", "link_width=\"-16\""},
        {"<system><cpu numaid='0'><pci busid='a' link_speed='-8 GT/s'/></cpu></system>", "link_speed=\"-8 GT/s\""},
        {"<system><cpu numaid='0'><pci busid='a' link_speed='nan'/></cpu></system>", "link_speed=\"nan\""},
        {"<system><cpu numaid='0'><pci busid='a' class='0x1000000'/></cpu></system>", "class"},
        {"<system><cpu numaid='0'><pci busid='a'><gpu dev='1'/></pci><pci busid='b'><gpu dev='1'/></pci></cpu>"
         "</system>",
         "dev=\"1\": another GPU"},
        {"<system><cpu numaid='0'><pci busid='a'><gpu rank='3'/></pci>\n<pci busid='b'><gpu rank='3'/></pci></cpu>"
         "</system>",
         "test.xml:2: <gpu> rank=\"3\": another GPU"},
        {"<system><cpu numaid='0'><pci busid='b'/><pci busid='a'><gpu><nvlink target='b' count='1'/></gpu></pci></cpu>"
         "</system>",
         "another GPU, an NVSwitch"},
        {"<system><cpu numaid='0'><pci busid='a'><gpu><nvlink target='b' count='2000000000'/></gpu></pci></cpu>"
         "</system>",
         "from 1 to 128"},
        {"<system><cpu numaid='0'><pci busid='a'><gpu><nvlink target='b' count='-1'/></gpu></pci></cpu></system>",
         "from 1 to 128"},
        {"<system><cpu numaid='0'><nic><net speed='-5'/></nic></cpu></system>", "speed=\"-5\""},
        {"<system><cpu numaid='0'><nic><net dev='1000000'/></nic></cpu></system>", "dev=\"1000000\""},
        {"<topology version='2.0'/>", "test.xml:1"},
        {"<topology><object type='Machine'>\n<object type='NUMANode' os_index='0'/>\n"
         "<object type='NUMANode' os_index='0'/>"
         "</object></topology>",
         "test.xml:3: <object> os_index=\"0\": another"},
        {"<topology><object type='Machine'><object type='NUMANode' os_index='-1'/></object></topology>",
         "os_index=\"-1\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct topo *topo = NULL;
        if (read_text(wrong[i].text, &topo) != COLLET_ERR_INVALID_ARGUMENT)
            fail_msg("%s was not refused", wrong[i].text);
        assert_null(topo);
        if (strstr(err_last(), wrong[i].says) == NULL)
            fail_msg("%s was refused with: %s", wrong[i].text, err_last());
    }
}

static char *repeated(const char *front, const char *part, int count, const char *back) {
    char *text = malloc(strlen(front) + strlen(part) * (size_t)count + 64 * (size_t)count + strlen(back) + 1),
         *at = text;
    at += sprintf(at, "%s", front);
    for (int i = 0; i < count; i++)
        at += sprintf(at, part, i);
    sprintf(at, "%s", back);
    return text;
}

static void what_is_too_much_is_refused(void **state) {
    (void)state;
    struct topo *topo = NULL;
    char *many = repeated("<system><cpu numaid='0'>", "<pci busid='%d'/>", 5000, "</cpu></system>");
    assert_int_equal(read_text(many, &topo), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "test.xml:1: <pci> is one too many"));
    free(many);
    char *deep = repeated("<system><cpu numaid='0'>", "<pci busid='%d'>", 200, "");
    char *end = repeated(deep, "</pci>", 200, "</cpu></system>");
    assert_int_equal(read_text(end, &topo), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "more than 32 deep"));
    free(deep);
    free(end);
    char *large = calloc(1, (4 << 20) + 2);
    memset(large, ' ', (4 << 20) + 1);
    assert_int_equal(read_text(large, &topo), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "bytes"));
    free(large);
    assert_int_equal(topo_read_file("tests/layers/topology/topo/none.xml", TOPO_RECORDED, &topo),
                     COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "none.xml"));
    assert_int_equal(topo_read_file("tests/layers/topology/topo", TOPO_RECORDED, &topo), COLLET_ERR_INVALID_ARGUMENT);
    assert_null(topo);
}

/* What is said of links in parallel is added up, and stays a number that can be written and read again. */
static void a_link_has_only_so_many_in_parallel(void **state) {
    (void)state;
    static const char link[] = "<nvlink target='b' count='%d'/>";
    static const struct {
        int count, times;
        bool good;
    } cases[] = {{0, 1, false}, {128, 1, true}, {129, 1, false}, {2147483647, 1, false}, {128, 1000, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char *text, *written, element[64];
        struct topo *topo = NULL, *again = NULL;
        snprintf(element, sizeof element, link, cases[k].count);
        text = repeated(
            "<system><cpu numaid='0'><pci busid='b' class='0x030200'><gpu/></pci><pci busid='a' class='0x030200'><gpu>",
            element, cases[k].times, "</gpu></pci></cpu></system>");
        enum collet_result result = read_text(text, &topo);
        assert_int_equal(result, cases[k].good ? COLLET_SUCCESS : COLLET_ERR_INVALID_ARGUMENT);
        free(text);
        if (!cases[k].good) {
            assert_non_null(strstr(err_last(), "count"));
            continue;
        }
        assert_int_equal(topo_write_text(topo, &written), COLLET_SUCCESS);
        assert_int_equal(topo_read_text(written, strlen(written), "written", TOPO_RECORDED, &again), COLLET_SUCCESS);
        for (int l = 0; l < again->nlinks; l++)
            assert_in_range(again->links[l].count, 1, TOPO_PARALLEL_LINKS_MAX);
        free(written);
        topo_destroy(again);
        topo_destroy(topo);
    }
}

static char *whole_file(const char *path, size_t *bytes_p) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = malloc(1 << 16);
    *bytes_p = fread(text, 1, (1 << 16) - 1, file);
    text[*bytes_p] = '\0';
    fclose(file);
    return text;
}

static unsigned random_state;
static unsigned next_random(void) { return (random_state = random_state * 1103515245u + 12345u) >> 8; }

/* Bytes replaced, pieces cut out and doubled: it is read or refused, and what is read can be written and searched. */
static void mutate(char *text, size_t *bytes) {
    static const char alphabet[] = "<>/=\"' -0129axgpu\0\xff&;";
    for (unsigned change = 0; change < 1 + next_random() % 4; change++) {
        size_t at = next_random() % *bytes, length = next_random() % 40;
        length = at + length > *bytes ? *bytes - at : length;
        switch (next_random() % 4) {
        case 0: text[at] = alphabet[next_random() % (sizeof alphabet - 1)]; break;
        case 1: text[at] = (char)('0' + next_random() % 10); break;
        case 2:
            memmove(text + at, text + at + length, *bytes - at - length);
            *bytes -= length;
            break;
        default:
            if (*bytes + length < 1 << 15) {
                memmove(text + at + length, text + at, *bytes - at);
                *bytes += length;
            }
        }
    }
}

static void damaged_files_are_read_or_refused_but_nothing_worse(void **state) {
    (void)state;
    static const char *const files[] = {CLIQUES, PAIRS, HWLOC};
    int rounds = level_now() == LEVEL_FULL ? 3000 : 200, read = 0;
    random_state = 7;
    for (int round = 0; round < rounds; round++) {
        size_t bytes;
        char *text = whole_file(files[round % 3], &bytes), *written;
        struct topo *topo = NULL;
        mutate(text, &bytes);
        if (topo_read_text(text, bytes, "damaged.xml", TOPO_RECORDED, &topo) == COLLET_SUCCESS) {
            assert_int_equal(topo_write_text(topo, &written), COLLET_SUCCESS);
            free(written);
            topo_destroy(topo);
            read++;
        } else {
            assert_null(topo);
            assert_non_null(strstr(err_last(), "damaged.xml:"));
        }
        free(text);
    }
    assert_in_range(read, 1, rounds - 1); /* some damage is harmless, some is not */
}

/* -----------------------------------------------------------------------------------------------------------
 * writing */

static void assert_same_node(const struct topo_node *a, const struct topo_node *b) {
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->parent, b->parent);
    assert_string_equal(a->pci.busid, b->pci.busid);
    assert_int_equal(a->pci.class, b->pci.class);
    assert_int_equal(a->pci.vendor, b->pci.vendor);
    assert_true(a->pci.link_gts == b->pci.link_gts);
    assert_int_equal(a->pci.link_lanes, b->pci.link_lanes);
    if (a->kind == TOPO_CPU) {
        assert_int_equal(a->cpu.numaid, b->cpu.numaid);
        assert_int_equal(a->cpu.affinity_words, b->cpu.affinity_words);
        assert_memory_equal(a->cpu.affinity, b->cpu.affinity, sizeof a->cpu.affinity);
        assert_string_equal(a->cpu.vendor, b->cpu.vendor);
        assert_int_equal(a->cpu.modelid, b->cpu.modelid);
    } else if (a->kind == TOPO_GPU) {
        assert_int_equal(a->gpu.dev, b->gpu.dev);
        assert_int_equal(a->gpu.rank, b->gpu.rank);
        assert_int_equal(a->gpu.sm, b->gpu.sm);
        assert_int_equal(a->gpu.gdr, b->gpu.gdr);
        assert_string_equal(a->gpu.gcn, b->gpu.gcn);
    } else if (a->kind == TOPO_NIC) {
        assert_int_equal(a->nic.dev, b->nic.dev);
        assert_string_equal(a->nic.name, b->nic.name);
        assert_int_equal(a->nic.guid, b->nic.guid);
        assert_int_equal(a->nic.mbits, b->nic.mbits);
        assert_int_equal(a->nic.port, b->nic.port);
        assert_true(a->nic.latency_us == b->nic.latency_us);
        assert_string_equal(a->nic.gid, b->nic.gid);
    }
}

/* Writes what there is, reads it again: everything is as before, links in whatever order. */
static void assert_survives(struct topo *topo) {
    char *text;
    assert_int_equal(topo_write_text(topo, &text), COLLET_SUCCESS);
    struct topo *again = read_good(text);
    assert_int_equal(again->nnodes, topo->nnodes);
    assert_int_equal(again->nlinks, topo->nlinks);
    for (int n = 0; n < topo->nnodes; n++)
        assert_same_node(&topo->nodes[n], &again->nodes[n]);
    for (int l = 0; l < topo->nlinks; l++) {
        const struct topo_link *was = &topo->links[l], *is = link_between(again, was->from, was->to, was->medium);
        assert_non_null(is);
        assert_int_equal(is->count, was->count);
        assert_true(fabs(is->gbps - was->gbps) < 1e-6);
    }
    free(text);
    topo_destroy(again);
    topo_destroy(topo);
}

static void machines_survive_being_written_and_read(void **state) {
    (void)state;
    struct topo *topo;
    assert_survives(read_file(CLIQUES));
    assert_survives(read_file(PAIRS));
    assert_survives(read_file(HWLOC));
    assert_survives(
        read_good("<system><cpu numaid='3'><nic><net name='a&lt;&quot;b' dev='7' latency='1.25' gid='fe80::1'"
                  " guid='0xffffffffffffffff'/></nic><pci busid='x' link_speed='2.5 GT/s PCIe'>"
                  "<gpu sm='90'><c2c bw='44712.5' count='10'/></gpu></pci></cpu></system>"));
    assert_int_equal(topo_synthetic("2 cpu", &topo), COLLET_SUCCESS);
    assert_survives(topo);
    assert_int_equal(topo_probe(TOPO_CLOCK_S, &topo), COLLET_SUCCESS);
    assert_survives(topo);
}

/* Nodes are written depth first, so only the second writing has the same order. */
static void a_synthetic_machine_settles_after_one_round(void **state) {
    (void)state;
    struct topo *topo;
    char *first, *second;
    assert_int_equal(topo_synthetic("2 node : 8 gpu nvswitch : 4 nic 200", &topo), COLLET_SUCCESS);
    assert_int_equal(topo_write_text(topo, &first), COLLET_SUCCESS);
    topo_destroy(topo);
    topo = read_good(first);
    assert_int_equal(topo->nhosts, 1);
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 8);
    assert_int_equal(topo_count(topo, 0, TOPO_NVS), 1);
    assert_int_equal(topo_write_text(topo, &second), COLLET_SUCCESS);
    assert_string_equal(first, second);
    free(first);
    free(second);
    topo_destroy(topo);
}

static void a_file_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    struct topo *topo;
    assert_int_equal(topo_synthetic("1 cpu", &topo), COLLET_SUCCESS);
    assert_int_equal(topo_write_file(topo, "/nonexistent/topo.xml"), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "/nonexistent/topo.xml"));
    topo_destroy(topo);
}

static void a_bad_file_gives_way_to_this_machine(void **state) {
    (void)state;
    struct topo *topo;
    char path[] = "/tmp/collet-topo-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "<system>", 8), 8);
    close(fd);
    assert_int_equal(topo_load(path, TOPO_CLOCK_S, &topo), COLLET_SUCCESS);
    assert_true(topo_count(topo, 0, TOPO_CPU) >= 1);
    topo_destroy(topo);
    assert_int_equal(topo_load(PAIRS, TOPO_CLOCK_S, &topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 0, TOPO_GPU), 8);
    topo_destroy(topo);
    unlink(path);
}

/* -------------------------------------------------------------------------------------------------------------
 * hwloc */

static void hwloc_xml_loses_bridges_that_are_wire(void **state) {
    (void)state;
    struct topo *topo = read_file(HWLOC);
    assert_int_equal(topo_count(topo, 0, TOPO_CPU), 2);
    assert_int_equal(topo_count(topo, 0, TOPO_PCI), 1);
    const struct topo_node *gpu = node_at(topo, "0000:84:00.0"), *nic = node_at(topo, "0000:85:00.0");
    const struct topo_node *sw = node_at(topo, "0000:81:00.0");
    assert_int_equal(gpu->kind, TOPO_GPU);
    assert_int_equal(nic->kind, TOPO_NIC);
    assert_ptr_equal(&topo->nodes[gpu->parent], sw);
    assert_ptr_equal(&topo->nodes[nic->parent], sw);
    assert_int_equal(topo->nodes[sw->parent].cpu.numaid, 1);
    assert_int_equal(topo->nodes[sw->parent].cpu.affinity[0], 0xc);
    assert_int_equal(topo->nodes[sw->parent].cpu.cores, 2);
    assert_int_equal(topo->nodes[sw->parent].cpu.llc_mib, 32);
    assert_int_equal(topo->nodes[sw->parent].cpu.package, 1);
    assert_string_equal(nic->nic.name, "mlx5_0");
    assert_true(fabs(speed_of_pci(&gpu->pci) - 12.6) < 0.1); /* of the port in front, not of the GPU */
    assert_int_equal(topo_find_busid(topo, "0000:86:00.0"), -1);
    topo_destroy(topo);
}

/* Its driver is not loaded, or its interface is in another container. A recording may have left names out. */
static void a_card_without_an_interface_is_no_way_out_of_this_machine(void **state) {
    (void)state;
    static const char text[] =
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\">"
        "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\"/>"
        "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"fff0:[00-01]\">"
        "<object type=\"PCIDev\" pci_busid=\"fff0:00:01.0\" pci_type=\"0200 [1af4:1041] [1af4:1041] 01\"/>"
        "<object type=\"PCIDev\" pci_busid=\"fff0:00:02.0\" pci_type=\"0200 [1af4:1041] [1af4:1041] 01\">"
        "<object type=\"OSDev\" name=\"eth9\" osdev_type=\"2\"/></object></object></object></topology>";
    struct topo *topo;
    assert_int_equal(topo_read_text(text, sizeof text - 1, "card", TOPO_RECORDED, &topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 2);
    topo_destroy(topo);
    assert_int_equal(topo_read_text(text, sizeof text - 1, "card", TOPO_THIS_MACHINE, &topo), COLLET_SUCCESS);
    assert_int_equal(topo_count(topo, 0, TOPO_NIC), 1);
    assert_string_equal(node_at(topo, "fff0:00:02.0")->nic.name, "eth9");
    topo_destroy(topo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_record_is_read),
        cmocka_unit_test(functions_that_only_have_a_class_become_what_it_says),
        cmocka_unit_test(switches_and_cpus_are_targets_of_gpu_links),
        cmocka_unit_test(a_card_with_two_ports_is_no_switch),
        cmocka_unit_test(what_is_not_known_is_passed_over),
        cmocka_unit_test(two_functions_of_one_bus_id_are_two),
        cmocka_unit_test(a_gpu_link_to_its_own_gpu_is_none),
        cmocka_unit_test(a_port_may_say_any_speed),
        cmocka_unit_test(links_of_gpus_have_the_names_of_their_vendor),
        cmocka_unit_test(a_file_that_leaves_links_to_the_driver_says_so),
        cmocka_unit_test(hwloc_knows_bandwidths_of_gpu_links),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(what_is_too_much_is_refused),
        cmocka_unit_test(a_link_has_only_so_many_in_parallel),
        cmocka_unit_test(damaged_files_are_read_or_refused_but_nothing_worse),
        cmocka_unit_test(machines_survive_being_written_and_read),
        cmocka_unit_test(a_synthetic_machine_settles_after_one_round),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
        cmocka_unit_test(a_bad_file_gives_way_to_this_machine),
        cmocka_unit_test(hwloc_xml_loses_bridges_that_are_wire),
        cmocka_unit_test(a_card_without_an_interface_is_no_way_out_of_this_machine),
    };
    return cmocka_run_group_tests_name("topo_files", tests, NULL, NULL);
}
