/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine as a graph: what there is, and what connects it.
 *
 *      ┌───────── host 0 ─────────┐         a NIC node is one network port
 *      CPU 0 ───SYS─── CPU 1                a CPU node is one NUMA node
 *        │PCI            │PCI               the NVSwitch node stands for all switches of its host
 *       PCI             PCI                 the NET node is what joins hosts: a switch that never binds
 *      ╱   ╲           ╱   ╲
 *    GPU   NIC       GPU   NIC ──NET──┐
 *     └──NVLINK─ NVS ─┘               NET ──NET── NICs of other hosts
 *
 * A graph is made by topo_probe() (this machine), topo_read_file() (a recorded one), topo_synthetic() (one line of
 * text) or topo_fuse() (several hosts). After topo_finish() a graph does not change, and all functions that compute on it are pure.
 *
 * Bandwidth is in GB/s (10^9 bytes) and of one direction. Two links join two nodes, one per direction.
 * Read next: paths.h, search.h.
 */
#ifndef COLLET_TOPO_PROBE_TOPO_H
#define COLLET_TOPO_PROBE_TOPO_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Limits of one host. A file that exceeds them is refused. */
#define TOPO_HOST_NODES_MAX 1024
#define TOPO_PARALLEL_LINKS_MAX 128 /* Maximum number of parallel links that one link stands for. */
#define TOPO_BUSID_BYTES 24
#define TOPO_NAME_BYTES 64
#define TOPO_CPU_WORDS 32 /* Words of 32 bits in a set of CPUs, so affinities name up to 1024 CPUs. */

/* Kinds of nodes. X(identifier, name in texts) */
#define TOPO_KINDS(X)                                                                                                  \
    X(TOPO_CPU, "CPU")                                                                                                 \
    X(TOPO_PCI, "PCI")                                                                                                 \
    X(TOPO_GPU, "GPU")                                                                                                 \
    X(TOPO_NVS, "NVSwitch")                                                                                            \
    X(TOPO_NIC, "NIC")                                                                                                 \
    X(TOPO_NET, "NET")

/* What a link is made of. A LOCAL link joins parts of one device, or leads to a network interface that is only software. It
 * never limits. */
#define TOPO_MEDIA(X)                                                                                                  \
    X(MEDIUM_LOCAL, "local")                                                                                           \
    X(MEDIUM_NVLINK, "NVLink") /* Any direct link of a GPU: NVLink, xGMI, C2C. */                                      \
    X(MEDIUM_PCI, "PCI")                                                                                               \
    X(MEDIUM_SYS, "SYS") /* Between CPUs of a host. */                                                                 \
    X(MEDIUM_NET, "NET")

/* How far apart two nodes are, by the farthest thing that their path crosses. Nearer classes come first. */
#define TOPO_CLASSES(X)                                                                                                \
    X(PATH_LOC, "LOC")   /* The path begins and ends at the same node. */                                              \
    X(PATH_NVL, "NVL")   /* The path has only GPU links and NVSwitches. */                                             \
    X(PATH_PIX, "PIX")   /* The path crosses at most one PCI switch. */                                                \
    X(PATH_PXB, "PXB")   /* The path crosses several PCI switches, but no CPU. */                                      \
    X(PATH_PHB, "PHB")   /* The path crosses the PCI host bridge of one CPU. */                                        \
    X(PATH_SYS, "SYS")   /* The path crosses the interconnect between CPUs. */                                         \
    X(PATH_NET, "NET")   /* The path crosses the network. */                                                           \
    X(PATH_NONE, "none") /* There is no path. */

#define X(id, name) id,
enum topo_kind { TOPO_KINDS(X) TOPO_KIND_COUNT };
enum topo_medium { TOPO_MEDIA(X) TOPO_MEDIUM_COUNT };
enum topo_class { TOPO_CLASSES(X) TOPO_CLASS_COUNT };
#undef X

/* A PCI function. Zero and "" mean unknown. */
struct topo_pci {
    char busid[TOPO_BUSID_BYTES]; /* Such as "0000:4a:00.0", in lower case. */
    /* Six hexadecimal digits. The first ones are 0604 for a bridge, 02 network, 03 display, 12 accelerator. */
    uint32_t class;
    uint32_t vendor, device, subsystem_vendor, subsystem_device;
    double link_gts; /* The link towards the CPU: GT/s of a lane. */
    int link_lanes;  /* The link towards the CPU: number of lanes. */
};

struct topo_cpu {
    int numaid;
    char arch[16], vendor[16];
    int familyid, modelid; /* CPU family and model. −1: unknown. */
    uint32_t affinity[TOPO_CPU_WORDS];
    /* Number of known words, least significant first. 0: the CPUs of this node are not known. */
    int affinity_words;
    /* Number of the package; cores; MiB of the last-level cache. Only known of a machine that hwloc describes, else −1, 0,
     * 0. */
    int package, cores, llc_mib;
};

