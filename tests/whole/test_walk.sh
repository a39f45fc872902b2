#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The gdb session of docs/walk.md, run on a build without optimisation: what the page shows is what gdb prints. It is the build of
# test_entered.sh, too.
#
#    <!-- gdb -->
#    ```                        all such blocks together are one session
#    (gdb) break main           a command; the lines below it are its output
#    ```                        test_walk.sh --update writes down what gdb prints now
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

page=docs/walk.md
program=build-gdb/bin/local_allreduce

skip() {
    echo "$1"
    exit 77
}

[ "${COLLET_TEST_LEVEL:-normal}" != fast ] || skip "a build for gdb takes too long for the level fast"
command -v gdb >/dev/null || skip "gdb is not installed"
flock Makefile env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s CUDA=0 BUILD=build-gdb CFLAGS='-gdwarf-4 -O0 -finstrument-functions' $program >/dev/null || exit 1
gdb -batch -ex run --args true 2>&1 | grep -q 'exited normally' || skip "gdb may not run programs here"

session_on_the_page() {
    awk '/^<!-- gdb -->$/ { marked = 1 } /^```/ { if (marked == 2) marked = 0; else if (marked == 1) { marked = 2; next } }
         marked == 2' $page
}

# Every command is echoed before it runs. What differs from machine to machine is taken out.
session_now() {
    local commands
    commands=$(mktemp)
    session_on_the_page | sed -nE 's/^\(gdb\) (.*)/\1/p' | sed -E 's/(.*)/echo (gdb) \1\\n\n\1/' >"$commands"
    echo kill >>"$commands"
    COLLET_ALGO=ring COLLET_PROTO=Simple COLLET_CPUS=4 COLLET_CPU_DISTANCE=near \
        timeout 120 gdb -nx -batch -iex 'set debuginfod enabled off' -x "$commands" $program 2>&1 </dev/null |
        grep -vE '^(\[|Using host|Run till exit|Kill the program|Breakpoint [0-9]+(:| at)|$)' |
        sed -E 's/Hardware watchpoint/Watchpoint/'
    rm -f "$commands"
}

# The page with the output of each block made anew.
page_now() {
    awk -v session="$1" '
        /^<!-- gdb -->$/ { marked = 1; print; next }
        /^```/ && marked == 1 { marked = 2; print; next }
        /^```/ && marked == 2 { marked = 0 }
        marked == 2 { if ($0 ~ /^\(gdb\) /) {
                          if (!seen++) getline line < session
                          do print line; while ((more = getline line < session) > 0 && line !~ /^\(gdb\) /) }
                      next }
        { print }' $page
}

now=$(mktemp)
trap 'rm -f "$now"' EXIT
session_now >"$now"

if [ "${1:-}" = --update ]; then
    fresh=$(page_now "$now")
    echo "$fresh" >$page
    exit 0
fi

gdb_prints_what_the_page_shows() {
    diff -u --label "$page" --label now <(session_on_the_page) "$now" || { echo "run tests/whole/test_walk.sh --update"; return 1; }
}

the_session_has_commands() {
    [ "$(session_on_the_page | grep -c '^(gdb) ')" -ge 10 ]
}

check the_page_has_a_session the_session_has_commands
check gdb_prints_what_the_page_shows gdb_prints_what_the_page_shows
finish
