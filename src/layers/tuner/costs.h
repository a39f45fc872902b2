/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps and hops cost, all in one table.
 *
 *      engine   ├ step + peers + fence + bytes ┤                  step_ns, peer_ns, fence_ns, byte_ns
 *      links               ├── bytes ÷ GB/s ──┤                   from the topology
 *      peer                                    ├ α ┤ slot full    alpha_ns, wire_byte_ns
 *
 * An engine is what runs steps: the CPU of a host rank, a block of a GPU. Hockney's α–β model (R. Hockney, "The
 * communication challenge for MPP", Parallel Computing 20, 1994) with the engine's share told apart from the wire's, as
 * in LogP (D. Culler et al., "LogP: towards a realistic model of parallel computation", PPoPP 1993).
 */
#ifndef COLLET_LAYERS_TUNER_COSTS_H
#define COLLET_LAYERS_TUNER_COSTS_H

#include "kernels/worker.h"
#include "topo/probe/topo.h"

#include <stdbool.h>

/* Kinds of ways from one rank to another. The first six classes are for host ranks. MEMORY: slots in memory, between CPUs that are near
 * each other. MEMORY_FAR: slots between CPUs that are far from each other (distance.h). MEMORY_MEASURED: slots on a host that was
 * measured (host.h). LENT: payloads that are lent (layers/memory/loan.h) and read by address. LENT_CMA: lent payloads that the kernel
 * copies. NET: slots carried over a wire. The other classes are for ranks on GPUs. */
enum link_class {
    LINK_MEMORY,
    LINK_MEMORY_FAR,
    LINK_MEMORY_MEASURED,
    LINK_LENT,
    LINK_LENT_CMA,
    LINK_NET,
    LINK_GPU,        /* Slots in the memory of the one GPU that both ranks are on. */
    LINK_GPU_NVLINK, /* Slots in the memory of the consumer's GPU, over GPU links alone. */
    LINK_GPU_PCI,    /* Slots in the memory of the consumer's GPU, over PCI. */
    LINK_GPU_HOST,   /* Slots in pinned memory of the host. */
    LINK_GPU_NET,    /* Slots carried by the proxy. */
    LINK_CLASS_COUNT
};

#define COSTS_PROTOCOLS PROTOCOL_COUNT

struct step_cost {
    /* Engine time per step. GPU: the maximum over the step's peers counts. CPU: that of the CPU's own memory counts. */
    double step_ns;
    double peer_ns;      /* Engine time per slot received or sent. */
    double byte_ns;      /* Engine time per byte of each operand and place. */
    double alpha_ns;     /* Time from publishing a slot until its consumer sees it. */
    double wire_byte_ns; /* Time per byte on the wire, used if no topology says what the wire carries. */
    double fence_ns;     /* Engine time of the fence of a step. The maximum over the step's peers counts, once. */
};

/* Speed of a host whose CPUs all work at once. The times are those of a call, with the library's own work. */
struct host_speed {
    double
        /* Time of a line of LL, from the step that stores the line to the step that reads it. 0: the host was not measured. */
        line_ns;
    /* Time of a payload in a slot, from the step that stores the payload to the step that reads it. Without the time of its bytes. */
    double slot_ns;
    double slot_byte_ns;   /* Time per byte of a payload in a slot, at both ends together. */
    double lent_byte_ns;   /* Time per byte that a CPU reads where another CPU has just stored it. */
    double kernel_ns;      /* Time of a payload that the kernel copies, without its bytes. */
    double kernel_byte_ns; /* Time per byte of a payload that the kernel copies. */
    double own_byte_ns;    /* Time per byte that a rank reads or stores in its own memory. */
    double memory_gbps;    /* Bandwidth of all CPUs together for bytes that are in no cache. 0: no limit. */
    /* Bytes that the caches of all CPUs hold together. Calls with larger buffers read from memory. */
    double cache_bytes;
};

struct cost_table {
    struct host_speed host;
    struct step_cost step[LINK_CLASS_COUNT][COSTS_PROTOCOLS];
    double switch_ns;       /* Time of a CPU's switch from a rank that waits to another rank, if ranks share CPUs. */
    double turns_share;     /* On a CPU that runs several workers in turns, bytes cost more by this share. */
    double gpu_call_ns;     /* Time of the launch and the end of a grid on a GPU. */
    double gpu_block_ns;    /* Time of the launch and the end of each block of a grid. */
    double gpu_turn_ns;     /* Time until another process that shares the GPU has its turn. */
    int gpu_blocks;         /* Maximum number of blocks of all ranks that a GPU runs at once, as the driver says. */
    double gpu_memory_gbps; /* Bandwidth of payload between ranks of one GPU, all its blocks together. 0: no limit. */
    /* Cost of a byte that is lent inside or between GPUs, as a share of the cost of a byte in a slot. */
    double gpu_lent_share;
    double
        /* Share of a link's bandwidth that switches reach when they sum. 0: no switch can sum. */
        switched_share;
};

extern const struct cost_table costs_default;

/* The class between two GPUs, by their path (topo/probe/paths.h). GPUs of one host reach each other's memory, unless the
 * path crosses the interconnect between CPUs. LOC: both are the same GPU. */
enum link_class costs_class_of_gpus(enum topo_class path);

/* Are the slots of this class carried over a network, message by message? */
static inline bool costs_is_remote(enum link_class class) { return class == LINK_NET || class == LINK_GPU_NET; }

/* The cost of one grid with this number of blocks on a GPU, without its steps. */
static inline double costs_launch_ns(const struct cost_table *costs, int blocks) {
    return costs->gpu_call_ns + blocks * costs->gpu_block_ns;
}

/* Are all numbers finite and not negative, and divisors not zero? */
bool costs_are_sound(const struct cost_table *costs);

/* The protocol whose constants are used for this protocol. */
#define PROTOCOL_COSTS(NAME, name, text, slots, unit, line, costs) protocol == PROTOCOL_##NAME ? PROTOCOL_##costs:
PORT_FN enum protocol protocol_costs_as(uint32_t protocol) { return PROTOCOLS(PROTOCOL_COSTS) PROTOCOL_SIMPLE; }

/* Bytes on the way between two ranks, per byte of payload. Ends that share memory write and read lines, and flags are part
 * of a line. Over a wire lines have no use, because the tail says what has arrived: in every protocol, only the payload is
 * carried. */
PORT_FN double protocol_wire_factor(uint32_t protocol, int over_a_wire) {
    return over_a_wire ? 1 : (double)protocol_line_bytes(protocol) / protocol_unit_bytes(protocol);
}

#endif
