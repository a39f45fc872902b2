/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all knobs. The value of a knob comes from COLLET_<NAME>. If that is unset, it comes from NCCL's variable with the same
 * meaning, if there is one. If that is unset too, the knob has its default. A communicator reads all knobs once, when it is created.
 * collet-info and the documentation print the table. Rank 0 gives its values to all ranks if these must be equal (scope AGREED).
 */
#ifndef COLLET_BASE_CONFIG_H
#define COLLET_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_TEXT_BYTES 192
#define CONFIG_PROXIES 8 /* maximum value of COLLET_PROXY */

enum config_scope {
    CONFIG_PROCESS, /* The process reads the knob once */
    CONFIG_RANK,    /* Each rank has its own value */
    CONFIG_AGREED,  /* All ranks use rank 0's value */
};

/* X(field, NAME, NCCL name or NULL, type, unit, scope, default, minimum, maximum, help)
 * INT: a number as strtoll() with base 0 reads it. With unit "bytes", the suffixes K, M, G mean multiples of 1024, 1024², 1024³.
 * TEXT: there is no minimum and no maximum. With unit "secret", the value is never shown. With unit "path", it names a file or a plugin. */
#define CONFIG_KNOBS(INT, TEXT)                                                                                        \
    TEXT(debug, "DEBUG", "NCCL_DEBUG", "", PROCESS, "", "WARN, INFO or TRACE: which log lines to write")               \
    TEXT(debug_subsys, "DEBUG_SUBSYS", "NCCL_DEBUG_SUBSYS", "", PROCESS, "ALL", "subsystems to log; ^ excludes")       \
    TEXT(debug_file, "DEBUG_FILE", "NCCL_DEBUG_FILE", "path", PROCESS, "", "log file; %h host, %p pid; else stderr")   \
    TEXT(algo, "ALGO", "NCCL_ALGO", "", AGREED, "", "algorithms by name, like ring,allreduce:tree; ^ excludes")        \
    TEXT(proto, "PROTO", "NCCL_PROTO", "", AGREED, "", "force a protocol: Simple, LL, allreduce:LL128; ^ excludes")    \
    TEXT(program, "PROGRAM", NULL, "path", RANK, "",                                                                   \
         "the algorithm of this MSCCL-style XML file for its collective; rank 0's is everybody's")                     \
    TEXT(determinism, "DETERMINISM", NULL, "", AGREED, "",                                                             \
         "what a sum's bits do not depend on: size, or order, which is size, algorithm and topology")                  \
    INT(nchannels, "NCHANNELS", NULL, "", AGREED, 0, 0, 64, "channels of a call; 0: chosen")                           \
    INT(min_nchannels, "MIN_NCHANNELS", "NCCL_MIN_NCHANNELS", "", AGREED, 0, 0, 64, "fewest channels; 0: no bound")    \
    INT(max_nchannels, "MAX_NCHANNELS", "NCCL_MAX_NCHANNELS", "", AGREED, 0, 0, 64, "most channels; 0: no bound")      \
    INT(buffsize, "BUFFSIZE", "NCCL_BUFFSIZE", "bytes", AGREED, 0, 4096, 1 << 30,                                      \
        "memory of one connection's Simple slots; 0: 4M where RDMA or tcp is used, else 1M")                           \
    INT(chunksize, "CHUNKSIZE", NULL, "bytes", AGREED, 0, 0, 1 << 30, "bytes one slot carries; 0: chosen")             \
    TEXT(transport, "TRANSPORT", NULL, "", AGREED, "",                                                                 \
         "list of allowed transports: self, ipc, shm, plugin, verbs, tcp")                                             \
    TEXT(direct, "DIRECT", NULL, "", RANK, "process,shared,cma,wire",                                                  \
         "which buffers go without slots: list of process, shared, cma, wire (tcp, RDMA); or off")                     \
    INT(direct_bytes, "DIRECT_BYTES", NULL, "bytes", AGREED, 0, 0, 1 << 30, "shortest payload copied so; 0: chosen")   \
    TEXT(cta_policy, "CTA_POLICY", "NCCL_CTA_POLICY", "", AGREED, "default",                                           \
         "zero: on GPUs, copy engines do what they can of calls into windows; default, efficiency: kernels do")        \
    TEXT(socket_ifname, "SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "", RANK, "",                                           \
         "interfaces by prefix; ^ excludes, = matches exactly; default: by reachability")                              \
    TEXT(socket_family, "SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", "", RANK, "", "AF_INET or AF_INET6; default both")      \
    TEXT(port_range, "PORT_RANGE", NULL, "", PROCESS, "",                                                              \
         "first-last: the ports that collet listens on; default: any. Not for the port in COMM_ID")                    \
    INT(nsockets, "NSOCKETS", NULL, "", AGREED, 2, 1, 16, "sockets for slots between two ranks over tcp")              \
    INT(ib_disable, "IB_DISABLE", "NCCL_IB_DISABLE", "", PROCESS, 0, 0, 1, "1: no RDMA")                               \
    TEXT(ib_hca, "IB_HCA", "NCCL_IB_HCA", "", PROCESS, "",                                                             \
         "RDMA devices as name or name:port, by prefix; ^ excludes, = matches exactly; default: all")                  \
    INT(ib_gid_index, "IB_GID_INDEX", "NCCL_IB_GID_INDEX", "", PROCESS, -1, -1, 255, "GID of RDMA ports; -1: chosen")  \
    TEXT(ib_addr_range, "IB_ADDR_RANGE", "NCCL_IB_ADDR_RANGE", "", PROCESS, "",                                        \
         "RoCE ports use an address of this range, like 10.1.0.0/16 or fd00::/8; default: any")                        \
    INT(ib_pkey, "IB_PKEY", NULL, "", PROCESS, 0, 0, 65535,                                                            \
        "partition key of InfiniBand ports, like 0x8012; 0: the first that a port has")                                \
    INT(ib_relaxed_ordering, "IB_PCI_RELAXED_ORDERING", "NCCL_IB_PCI_RELAXED_ORDERING", "", PROCESS, 2, 0, 2,          \
        "RDMA NICs write data in any order: 0 no, 1 where they can, 2 on PCI only")                                    \
    INT(ib_adaptive_routing, "IB_ADAPTIVE_ROUTING", "NCCL_IB_ADAPTIVE_ROUTING", "", RANK, -1, -1, 1,                   \
        "1: long payloads go as plain RDMA writes, which switches may route adaptively; -1: over InfiniBand")          \
    INT(ib_ar_threshold, "IB_AR_THRESHOLD", "NCCL_IB_AR_THRESHOLD", "bytes", RANK, 8192, 0, 1 << 30,                   \
        "payloads that are longer than this do")                                                                       \
    INT(ib_timeout, "IB_TIMEOUT", "NCCL_IB_TIMEOUT", "", RANK, 0, 0, 31,                                               \
        "an RDMA packet is sent again after 4.096 us * 2^this without an answer; 0: 20, of a device of software 17")   \
    INT(ib_retry_cnt, "IB_RETRY_CNT", "NCCL_IB_RETRY_CNT", "", RANK, -1, -1, 7,                                        \
        "and so often before it is an error; -1: 7, of a device of software 6")                                        \
    INT(ib_qps_per_connection, "IB_QPS_PER_CONNECTION", "NCCL_IB_QPS_PER_CONNECTION", "", AGREED, 1, 1, 8,             \
        "queue pairs of a connection on each RDMA rail")                                                               \
    INT(ib_tc, "IB_TC", "NCCL_IB_TC", "", RANK, 0, 0, 255, "traffic class of RDMA packets")                            \
    INT(ib_sl, "IB_SL", "NCCL_IB_SL", "", RANK, 0, 0, 15, "service level of RDMA packets")                             \
    INT(net_failover, "NET_FAILOVER", NULL, "", AGREED, 1, 0, 1, "other RDMA rails take over from one that dies")      \
    INT(net_rail_wait, "NET_RAIL_WAIT", NULL, "s", AGREED, 1, 0, 3600,                                                 \
        "a RDMA rail that was lost is tested after this time, doubled with each loss; 0: it is used no more")          \
    INT(net_gdr, "NET_GDR", NULL, "", RANK, 1, 0, 1,                                                                   \
        "0: slots between hosts lie in host memory even where NICs reach the GPU's")                                   \
    TEXT(net_gdr_level, "NET_GDR_LEVEL", "NCCL_NET_GDR_LEVEL", "", RANK, "PHB",                                        \
         "LOC, PIX, PXB, PHB or SYS: the longest path between a GPU and a NIC that is to reach it")                    \
    TEXT(net_plugin, "NET_PLUGIN", "NCCL_NET_PLUGIN", "path", PROCESS, "",                                             \
         "carries data between hosts by libnccl-net-<this>.so, a plugin of NCCL's kind; a path will do too")           \
    TEXT(comm_id, "COMM_ID", "NCCL_COMM_ID", "", PROCESS, "", "host:port where ranks meet; rank 0 listens there")      \
    TEXT(secret, "SECRET", NULL, "secret", PROCESS, "", "shared secret for COMM_ID and MASTER_ADDR jobs")              \
    TEXT(device, "DEVICE", NULL, "", PROCESS, "cuda",                                                                  \
         "cuda or host: where the buffers of communicators are that were made by NCCL's names")                        \
    TEXT(hostid, "HOSTID", "NCCL_HOSTID", "", RANK, "", "overrides the identity of this host")                         \
    TEXT(tuner_file, "TUNER_FILE", NULL, "path", RANK, "",                                                             \
         "constants of the cost model from this file, which collet-tune makes; rank 0's is everybody's")               \
    TEXT(tuner_plugin, "TUNER_PLUGIN", "NCCL_TUNER_PLUGIN", "path", AGREED, "",                                        \
         "under NCCL's names: a tuner plugin that chooses; the same on every rank")                                    \
    TEXT(profiler_plugin, "PROFILER_PLUGIN", "NCCL_PROFILER_PLUGIN", "path", RANK, "",                                 \
         "under NCCL's names: a profiler plugin that is told of every operation")                                      \
    TEXT(topo_file, "TOPO_FILE", "NCCL_TOPO_FILE", "path", RANK, "",                                                   \
         "this host's topology from an XML file, NCCL's or hwloc's; default: probed")                                  \
    TEXT(topo_dump_file, "TOPO_DUMP_FILE", "NCCL_TOPO_DUMP_FILE", "path", RANK, "", "for the topology of rank 0")      \
    INT(init_timeout, "INIT_TIMEOUT", NULL, "s", RANK, 600, 1, 86400, "longest wait for all ranks at init")            \
    INT(timeout, "TIMEOUT", NULL, "s", RANK, 1800, 1, 864000, "longest time without progress inside a call")           \
    INT(warn_after, "WARN_AFTER", NULL, "s", RANK, 30, 0, 864000,                                                      \
        "a wait that lasts longer says once, on stderr, for which ranks, or for what; 0: never")                       \
    TEXT(dump_file, "DUMP_FILE", NULL, "path", RANK, "",                                                               \
         "where a rank writes its last operations when its communicator fails; %h host, %p pid, %r rank")              \
    TEXT(record, "RECORD", NULL, "path", RANK, "",                                                                     \
         "a line of JSON per operation into this file; %h host, %p pid, %r rank")                                      \
    TEXT(trace, "TRACE", NULL, "path", RANK, "",                                                                       \
         "steps, waits and wires of every rank into this file, for ui.perfetto.dev; %h host, %p pid, %r rank")         \
    INT(trace_events, "TRACE_EVENTS", NULL, "", RANK, 131072, 64, 1 << 26, "so many of the newest events are kept")    \
    INT(trace_every, "TRACE_EVERY", NULL, "", AGREED, 8, 1, 1 << 20,                                                   \
        "of calls of less than 4 KiB one in so many (a power of two, or the next) is traced, after 256 calls; 1: all") \
    TEXT(metrics, "METRICS", NULL, "path", RANK, "",                                                                   \
         "port, ports (9400-9407), ADDRESS:port or file where this process shows its ranks to Prometheus")             \
    INT(checksum, "CHECKSUM", NULL, "", AGREED, 0, 0, 1,                                                               \
        "1: slots that go over a network carry a CRC32C of their data")                                                \
    INT(encrypt, "ENCRYPT", NULL, "", AGREED, 0, 0, 1, "1: data between hosts is encrypted, and so goes by tcp")       \
    INT(selftest, "SELFTEST", NULL, "", AGREED, 0, 0, 1,                                                               \
        "1: each connection carries test data first; those of every two ranks are made at init")                       \
    INT(heartbeat, "HEARTBEAT", NULL, "ms", AGREED, 1000, 10, 60000, "interval of heartbeats between hosts")           \
    INT(heartbeat_timeout, "HEARTBEAT_TIMEOUT", NULL, "ms", AGREED, 30000, 0, 3600000,                                 \
        "silence after which a rank on another host counts as dead; 0: never")                                         \
    INT(cpus, "CPUS", NULL, "", AGREED, 0, 0, 65536, "CPUs of a host, for the cost model and waiting; 0: as found")    \
    TEXT(cpu_distance, "CPU_DISTANCE", NULL, "", AGREED, "auto",                                                       \
         "near, far or auto, which measures: how far apart the CPUs of a host are")                                    \
    TEXT(kernel_copies, "KERNEL_COPIES", NULL, "", AGREED, "auto",                                                     \
         "faster, slower or auto, which measures: how those between processes of a host compare with slots")           \
    INT(fans, "FANS", NULL, "", AGREED, 1, 0, 1,                                                                       \
        "1: what a rank sends to all others of its host is written once, and all read it; 0: once for each")           \
    INT(spin, "SPIN", NULL, "polls", RANK, -1, -1, 1 << 30, "polls before yielding the CPU; -1: by CPUs and ranks")    \
    INT(cumem_enable, "CUMEM_ENABLE", "NCCL_CUMEM_ENABLE", "", RANK, -1, -1, 1,                                        \
        "GPU memory between processes: 1 by descriptors, 0 by CUDA IPC handles, -1 as the driver has it")              \
    INT(nvls_enable, "NVLS_ENABLE", "NCCL_NVLS_ENABLE", "", RANK, 2, 0, 2,                                             \
        "0: no switches sum what lies in windows; else they may, where GPUs can")                                      \
    INT(proxy, "PROXY", NULL, "threads", RANK, 0, 0, CONFIG_PROXIES,                                                   \
        "threads that carry slots over networks; 0: for ranks on GPUs one, on host memory none")                       \
    INT(nt_stores, "NT_STORES", NULL, "", RANK, -1, -1, 1, "store slots past the caches; -1: by the speed of stores")  \
    INT(first_step, "FIRST_STEP", NULL, "", AGREED, 0, INT64_MIN, INT64_MAX, "testing: first value of step counters")  \
    INT(ll_flag_bits, "LL_FLAG_BITS", NULL, "", AGREED, 15, 4, 15,                                                     \
        "testing: bits of the step in LL flags, so they wrap")                                                         \
    INT(check_programs, "CHECK_PROGRAMS", NULL, "", RANK, 0, 0, 1, "testing: verify each program before its first use")

struct config {
#define CONFIG_INT_FIELD(field, name, nccl, unit, scope, def, min, max, help) int64_t field;
#define CONFIG_TEXT_FIELD(field, name, nccl, unit, scope, def, help) char field[CONFIG_TEXT_BYTES];
    CONFIG_KNOBS(CONFIG_INT_FIELD, CONFIG_TEXT_FIELD)
#undef CONFIG_INT_FIELD
#undef CONFIG_TEXT_FIELD
    /* This is no knob. It holds the setting that says how many ranks come and where they meet, such as "WORLD_SIZE=4". */
    char believed[CONFIG_TEXT_BYTES];
};

/* The process's configuration, which the first call reads. Never NULL. A value that cannot be parsed counts as unset here. config_read()
 * reports such a value when a communicator is created. */
const struct config *config_process(void);

/* Parses "first-last"; false: the text is no range of ports. */
bool config_port_range(const char *text, int *first, int *last);

/* A range of addresses with equal first bits. IPv4 addresses are stored as ::ffff:a.b.c.d. */
struct config_addresses {
    uint8_t first[16];
    int bits; /* Number of bits that are compared; 0: all addresses match */
};
/* Parses "address/bits" or ""; false: the text is neither. */
bool config_addresses_read(const char *text, struct config_addresses *range);

/* Is this a valid value of COLLET_CTA_POLICY? Valid are a list of words, and a number made of NCCL's bits. */
bool config_policy_is_known(const char *policy);

/* A translator turns a knob's value into collet's words; NULL: use the default. config_take_translator() installs a translator: from then
 * on its words are accepted too. */
typedef const char *config_translator(const char *name, const char *value);
void config_take_translator(config_translator *translator);

/* Does this variable set a knob, by collet's name or by NCCL's? */
bool config_reads(const char *variable);

/* Copies all AGREED knobs of *from to *config. */
void config_adopt(struct config *config, const struct config *from);

/* Are all AGREED knobs in range? Checks a configuration that another process has sent. */
bool config_agreed_valid(const struct config *config);

/* A knob, as shown to people. */
struct config_value {
    const char *name, *help;
    char text[CONFIG_TEXT_BYTES]; /* The value with its unit; "(hidden)" for a secret */
    bool is_default;
};

/* Gets the knob with this index, from 0; false: there is none. */
bool config_value(const struct config *config, size_t index, struct config_value *value);

/* The value of a variable of a launcher (RANK, SLURM_PROCID …) or of CUDA; NULL: it is unset or empty. Only this room reads the
 * environment. */
const char *config_env(const char *name);

/* One knob of the table. */
struct knob {
    const char *name; /* Name of the variable, with the prefix COLLET_ */
    const char *nccl_name;
    const char *unit;
    const char *help;
    size_t offset;            /* Offset of the value in struct config. The value is a text, or an int64_t for an INT */
    int64_t def, min, max;    /* INT: default, minimum, maximum */
    const char *default_text; /* TEXT: the default; NULL: the knob is an INT */
    enum config_scope scope;
};

#define KNOB_ONE(...) +1
#define KNOB_COUNT (0 CONFIG_KNOBS(KNOB_ONE, KNOB_ONE))
extern const struct knob KNOBS[KNOB_COUNT];

bool knob_is_secret(const struct knob *knob);
/* Returns the value of the variable that sets a knob, and stores the variable's name; NULL: no variable sets it. */
const char *knob_variable(const struct knob *knob, const char **variable);
/* Stores the knob's value, or its default, in *config. False: the environment's value is not valid. Then *variable and *value show it,
 * and the default is stored. */
bool knob_read(struct config *config, const struct knob *knob, const char **variable, const char **value);

#endif
