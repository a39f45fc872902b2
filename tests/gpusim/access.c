/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads, stores, atomics and fences of a split: where an address lies, whether the lane may touch it, and how whole an access of
 * 16 bytes is.
 *
 * A line of 128 bytes that 8 neighbouring lanes touch by one instruction, 16 bytes each, travels whole, as it does on NVLink and
 * within a GPU. All else travels in granules of 8 bytes. To those that look from another process a whole line's last word is
 * written last and read first.
 */
#include "gpusim/state.h"

#include "base/types.h"

#include <math.h>
#include <string.h>

#define LINE_BYTES 128u
#define LINE_LANES 8u

/* ---- where ---- */

struct place {
    uint8_t *inside;           /* of the SM: shared memory, the lane's own, or the kernel's arguments */
    const struct range *range; /* else */
    uint64_t address;
};

static const char *const kinds[] = {
    [GPUSIM_DEVICE_MEMORY] = "memory of GPU",         [GPUSIM_GRANTED] = "memory by grant of GPU",
    [GPUSIM_IMPORTED] = "imported memory of GPU",     [GPUSIM_HOST_MEMORY] = "host memory, near GPU",
    [GPUSIM_MULTICAST] = "a multicast object of GPU",
};

static bool find_range(struct warp *warp, const struct split *split, uint32_t lane, struct place *place, uint32_t bytes,
                       bool writes) {
    const struct range *range = warp->range;
    uint32_t device = warp->block->grid->device->number;
    if (range == NULL || range->freed || place->address - range->base >= range->bytes)
        range = memory_range_of(place->address);
    const char *what = writes ? "a store to" : "a load from";
    if (range == NULL)
        warp_fault(warp, split, lane, "%s 0x%llx, which is in no memory that a GPU may touch", what,
                   (unsigned long long)place->address);
    else if (range->freed)
        warp_fault(warp, split, lane, "%s 0x%llx, %llu bytes into memory that was freed", what,
                   (unsigned long long)place->address, (unsigned long long)(place->address - range->base));
    else if (!((writes ? range->writers : range->readers) >> device & 1))
        warp_fault(warp, split, lane, "%s 0x%llx, %s %u, without the right to", what,
                   (unsigned long long)place->address, kinds[range->kind], range->owner);
    else if (place->address + bytes > range->base + range->bytes)
        warp_fault(warp, split, lane, "%s 0x%llx, across the end of its memory", what,
                   (unsigned long long)place->address);
    else {
        warp->range = place->range = range;
        return true;
    }
    return false;
}

static bool find_place(struct warp *warp, const struct split *split, const struct ptx_insn *insn, uint32_t lane,
                       uint64_t base, bool writes, struct place *place) {
    const struct block *block = warp->block;
    const struct ptx_function *f = block->grid->f;
    uint32_t bytes = (uint32_t)insn->bytes * insn->words;
    uint64_t shared = (uintptr_t)block->shared, local = (uintptr_t)warp->locals + (uint64_t)lane * f->all_local_bytes;
    uint64_t args = (uintptr_t)block->grid->args;
    bool fixed = insn->src[0] == PTX_NO_ROW;
    place->address = base + (uint64_t)insn->offset;
    place->inside = NULL;
    place->range = NULL;
    if (insn->space == SPACE_SHARED)
        place->address = shared + (uint32_t)place->address;
    else if (insn->space == SPACE_LOCAL && fixed)
        place->address += local + split->frames[split->depth].local;
    else if (insn->space == SPACE_PARAM && fixed)
        place->address += args;
    if (place->address % bytes != 0 && insn->space != SPACE_PARAM) {
        warp_fault(warp, split, lane, "%u bytes at 0x%llx are not aligned", bytes, (unsigned long long)place->address);
        return false;
    }
    if (insn->space == SPACE_SHARED || insn->space == SPACE_GENERIC) {
        if (place->address - shared < block->shared_bytes && place->address - shared + bytes <= block->shared_bytes) {
            place->inside = (uint8_t *)(uintptr_t)place->address;
            return true;
        }
        if (insn->space == SPACE_SHARED) {
            warp_fault(warp, split, lane, "0x%llx is not in the block's %u bytes of shared memory",
                       (unsigned long long)(place->address - shared), block->shared_bytes);
            return false;
        }
    }
    if (insn->space != SPACE_GLOBAL &&
        ((place->address - local < f->all_local_bytes && place->address - local + bytes <= f->all_local_bytes) ||
         (!writes && place->address - args < f->params_end && place->address - args + bytes <= f->params_end))) {
        place->inside = (uint8_t *)(uintptr_t)place->address;
        return true;
    }
    if (!find_range(warp, split, lane, place, bytes, writes))
        return false;
    bool multi = insn->op == OP_MULTI_LOAD || insn->op == OP_MULTI_STORE;
    if (multi == (place->range->kind == GPUSIM_MULTICAST))
        return true;
    warp_fault(warp, split, lane, "0x%llx is %s multicast address", (unsigned long long)place->address,
               multi ? "no" : "a");
    return false;
}

