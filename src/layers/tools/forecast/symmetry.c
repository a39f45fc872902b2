/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/forecast/symmetry.h"

#include "base/err.h"

#define ALL_HOSTS 64
#define SOME_HOSTS 16

static bool is_same_step(const struct prog_step *a, const struct prog_step *b) {
    return a->recv_first == b->recv_first && a->recv_count == b->recv_count && a->send_first == b->send_first &&
           a->send_count == b->send_count && a->locals_count == b->locals_count && a->count == b->count &&
           a->store_region == b->store_region;
}

static bool is_same_peer(const struct sim_cast *cast, const struct prog *a, const struct prog *b, int k) {
    int x = a->peers[k].rank, y = b->peers[k].rank;
    return a->peers[k].lane == b->peers[k].lane && sim_player_of(cast, x) == sim_player_of(cast, y) &&
           sim_distance(cast, a->rank, x) == sim_distance(cast, b->rank, y);
}

/* Have two programs the same steps, with peers at the same distances? */
static bool is_alike(const struct sim_cast *cast, const struct prog *a, const struct prog *b) {
    if (a->nworkers != b->nworkers || a->nsteps != b->nsteps || a->npeers != b->npeers)
        return false;
    for (int w = 0; w < a->nworkers; w++)
        if (a->workers[w].nsteps != b->workers[w].nsteps)
            return false;
    for (int s = 0; s < a->nsteps; s++)
        if (!is_same_step(&a->steps[s], &b->steps[s]))
            return false;
    for (int k = 0; k < a->npeers; k++)
        if (!is_same_peer(cast, a, b, k))
            return false;
    return true;
}

/* The host that is compared as the i-th one. If not all hosts are compared, some are spread over all, some are the first and
 * some the last ones. */
static int host_at(int i, int nhosts) {
    if (nhosts <= ALL_HOSTS)
        return i;
    if (i < SOME_HOSTS / 2)
        return (int)((int64_t)nhosts * (2 * i + 1) / SOME_HOSTS);
    return i % 2 == 0 ? 1 << (i - SOME_HOSTS / 2) / 2 : nhosts - (1 << (i - SOME_HOSTS / 2) / 2);
}

/* Compares rank `local` of every host with that of host 0, for each grouping that is still open. Closes a grouping if they
 * differ. */
static enum collet_result compare(const struct algorithm *algorithm, const struct prog_shape *shape, int local,
                                  struct sim_cast *casts, bool *open) {
    struct prog *first, *other;
    int nhosts = casts[0].nhosts, nlocal = casts[0].nlocal;
    enum collet_result result = algorithm_build(algorithm, shape, local, 0, &first);
    if (result != COLLET_SUCCESS)
        return result;
    for (int i = 0; i < (nhosts <= ALL_HOSTS ? nhosts : SOME_HOSTS) && (open[0] || open[1]); i++) {
        result = algorithm_build(algorithm, shape, host_at(i, nhosts) * nlocal + local, 0, &other);
        if (result != COLLET_SUCCESS)
            break;
        for (int k = 0; k < 2; k++)
            open[k] = open[k] && is_alike(&casts[k], first, other);
        prog_destroy(other);
    }
    prog_destroy(first);
    return result;
}

enum collet_result symmetry_find(const struct algorithm *algorithm, const struct prog_shape *shape, int nhosts,
                                 enum sim_grouping *grouping_p) {
    int nlocal = shape->nranks / nhosts;
    struct sim_cast casts[] = {{SIM_SHIFT, nhosts, nlocal}, {SIM_XOR, nhosts, nlocal}};
    bool open[] = {nhosts > 1, nhosts > 1 && (nhosts & (nhosts - 1)) == 0};
    for (int local = 0; local < nlocal && (open[0] || open[1]); local++)
        COLLET_TRY(compare(algorithm, shape, local, casts, open));
    *grouping_p = open[0] ? SIM_SHIFT : open[1] ? SIM_XOR : SIM_EACH;
    return COLLET_SUCCESS;
}
