/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases that the host checks: inputs drawn on the host, a reference in double precision, and every byte beside the results.
 */
#include "gpu/accept.h"

#include <stddef.h>

/* In memory that is lent, if that is large enough. */
static void *mirror_guard(const struct guard *guard, enum gpu_side_memory kind, void *lent) {
    if (guard->memory == NULL)
        return NULL;
    void *memory = lent != NULL ? lent : side->memory(guard->total_bytes, kind);
    side->copy(memory, guard->memory, guard->total_bytes);
    return memory;
}

static const void *moved(const struct mirror *m, const void *address) {
    const struct guard *guards[] = {&m->host.in.guard, &m->host.out.guard};
    void *const places[] = {m->in, m->out};
    for (int k = 0; k < 2; k++) {
        const unsigned char *first = guards[k]->memory;
        if (first != NULL && (const unsigned char *)address >= first &&
            (const unsigned char *)address < first + guards[k]->total_bytes)
            return (char *)places[k] + ((const unsigned char *)address - first);
    }
    return address; /* NULL, or one that nobody looks at */
}

/* On the rank's own GPU: nothing else is promised to be within its reach. */
void mirror_create(struct mirror *m, const struct trial_call *call, int rank, int gpu, enum gpu_side_memory kind,
                   char *const *lent) {
    int before = side->current();
    trial_prepare(&m->host, call, rank);
    m->ordinal = gpu;
    m->kind = kind;
    m->is_lent = lent != NULL;
    side->use(gpu);
    m->in = mirror_guard(&m->host.in.guard, kind, lent != NULL ? lent[0] : NULL);
    m->out = mirror_guard(&m->host.out.guard, kind, lent != NULL ? lent[1] : NULL);
    m->gpu = m->host;
    m->gpu.sendbuff = moved(m, m->host.sendbuff);
    m->gpu.recvbuff = (void *)moved(m, m->host.recvbuff);
    side->use(before);
}

bool mirror_check(struct mirror *m, char why[TRIAL_WHY_BYTES]) {
    int before = side->current();
    side->use(m->ordinal);
    if (m->in != NULL)
        side->copy(m->host.in.guard.memory, m->in, m->host.in.guard.total_bytes);
    side->copy(m->host.out.guard.memory, m->out, m->host.out.guard.total_bytes);
    side->use(before);
    return trial_check(&m->host, why);
}

void mirror_destroy(struct mirror *m) {
    if (m->in != NULL && !m->is_lent)
        side->memory_free(m->in, m->kind);
    if (!m->is_lent)
        side->memory_free(m->out, m->kind);
    trial_destroy(&m->host);
}

void run_mirrored(const struct team *team, const struct trial_call *call, enum gpu_side_memory kind) {
    struct mirror mirrors[RANKS_MOST];
    char why[TRIAL_WHY_BYTES] = "", name[TRIAL_NAME_BYTES];
    bool right = true;
    trial_name(call, name);
    for (int rank = 0; rank < team->nranks; rank++)
        mirror_create(&mirrors[rank], call, rank, team_gpu(team, rank), kind,
                      kind == MEMORY_PLAIN ? case_memory(team, rank) : NULL);
    must(collet_group_start(), "collet_group_start");
    for (int rank = 0; rank < team->nranks; rank++)
        must(trial_run_in(&mirrors[rank].gpu, team->comms[rank], team->streams[rank]), name);
    must(collet_group_end(), name);
    team_wait(team);
    for (int rank = 0; rank < team->nranks; rank++)
        right = right && mirror_check(&mirrors[rank], why);
    judge(right, name, why);
    for (int rank = 0; rank < team->nranks; rank++)
        mirror_destroy(&mirrors[rank]);
}