static const uint64_t *bases_of(const struct warp *warp, const struct split *split, const struct ptx_insn *insn) {
    static const uint64_t zeros[PTX_LANES];
    return insn->src[0] == PTX_NO_ROW ? zeros : row_of(warp, &split->frames[split->depth], insn->src[0]);
}

/* Lanes whose 16 bytes are part of a line that is touched as a whole. */
static uint32_t whole_lines(const uint64_t *bases, const struct ptx_insn *insn, uint32_t mask) {
    uint32_t whole = 0;
    for (uint32_t first = 0; first < PTX_LANES; first += LINE_LANES) {
        uint32_t lanes = 0xffu << first;
        uint64_t line = bases[first] + (uint64_t)insn->offset;
        bool is_whole = (mask & lanes) == lanes && line % LINE_BYTES == 0;
        for (uint32_t k = 1; is_whole && k < LINE_LANES; k++)
            is_whole = bases[first + k] == bases[first] + 16 * k;
        whole |= is_whole ? lanes : 0;
    }
    return whole;
}

/* ---- loads ---- */

static uint64_t extended(uint64_t value, const struct ptx_insn *insn) {
    uint32_t unused = 64 - 8u * insn->bytes;
    return insn->is_signed ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
}

static void count_load(struct warp *warp, const struct ptx_insn *insn, uint32_t lane, const struct place *place) {
    struct gpusim_counts *counts = &warp->block->grid->device->counts;
    counts->loads++;
    counts->load_bytes += (uint64_t)insn->bytes * insn->words;
    if (insn->flight_bytes > 0) {
        counts->flights++;
        counts->flight_bytes += insn->flight_bytes;
    }
    if (insn->order == ORDER_WEAK) {
        warp->block->loaded += (uint64_t)insn->bytes * insn->words;
        return;
    }
    counts->polls++;
    const bool is_remote = !range_is_local(place->range, warp->block->grid->device->number);
    counts->remote_polls += is_remote;
    counts->peer_polls += is_remote && place->range->kind != GPUSIM_HOST_MEMORY;
    if (insn->flight_polls == 0)
        return;
    counts->looks++;
    counts->waits += warp->polled[lane] != place->address;
    warp->polled[lane] = place->address;
}

static void load_word(struct warp *warp, const struct split *split, const struct ptx_insn *insn, uint32_t lane,
                      const struct place *place, uint32_t word) {
    uint64_t value = 0;
    if (place->inside != NULL) {
        memcpy(&value, place->inside + (size_t)word * insn->bytes, insn->bytes);
    } else {
        struct view view = warp_view(warp, lane);
        value = memory_load(&view, place->range, place->address + (uint64_t)word * insn->bytes, insn->bytes,
                            insn->order != ORDER_WEAK);
    }
    if (insn->dst[word] != PTX_NO_ROW)
        row_of(warp, &split->frames[split->depth], insn->dst[word])[lane] = extended(value, insn);
}

/* The same value for all lanes. */
static bool load_argument(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    if (insn->space != SPACE_PARAM || insn->src[0] != PTX_NO_ROW || insn->words != 1)
        return false;
    uint64_t value = 0, *dst = row_of(warp, &split->frames[split->depth], insn->dst[0]);
    memcpy(&value, warp->block->grid->args + insn->offset, insn->bytes);
    FOR_LANES(lane, split->mask) {
        dst[lane] = extended(value, insn);
        if (warp->chains != NULL)
            chains_load(warp->chains, &split->frames[split->depth], insn, lane, FROM_ARGUMENTS, 0);
    }
    return true;
}

