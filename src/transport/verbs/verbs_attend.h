/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_ATTEND_H
#define COLLET_TRANSPORT_VERBS_VERBS_ATTEND_H

#include "collet.h"

struct call_lock;
struct chan;

/* Starts a thread that attends to the listed communicators while nobody holds their locks. */
void verbs_attend_start(void);

#endif
