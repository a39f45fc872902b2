# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# host_commands.sh PORT FILE: inside a virtual host, runs what comes down a serial port, one command after another.
#
#   in    <token> <seconds> <command>        on one line
#   out   what it printed (kept in FILE until it ends), then a line of its own: "=== <token> <exit status>"
#
# No command outlives its time: 124 is its status then, and all processes that it started are killed.
port=$1 file=$2
exec 3<>"$port"
while read -r -u 3 token seconds command; do
    timeout -s KILL "$seconds" bash -c "$command" >"$file" 2>&1 </dev/null
    status=$?
    [ $status != 137 ] || status=124
    cat "$file" >&3
    printf '\n=== %s %d\n' "$token" $status >&3
done
