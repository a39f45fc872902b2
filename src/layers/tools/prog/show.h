/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet-prog shows of a cast: its steps, what ranks hold turn by turn, and which rank sends to which.
 */
#ifndef COLLET_LAYERS_TOOLS_PROG_SHOW_H
#define COLLET_LAYERS_TOOLS_PROG_SHOW_H

#include "layers/verifier/rehearsal.h"

#include <stdio.h>

/* Prints the steps of all ranks: one table per worker, one column per rank (at most 32 ranks). A cell has R recv, + reduce, ! store, S
 * send, and the blocks of the step. Then come the totals of each rank: what it sends, reduces and stores in one round, and its
 * connections. peers: cells name the step's peers: <3 >1 receives from rank 3 and sends to rank 1. loans: a cell has L instead of S if
 * peers may read the payload in this rank's buffers, and E instead of ! if peers may write the result there early. */
struct show_cells {
    bool peers, loans;
};
enum collet_result show_steps(const struct cast *cast, struct show_cells cells, FILE *out);

/* Prints which rank sends to which: the rings, chains and trees of each lane. dot: prints all connections, as Graphviz. */
enum collet_result show_chains(const struct cast *cast, const struct prog_shape *shape, bool dot, FILE *out);

/* Does prog_check(). If the check fails, prints what the ranks of the failed step hold. turns: also prints what all ranks hold after
 * each turn of the first round. */
bool show_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                bool turns, FILE *out, char *why, size_t why_bytes);

/* Writes one page of HTML that needs no other file. The reader's browser runs the programs in it step by step (page.html). Errors: those
 * of cast_create(); INVALID_ARGUMENT if there are more than SHOW_PAGE_RANKS ranks. */
enum { SHOW_PAGE_RANKS = 64 };
enum collet_result show_page(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots,
                             FILE *out);
/* Writes the data of such a page: JSON, which replaces the word DATA in page.html. */
enum collet_result show_page_data(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                                  int nslots, FILE *out);

/* Prints how a buffer of `count` elements is cut into slices, parts of channels and pieces of rounds, and how many bytes of a slot a
 * piece takes. */
void show_geometry(uint64_t count, uint32_t elem_bytes, uint32_t nranks, uint32_t nchannels, uint32_t chunk_bytes,
                   FILE *out);

/* ---- tables ---- */

enum { SHOW_FIELD_BYTES = 160 };

/* Appends text to a field. If the text does not fit, it is cut and ends in "..". */
void show_add(char field[SHOW_FIELD_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a table with a row of titles (row −1) and `rows` rows. write() writes each field; the field is empty before. A column is as
 * wide as its widest field. alike: all columns except the first are equally wide. */
void show_table(const void *what, void (*write)(const void *what, int row, int column, char field[SHOW_FIELD_BYTES]),
                int rows, int columns, bool alike, FILE *out);

#endif
