/* SPDX-License-Identifier: Apache-2.0
 *
 * How the perf programs fill and check memory of GPUs: by kernels, in the order of the stream, and beside kernels that wait.
 */
#include "gpusim/each.h"

#include "../../examples/perf/perf.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

#define GOOD(call) each_equal((call), cudaSuccess, #call, "", __LINE__)

void launch_spin(const int *until, cudaStream_t stream);

static struct perf_origin sum_of_all(const struct perf_call *call, size_t element) {
    (void)call;
    return (struct perf_origin){PERF_ALL_RANKS, element, SIZE_MAX};
}
static struct perf_origin moved_from_2(const struct perf_call *call, size_t element) {
    (void)call;
    return (struct perf_origin){2, element, SIZE_MAX};
}
static const struct perf_collective sums = {.reduces = true, .origin = sum_of_all};
static const struct perf_collective moves = {.origin = moved_from_2};

/* Rank 1 of 3, on GPU 0. */
struct place {
    struct perf_call call;
    struct perf_buffers buffers;
    struct perf_wrong wrong[2];
};

static void place_make(struct place *place, const struct perf_collective *collective, enum collet_type type,
                       size_t count) {
    static const struct perf_options options = {.iters = 1};
    static const struct perf_job job = {.options = &options};
    device_choose(&job);
    DIFFER(perf_device == NULL, 1);
    perf_device->use(0);
    *place = (struct place){.call = {.collective = collective,
                                     .type = &perf_types[type],
                                     .op = perf_ops,
                                     .shape = {.count = count, .input = count, .output = count},
                                     .rank = 1,
                                     .nranks = 3,
                                     .stream = perf_device->stream()}};
    verify_allocate(&place->buffers, count * place->call.type->bytes, 1, PERF_NOT_REGISTERED, NULL);
    verify_fill(&place->buffers, &place->call, 7);
}

static size_t wrong_in(struct place *place) { return verify_check(&place->buffers, &place->call, 7, place->wrong); }

/* What the call owes. */
static void place_results(struct place *place) {
    const struct perf_call *call = &place->call;
    struct perf_pattern pattern =
        pattern_make(call->type, call->collective->reduces ? (int)call->op->op : PATTERN_MOVED, call->nranks, 7);
    struct perf_origin origin = call->collective->origin(call, 0);
    struct perf_span span = {0, call->shape.count, origin.element, origin.rank};
    perf_device->fill(place->buffers.recv, &pattern, &span, call->stream);
}

static void spoil(struct place *place, unsigned char *byte) {
    unsigned char bits;
    GOOD(cudaMemcpyAsync(&bits, byte, 1, cudaMemcpyDeviceToHost, place->call.stream));
    GOOD(cudaStreamSynchronize(place->call.stream));
    bits ^= 0x10;
    GOOD(cudaMemcpyAsync(byte, &bits, 1, cudaMemcpyHostToDevice, place->call.stream));
    GOOD(cudaStreamSynchronize(place->call.stream));
}

/* Far more elements than a sample has. */
static void each_wrong_element_is_counted(void) {
    enum { COUNT = 20000, GUARD = 64 };
    struct place place;
    place_make(&place, &sums, COLLET_FLOAT32, COUNT);
    DIFFER(wrong_in(&place) < COUNT / 2, 1); /* nothing has been called yet */
    place_results(&place);
    EQUAL(wrong_in(&place), 0);
    spoil(&place, place.buffers.recv + 4 * (COUNT / 2));
    EQUAL(wrong_in(&place), 1);
    EQUAL(place.wrong[1].places[0], GUARD + COUNT / 2);
    spoil(&place, place.buffers.recv - 1);
    spoil(&place, place.buffers.recv + 4 * COUNT);
    EQUAL(wrong_in(&place), 3);
    EQUAL(place.wrong[1].nplaces, 3);
    spoil(&place, place.buffers.send + 4 * 7);
    EQUAL(wrong_in(&place), 4);
    EQUAL(place.wrong[0].count, 1);
    EQUAL(place.wrong[0].places[0], GUARD + 7);
}

/* More elements than lanes: each lane takes several. */
static void every_element_of_a_large_buffer_is_looked_at(void) {
    enum { COUNT = 600000, GUARD = 256 };
    struct place place;
    place_make(&place, &moves, COLLET_UINT8, COUNT);
    place_results(&place);
    EQUAL(wrong_in(&place), 0);
    spoil(&place, place.buffers.recv + COUNT - 1);
    EQUAL(wrong_in(&place), 1);
    EQUAL(place.wrong[1].places[0], GUARD + COUNT - 1);
}

