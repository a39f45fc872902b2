/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithmic reducescatter: every block is summed up along its own tree (forest.h). All trees run at once.
 *
 *      block of rank r, 8 ranks      r ◀── r+4 ◀── r+6 ◀── r+7        short hops first, then long hops with sums of many
 *      on one node                   ▲      ╰◀─── r+5
 *                                    ├◀── r+2 ◀─── r+3
 *                                    ╰◀── r+1                         one step per tree, which receives from all children
 *
 *      worker `level`:   own IN for the tree's root and all children ── + ──▶ parent;   for each place of the level
 *                        at the root: ── + ──▶ OUT
 *
 * This is the reverse of allgather_pat.c, with about log2 n hops for any n. Every rank sends n−1 blocks, and a block leaves each
 * node once, as a sum. The lane of a message is the level of its receiver, since each level has its own worker. In place only
 * the rank's own block is overwritten, in the step that reads it. A connection needs one slot. If it has fewer slots than blocks to
 * carry, blocks wait.
 * After: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252
 * (2025); without its aggregation of blocks into messages, as in allgather_pat.c.
 */
#include "algo/many/forest.h"
#include "program/program.h"

void reducescatter_pat_build(struct prog *prog) {
    struct forest forest = forest_of(prog);
    for (int level = 0; level <= forest.levels; level++) {
        prog_worker(prog);
        for (int i = forest_count(&forest, level) - 1; i >= 0; i--) {
            struct forest_place place = forest_place(prog, &forest, level, i);
            struct peers children = LISTED(place.below, place.nbelow, level);
            if (place.parent < 0)
                prog_step(prog, .recv = children, .local = IN(place.root), .finish = true, .store = OUT(0));
            else
                prog_step(prog, .recv = children, .local = IN(place.root),
                          .send = PEER_LANE(place.parent, place.parent_level));
        }
    }
}
