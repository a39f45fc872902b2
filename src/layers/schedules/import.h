/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of other libraries: MSCCL-style XML becomes an algorithm.
 *
 *      <algo name="ring" coll="allreduce" ngpus="2" nchunksperloop="2" inplace="1" …>       chunk ──▶ block
 *        <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="0">                                gpu   ──▶ rank
 *          <tb id="0" send="1" recv="1" chan="0">                                           tb    ──▶ worker, chan ──▶ lane
 *            <step s="0" type="s" srcbuf="i" srcoff="1" … cnt="1" depid="-1" deps="-1"/>    step  ──▶ step
 *            <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" …/>
 *
 * The reader runs the schedule once, chunk by chunk, on sets of contributions. So it learns what a step program says and XML does not:
 * where a sum is complete (finish); whether a chunk of the input buffer still is the user's IN or already a result; and an order of the
 * steps. A threadblock that waits for steps of another one (depid) becomes one worker with it, and the worker's steps stand in that order:
 * workers of a rank can wait for each other only by messages. Scratch chunks become blocks of TMP. So do chunks of the input that are
 * written but hold no result.
 */
#ifndef COLLET_LAYERS_SCHEDULES_IMPORT_H
#define COLLET_LAYERS_SCHEDULES_IMPORT_H

#include "program/program.h"

/* Reads a schedule. `name` names its file in messages. The algorithm is called "imported", and takes as many ranks as the
 * schedule has gpus. It is not verified yet: see import_verify(). Errors: INVALID_ARGUMENT (the text names file, line and
 * instruction), NO_MEMORY. */
enum collet_result import_text(const char *text, size_t bytes, const char *name, struct algorithm **algorithm_p);
enum collet_result import_file(const char *path, struct algorithm **algorithm_p);

/* Checks the algorithm out of place and in place. Error: INVALID_ARGUMENT, and the text says where it is wrong. */
enum collet_result import_verify(const struct algorithm *algorithm);
/* Warns of attributes of the schedule that have no effect here, if there are any. */
void import_warn(const struct algorithm *algorithm, const char *name);
void import_destroy(struct algorithm *algorithm); /* `algorithm` may be NULL. */

#endif