static void acquire(struct warp *warp, const struct ptx_insn *insn, uint32_t mask) {
    struct view view = warp_view(warp, (uint32_t)__builtin_ctz(mask));
    warp->block->grid->device->counts.acquires += (uint32_t)__builtin_popcount(mask);
    memory_acquire(&view, insn->scope);
}

/* Parameters of functions are registers in truth, and those of kernels constants. */
static enum loaded_from loaded_from(const struct gpusim_grid *grid, const struct place *place,
                                    const struct ptx_insn *insn) {
    bool argument = place->address - (uintptr_t)grid->args < grid->f->params_end || insn->space == SPACE_PARAM;
    return place->range != NULL ? FROM_MEMORY : argument ? FROM_ARGUMENTS : FROM_SM;
}

/* A torn load does one word of lanes whose line is not whole, and the other one in a later turn. */
bool split_load(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    const struct gpusim_grid *grid = warp->block->grid;
    if (load_argument(warp, split, insn))
        return true;
    const uint64_t *bases = bases_of(warp, split, insn);
    bool pairs = insn->order != ORDER_WEAK && insn->bytes == 8 && insn->words == 2;
    uint32_t whole = pairs ? whole_lines(bases, insn, split->mask) : 0, done = split->torn;
    bool tears = pairs && done == 0 && (split->mask & ~whole) != 0 && chance(meanness.tear);
    uint32_t only = tears ? (uint32_t)(chance_number() & 1) : 0;
    for (uint32_t lane = PTX_LANES; lane-- > 0 && grid->fault == NULL;) { /* downwards: a line's last word first */
        struct place place;
        bool is_whole = whole >> lane & 1;
        if (!(split->mask >> lane & 1) || (tears && is_whole) ||
            !find_place(warp, split, insn, lane, bases[lane], false, &place))
            continue;
        if (warp->chains != NULL && done == 0)
            chains_load(warp->chains, &split->frames[split->depth], insn, lane, loaded_from(grid, &place, insn),
                        place.address);
        if (place.range != NULL && done == 0)
            count_load(warp, insn, lane, &place);
        for (uint32_t word = insn->words; word-- > 0;)
            if (is_whole || (!tears && word + 1 != done) || (tears && word == only))
                load_word(warp, split, insn, lane, &place, word);
    }
    split->torn = tears ? (uint8_t)(1 + only) : 0;
    if (insn->order == ORDER_ACQUIRE && !tears)
        acquire(warp, insn, split->mask);
    return !tears;
}

/* ---- stores ---- */

static void store_word(struct warp *warp, const struct ptx_insn *insn, uint32_t lane, const struct place *place,
                       uint32_t word, uint64_t value, bool now) {
    if (place->inside != NULL) {
        memcpy(place->inside + (size_t)word * insn->bytes, &value, insn->bytes);
        return;
    }
    struct view view = warp_view(warp, lane);
    (now ? memory_store_now : memory_store)(&view, place->address + (uint64_t)word * insn->bytes, insn->bytes, value);
}

static void release(struct warp *warp, const struct ptx_insn *insn, uint32_t lane) {
    struct view view = warp_view(warp, lane);
    warp->block->grid->device->counts.fences[insn->scope]++;
    memory_release(&view, insn->scope);
}

static void count_store(struct warp *warp, const struct ptx_insn *insn, const struct place *place) {
    struct gpusim_counts *counts = &warp->block->grid->device->counts;
    uint32_t bytes = (uint32_t)insn->bytes * insn->words;
    counts->stores++;
    counts->store_bytes += bytes;
    counts->remote_store_bytes += range_is_local(place->range, warp->block->grid->device->number) ? 0 : bytes;
}

