/* SPDX-License-Identifier: Apache-2.0
 *
 * Registered memory: host memory that stays at its address until its registration ends. collet_mem_alloc() registers the memory that it
 * returns, and collet_comm_register() registers the buffer that the program names. A NIC is told of the memory once. It gives a memory region
 * (MR), and uses that in every call until the registration ends.
 *
 *    registration   │ address, bytes │ for each NIC: its MR │      made when the NIC first sends or receives there
 *
 * An MR belongs to a registration, never to an address: after the registration has ended, other memory may lie at the same address, and no
 * NIC knows that memory. Registrations may overlap. In a forked child the parent's MRs are not valid: the NIC is told of the child's memory
 * anew.
 */
#ifndef COLLET_LAYERS_MEMORY_REGISTRATION_H
#define COLLET_LAYERS_MEMORY_REGISTRATION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct registration;
struct verbs_host;
struct verbs_device;

/* Declares that the memory stays in place until registration_end(). Any thread may call all functions of this file. */
enum collet_result registration_make(const void *memory, size_t bytes, struct registration **registration_p);
/* Ends a registration, and its MRs. No call may use the memory any more. NULL is fine. */
void registration_end(struct registration *registration);

/* Does one registration contain all of this memory? */
int registration_covers(uint64_t address, uint32_t bytes);

/* local: the key for this rank's own NIC (lkey). remote: the key by which other ranks write the memory (rkey). */
struct registration_keys {
    uint32_t local, remote;
    bool writable; /* false: other ranks cannot write the memory, because the program itself may only read it */
};
/* Gets the keys of registered memory. False: the memory is not registered, or the NIC refuses it; then the log says why. */
bool registration_keys(const struct verbs_host *host, const struct verbs_device *device, uint64_t address,
                       uint32_t bytes, struct registration_keys *keys);

#endif
