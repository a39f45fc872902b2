/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet-prog shows of a cast: its steps, what ranks hold turn by turn, and which rank sends to which.
 */
#ifndef COLLET_LAYERS_TOOLS_PROG_SHOW_H
#define COLLET_LAYERS_TOOLS_PROG_SHOW_H

#include "layers/verifier/rehearsal.h"

#include <stdio.h>

/* The step tables of all ranks side by side, one for each worker: R recv, + reduce, ! store, S send, and the blocks;
 * then what each rank sends, reduces and stores in one round, and its connections. peers: cells name them, <3 >1 from
 * rank 3 and to rank 1. loans: L instead of S, where peers may read in this rank's buffers what it sends; E instead of !, where they
 * may write early what it stores. The first 32 ranks have columns. */
struct show_cells {
    bool peers, loans;
};
enum collet_result show_steps(const struct cast *cast, struct show_cells cells, FILE *out);

/* Who sends to whom: the rings, chains and trees of each lane; dot: all connections as Graphviz. */
enum collet_result show_chains(const struct cast *cast, const struct prog_shape *shape, bool dot, FILE *out);

/* prog_check(), and on failure what the ranks concerned hold; turns: what all hold during the first round. */
bool show_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                bool turns, FILE *out, char *why, size_t why_bytes);

/* One page of HTML that needs nothing else: the programs, run step by step in the reader's browser (page.html). Errors: of
 * cast_create(), and INVALID_ARGUMENT for more than SHOW_PAGE_RANKS ranks. */
enum { SHOW_PAGE_RANKS = 64 };
enum collet_result show_page(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots,
                             FILE *out);
/* The data of one page: JSON, which replaces the word DATA in page.html. */
enum collet_result show_page_data(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                                  int nslots, FILE *out);

/* ---- tables ---- */

enum { SHOW_FIELD_BYTES = 160 };

/* Appends to a field; what does not fit ends in "..". */
void show_add(char field[SHOW_FIELD_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints rows −1 (titles) … rows−1. write() appends to an empty field; a column is as wide as its widest
 * field; alike: all behind the first are as wide as the widest of them. */
void show_table(const void *what, void (*write)(const void *what, int row, int column, char field[SHOW_FIELD_BYTES]),
                int rows, int columns, bool alike, FILE *out);

#endif
