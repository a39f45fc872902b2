/* SPDX-License-Identifier: Apache-2.0 */
#include "common/life.h"

#include "common/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_TEXT(name, text) text,
const char *const moment_names[] = {LIFE_MOMENTS(LIFE_TEXT)};

/* splitmix64 */
uint64_t life_number(uint64_t seed, uint64_t k) {
    uint64_t z = (seed * 1000003 + k + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

bool life_names_rank(const char *text, int rank) {
    char name[16];
    snprintf(name, sizeof(name), "rank %d", rank);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at++)
        if (at[strlen(name)] < '0' || at[strlen(name)] > '9')
            return true;
    return false;
}

bool life_names_process(const char *text, int pid) {
    char meeting_point[48], door[48];
    snprintf(meeting_point, sizeof(meeting_point), ", pid %d)", pid);
    snprintf(door, sizeof(door), "process %d cannot", pid);
    return strstr(text, meeting_point) != NULL || strstr(text, door) != NULL;
}

/* "…: 0, 4" behind what an init says of ranks that are missing. */
bool life_misses_rank(const char *text, int rank) {
    const char *at = strstr(text, "have not come: ");
    if (at == NULL)
        at = strstr(text, "not connected yet: ");
    for (at = at != NULL ? strchr(at, ':') : NULL; at != NULL && (*at == ':' || *at == ',');) {
        char *end;
        if (strtol(at + 1, &end, 10) == rank)
            return true;
        at = end;
    }
    return false;
}

bool life_went_well(struct life *life, enum collet_result result) {
    struct outcome *outcome = life->outcome;
    if (result == COLLET_SUCCESS)
        return !__atomic_load_n(&life->aborted, __ATOMIC_ACQUIRE);
    outcome->result = result;
    snprintf(outcome->text, sizeof(outcome->text), "%s", collet_last_error(NULL));
    return false;
}

static bool is_wrong(struct life *life) { return !(life->outcome->wrong = true); }

static size_t begin_sum(struct life *life) {
    static const size_t sizes[] = {1, 999, LIFE_ELEMS_MAX};
    size_t elems = sizes[life_number(life->seed, 100 + ++life->calls) % 3];
    for (size_t i = 0; i < elems; i++)
        life->in[i] = (life->rank + 1) * (int)(i % 7 + life->calls);
    return elems;
}

static bool sum_is_exact(struct life *life, size_t elems) {
    const int n = life->nranks;
    for (size_t i = 0; i < elems; i++)
        if (life->out[i] != n * (n + 1) / 2 * (int)(i % 7 + life->calls))
            return is_wrong(life);
    return true;
}

bool life_sum(struct life *life, struct collet_comm *comm, struct collet_stream *stream) {
    size_t elems = begin_sum(life);
    return life_went_well(life, collet_allreduce(life->in, life->out, elems, COLLET_INT32, COLLET_SUM, comm, stream)) &&
           (stream == NULL || life_went_well(life, collet_stream_synchronize(stream))) && sum_is_exact(life, elems);
}

/* A sum, and a message around the ring. */
static bool group_once(struct life *life) {
    const int n = life->nranks, next = (life->rank + 1) % n, before = (life->rank + n - 1) % n;
    size_t elems = begin_sum(life);
    int sent = life->rank * 1000 + (int)life->calls, got = -1;
    collet_group_start();
    collet_allreduce(life->in, life->out, elems, COLLET_INT32, COLLET_SUM, life->comm, NULL);
    collet_send(&sent, 1, COLLET_INT32, next, life->comm, NULL);
    collet_recv(&got, 1, COLLET_INT32, before, life->comm, NULL);
    if (!life_went_well(life, collet_group_end()))
        return false;
    return got == before * 1000 + (int)life->calls ? sum_is_exact(life, elems) : is_wrong(life);
}

static bool use_stream(struct life *life) {
    struct collet_stream *stream;
    if (!library_is_whole)
        return life_sum(life, life->comm, NULL);
    if (!life_went_well(life, collet_stream_create(&stream))) {
        collet_comm_revoke(life->comm); /* no call has failed: the others do not know */
        return false;
    }
    bool well = true;
    for (int k = 0; k < 10 && well; k++)
        well = life_sum(life, life->comm, stream);
    collet_stream_destroy(stream);
    return well;
}

static bool use_split(struct life *life) {
    struct collet_comm *child;
    if (!library_is_whole)
        return life_sum(life, life->comm, NULL);
    if (!life_went_well(life, collet_comm_split(life->comm, 0, life->rank, &child, NULL)))
        return false;
    bool well = life_sum(life, child, NULL);
    collet_comm_destroy(child);
    return well;
}

static bool come_to(struct life *life, enum moment moment) {
    life->outcome->where = moment_names[moment];
    return life->go_on(life, moment);
}

bool life_live(struct life *life) {
    if (!come_to(life, INIT) ||
        !life_went_well(life, collet_comm_init_rank(&life->comm, life->nranks, life->id, life->rank)))
        return false;
    if (!come_to(life, FIRST) || !life_sum(life, life->comm, NULL) || !come_to(life, MANY))
        return false;
    for (int k = 0; k < 30; k++)
        if (!life_sum(life, life->comm, NULL))
            return false;
    if (!come_to(life, GROUP))
        return false;
    for (int k = 0; k < 5; k++)
        if (!group_once(life))
            return false;
    return come_to(life, STREAM) && use_stream(life) && come_to(life, SPLIT) && use_split(life) &&
           come_to(life, DESTROY);
}

void life_begin(struct life *life) {
    life->in = calloc(LIFE_ELEMS_MAX, sizeof(int));
    life->out = calloc(LIFE_ELEMS_MAX, sizeof(int));
}

void life_end(struct life *life) {
    free(life->in);
    free(life->out);
}
