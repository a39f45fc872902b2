/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges, lists of pending stores, and L1. See memory.h.
 */
#include "gpusim/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- chance ---- */

struct gpusim_meanness meanness;
static uint64_t chance_state = 1;

static uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Mixed: sequences of neighbouring seeds must not be the same one, moved by a number. */
void chance_seed(uint64_t seed) { chance_state = mixed(seed + 0x632be59bd9b4e019u); }

uint64_t chance_number(void) { return mixed(chance_state += 0x9e3779b97f4a7c15u) >> 8; }

/* ---- memory itself: accesses that other threads and processes see whole ---- */

static uint64_t host_load(uint64_t address, uint32_t bytes) {
    void *at = (void *)(uintptr_t)address;
    switch (bytes) {
    case 1: return __atomic_load_n((uint8_t *)at, __ATOMIC_ACQUIRE);
    case 2: return __atomic_load_n((uint16_t *)at, __ATOMIC_ACQUIRE);
    case 4: return __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE);
    default: return __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE);
    }
}

static void host_store(uint64_t address, uint32_t bytes, uint64_t value) {
    void *at = (void *)(uintptr_t)address;
    switch (bytes) {
    case 1: __atomic_store_n((uint8_t *)at, (uint8_t)value, __ATOMIC_RELEASE); break;
    case 2: __atomic_store_n((uint16_t *)at, (uint16_t)value, __ATOMIC_RELEASE); break;
    case 4: __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELEASE); break;
    default: __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    }
}

/* The bytes of a mask by as few stores as there are aligned runs. */
static void host_store_masked(const struct pending *entry) {
    for (uint32_t at = 0; at < 8;) {
        uint32_t bytes = 8;
        while (bytes > 1 && (at % bytes != 0 || (entry->mask >> at & ((1u << bytes) - 1)) != (1u << bytes) - 1))
            bytes /= 2;
        if (entry->mask >> at & 1)
            host_store(entry->granule + at, bytes, entry->value >> 8 * at);
        at += bytes;
    }
}

/* ---- L1 ---- */

static struct l1_line *l1_place(struct l1 *l1, uint64_t address) {
    return &l1->lines[address / L1_LINE_BYTES % L1_LINES];
}

static void l1_forget(struct l1 *l1, uint64_t address) {
    struct l1_line *line = l1_place(l1, address);
    if (line->tag == address / L1_LINE_BYTES)
        line->generation = l1->generation - 1;
}

static void l1_fill(struct l1 *l1, struct l1_line *line, const struct range *range, uint64_t address) {
    uint64_t start = address / L1_LINE_BYTES * L1_LINE_BYTES, range_end = range->base + range->bytes;
    line->tag = address / L1_LINE_BYTES;
    line->generation = l1->generation;
    line->first = (uint8_t)(range->base > start ? range->base - start : 0);
    line->end = (uint8_t)(range_end < start + L1_LINE_BYTES ? range_end - start : L1_LINE_BYTES);
    for (uint32_t at = line->first; at < line->end;) {
        uint32_t bytes = at % 8 == 0 && at + 8 <= line->end ? 8 : 1;
        uint64_t value = host_load(start + at, bytes);
        memcpy(line->data + at, &value, bytes);
        at += bytes;
    }
}

static uint64_t line_value(const struct l1_line *line, uint64_t address, uint32_t bytes) {
    uint64_t value = 0;
    memcpy(&value, line->data + address % L1_LINE_BYTES, bytes);
    return value;
}

static bool line_has(const struct l1 *l1, const struct l1_line *line, uint64_t address, uint32_t bytes) {
    uint32_t at = (uint32_t)(address % L1_LINE_BYTES);
    return line->tag == address / L1_LINE_BYTES && line->generation == l1->generation && at >= line->first &&
           at + bytes <= line->end;
}

static uint64_t l1_load(struct l1 *l1, const struct range *range, uint64_t address, uint32_t bytes) {
    struct l1_line *line = l1_place(l1, address);
    if (!line_has(l1, line, address, bytes) || chance(meanness.evict))
        l1_fill(l1, line, range, address);
    return line_value(line, address, bytes);
}

/* ---- lists ---- */

static uint64_t filter_bit(uint64_t granule) { return 1ull << (granule * 0x9e3779b97f4a7c15u >> 58); }

static uint64_t bytes_of_mask(uint8_t mask) {
    uint64_t bytes = 0;
    for (int k = 0; k < 8; k++)
        if (mask >> k & 1)
            bytes |= 0xffull << 8 * k;
    return bytes;
}

static struct pending *list_find(const struct pending_list *list, uint64_t granule) {
    if (!(list->filter & filter_bit(granule)))
        return NULL;
    for (uint32_t k = 0; k < list->n; k++)
        if (list->entries[k].granule == granule)
            return &list->entries[k];
    return NULL;
}

static void list_remove(struct pending_list *list, struct pending *entry) {
    *entry = list->entries[--list->n];
    if (list->n % 8 != 0)
        return; /* the filter may say more than is true */
    list->filter = 0;
    for (uint32_t k = 0; k < list->n; k++)
        list->filter |= filter_bit(list->entries[k].granule);
}

