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
 * text) or topo_fuse() (several hosts). From topo_finish() on it does not change; all that computes on it is pure.
 *
 * Bandwidth is in GB/s (10^9 bytes) and of one direction. What joins two nodes is two links, one per direction.
 * Read next: paths.h, search.h.
 */
#ifndef COLLET_TOPO_PROBE_TOPO_H
#define COLLET_TOPO_PROBE_TOPO_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What one host may have at most. A file that says more is refused. */
#define TOPO_HOST_NODES_MAX 1024
#define TOPO_PARALLEL_LINKS_MAX 128 /* in one link */
#define TOPO_BUSID_BYTES 24
#define TOPO_NAME_BYTES 64
#define TOPO_CPU_WORDS 32 /* affinities name up to 1024 CPUs */

/* X(identifier, name in texts) */
#define TOPO_KINDS(X)                                                                                                  \
    X(TOPO_CPU, "CPU")                                                                                                 \
    X(TOPO_PCI, "PCI")                                                                                                 \
    X(TOPO_GPU, "GPU")                                                                                                 \
    X(TOPO_NVS, "NVSwitch")                                                                                            \
    X(TOPO_NIC, "NIC")                                                                                                 \
    X(TOPO_NET, "NET")

/* What a link is made of. LOCAL joins parts of one device, or a network interface that is only software: it never
 * binds. */
#define TOPO_MEDIA(X)                                                                                                  \
    X(MEDIUM_LOCAL, "local")                                                                                           \
    X(MEDIUM_NVLINK, "NVLink") /* any direct link of a GPU: NVLink, xGMI, C2C */                                       \
    X(MEDIUM_PCI, "PCI")                                                                                               \
    X(MEDIUM_SYS, "SYS") /* between CPUs of a host */                                                                  \
    X(MEDIUM_NET, "NET")

/* How far apart two nodes are, by the farthest thing their path crosses; nearer ones first. */
#define TOPO_CLASSES(X)                                                                                                \
    X(PATH_LOC, "LOC")   /* the same node */                                                                           \
    X(PATH_NVL, "NVL")   /* GPU links and NVSwitches alone */                                                          \
    X(PATH_PIX, "PIX")   /* at most one PCI switch */                                                                  \
    X(PATH_PXB, "PXB")   /* several PCI switches, but not a CPU */                                                     \
    X(PATH_PHB, "PHB")   /* the PCI host bridge of one CPU */                                                          \
    X(PATH_SYS, "SYS")   /* the interconnect between CPUs */                                                           \
    X(PATH_NET, "NET")   /* the network */                                                                             \
    X(PATH_NONE, "none") /* there is no path */

#define X(id, name) id,
enum topo_kind { TOPO_KINDS(X) TOPO_KIND_COUNT };
enum topo_medium { TOPO_MEDIA(X) TOPO_MEDIUM_COUNT };
enum topo_class { TOPO_CLASSES(X) TOPO_CLASS_COUNT };
#undef X

/* A PCI function. Zero and "" mean unknown. */
struct topo_pci {
    char busid[TOPO_BUSID_BYTES]; /* "0000:4a:00.0", lower case */
    uint32_t class;               /* 0x0604 bridge, 0x02 network, 0x03 display, 0x12 accelerator; then two digits */
    uint32_t vendor, device, subsystem_vendor, subsystem_device;
    double link_gts; /* the link towards the CPU: GT/s of a lane … */
    int link_lanes;  /* … and number of lanes */
};

struct topo_cpu {
    int numaid;
    char arch[16], vendor[16];
    int familyid, modelid; /* −1: unknown */
    uint32_t affinity[TOPO_CPU_WORDS];
    int affinity_words;          /* number of known words, least significant first; 0: its CPUs are not known */
    int package, cores, llc_mib; /* last-level cache in MiB; only of a probed machine, else −1, 0, 0 */
};

