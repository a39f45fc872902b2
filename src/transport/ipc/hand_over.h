/* SPDX-License-Identifier: Apache-2.0
 *
 * Open descriptors from one process to another of the same host, through a Unix socket; for what cannot be opened again by
 * its number in /proc, such as memory of a GPU.
 *
 *    giver                                                taker
 *    hand_over_listen ───────── name, in an offer ──────▶ hand_over_connect
 *    hand_over_give   ───────── the descriptor ─────────▶ hand_over_take
 *
 * The name cannot be guessed, and a taker has to be of the giver's user. Nothing here blocks. Both processes are in one
 * network namespace.
 */
#ifndef COLLET_TRANSPORT_IPC_HAND_OVER_H
#define COLLET_TRANSPORT_IPC_HAND_OVER_H

#include "collet.h"

#define HAND_OVER_NAME_BYTES 40

/* *listener_p is the caller's to close, when the descriptor is given or the taker will not come any more. */
enum collet_result hand_over_listen(char name[HAND_OVER_NAME_BYTES], int *listener_p);
/* IN_PROGRESS until the taker has connected. The caller may close fd after SUCCESS. */
enum collet_result hand_over_give(int listener, int fd);

/* *socket_p is the caller's to close. */
enum collet_result hand_over_connect(const char name[HAND_OVER_NAME_BYTES], int *socket_p);
/* IN_PROGRESS until it was given; *fd_p is then the caller's. REMOTE: the giver has gone. */
enum collet_result hand_over_take(int socket, int *fd_p);

#endif
