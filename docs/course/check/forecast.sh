#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The verdict of lab 8: answers beside what the simulator says. A forecast is the same on every machine.
#   forecast.sh build/bin/collet-sim docs/course/lab8/answers
sim=$1 answers=$2
machine=(--synthetic "1 node : 1 gpu : 1 nic 100" --nodes 8)
unset COLLET_ALGO COLLET_PROTO COLLET_NCHANNELS COLLET_CHUNKSIZE

not_yet() {
    printf '%s\n\nnot yet. HINT=1 gives a hint.\n' "$1"
    exit 1
}
answer() { sed -n "s/^$1=//p" "$answers" | tail -n 1; }

# The microseconds of the candidate that the tuner takes, which has a star.
forecast() {
    "$sim" "${machine[@]}" --sizes "$1:$1" "${@:2}" 2>&1 |
        awk '$1 ~ /^[0-9]/ && $2 ~ /^\*/ { print $6; found = 1 } END { exit !found }'
}

printf 'lab 8: predict, then beat the tuner\n\n'
for size in 4K 1G; do
    predicted=$(answer predict_$size)
    [[ $predicted =~ ^[0-9.]+$ ]] || not_yet "predict_$size=$predicted is not a number of microseconds"
    simulated=$(forecast $size --algo ring) || not_yet "collet-sim has no time for $size"
    verdict=$(awk -v p="$predicted" -v s="$simulated" 'BEGIN { print (p > s * 0.8 && p < s * 1.2 ? "near enough" : "off") }')
    printf 'ring, %s: predicted %s us, simulated %s us: %s\n' $size "$predicted" "$simulated" "$verdict"
    [ "$verdict" = off ] && not_yet "a prediction is more than 20 % off"
done

size=$(answer size)
[[ $size =~ ^[0-9]+K?$ || $size = 1M ]] || not_yet "size=$size is not a size up to 1M"
settings=()
for name in COLLET_ALGO COLLET_PROTO COLLET_NCHANNELS COLLET_CHUNKSIZE; do
    value=$(answer $name)
    [ -n "$value" ] && settings+=("$name=$value")
done
tuner=$(forecast "$size") || not_yet "collet-sim has no time for $size"
yours=$(env "${settings[@]}" "$sim" "${machine[@]}" --sizes "$size:$size" 2>&1) || not_yet "$yours"
yours=$(export "${settings[@]}" && forecast "$size") || not_yet "collet-sim has no time for $size with ${settings[*]}"
printf 'allreduce, %s: the tuner %s us, %s %s us\n' "$size" "$tuner" "${settings[*]}" "$yours"
awk -v t="$tuner" -v y="$yours" 'BEGIN { exit !(y * 1.05 <= t) }' || not_yet "that is not 5 % better"
printf '\npassed\n'