struct topo_gpu {
    int dev;      /* Index, below TOPO_HOST_NODES_MAX. −1: not yet numbered by topo_finish(). */
    int rank;     /* The rank of a communicator that a file gives to this GPU. −1: none. */
    int sm;       /* Compute capability × 10. 0: unknown. */
    char gcn[16]; /* Architecture of an AMD GPU, such as gfx90a. */
    bool gdr;     /* A NIC can reach the memory of this GPU. */
};

struct topo_nic {
    int dev; /* Index, as of a GPU. */
    char name[TOPO_NAME_BYTES];
    int port;
    uint64_t guid;
    int64_t mbits;     /* Speed of the port in Mbit/s. 0: unknown, see speed_of_nic(). */
    double latency_us; /* Latency that a file gives. 0: unknown. */
    int maxconn;       /* Maximum number of connections that a file gives. 0: unknown. */
    bool gdr;
    char gid[40]; /* First usable address (GID) of an RDMA port. */
};

struct topo_node {
    enum topo_kind kind;
    int host;
    int parent; /* The node towards the CPU. −1: this node is a CPU, NVSwitch or NET. */
    struct topo_pci pci;
    union {
        struct topo_cpu cpu;
        struct topo_gpu gpu;
        struct topo_nic nic;
    };
    int first_link; /* The first link that leaves this node. links[].next has the others. −1: none. */
};

struct topo_link {
    int from, to;
    enum topo_medium medium;
    int count; /* Number of parallel links of a GPU that this link stands for. 1 for other media. */
    double gbps;
    int next; /* The next link that leaves the same node. −1: no more. */
};

struct topo_host {
    int first_node, end_node; /* The nodes of the host are first_node … end_node − 1. */
    int shape;                /* The first host that is equal to this one. It may be this host itself. */
};

struct topo {
    struct topo_node *nodes;
    struct topo_link *links;
    struct topo_host *hosts;
    int nnodes, nlinks, nhosts;
    int net; /* The NET node. −1: there is only one host. */
    int room_nodes, room_links;
    enum collet_result status; /* The first failure while the graph was built. topo_finish() returns it. */
};

/* --------------------------------------------------------------------------------------------- making, file by file */

/* Each of these functions gives a finished graph that topo_destroy() frees. After a failure *topo_p is untouched, and
 * err_last() says why. */

/* Makes the graph of this machine from what hwloc, sysfs and NVML say. Error: SYSTEM if hwloc takes more than 10 s of its
 * thread's time (apart.h), or more than clock_s by the clock. (probe.c) */
#define TOPO_CLOCK_S 200
enum collet_result topo_probe(double clock_s, struct topo **topo_p);

/* Reads NCCL's topology XML, or hwloc's. An unknown element or attribute is passed over, with a line at INFO. A wrong one is
 * the error INVALID_ARGUMENT, with file and line. A file of this machine may leave out facts: they are then filled in as by
 * topo_probe(). (files.c, xml_read.c, hwloc_read.c) */
enum topo_whose { TOPO_RECORDED, TOPO_THIS_MACHINE, TOPO_PROBED /* What hwloc says of this machine now. */ };
enum collet_result topo_read_file(const char *path, enum topo_whose whose, struct topo **topo_p);
/* Reads a text in memory. `name` stands for the file in messages. */
enum collet_result topo_read_text(const char *text, size_t bytes, const char *name, enum topo_whose whose,
                                  struct topo **topo_p);

enum collet_result topo_write_file(const struct topo *topo, const char *path);

/* Gives the graph of config->topo_file, or of this machine if it is "". Only the first call of a process makes the graph.
 * Other ranks of the process wait for it, so hwloc gets at most half of config->init_timeout by the clock. The graph
 * lives as long as the process; do not free it. */
struct config;
enum collet_result topo_here(const struct config *config, const struct topo **topo_p);

/* Gives a graph as text for other ranks. They read it with topo_read_text() and TOPO_RECORDED. Equal hosts have equal texts,
 * so the text has no GUIDs, addresses, ranks or sets of CPUs. place[0 … n−1] are nodes of host 0; each is replaced by the
 * number of the same node in the graph that other ranks read. */
enum collet_result topo_share(const struct topo *topo, int n, int32_t *place, char **text_p);

