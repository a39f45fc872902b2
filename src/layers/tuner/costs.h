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

/* What lies between two ranks. The first five are of host ranks: slots shared by CPUs that are near each other, or far
 * (distance.h); payloads that are lent (layers/memory/loan.h), by address or through the kernel; and slots carried over a wire. The others
 * are of ranks on GPUs. */
enum link_class {
    LINK_MEMORY,
    LINK_MEMORY_FAR,
    LINK_LENT,
    LINK_LENT_CMA,
    LINK_NET,
    LINK_GPU,        /* slots in the memory of the one GPU of both */
    LINK_GPU_NVLINK, /* slots in the memory of the consumer's GPU, over GPU links alone … */
    LINK_GPU_PCI,    /* … or over PCI */
    LINK_GPU_HOST,   /* slots in pinned memory of the host */
    LINK_GPU_NET,    /* carried by the proxy */
    LINK_CLASS_COUNT
};

#define COSTS_PROTOCOLS PROTOCOL_COUNT

struct step_cost {
    double step_ns;      /* engine: a step. GPU: maximum over its peers; CPU: that of the CPU's own memory */
    double peer_ns;      /* engine: each slot received or sent */
    double byte_ns;      /* engine: each byte of each operand and place */
    double alpha_ns;     /* from published to seen */
    double wire_byte_ns; /* each byte on the wire, if no topology says what the wire carries */
    double fence_ns;     /* engine: the fence of a step, once; the maximum over its peers counts */
};

struct cost_table {
    struct step_cost step[LINK_CLASS_COUNT][COSTS_PROTOCOLS];
    double switch_ns;       /* the switch to another rank, if ranks share CPUs and one of them waits */
    double turns_share;     /* the share by which bytes cost more on a CPU that runs several workers in turns */
    double gpu_call_ns;     /* the launch and the end of a grid on a GPU */
    double gpu_block_ns;    /* the launch and the end of each of its blocks */
    double gpu_turn_ns;     /* the time until another process that shares the GPU has its turn */
    int gpu_blocks;         /* maximum number of blocks of all ranks that a GPU runs at once; asked of the driver */
    double gpu_memory_gbps; /* bandwidth of payload between ranks of one GPU, all its blocks together; 0: no limit */
    double gpu_lent_share;  /* cost of a byte that is lent between GPUs, or in one, as a share of the cost in a slot */
    double
        switched_share; /* share of a link's bandwidth that switches reach when they sum; 0: there are no such switches */
};

extern const struct cost_table costs_default;

/* Between two GPUs, by their path (topo/probe/paths.h): those of one host reach each other's memory unless CPUs are joined on the
 * way. LOC: they are the same. */
enum link_class costs_class_of_gpus(enum topo_class path);

/* Is it carried over a network, message by message? */
static inline bool costs_is_remote(enum link_class class) { return class == LINK_NET || class == LINK_GPU_NET; }

/* The cost of a call of so many blocks on a GPU, in one grid, without its steps. */
static inline double costs_launch_ns(const struct cost_table *costs, int blocks) {
    return costs->gpu_call_ns + blocks * costs->gpu_block_ns;
}

/* Are all numbers finite and not negative, and divisors not zero? */
bool costs_are_sound(const struct cost_table *costs);

/* The protocol whose constants are used for this one. */
#define PROTOCOL_COSTS(NAME, name, text, slots, unit, line, costs) protocol == PROTOCOL_##NAME ? PROTOCOL_##costs:
PORT_FN enum protocol protocol_costs_as(uint32_t protocol) { return PROTOCOLS(PROTOCOL_COSTS) PROTOCOL_SIMPLE; }

/* Bytes on the way between two ranks per byte of payload. Ends that share memory write and read lines. Over a wire lines
 * have no use, since the tail says what has arrived: whatever the protocol, the payload alone is carried. */
PORT_FN double protocol_wire_factor(uint32_t protocol, int over_a_wire) {
    return over_a_wire ? 1 : (double)protocol_line_bytes(protocol) / protocol_unit_bytes(protocol);
}

#endif
