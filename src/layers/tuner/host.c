/* SPDX-License-Identifier: Apache-2.0
 *
 * Only a few numbers of a host can be measured while a communicator is created. The others follow by rules. These rules were fitted to
 * 91 calls on 2, 4, 8 and 16 cores of an Intel Xeon, and they fit an AMD EPYC (docs/tuning.md).
 */
#include "layers/tuner/host.h"

#include "base/plain.h"

#include <math.h>
#include <stdio.h>

/* ---- from the probe ---- */

/* Times that the library adds to the times of a probe. On an EPYC, a line takes 230 ns in the probe, and a hop of LL takes 305 ns in a
 * call; a slot takes 840 ns in the probe, and 1100 ns in a call. */
#define LINE_ADDS_NS 75
#define SLOT_ADDS_NS 260

/* Bytes of cache per CPU. The last-level cache, which CPUs share, does not count: it is no faster than memory if all CPUs
 * use it. */
#define CACHE_BYTES (1u << 20)

/* One way of passing on data is taken in place of another if its time is below this share of the other's time. The share is small for
 * two reasons. Other programs disturb a probe. And a probe passes on one slot at a time: where CPUs are near, slots of a call are up to
 * 1.5 times as fast. */
#define CLEARLY 0.75

static double sooner(const struct host_times *times) { return fmin(times->slots[PROBE_LONG], times->past[PROBE_LONG]); }

bool host_is_far(const struct host_times *times) {
    return times->past[PROBE_LONG] < CLEARLY * times->slots[PROBE_LONG];
}

bool host_kernel_copies(const struct host_times *times) {
    return times->kernel[PROBE_LONG] > 0 && times->kernel[PROBE_LONG] < CLEARLY * sooner(times);
}

static double per_byte(const double ns[PROBE_SIZES]) {
    const double byte_ns = (ns[PROBE_LONG] - ns[PROBE_SHORT]) / (HOST_PROBE_LONG - HOST_PROBE_SHORT);
    return fmax(byte_ns, 0);
}

static double without_bytes(const double ns[PROBE_SIZES]) {
    return fmax(ns[PROBE_SHORT] - per_byte(ns) * HOST_PROBE_SHORT, 0);
}

/* A copy also stores each byte in the memory of its CPU. The model counts the store as a cost of its own, so here the time of the store
 * is subtracted from the time of a byte that is lent, or copied by the kernel. */
struct host_speed host_speed_of(const struct host_times *times, int n) {
    const double *slots = times->past[PROBE_LONG] < times->slots[PROBE_LONG] ? times->past : times->slots;
    const double own_ns = times->own / 2 / HOST_PROBE_LONG;
    return (struct host_speed){.line_ns = times->line + LINE_ADDS_NS,
                               .slot_ns = without_bytes(slots) + SLOT_ADDS_NS,
                               .slot_byte_ns = per_byte(slots),
                               .lent_byte_ns = fmax(times->lent / HOST_PROBE_LONG - own_ns, 0),
                               .kernel_ns = without_bytes(times->kernel),
                               .kernel_byte_ns = fmax(per_byte(times->kernel) - own_ns, 0),
                               .own_byte_ns = own_ns,
                               .memory_gbps = times->memory_gbps,
                               .cache_bytes = (double)n * CACHE_BYTES};
}

static void raise(double *most, double other) { *most = fmax(*most, other); }
static void lower(double *least, double other) {
    *least = *least == 0 || (other > 0 && other < *least) ? other : *least;
}

void host_speed_agree(struct host_speed *speed, const struct host_speed *other) {
    if (other->line_ns == 0)
        return;
    raise(&speed->line_ns, other->line_ns);
    raise(&speed->slot_ns, other->slot_ns);
    raise(&speed->slot_byte_ns, other->slot_byte_ns);
    raise(&speed->lent_byte_ns, other->lent_byte_ns);
    raise(&speed->kernel_ns, other->kernel_ns);
    raise(&speed->kernel_byte_ns, other->kernel_byte_ns);
    raise(&speed->own_byte_ns, other->own_byte_ns);
    lower(&speed->memory_gbps, other->memory_gbps);
    lower(&speed->cache_bytes, other->cache_bytes);
}

