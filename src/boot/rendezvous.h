/* SPDX-License-Identifier: Apache-2.0
 *
 * The meeting point of one unique id: where the ranks find each other. Served by the watch of the process that opened it.
 */
#ifndef COLLET_BOOT_RENDEZVOUS_H
#define COLLET_BOOT_RENDEZVOUS_H

#include "boot/id.h"
#include "boot/table.h"

/* Opens the meeting point of an id from any thread: one that is listed (on the first free port of id->set), or a fresh
 * one, for which it fills in everything of *id. */
enum collet_result rendezvous_open(struct id *id);

/* On the watch thread: tells a failure to all guests of this secret's meeting point, if it is in this process. False if it
 * is not, or is over. */
bool rendezvous_fail(const uint8_t secret[SECRET_BYTES], const struct failure *failure);

#endif