/* Makes a machine from one line of text, for tests and for experiments. (synthetic.c)
 *
 *      machine = [ COUNT "node" ":" ] part { ":" part }
 *      part    = COUNT "cpu"                                  NUMA nodes of a host
 *              | COUNT "switch"                               PCI switches of a host
 *              | COUNT "gpu" [ GENERATION ] [ FABRIC ]
 *              | COUNT "nic" [ GBIT ]                         each of GBIT Gbit/s; 100 unless said
 *
 *      GENERATION = "v100" | "a100" | "h100" | "b200"         a100 unless said
 *      FABRIC     = "nvswitch" | "mesh" | "pci"               how GPUs are linked with each other; pci unless said
 *
 *      "2 node : 8 gpu nvswitch : 4 nic 200"      "4 gpu pci : 2 nic 100"      "2 cpu"      "8 gpu h100 nvswitch : 8 nic 400"
 *
 * Each part stands at most once. If the text does not say it, there is one switch for each NIC (without NICs: for two GPUs), and there are
 * two CPUs if there are at least two switches, otherwise one. Devices are dealt to switches evenly and in order, and switches to CPUs: with
 * 8 GPUs and 4 switches, GPUs 0 and 1 are behind switch 0. All PCI links have 16 lanes, at the rate of hosts of the GPUs' generation. */
enum collet_result topo_synthetic(const char *text, struct topo **topo_p);

/* Joins the graphs of several hosts at one NET node. hosts[i] are graphs of one host each. The same pointer may stand for
 * several hosts; their shape is then known to be equal. A host without a NIC gets an unknown one of 10 Gbit/s. The caller
 * still owns the arguments. (graph.c) */
enum collet_result topo_fuse(const struct topo *const *hosts, int nhosts, struct topo **topo_p);
/* Makes the graph of nhosts hosts that are all equal to this one. */
enum collet_result topo_repeat(const struct topo *host, int nhosts, struct topo **topo_p);

/* `topo` may be NULL. */
void topo_destroy(struct topo *topo);

/* -------------------------------------------------------------------------------------------------- building blocks */

/* Makes an empty graph of one host, to be filled and then finished. */
enum collet_result topo_create(struct topo **topo_p);
/* Appends a copy of `node` and links it with its parent. Returns the number of the new node. After a failure it returns −1,
 * and the graph remembers the failure. A parent of −1, or an end of a link of −1, is passed over. */
int topo_add_node(struct topo *topo, const struct topo_node *node);
/* Returns the NVSwitch node. It is added if there is none yet. */
int topo_nvswitch(struct topo *topo);
/* Adds a link in one direction. If there is already a link of the same medium, that link becomes wider. */
void topo_add_link(struct topo *topo, int from, int to, enum topo_medium medium, int count, double gbps);
/* Gives links to parents the bandwidth that PCI data say, numbers devices, joins CPUs, gives every link its opposite, and
 * checks the graph. Returns the first failure of building, if there was one. */
enum collet_result topo_finish(struct topo *topo);

/* Stores the graph in *topo_p if `status` is SUCCESS, and destroys it otherwise. Returns `status`. */
enum collet_result topo_give(struct topo *topo, enum collet_result status, struct topo **topo_p);

/* Makes a node of this kind, with all facts unknown. */
struct topo_node topo_blank(enum topo_kind kind, int parent);
/* Can the PCI function compute? A display adapter that only shows a console cannot. */
bool topo_pci_is_gpu(const struct topo_pci *pci);
bool topo_pci_is_nic(const struct topo_pci *pci);

/* ----------------------------------------------------------------------------------------------------------- asking */

/* Gives this bus id a free function number, with a warning, because a file may name several things by one bus id. False: all
 * numbers are taken. */
bool topo_rename_busid(const struct topo *topo, char busid[TOPO_BUSID_BYTES]);
/* The node of host 0 with this bus id, in upper or lower case. −1: none. */
int topo_find_busid(const struct topo *topo, const char *busid);
int topo_count(const struct topo *topo, int host, enum topo_kind kind);

/* What a rank knows about its place. */
struct topo_whereabouts {
    char busid[TOPO_BUSID_BYTES];  /* Bus id of the rank's GPU. "": the rank is in host memory. */
    int32_t rank;                  /* Number of the rank in its communicator. */
    uint32_t cpus[TOPO_CPU_WORDS]; /* CPUs on which the rank may run, least significant word first. */
};
/* The node of host 0 where the rank is: its GPU; or else the GPU that a file gives to this rank; or else the CPU node with
 * most of the rank's CPUs. (locate.c) */
int topo_locate(const struct topo *topo, const struct topo_whereabouts *where);

const char *topo_medium_name(enum topo_medium medium);
/* The name of a link's medium. GPU links have the name that their vendor gives them: xGMI of AMD's GPUs. */
const char *topo_link_name(const struct topo *topo, const struct topo_link *link);
const char *topo_class_name(enum topo_class class);
/* A node's name, unique in its host, such as "GPU 3", "NIC mlx5_0", "CPU 1", "PCI 0000:43:00.0". Returns `text`. */
const char *topo_node_name(const struct topo *topo, int node, char text[TOPO_NAME_BYTES + 16]);

/* topo_print() prints all nodes as an indented tree with their links. topo_print_dot() prints a graph for Graphviz.
 * (print.c) */
void topo_print(const struct topo *topo, FILE *out);
void topo_print_dot(const struct topo *topo, FILE *out);

#endif