struct topo_gpu {
    int dev;      /* index, below TOPO_HOST_NODES_MAX; −1 until topo_finish() has numbered it */
    int rank;     /* the rank of a communicator that a file gives to it; −1: none */
    int sm;       /* compute capability × 10; 0: unknown */
    char gcn[16]; /* the architecture of an AMD GPU, such as gfx90a */
    bool gdr;     /* a NIC can reach its memory */
};

struct topo_nic {
    int dev; /* as of a GPU */
    char name[TOPO_NAME_BYTES];
    int port;
    uint64_t guid;
    int64_t mbits;     /* speed of the port, Mbit/s; 0: unknown, see speed_of_nic() */
    double latency_us; /* 0: unknown */
    int maxconn;       /* 0: unknown */
    bool gdr;
    char gid[40]; /* first usable address of an RDMA port */
};

struct topo_node {
    enum topo_kind kind;
    int host;
    int parent; /* the node towards the CPU; −1 of a CPU, NVSwitch and NET */
    struct topo_pci pci;
    union {
        struct topo_cpu cpu;
        struct topo_gpu gpu;
        struct topo_nic nic;
    };
    int first_link; /* the first link that leaves this node; −1: none. links[].next has the others */
};

struct topo_link {
    int from, to;
    enum topo_medium medium;
    int count; /* NVLINK: number of parallel links that this one stands for; else 1 */
    double gbps;
    int next; /* the next link that leaves the same node; −1: no more */
};

struct topo_host {
    int first_node, end_node; /* its nodes are first_node … end_node − 1 */
    int shape;                /* the first host that is equal to this one; it may be this one itself */
};

struct topo {
    struct topo_node *nodes;
    struct topo_link *links;
    struct topo_host *hosts;
    int nnodes, nlinks, nhosts;
    int net; /* the NET node; −1 with one host */
    int room_nodes, room_links;
    enum collet_result status; /* the first failure while building; topo_finish() returns it */
};

/* --------------------------------------------------------------------------------------------- making, file by file */

/* Each gives a finished graph that topo_destroy() frees. On failure *topo_p is untouched and err_last() says why. */

/* This machine, with what can be found out about it: hwloc, sysfs, NVML. If hwloc takes longer than limit_s seconds, it is
 * COLLET_ERR_SYSTEM. (probe.c) */
#define TOPO_LIMIT_S 10 /* a thousand times as long as it takes */
enum collet_result topo_probe(double limit_s, struct topo **topo_p);

/* NCCL's topology XML, or hwloc's. What is unknown in it is passed over with a line at INFO; what is wrong in it is
 * COLLET_ERR_INVALID_ARGUMENT with file and line. A file of this machine may leave out what can be found out: it is
 * then filled in as topo_probe() would. (files.c, xml_read.c, hwloc_read.c) */
enum topo_whose { TOPO_RECORDED, TOPO_THIS_MACHINE, TOPO_PROBED /* what hwloc says of this machine, now */ };
enum collet_result topo_read_file(const char *path, enum topo_whose whose, struct topo **topo_p);
/* Reads a text in memory. `name` stands for the file in messages. */
enum collet_result topo_read_text(const char *text, size_t bytes, const char *name, enum topo_whose whose,
                                  struct topo **topo_p);

enum collet_result topo_write_file(const struct topo *topo, const char *path);

/* The same for config->topo_file, but only the first call of a process takes its time. The other ranks wait, so hwloc gets
 * at most half of config->init_timeout. The graph lives as long as the process. Do not free it. */
struct config;
enum collet_result topo_here(const struct config *config, const struct topo **topo_p);

/* The text that other ranks read, with topo_read_text() and TOPO_RECORDED. Equal hosts have equal texts, so it has no GUIDs,
 * addresses, ranks or sets of CPUs. place[0 … n−1] are nodes of host 0; they become the same nodes of the graph that is
 * read. */
enum collet_result topo_share(const struct topo *topo, int n, int32_t *place, char **text_p);

/* A machine from one line, for tests and for thinking. (synthetic.c)
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
 * Each part at most once. Unless said, there is one switch for each NIC (without NICs: for two GPUs), and there are two
 * CPUs if there are two switches or more, else one. Devices fill switches in order, and switches CPUs, evenly: with 8
 * GPUs and 4 switches, GPUs 0 and 1 are behind switch 0. All PCI links are 16 lanes of what hosts of the GPUs'
 * generation have. */
