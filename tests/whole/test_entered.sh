#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How many functions, of how many files, does a call enter? Lines "entered PART TRANSPORT CALL FUNCTIONS FILES" of tests/core/limits.txt say
# what is allowed. entered.sh prints the functions in order.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

[ "${COLLET_TEST_LEVEL:-normal}" != fast ] || { echo "a build for gdb takes too long for the level fast"; exit 77; }
command -v addr2line >/dev/null || { echo "addr2line is not installed"; exit 77; }
flock Makefile env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s CUDA=0 BUILD=build-gdb CFLAGS='-gdwarf-4 -O0 -finstrument-functions' entered >/dev/null || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Over tcp, a few more functions are entered if the other rank's frame comes just in time. So several runs are looked at, and the shortest counts.
enters_at_most() { # part transport call functions files
    local functions files run
    for run in 1 2 3 4 5; do
        timeout 60 tests/whole/entered.sh "$1" "$2" "$3" >"$work/entered" || return 1
        functions=$(wc -l <"$work/entered") files=$(cut -f2 "$work/entered" | sort -u | wc -l)
        [ "$functions" -gt "$4" ] || [ "$files" -gt "$5" ] || return 0
    done
    echo "$functions functions of $files files; limits.txt allows $4 of $5"
    cat "$work/entered"
    return 1
}
begins_with_the_call() { head -n 1 "$work/entered" | grep -q "^collet_"; }
fewer_are_not_allowed() { ! enters_at_most core shm allreduce 20 90 >/dev/null; }

while read -r _ part transport call functions files; do
    check "${call}_of_the_${part}_by_${transport}_enters_at_most_${functions}_functions_of_${files}_files" \
        enters_at_most "$part" "$transport" "$call" "$functions" "$files"
    check its_first_function_is_public begins_with_the_call
done < <(grep '^entered ' tests/core/limits.txt)
check a_longer_way_would_be_noticed fewer_are_not_allowed
finish
