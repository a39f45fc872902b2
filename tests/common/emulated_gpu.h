/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs that are none: a driver (layers/gpu/gpu.h) whose memory is the host's, whose streams are threads, and whose kernels are
 * those of kernel.cuh, run by lanes. With it everything between collet.h and a CUDA call is tested without a GPU.
 *
 * A stream that captures collects its work, which emulated_graph_run() puts into a stream as often as one likes.
 */
#ifndef COLLET_TESTS_EMULATED_GPU_H
#define COLLET_TESTS_EMULATED_GPU_H

#include "layers/gpu/gpu.h"

extern const struct gpu_driver emulated_gpu_driver;

/* How many there are (2 at first), which see which (all at first: bit b of mask a says that a reaches b), and how many
 * blocks each runs at the same time (64 at first). Before the first communicator. */
void emulated_gpu_set(int count, const uint32_t *reach_masks, uint32_t resident);

/* What all are called. The text must stay. */
void emulated_gpu_set_model(const char *name);

/* Which keep lines whole in memory of which, by NVLink (each its own alone, at first); masks as above, NULL for none. */
void emulated_gpu_set_nvlink(const uint32_t *masks);

/* Whatever is asked about work of this process fails, as where a kernel of the user has gone astray. */
void emulated_gpu_break(bool broken);

/* Streams no longer wait for words: a test that needs their waits fails. */
void emulated_gpu_leave_out_waits(bool leaves);

/* Streams of this process can neither write words nor wait for them. */
void emulated_gpu_refuse_words(bool refuse);

/* From now on memory is shared by descriptors alone. */
void emulated_gpu_refuse_handles(bool refuse);

/* What NICs can do with its memory (nothing at first), and what its flush() does besides; NULL: nothing. */
void emulated_gpu_set_direct(struct gpu_direct direct, void (*flush)(void));
bool emulated_gpu_owns(const void *memory); /* is it what memory_create() made, or inside? */

void *emulated_stream_create(void);
void emulated_stream_destroy(void *stream); /* its work is done */
void emulated_stream_wait(void *stream);    /* until it is; NULL is the default stream */
bool emulated_stream_is_idle(void *stream);
/* A pause of the stream, so that what must not overtake it has the time to. */
void emulated_stream_delay(void *stream, int ms);

void emulated_capture_begin(void *stream);
void *emulated_capture_end(void *stream); /* the graph */
void emulated_graph_run(void *graph, void *stream);
void emulated_graph_destroy(void *graph);

uint32_t emulated_launches(void);    /* in this process, since it began */
uint32_t emulated_most_blocks(void); /* of one launch, since emulated_gpu_set() */
uint32_t emulated_gpus_opened(void); /* in this process, by bits */

#endif