enum collet_result topo_synthetic(const char *text, struct topo **topo_p);

/* One graph of several hosts, joined at one NET node. hosts[i] are graphs of one host; the same pointer may stand for
 * several (their shape is then known to be equal). A host without a NIC gets one of unknown kind and 10 Gbit/s. The
 * arguments remain the caller's. (graph.c) */
enum collet_result topo_fuse(const struct topo *const *hosts, int nhosts, struct topo **topo_p);
/* A graph of nhosts hosts that are equal to this one. */
enum collet_result topo_repeat(const struct topo *host, int nhosts, struct topo **topo_p);

/* NULL is fine. */
void topo_destroy(struct topo *topo);

/* -------------------------------------------------------------------------------------------------- building blocks */

/* An empty graph of one host, to be filled and then finished. */
enum collet_result topo_create(struct topo **topo_p);
/* Appends a copy of node and links it with its parent. Its number, or −1 on failure, which the graph
 * remembers; −1 as a parent or an end of a link is then passed over. */
int topo_add_node(struct topo *topo, const struct topo_node *node);
/* The NVSwitch node. It is added if there is none yet. */
int topo_nvswitch(struct topo *topo);
/* A link in one direction; what there is already of the same medium becomes wider. */
void topo_add_link(struct topo *topo, int from, int to, enum topo_medium medium, int count, double gbps);
/* Gives links to parents the bandwidth that PCI data say, numbers devices, joins CPUs, gives every link its opposite,
 * checks. The first failure of building, if there was one. */
enum collet_result topo_finish(struct topo *topo);

/* The graph to *topo_p if status is SUCCESS, else its end. Returns status. */
enum collet_result topo_give(struct topo *topo, enum collet_result status, struct topo **topo_p);

/* Makes a node of this kind, with all facts unknown. */
struct topo_node topo_blank(enum topo_kind kind, int parent);
/* Does the function compute? A display adapter that only shows a console does not. */
bool topo_pci_is_gpu(const struct topo_pci *pci);
bool topo_pci_is_nic(const struct topo_pci *pci);

/* ----------------------------------------------------------------------------------------------------------- asking */

/* A file may name several things by one bus id. Gives this one a free function number, with a warning; false: all are taken. */
bool topo_rename_busid(const struct topo *topo, char busid[TOPO_BUSID_BYTES]);
/* The node of host 0 with this bus id (in any case), or −1. */
int topo_find_busid(const struct topo *topo, const char *busid);
int topo_count(const struct topo *topo, int host, enum topo_kind kind);

/* What a rank knows about its place. */
struct topo_whereabouts {
    char busid[TOPO_BUSID_BYTES];  /* bus id of its GPU; "": the rank is in host memory */
    int32_t rank;                  /* in its communicator */
    uint32_t cpus[TOPO_CPU_WORDS]; /* CPUs on which it may run, least significant word first */
};
/* Its node of host 0: its GPU; else the GPU that a file gives to this rank; else the CPU it may run on most. (locate.c) */
int topo_locate(const struct topo *topo, const struct topo_whereabouts *where);

const char *topo_medium_name(enum topo_medium medium);
/* The same, but GPU links have the name that their vendor gives them: xGMI of AMD's GPUs. */
const char *topo_link_name(const struct topo *topo, const struct topo_link *link);
const char *topo_class_name(enum topo_class class);
/* A node's name, unique in its host: "GPU 3", "NIC mlx5_0", "CPU 1", "PCI 0000:43:00.0". Returns text. */
const char *topo_node_name(const struct topo *topo, int node, char text[TOPO_NAME_BYTES + 16]);

/* All nodes as an indented tree with their links; then as a graph for Graphviz. (print.c) */
void topo_print(const struct topo *topo, FILE *out);
void topo_print_dot(const struct topo *topo, FILE *out);

#endif
