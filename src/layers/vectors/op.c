/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that a program creates. Each new operator gets the next number of the process, and is in the list of its
 * communicator. So an operator of another communicator, or one that was destroyed, is noticed.
 *
 *    COLLET_SUM … COLLET_PREMULSUM │ COLLET_OP_COUNT …                          │ COLLET_OP_LAST
 *    0              8              │ 9: of communicator a, 10: of b, 11: of a … │ then again from the beginning
 */
#include "seams/layer.h"
#include "seams/vectors.h"

#include "api/coll.h"
#include "base/memory.h"
#include "base/types.h"

#include <stdlib.h>
#include <string.h>

static uint64_t ops_created; /* guarded by the process's lock, as are the lists of all communicators */

/* The link that points to comm's operator of this number, or to NULL if there is none. */
static struct created_op **find_op(struct collet_comm *comm, enum collet_op number) {
    struct created_op **link = &comm->ops;
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

static bool op_destroy_all(struct collet_comm *comm) {
    process_lock();
    for (struct created_op *next; comm->ops != NULL; comm->ops = next) {
        next = comm->ops->next;
        free(comm->ops);
    }
    process_unlock();
    return true;
}

/* Operators are destroyed with their communicator. */
const struct layer layer_vectors = {.comm_close = op_destroy_all};

/* ---- the API ---- */

static enum collet_result check_create(const enum collet_op *op, const void *scalar, enum collet_type type,
                                       enum collet_residence residence, const struct collet_comm *comm) {
    COLLET_TRY(comm_check_usable(comm));
    if (op == NULL || scalar == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s",
                       op == NULL ? "op is NULL: pass where the operator goes"
                                  : "scalar is NULL: pass the address of an element");
    if (!type_valid(type))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "type is %d: see enum collet_type", (int)type);
    if (residence != COLLET_SCALAR_DEVICE && residence != COLLET_SCALAR_HOST)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "residence is %d: see enum collet_residence", (int)residence);
    return COLLET_SUCCESS;
}

enum collet_result collet_op_create_premul_sum(enum collet_op *op, const void *scalar, enum collet_type type,
                                               enum collet_residence residence, struct collet_comm *comm) {
    struct created_op *created;
    COLLET_TRY(check_create(op, scalar, type, residence, comm));
    COLLET_TRY(memory_get(&created, 1, sizeof *created, "no memory for an operator"));
    created->type = type;
    created->scaling = residence == COLLET_SCALAR_HOST ? WORK_BY_VALUE : WORK_BY_ADDRESS;
    if (residence == COLLET_SCALAR_HOST)
        memcpy(&created->factor, scalar, collet_type_size(type));
    else
        created->factor = (uintptr_t)scalar;
    process_lock();
    created->number = (enum collet_op)(COLLET_OP_COUNT + ops_created++ % (COLLET_OP_LAST - COLLET_OP_COUNT));
    created->next = comm->ops;
    comm->ops = created;
    *op = created->number;
    process_unlock();
    return COLLET_SUCCESS;
}

enum collet_result collet_op_destroy(enum collet_op op, struct collet_comm *comm) {
    COLLET_TRY(comm_check(comm));
    process_lock();
    struct created_op **link = find_op(comm, op), *gone = *link;
    if (gone != NULL)
        *link = gone->next;
    process_unlock();
    free(gone);
    return gone != NULL ? COLLET_SUCCESS : coll_err_no_op(op);
}
