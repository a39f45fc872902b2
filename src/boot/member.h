/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch's side of a hub: brings its ranks to the meeting point, and then keeps them in touch with the others until all
 * have left.
 */
#ifndef COLLET_BOOT_MEMBER_H
#define COLLET_BOOT_MEMBER_H

#include "boot/hub.h"

/* Creates the watch's side of a hub, with a reference to the hub. The watch already runs. Nothing happens before the first
 * watch_post(hub->work). */
enum collet_result member_create(struct hub *hub);

#endif