/* `younger` over `older`. */
static void entry_merge(struct pending *older, const struct pending *younger) {
    uint64_t bytes = bytes_of_mask(younger->mask);
    older->value = (older->value & ~bytes) | (younger->value & bytes);
    older->mask |= younger->mask;
    if (older->l1 != younger->l1)
        l1_forget(older->l1, older->granule);
    older->l1 = younger->l1;
}

/* An entry goes to memory; older stores to the same granule, in the lists below, go with it. */
static void commit(const struct view *view, const struct pending *entry, struct pending_list *from) {
    struct pending_list *below[] = {view->device, from == view->lane ? view->block : NULL};
    struct pending all = {.granule = entry->granule, .l1 = entry->l1};
    for (int k = 0; k < 2; k++) {
        struct pending *older = below[k] == NULL || below[k] == from ? NULL : list_find(below[k], entry->granule);
        if (older != NULL) {
            entry_merge(&all, older);
            list_remove(below[k], older);
        }
    }
    entry_merge(&all, entry);
    host_store_masked(&all);
    l1_forget(all.l1, all.granule);
}

void memory_drain_one(const struct view *view, struct pending_list *list) {
    if (list->n == 0)
        return;
    uint32_t k = (uint32_t)(chance_number() % list->n);
    struct pending entry = list->entries[k];
    list_remove(list, &list->entries[k]);
    commit(view, &entry, list);
}

void memory_drain_all(const struct view *view, struct pending_list *list) {
    while (list->n > 0)
        memory_drain_one(view, list);
}

static void list_put(const struct view *view, struct pending_list *list, const struct pending *entry) {
    struct pending *older = list_find(list, entry->granule);
    if (older != NULL) {
        entry_merge(older, entry);
        return;
    }
    if (list->n == list->room)
        memory_drain_one(view, list);
    list->entries[list->n++] = *entry;
    list->filter |= filter_bit(entry->granule);
}

static void list_move(const struct view *view, struct pending_list *from, struct pending_list *to) {
    for (uint32_t k = 0; k < from->n; k++)
        list_put(view, to, &from->entries[k]);
    from->n = 0;
    from->filter = 0;
}

/* ---- loads and stores ---- */

static uint64_t overlay(const struct pending_list *list, uint64_t address, uint64_t value) {
    const struct pending *entry = list->n == 0 ? NULL : list_find(list, address & ~7ull);
    if (entry == NULL)
        return value;
    uint32_t shift = 8 * (address & 7);
    uint64_t bytes = bytes_of_mask(entry->mask) >> shift;
    return (value & ~bytes) | (entry->value >> shift & bytes);
}

uint64_t memory_load(const struct view *view, const struct range *range, uint64_t address, uint32_t bytes,
                     bool strong) {
    uint64_t value = strong ? host_load(address, bytes) : l1_load(view->l1, range, address, bytes);
    value = overlay(view->device, address, value);
    value = overlay(view->block, address, value);
    value = overlay(view->lane, address, value);
    return bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1);
}

static struct pending entry_of(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value) {
    uint32_t at = address & 7;
    return (struct pending){address & ~7ull, value << 8 * at, view->l1, (uint8_t)(((1u << bytes) - 1) << at)};
}

void memory_store(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value) {
    struct pending entry = entry_of(view, address, bytes, value);
    list_put(view, view->lane, &entry);
}

uint64_t memory_alias_load(const struct view *view, const struct range *range, uint64_t address, uint32_t bytes,
                           bool strong) {
    struct l1_line *line = l1_place(view->alias_l1, address);
    if (line_has(view->alias_l1, line, address, bytes) && !chance(meanness.evict))
        return line_value(line, address, bytes);
    if (strong) {
        l1_fill(view->alias_l1, line, range, address);
    } else {
        l1_load(view->l1, range, address, bytes);
        *line = *l1_place(view->l1, address);
        line->generation = view->alias_l1->generation;
    }
    return line_value(line, address, bytes);
}

void memory_alias_store(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value) {
    struct pending entry = entry_of(view, address, bytes, value);
    list_put(view, view->aliased, &entry);
}

void memory_settle(const struct view *view, uint64_t address) {
    struct pending_list *lists[] = {view->lane, view->block, view->device};
    for (int k = 0; k < 3; k++) {
        struct pending *found = list_find(lists[k], address & ~7ull);
        if (found == NULL)
            continue;
        struct pending entry = *found;
        list_remove(lists[k], found);
        commit(view, &entry, lists[k]);
    }
    l1_forget(view->l1, address);
}

void memory_store_now(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value) {
    memory_settle(view, address);
    host_store(address, bytes, value);
}

/* ---- order ---- */

void memory_share(const struct view *view) { list_move(view, view->lane, view->block); }

void memory_pass_on(const struct view *view) { list_move(view, view->block, view->device); }

void memory_release(const struct view *view, enum ptx_scope scope) {
    memory_share(view);
    if (scope == SCOPE_CTA)
        return;
    memory_pass_on(view);
    if (scope == SCOPE_SYS)
        memory_drain_all(view, view->device);
}