/* ---- to the model ---- */

/* A hop is the work of its two ends and the way between them. LINE_PEER_SHARE, LINE128_PEER_SHARE: the share of each end.
 * SLOT_WAY_SHARE: the share of the way. The further lines of a step cost the sender only its own share. */
#define LINE_PEER_SHARE (1.0 / 6)
#define LINE128_PEER_SHARE (1.4 / 6)
#define SLOT_WAY_SHARE 0.4

/* Share of a hop per byte, at each end. A line of LL128 has 120 bytes and takes a twentieth of a hop at each end. In LL,
 * half of the bytes that travel are data. */
#define LINE128_BYTE_SHARE (1.0 / 20 / 120)
#define LINE_BYTE_SHARE (2 * LINE128_BYTE_SHARE)

static struct step_cost of_lines(double step_ns, double line_ns, double peer_share, double byte_share) {
    const double peer_ns = peer_share * line_ns;
    return (struct step_cost){.step_ns = step_ns,
                              .peer_ns = peer_ns,
                              .byte_ns = byte_share * line_ns,
                              .alpha_ns = fmax(line_ns - step_ns - 2 * peer_ns, 0)};
}

void host_suit(struct cost_table *costs) {
    const struct host_speed *host = &costs->host;
    const struct step_cost *own = costs->step[LINK_MEMORY];
    struct step_cost *measured = costs->step[LINK_MEMORY_MEASURED], *lent = costs->step[LINK_LENT];
    struct step_cost *copied = costs->step[LINK_LENT_CMA];
    if (host->line_ns == 0)
        return;
    measured[PROTOCOL_LL] = of_lines(own[PROTOCOL_LL].step_ns, host->line_ns, LINE_PEER_SHARE, LINE_BYTE_SHARE);
    measured[PROTOCOL_LL128] =
        of_lines(own[PROTOCOL_LL128].step_ns, host->line_ns, LINE128_PEER_SHARE, LINE128_BYTE_SHARE);
    const double way_ns = SLOT_WAY_SHARE * host->slot_ns, step_ns = own[PROTOCOL_SIMPLE].step_ns;
    const struct step_cost slot = {.step_ns = step_ns,
                                   .peer_ns = fmax(host->slot_ns - way_ns - step_ns, 0) / 2,
                                   .byte_ns = host->slot_byte_ns / 2,
                                   .alpha_ns = way_ns};
    measured[PROTOCOL_SIMPLE] = lent[PROTOCOL_SIMPLE] = copied[PROTOCOL_SIMPLE] = slot;
    lent[PROTOCOL_SIMPLE].byte_ns = host->lent_byte_ns;
    copied[PROTOCOL_SIMPLE].peer_ns += host->kernel_ns;
    copied[PROTOCOL_SIMPLE].byte_ns = host->kernel_byte_ns;
    costs->step[LINK_MEMORY][PROTOCOL_SIMPLE].byte_ns = host->own_byte_ns;
}

/* ---- words ---- */

const char *host_text(const struct host_speed *speed, char text[HOST_TEXT_BYTES]) {
    const locale_t before = plain_begin();
    snprintf(
        text, HOST_TEXT_BYTES,
        "a line takes %.0f ns, a slot %.0f ns and %.3f ns a byte, what is lent %.3f, what the kernel copies %.0f ns "
        "and %.3f, memory of its own %.3f; all CPUs together get %.0f GB/s of what is in no cache",
        speed->line_ns, speed->slot_ns, speed->slot_byte_ns, speed->lent_byte_ns, speed->kernel_ns,
        speed->kernel_byte_ns, speed->own_byte_ns, speed->memory_gbps);
    plain_end(before);
    return text;
}
