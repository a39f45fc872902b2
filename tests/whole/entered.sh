#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# entered.sh PART TRANSPORT CALL: the functions of the library that a call enters, in order, one a line: name, then its file.
#
#     PART        core     the core alone        full     the library that users link
#     TRANSPORT   shm, tcp
#     CALL        allreduce (2 floats, warm) or init (of a communicator), as rank 0 of 2 processes sees it
#
# A function of a header that is compiled into several objects is one function. (The build has DWARF 4: of DWARF 5, addr2line 2.40 takes
# such functions for those of the file that includes the header.) The counts in limits.txt are of these lines.
set -eu -o pipefail
cd "$(dirname "$0")/../.."

build=build-gdb
case $1 in
core) program=$build/core/entered ;;
full) program=$build/entered ;;
*)
    echo "entered: $1: expected core or full" >&2
    exit 2
    ;;
esac
COLLET_TRANSPORT=$2 COLLET_DEBUG=WARN "$program" "$3" |
    addr2line -f -e "$program" | paste - - |
    sed -E "s| [(]discriminator.*||; s|:[0-9?]+$||; s|\t$PWD/|\t|; s|\t.*/(src/)|\t\1|" | awk '!seen[$0]++'
