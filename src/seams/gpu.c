/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "gpu".
 */
#include "seams/gpu.h"

#include "base/err.h"
#include "seams/gpu_plan.h"
#include "seams/proxy.h"

enum collet_result gpu_find(int device, const char *argument, int *ordinal_p) {
    (void)ordinal_p;
    return err_set(COLLET_ERR_UNSUPPORTED, "%s is %d, a GPU: this build of collet knows host memory only", argument,
                   device);
}

/* ---- of ranks on GPUs: never called, or there is nothing to do ---- */

enum collet_result gpu_pinned_create(const struct gpu_rank *rank, size_t bytes, void **memory_p) {
    (void)rank, (void)bytes, (void)memory_p;
    return err_set(COLLET_ERR_UNSUPPORTED, "this build of collet knows host memory only");
}

void gpu_pinned_destroy(const struct gpu_rank *rank, void *memory) { (void)rank, (void)memory; }

enum collet_result launch_run(struct post *posts, int nposts) {
    (void)posts, (void)nposts;
    return COLLET_SUCCESS;
}

enum collet_result gpu_limit(const struct chan *chan, const struct config *config, const struct map *map,
                             struct tuner_limits *limits) {
    (void)chan, (void)config, (void)map, (void)limits;
    return COLLET_SUCCESS;
}

enum collet_result gpu_choose(const struct chan *chan, struct tuner_limits *limits, const struct exec_request *request,
                              uint64_t bytes, struct plan_choice *choice) {
    (void)chan, (void)limits, (void)request, (void)bytes, (void)choice;
    return COLLET_SUCCESS;
}

void gpu_mark(const struct chan *chan, struct exec_request *request) { (void)chan, (void)request; }

/* ---- proxies ---- */

enum collet_result proxy_serve(struct chan *chan) {
    (void)chan;
    return COLLET_SUCCESS;
}

void proxy_pause(struct chan *chan) { (void)chan; }

void proxy_resume(struct chan *chan) { (void)chan; }

void proxy_count(struct chan *chan, struct conn *const *conns, int nconns, int more) {
    (void)chan, (void)conns, (void)nconns, (void)more;
}
