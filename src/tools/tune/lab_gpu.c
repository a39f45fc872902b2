/* SPDX-License-Identifier: Apache-2.0
 *
 * The lab on GPUs: all ranks in this process, dealt to the GPUs it sees, each call a group. A candidate has a communicator of
 * its own, which is closed before the next one takes memory for its connections. Calls of a sample stand in the GPUs' streams
 * one behind another; what is timed is from the first launch to the end of the last.
 *
 *      candidate A │ 8 B: calls, calls, … │ 32 B: calls, calls, … │ …      candidate B │ …
 */
#include "tools/tune/lab.h"

#include "base/err.h"
#include "base/os.h"
#include "base/wait.h"
#include "bench/board.h"
#include "gpu/gpu.h"
#include "exec/exec.h"
#include "plan/atlas.h"
#include "plan/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_NS 2e6 /* how long the timed calls of a sample should take together … */
#define SAMPLE_CALLS_MAX 200
#define SIZE_NS 0.3e9 /* and all of a candidate at one size */

static const int channels_tried[] = {1, 4, 16}; /* but no more than the options say */

#define CHANNELS (sizeof(channels_tried) / sizeof(*channels_tried))

struct bench {
    struct lab *lab;
    const struct gpu_driver *driver;
    int devices[LAB_RANKS_MAX], ordinals[LAB_RANKS_MAX];
    struct collet_comm *comms[LAB_RANKS_MAX];
    void *in[LAB_RANKS_MAX], *out[LAB_RANKS_MAX], *event[LAB_RANKS_MAX];
};

static void must(enum collet_result result, const char *what) {
    if (result != COLLET_SUCCESS)
        bench_die("%s: %s", what, err_last());
}

/* ---- the machine, as a communicator of these ranks would see it ---- */

static struct map *map_of(const struct bench *bench, const struct config *config, const struct cost_table *costs,
                          const struct peer_info *peers) {
    int n = bench->lab->options.nranks;
    const struct topo *topo;
    int32_t place[LAB_RANKS_MAX];
    char *graph;
    void *atlas;
    size_t size;
    struct map *map;
    must(topo_here(config->topo_file, &topo), "the topology");
    for (int r = 0; r < n; r++) {
        struct topo_whereabouts where = {.rank = r};
        gpu_busid(bench->ordinals[r], where.busid);
        place[r] = topo_locate(topo, &where);
    }
    must(topo_share(topo, n, place, &graph), "the topology");
    struct atlas_node node = {.graph = graph, .graph_bytes = strlen(graph), .nlocal = n, .place = place};
    must(atlas_pack(&node, 1, costs, &atlas, &size), "the map");
    must(map_create(peers, n, atlas, size, &map), "the map");
    free(graph);
    free(atlas);
    return map;
}

static void describe_machine(struct bench *bench, const struct config *config, const struct cost_table *costs) {
    struct lab *lab = bench->lab;
    int n = lab->options.nranks;
    struct peer_info peers[LAB_RANKS_MAX];
    struct gpu_rank gpu = {.driver = bench->driver};
    struct chan chan = {.owner = {.config = config, .peers = peers, .nranks = n, .gpu = &gpu}};
    memset(peers, 0, sizeof(peers));
    for (int r = 0; r < n; r++)
        peers[r] = (struct peer_info){.rank = r, .device = bench->devices[r]};
    chan_layouts(config, &(struct chan_scale){n, n, false, true}, chan.owner.layouts);
    lab->map = map_of(bench, config, costs, peers);
    must(map_shape(lab->map, peers, 0, &lab->shape), "the order of ranks");
    must(model_create(&chan, config, lab->map, &lab->shape, 1, &lab->model), "the cost model");
    lab->machine[LAB_NEAR] = lab->machine[LAB_FAR] = lab->model->machine;
    must(tuner_limits_read(config, chan.owner.layouts, 1, &lab->limits), "the configuration");
}

/* ---- measuring ---- */

/* False: such a communicator, or call, cannot be here. */
static bool works(enum collet_result result) {
    if (result != COLLET_ERR_UNSUPPORTED)
        must(result, "an allreduce among GPUs");
    return result == COLLET_SUCCESS;
}

static bool open_comms(struct bench *bench, const struct plan_choice *candidate) {
    lab_set_candidate(candidate);
    return works(collet_comm_init_all(bench->comms, bench->lab->options.nranks, bench->devices));
}

static bool call(struct bench *bench, uint64_t bytes, int times) {
    enum collet_result result = COLLET_SUCCESS, ended;
    for (int k = 0; k < times && result == COLLET_SUCCESS; k++) {
        must(collet_group_start(), "a group");
        for (int r = 0; r < bench->lab->options.nranks && result == COLLET_SUCCESS; r++)
            result = collet_allreduce(bench->in[r], bench->out[r], bytes / sizeof(float), COLLET_FLOAT32, COLLET_SUM,
                                      bench->comms[r], NULL);
        ended = collet_group_end();
        result = result != COLLET_SUCCESS ? result : ended;
    }
    return works(result);
}

