#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Instructions of a warm allreduce: two ranks of one process, one thread, both ranks together, mean of 200 calls after 50. And
# how many more there are with COLLET_TRACE, of 200 calls after 300, for the first ones are all traced. Fails if a size takes
# more than its limits. Run by `make bench-instructions`; needs valgrind.
program=${1:?usage: instructions.sh build/bin/instructions}
calls=200
failed=0
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT

count() { # bytes, calls before, variables…
    local log
    log=$(env "${@:3}" valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=warm_calls \
        "$program" "$1" $calls "$2" 2>&1) || { echo "$log" >&2; exit 1; }
    echo $(($(sed -nE 's/.*Collected : ([0-9]+).*/\1/p' <<<"$log") / calls))
}

printf '%8s %13s %7s %10s %7s\n' bytes instructions limit 'traced (%)' limit
while read -r bytes limit more; do
    plain=$(count "$bytes" 50) && later=$(count "$bytes" 300) && traced=$(count "$bytes" 300 COLLET_TRACE="$trace") || exit 1
    tenths=$(((traced - later) * 1000 / later))
    printf '%8d %13d %7d %8s%d.%d %7d\n' "$bytes" "$plain" "$limit" + $((tenths / 10)) $((tenths % 10)) "$more"
    [ "$plain" -gt 0 ] && [ "$plain" -le "$limit" ] && [ $tenths -le $((more * 10)) ] || failed=1
done <<'END'
8 3425 4
512 3880 4
4096 6640 4
END
exit $failed