/* Filled by a kernel, checked by the host, for few and many ranks. */
static void host_and_gpu_agree(const struct perf_pattern *pattern, void *memory, void *stream) {
    enum { COUNT = 70 };
    const struct perf_span spans[] = {{0, COUNT / 2, 5000000000, PERF_ALL_RANKS}, {COUNT / 2, COUNT / 2, 7, 0}};
    uint64_t copy[COUNT];
    struct perf_wrong wrong = {.count = 0};
    for (int i = pattern->op == PATTERN_MOVED; i < 2; i++) {
        perf_device->fill(memory, pattern, &spans[i], stream);
        perf_device->read(copy, memory, COUNT * pattern->bytes, stream);
        span_check(copy, pattern, &spans[i], &wrong);
    }
    EQUAL(wrong.count, 0);
}

static void host_and_gpu_agree_on_every_type_and_operator(void) {
    static const int nranks[] = {1, 2, 17, 300};
    struct place place;
    place_make(&place, &moves, COLLET_FLOAT64, 500);
    for (const struct type_format *type = perf_types; type->name != NULL; type++)
        for (int k = 0; k < 4; k++) {
            struct perf_pattern moved = pattern_make(type, PATTERN_MOVED, nranks[k], 9);
            host_and_gpu_agree(&moved, place.buffers.recv, place.call.stream);
            for (const struct perf_op *op = perf_ops; op->name != NULL; op++) {
                struct perf_pattern pattern = pattern_make(type, (int)op->op, nranks[k], 9);
                if (perf_op_takes(op, type))
                    host_and_gpu_agree(&pattern, place.buffers.recv, place.call.stream);
            }
        }
}

static void overlook(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                     struct perf_wrong *wrong, void *stream) {
    (void)memory, (void)pattern, (void)span, (void)wrong, (void)stream;
}

/* The buffer is one sample. Ends the process. */
static void check_carelessly(void) {
    struct place place;
    place_make(&place, &moves, COLLET_INT32, 500);
    place_results(&place);
    spoil(&place, place.buffers.recv + 4 * 250);
    struct perf_device careless = *perf_device;
    careless.check = overlook;
    perf_device = &careless;
    wrong_in(&place);
}

static void a_kernel_that_overlooks_something_is_found_out(void) {
    char said[1024];
    int ends[2];
    size_t n = 0;
    EQUAL(pipe(ends), 0);
    if (fork() == 0) {
        dup2(ends[1], STDERR_FILENO);
        check_carelessly();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t some; n < sizeof(said) - 1 && (some = read(ends[0], said + n, sizeof(said) - 1 - n)) > 0;)
        n += (size_t)some;
    said[n] = '\0';
    static const char expected[] = "rank 1: of a sample, the GPU says that 0 elements are wrong, and the host 1\n";
    each_equal(strcmp(said, expected), 0, "what it says", said, __LINE__);
}

static int *gate(void) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 0;
    return word;
}

static void *open_later(void *word) {
    usleep(200000);
    *(volatile int *)word = 1;
    return NULL;
}

/* Streams of perf programs do not wait for the default one, nor does that wait for them. */
static void what_is_read_is_what_the_stream_wrote(void) {
    struct place place;
    pthread_t thread;
    int *word = gate();
    place_make(&place, &moves, COLLET_INT32, 5000);
    GOOD(cudaStreamSynchronize(place.call.stream));
    launch_spin(word, place.call.stream);
    place_results(&place);
    EQUAL(pthread_create(&thread, NULL, open_later, word), 0);
    EQUAL(wrong_in(&place), 0);
    pthread_join(thread, NULL);
}

/* As kernels of collectives wait, for ranks whose buffers are still to be filled. */
static void a_kernel_that_waits_does_not_keep_another_rank_from_filling(void) {
    struct place place;
    cudaStream_t other;
    int *word = gate();
    device_choose(&(struct perf_job){.options = &(struct perf_options){.iters = 1}});
    perf_device->use(0);
    perf_device->stream(); /* of a rank that was first */
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    launch_spin(word, other);
    place_make(&place, &moves, COLLET_INT32, 5000);
    place_results(&place);
    EQUAL(wrong_in(&place), 0); /* waits without end if a kernel had to be loaded */
    *(volatile int *)word = 1;
}

#define CASES(X)                                                                                                       \
    X(each_wrong_element_is_counted)                                                                                   \
    X(every_element_of_a_large_buffer_is_looked_at)                                                                    \
    X(host_and_gpu_agree_on_every_type_and_operator)                                                                   \
    X(a_kernel_that_overlooks_something_is_found_out)                                                                  \
    X(what_is_read_is_what_the_stream_wrote)                                                                           \
    X(a_kernel_that_waits_does_not_keep_another_rank_from_filling)
static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) {
    setenv("GPUSIM_GPUS", "1", 1);
    return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
