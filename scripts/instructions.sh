#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Instructions of a warm allreduce: two ranks of one process, one thread, both ranks together, mean of 200 calls. Fails if
# a size takes more than its limit. Run by `make bench-instructions`; needs valgrind.
program=${1:?usage: instructions.sh build/bin/instructions}
calls=200
failed=0
printf '%8s %13s %7s\n' bytes instructions limit
while read -r bytes limit; do
    log=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=warm_calls \
        "$program" "$bytes" $calls 2>&1) || { echo "$log"; exit 1; }
    counted=$(echo "$log" | sed -nE 's/.*Collected : ([0-9]+).*/\1/p')
    each=$((counted / calls))
    printf '%8d %13d %7d\n' "$bytes" $each "$limit"
    [ $each -gt 0 ] && [ $each -le "$limit" ] || failed=1
done <<'END'
8 3330
512 3800
4096 6500
END
exit $failed
