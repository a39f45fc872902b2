#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The verdict of lab 7: the reader's sed commands break src/fifo/fifo.h, and the model checker must notice.
#   fence.sh docs/course/lab7
commands=$1/break.sed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/fifo"

not_yet() {
    printf '%s\n\nnot yet. HINT=1 gives a hint.\n' "$1"
    exit 1
}

printf 'lab 7: break a fence, and let a tool find it\n\n'
sed -f "$commands" src/fifo/fifo.h >"$work/fifo/fifo.h" || not_yet "sed does not understand break.sed"
diff --color=never -U0 src/fifo/fifo.h "$work/fifo/fifo.h" | grep '^[-+][^-+]'
[ "${PIPESTATUS[0]}" = 1 ] || not_yet "break.sed changes nothing in src/fifo/fifo.h"
! diff src/fifo/fifo.h "$work/fifo/fifo.h" | grep -qE '^> *$|^[0-9,]+d' || not_yet "a line is gone: weaken an order, do not delete"
tests/model/model.sh broken "$work" >"$work/log" 2>&1
case $? in
0) not_yet "$(cat "$work/log")"$'\n\nThe model checker finds nothing wrong with this.' ;;
1) printf '\nThe model checker says:\n\n' && cat "$work/log" ;;
*) not_yet "$(cat "$work/log")"$'\n\nThat does not compile, or is not finished within a minute.' ;;
esac
printf '\npassed\n'
