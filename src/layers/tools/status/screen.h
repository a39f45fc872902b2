/* SPDX-License-Identifier: Apache-2.0
 *
 * A view that fills the terminal and is drawn anew, again and again, until it is interrupted:
 *
 *      collet-status, every 1 s, 14:03:59; Ctrl-C ends it
 *      communicator grads (801f3a5f3cbd40d7) of 512 ranks
 *        rank 0   …
 *        rank 1   …                     as many ranks as there is room for
 *        held up by rank 2 …            always
 *        … 490 lines more
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_SCREEN_H
#define COLLET_LAYERS_TOOLS_STATUS_SCREEN_H

/* Shows a text every `seconds` seconds, until SIGINT, SIGTERM or SIGHUP comes. text() returns the text, which is freed;
 * NULL: there is no memory. If standard output is no terminal, one whole text follows the other. At the end the terminal is
 * as before. */
void screen_watch(int seconds, char *(*text)(void *context), void *context);

#endif
