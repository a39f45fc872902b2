/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of collet-prog --lines, and the call that they ask for.
 */
#ifndef COLLET_LAYERS_TOOLS_LINES_CALL_H
#define COLLET_LAYERS_TOOLS_LINES_CALL_H

#include "layers/tools/common/arguments.h"
#include "layers/tools/lines/lines.h"

/* Values of the options. NULL: not given. */
struct lines_call_request {
    const char *bytes, *type, *protocol, *channels, *chunk;
    bool registered;
};
#define LINES_CALL_OPTIONS(r)                                                                                          \
    ARGUMENT_VALUE("bytes", "SIZE", &(r)->bytes,                                                                       \
                   "of --lines: bytes of the larger buffer, like 8, 4K, 1M; 64K unless given"),                        \
        ARGUMENT_VALUE("type", "NAME", &(r)->type, "of --lines: element type; float unless given"),                    \
        ARGUMENT_VALUE("proto", "NAME", &(r)->protocol, "of --lines: Simple, LL or LL128; Simple unless given"),       \
        ARGUMENT_FLAG("registered", &(r)->registered,                                                                  \
                      "of --lines: buffers of collet_mem_alloc(), which peers read where they lie"),                   \
        ARGUMENT_VALUE("channels", "C", &(r)->channels,                                                                \
                       "of --geometry and --lines: 2, or 1 of --lines, unless given"),                                 \
        ARGUMENT_VALUE("chunk", "BYTES", &(r)->chunk,                                                                  \
                       "of both: most bytes of a piece; 65536, or of --lines what a slot holds, unless given")

/* Reads the options and the environment, for the ranks of a cast. False: a message was printed. */
bool lines_call_read(const struct lines_call_request *request, const struct cast *cast, struct lines_call *call);

#endif
