/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that may lie over each other, by in-place rule (rank 1 of 3; a letter is one block of count elements):
 *
 *    SAME_PLACE          IN_IS_OWN_BLOCK        OUT_IS_OWN_BLOCK       APART
 *    send  abc           send     b             send  abc              send  abc
 *    recv  abc           recv    abc            recv   b               recv     def
 */
#include "api/overlap.h"

static bool is_in_place(enum prog_in_place rule, uintptr_t in, uintptr_t out, size_t own_block) {
    switch (rule) {
    case PROG_SAME_PLACE: return in == out;
    case PROG_IN_IS_OWN_BLOCK: return in == out + own_block;
    case PROG_OUT_IS_OWN_BLOCK: return out == in + own_block;
    default: return false;
    }
}

static const char *rule_text(enum prog_in_place rule) {
    static const char *const texts[] = {
        [PROG_SAME_PLACE] = ", or be the same",
        [PROG_IN_IS_OWN_BLOCK] = ", or sendbuff must be this rank's block of recvbuff",
        [PROG_OUT_IS_OWN_BLOCK] = ", or recvbuff must be this rank's block of sendbuff",
        [PROG_APART] = "",
    };
    return texts[rule];
}

enum collet_result overlap_check(enum prog_collective collective, struct overlap_range in, struct overlap_range out,
                                 size_t own_block) {
    const struct prog_facts *facts = &prog_facts[collective];
    if (in.end <= out.begin || out.end <= in.begin || is_in_place(facts->in_place, in.begin, out.begin, own_block))
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT,
                   "sendbuff (0x%jx … 0x%jx) and recvbuff (0x%jx … 0x%jx) of %s overlap: they must be apart%s",
                   (uintmax_t)in.begin, (uintmax_t)in.end, (uintmax_t)out.begin, (uintmax_t)out.end, facts->name,
                   rule_text(facts->in_place));
}
