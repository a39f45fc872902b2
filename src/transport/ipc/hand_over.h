/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes open descriptors from one process to another of the same host, through a Unix socket. This is for descriptors that
 * cannot be opened again by their number in /proc, such as those of GPU memory.
 *
 *    giver                                                taker
 *    hand_over_listen ───────── name, in an offer ──────▶ hand_over_connect
 *    hand_over_give   ───────── the descriptor ─────────▶ hand_over_take
 *
 * The name cannot be guessed, and the taker must be a process of the giver's user. Nothing here blocks. Both processes are
 * in one network namespace.
 */
#ifndef COLLET_TRANSPORT_IPC_HAND_OVER_H
#define COLLET_TRANSPORT_IPC_HAND_OVER_H

#include "collet.h"

#define HAND_OVER_NAME_BYTES 40

/* The caller closes *listener_p when the descriptor is given, or when the taker will not come any more. */
enum collet_result hand_over_listen(char name[HAND_OVER_NAME_BYTES], int *listener_p);
/* Gives fd to a taker. IN_PROGRESS: no taker has connected yet. SUCCESS: it was given, and the caller may close fd. */
enum collet_result hand_over_give(int listener, int fd);

/* The caller closes *socket_p. */
enum collet_result hand_over_connect(const char name[HAND_OVER_NAME_BYTES], int *socket_p);
/* IN_PROGRESS: the descriptor has not come yet. SUCCESS: the caller owns *fd_p. REMOTE: the giver has gone. */
enum collet_result hand_over_take(int socket, int *fd_p);

#endif