static void wait_for_gpus(struct bench *bench) {
    struct waiter waiter = {.spin = 100};
    for (int r = 0; r < bench->lab->options.nranks; r++) {
        struct gpu_scope scope = bench->driver->enter(bench->ordinals[r]);
        must(bench->driver->streams->record(bench->event[r], NULL, false), "an event");
        enum collet_result reached;
        while ((reached = bench->driver->streams->query(bench->event[r])) == COLLET_IN_PROGRESS)
            wait_pause(&waiter);
        must(reached, "a GPU");
        bench->driver->leave(scope);
        enum collet_result failure;
        must(collet_comm_get_async_error(bench->comms[r], &failure), "a communicator");
        must(failure, "a communicator");
    }
}

/* ns a call; 0: it cannot be. */
static double sample(struct bench *bench, uint64_t bytes, int calls) {
    uint64_t begin_ns = os_now_ns();
    if (!call(bench, bytes, calls))
        return 0;
    wait_for_gpus(bench);
    return (double)(os_now_ns() - begin_ns) / calls;
}

static void fill_cell(struct bench *bench, int size, int candidate) {
    struct lab *lab = bench->lab;
    struct lab_cell *cell = &lab->cells[size][candidate];
    uint64_t bytes = lab->options.sizes[size];
    double ns = sample(bench, bytes, 1); /* makes connections, too: all that is only done once */
    double until_ns = (double)os_now_ns() + SIZE_NS;
    for (int round = 0; round < lab->rounds && ns > 0; round++) {
        ns = sample(bench, bytes, (int)fmin(fmax(SAMPLE_NS / ns, 1), SAMPLE_CALLS_MAX));
        cell->us[round] = (float)(ns / 1000);
        cell->class[round] = LAB_NEAR;
        if ((double)os_now_ns() > until_ns)
            break;
    }
}

static void measure(struct bench *bench, int candidate) {
    struct lab *lab = bench->lab;
    for (int size = 0; size < lab->options.nsizes; size++)
        memset(lab->cells[size][candidate].class, LAB_CLASSES, sizeof(lab->cells[size][candidate].class));
    if (!open_comms(bench, &lab->candidates[candidate]))
        return;
    for (int size = 0; size < lab->options.nsizes; size++)
        fill_cell(bench, size, candidate);
    for (int r = 0; r < lab->options.nranks; r++)
        must(collet_comm_destroy(bench->comms[r]), "the end of a communicator");
}

/* ---- all of it ---- */

static void make_buffers(struct bench *bench, int count) {
    const struct lab_options *options = &bench->lab->options;
    uint64_t most = options->sizes[options->nsizes - 1];
    for (int r = 0; r < options->nranks; r++) {
        bench->ordinals[r] = r % count;
        bench->devices[r] = COLLET_DEVICE_CUDA(r % count);
        must(bench->driver->open(r % count), "a GPU");
        struct gpu_scope scope = bench->driver->enter(r % count);
        must(bench->driver->memory->create(most, &bench->in[r]), "a buffer");
        must(bench->driver->memory->create(most, &bench->out[r]), "a buffer");
        must(bench->driver->streams->event_create(&bench->event[r]), "an event");
        bench->driver->leave(scope);
    }
}

static void free_buffers(struct bench *bench) {
    for (int r = 0; r < bench->lab->options.nranks; r++) {
        struct gpu_scope scope = bench->driver->enter(bench->ordinals[r]);
        bench->driver->memory->destroy_now(bench->in[r]);
        bench->driver->memory->destroy_now(bench->out[r]);
        bench->driver->streams->event_destroy(bench->event[r]);
        bench->driver->leave(scope);
    }
}

void lab_measure_gpus(const struct lab_options *options, const struct cost_table *costs, int rounds,
                      struct lab **lab_p) {
    struct config config;
    const char *why;
    struct bench bench = {.driver = gpu_driver(), .lab = calloc(1, sizeof(*bench.lab))};
    if (bench.lab == NULL)
        bench_die("no memory");
    lab_forget_candidates();
    unsetenv("COLLET_NCHANNELS");
    must(config_read(&config), "the configuration");
    bench.lab->options = *options;
    bench.lab->rounds = rounds;
    make_buffers(&bench, bench.driver->count(&why));
    describe_machine(&bench, &config, costs);
    lab_list_candidates(bench.lab, channels_tried, CHANNELS);
    for (int k = 0; k < bench.lab->ncandidates; k++)
        measure(&bench, k);
    free_buffers(&bench);
    *lab_p = bench.lab;
}