void split_store(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    const uint64_t *bases = bases_of(warp, split, insn);
    bool pairs = insn->order != ORDER_WEAK && insn->bytes == 8 && insn->words == 2;
    uint32_t whole = pairs ? whole_lines(bases, insn, split->mask) : 0;
    FOR_LANES(lane, split->mask) { /* upwards: a line's last word last */
        struct place place;
        if (!find_place(warp, split, insn, lane, bases[lane], true, &place))
            return;
        if (insn->order == ORDER_RELEASE)
            release(warp, insn, lane);
        if (place.range != NULL)
            count_store(warp, insn, &place);
        for (uint32_t word = 0; word < insn->words; word++) {
            uint64_t value = row_of(warp, &split->frames[split->depth], insn->src[1 + word])[lane];
            if (insn->bytes < 8)
                value &= (1ull << 8 * insn->bytes) - 1;
            store_word(warp, insn, lane, &place, word, value, whole >> lane & 1);
        }
    }
}

/* ---- multimem: each replica is memory of its own, which the switch reads or writes in any order ---- */

/* Where the lane's word is in a replica; NULL range: it is nowhere, and the grid has faulted. */
static struct place replica_of(struct warp *warp, const struct split *split, uint32_t lane, const struct place *place,
                               uint32_t k) {
    uint64_t begin = place->range->replicas[k], address = begin + (place->address - place->range->base);
    struct place replica = {NULL, begin == 0 ? NULL : memory_range_of(address), address};
    if (replica.range == NULL || replica.range->freed) {
        warp_fault(warp, split, lane, "0x%llx is a multicast address, and GPU %u of the team has no memory there",
                   (unsigned long long)place->address, k);
        replica.range = NULL;
    }
    return replica;
}

static float float_of(uint32_t bits, enum ptx_floats floats) {
    float value;
    if (floats == FLOATS_HALVES)
        return type_load_half((uint16_t)bits);
    bits = floats == FLOATS_UPPERS ? bits << 16 : bits;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of(float value, enum ptx_floats floats) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return floats == FLOATS_ONE ? bits : floats == FLOATS_HALVES ? type_store_half(value) : type_store_bfloat16(value);
}

/* One word of all replicas, from a random one on. The switch has f32 for sums. */
static uint64_t reduce_word(const struct view *view, const struct ptx_insn *insn, const struct place *replicas,
                            uint32_t n, uint32_t word) {
    uint32_t parts = insn->floats == FLOATS_ONE ? 1 : 2, result = 0, first = (uint32_t)(chance_number() % n);
    float sums[2] = {0, 0};
    for (uint32_t k = 0; k < n; k++) {
        const struct place *replica = &replicas[(first + k) % n];
        uint32_t bits =
            (uint32_t)memory_alias_load(view, replica->range, replica->address + (uint64_t)word * insn->bytes,
                                        insn->bytes, insn->order != ORDER_WEAK);
        for (uint32_t part = 0; part < parts; part++) {
            float value = float_of(parts == 1 ? bits : bits >> 16 * part & 0xffff, (enum ptx_floats)insn->floats);
            sums[part] = k == 0                     ? value
                         : insn->kind == ATOMIC_ADD ? sums[part] + value
                         : insn->kind == ATOMIC_MIN ? fminf(sums[part], value)
                                                    : fmaxf(sums[part], value);
        }
    }
    for (uint32_t part = 0; part < parts; part++)
        result |= bits_of(sums[part], (enum ptx_floats)insn->floats) << 16 * part;
    return result;
}

/* False: the lane has none, and the grid has faulted. */
static bool find_replicas(struct warp *warp, const struct split *split, const struct ptx_insn *insn, uint32_t lane,
                          bool writes, struct place *place, struct place replicas[GPUSIM_DEVICES_MAX]) {
    if (!find_place(warp, split, insn, lane, bases_of(warp, split, insn)[lane], writes, place))
        return false;
    for (uint32_t k = 0; k < place->range->nreplicas; k++) {
        replicas[k] = replica_of(warp, split, lane, place, k);
        if (replicas[k].range == NULL)
            return false;
    }
    return true;
}

void split_multi_load(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    uint64_t values[PTX_LANES][4];
    FOR_LANES(lane, split->mask) {
        struct place place, replicas[GPUSIM_DEVICES_MAX];
        struct view view = warp_view(warp, lane);
        if (!find_replicas(warp, split, insn, lane, false, &place, replicas))
            return;
        count_load(warp, insn, lane, &place);
        warp->block->grid->device->counts.multi_loads++;
        for (uint32_t word = 0; word < insn->words; word++)
            values[lane][word] = reduce_word(&view, insn, replicas, place.range->nreplicas, word);
    }
    FOR_LANES(lane, split->mask)
    for (uint32_t word = 0; word < insn->words; word++)
        row_of(warp, &split->frames[split->depth], insn->dst[word])[lane] = values[lane][word];
}