/* Some lines that L1 has had: it may fetch them again whenever it likes, long before they are loaded. */
static void l1_prefetch(struct l1 *l1) {
    for (int k = 0; k < L1_PREFETCHES; k++) {
        struct l1_line *line = &l1->lines[chance_number() % L1_LINES];
        uint64_t address = line->tag * L1_LINE_BYTES + line->first;
        const struct range *range = line->tag == 0 ? NULL : memory_range_of(address);
        if (range != NULL && !range->freed)
            l1_fill(l1, line, range, address);
    }
}

void memory_acquire(const struct view *view, enum ptx_scope scope) {
    if (scope == SCOPE_CTA)
        return;
    view->l1->generation++;
    l1_prefetch(view->l1);
}

void memory_alias_fence(const struct view *view) {
    list_move(view, view->aliased, view->block);
    view->alias_l1->generation++;
    l1_prefetch(view->alias_l1);
}

/* ---- ranges ---- */

static struct range **ranges; /* by their addresses; those that are forgotten are not here, but in `all` */
static struct range **all;
static uint32_t nranges, nall;
static uint32_t peers[GPUSIM_DEVICES_MAX]; /* of an owner: the GPUs that may touch its memory */

static uint32_t range_behind(uint64_t address) {
    uint32_t low = 0, high = nranges;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ranges[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct range *memory_range_of(uint64_t address) {
    uint32_t behind = range_behind(address);
    if (behind == 0 || address - ranges[behind - 1]->base >= ranges[behind - 1]->bytes)
        return NULL;
    return ranges[behind - 1];
}

void memory_reset(void) {
    for (uint32_t k = 0; k < nall; k++)
        free(all[k]);
    free(all);
    free(ranges);
    all = ranges = NULL;
    nall = nranges = 0;
    for (uint32_t k = 0; k < GPUSIM_DEVICES_MAX; k++)
        peers[k] = 1u << k;
}

static void range_forget(uint32_t k) { memmove(ranges + k, ranges + k + 1, (--nranges - k) * sizeof(*ranges)); }

/* Rights that are granted one by one, not those of peers. */
static bool is_granted(const struct range *range) {
    return range->kind == GPUSIM_GRANTED || range->kind == GPUSIM_MULTICAST;
}

static void range_rights(struct range *range) {
    if (!is_granted(range))
        range->readers = range->writers = range->kind == GPUSIM_HOST_MEMORY ? ~0u : peers[range->owner];
}

bool memory_range_add(void *base, size_t bytes, enum gpusim_kind kind, uint32_t owner) {
    uint64_t from = (uintptr_t)base;
    for (uint32_t k = nranges; k-- > 0;) {
        const struct range *other = ranges[k];
        if (other->base >= from + bytes || other->base + other->bytes <= from)
            continue;
        if (!other->freed)
            return gpusim_fail("[%p, %p + %zu) overlaps the range at %p", base, base, bytes,
                               (void *)(uintptr_t)other->base);
        range_forget(k);
    }
    struct range *range = calloc(1, sizeof(*range));
    ranges = realloc(ranges, (nranges + 1) * sizeof(*ranges));
    all = realloc(all, (nall + 1) * sizeof(*all));
    if (range == NULL || ranges == NULL || all == NULL)
        abort();
    *range = (struct range){.base = from, .bytes = bytes, .kind = kind, .owner = owner};
    if (kind == GPUSIM_GRANTED)
        range->readers = range->writers = 1u << owner;
    range_rights(range);
    uint32_t at = range_behind(from);
    memmove(ranges + at + 1, ranges + at, (nranges++ - at) * sizeof(*ranges));
    ranges[at] = all[nall++] = range;
    return true;
}

static struct range *range_at(void *base) { return (struct range *)memory_range_of((uintptr_t)base); }

void memory_range_grant(void *base, uint32_t device, bool may_read, bool may_write) {
    struct range *range = range_at(base);
    if (range == NULL || !is_granted(range))
        return;
    range->readers = (range->readers & ~(1u << device)) | (uint32_t)may_read << device;
    range->writers = (range->writers & ~(1u << device)) | (uint32_t)may_write << device;
}

#define POISON 0xdb

void memory_range_bind(void *base, uint32_t k, uint32_t nreplicas, void *memory) {
    struct range *range = range_at(base);
    if (range == NULL || k >= GPUSIM_DEVICES_MAX)
        return;
    range->nreplicas = nreplicas;
    range->replicas[k] = (uintptr_t)memory;
}

void memory_range_free(void *base) {
    struct range *range = range_at(base);
    if (range == NULL || range->freed)
        return;
    range->freed = true;
    if (range->kind == GPUSIM_DEVICE_MEMORY || range->kind == GPUSIM_GRANTED)
        memset(base, POISON, range->bytes);
}

void memory_peer_access(uint32_t device, uint32_t owner, bool allowed) {
    peers[owner] = (peers[owner] & ~(1u << device)) | (uint32_t)(allowed || device == owner) << device;
    for (uint32_t k = 0; k < nranges; k++)
        range_rights(ranges[k]);
}