void split_multi_store(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    FOR_LANES(lane, split->mask) {
        struct place place, replicas[GPUSIM_DEVICES_MAX];
        if (!find_replicas(warp, split, insn, lane, true, &place, replicas))
            return;
        count_store(warp, insn, &place);
        warp->block->grid->device->counts.multi_stores++;
        struct view view = warp_view(warp, lane);
        for (uint32_t k = 0; k < place.range->nreplicas; k++)
            for (uint32_t word = 0; word < insn->words; word++)
                memory_alias_store(&view, replicas[k].address + (uint64_t)word * insn->bytes, insn->bytes,
                                   (uint32_t)row_of(warp, &split->frames[split->depth], insn->src[1 + word])[lane]);
    }
}

/* ---- atomics and fences ---- */

static uint64_t atomic_value(const struct ptx_insn *insn, uint64_t old, uint64_t a, uint64_t b) {
    uint64_t x = extended(old, insn), y = extended(a, insn);
    bool less = insn->is_signed ? (int64_t)x < (int64_t)y : x < y;
    switch ((enum ptx_atomic)insn->kind) {
    case ATOMIC_EXCH: return a;
    case ATOMIC_ADD: return old + a;
    case ATOMIC_CAS: return old == a ? b : old;
    case ATOMIC_MIN: return less ? old : a;
    case ATOMIC_MAX: return less ? a : old;
    case ATOMIC_AND: return old & a;
    case ATOMIC_OR: return old | a;
    case ATOMIC_XOR: return old ^ a;
    case ATOMIC_INC: return old >= a ? 0 : old + 1;
    }
    return old;
}

static uint64_t atomic_at(const struct ptx_insn *insn, void *at, uint64_t a, uint64_t b) {
    if (insn->bytes == 8) {
        uint64_t old = __atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n((uint64_t *)at, &old, atomic_value(insn, old, a, b), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        }
        return old;
    }
    uint32_t old = __atomic_load_n((uint32_t *)at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n((uint32_t *)at, &old,
                                        (uint32_t)atomic_value(insn, old, (uint32_t)a, (uint32_t)b), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

void split_atomic(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    const struct frame *frame = &split->frames[split->depth];
    const uint64_t *bases = bases_of(warp, split, insn);
    FOR_LANES(lane, split->mask) {
        struct place place;
        if (!find_place(warp, split, insn, lane, bases[lane], true, &place))
            return;
        uint64_t a = row_of(warp, frame, insn->src[1])[lane];
        uint64_t b = insn->src[2] == PTX_NO_ROW ? 0 : row_of(warp, frame, insn->src[2])[lane];
        if (insn->order == ORDER_RELEASE || insn->order == ORDER_ACQ_REL)
            release(warp, insn, lane);
        struct view view = warp_view(warp, lane);
        if (place.range != NULL)
            memory_settle(&view, place.address);
        uint64_t old = atomic_at(insn, (void *)(uintptr_t)place.address, a, b);
        if (insn->dst[0] != PTX_NO_ROW)
            row_of(warp, frame, insn->dst[0])[lane] = extended(old, insn);
        if (insn->order == ORDER_ACQUIRE || insn->order == ORDER_ACQ_REL)
            memory_acquire(&view, insn->scope);
    }
}

void split_alias_fence(struct warp *warp, struct split *split) {
    struct view view = warp_view(warp, (uint32_t)__builtin_ctz(split->mask));
    memory_alias_fence(&view);
}

void split_fence(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    FOR_LANES(lane, split->mask) {
        struct view view = warp_view(warp, lane);
        warp->block->grid->device->counts.fences[insn->scope]++;
        warp->block->fenced |= insn->scope == SCOPE_SYS;
        if (insn->order != ORDER_ACQUIRE)
            memory_release(&view, insn->scope);
        if (insn->order != ORDER_RELEASE)
            memory_acquire(&view, insn->scope);
    }
}
