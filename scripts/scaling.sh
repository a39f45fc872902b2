#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The tables of docs/scaling.md: predicted time of allreduce against ranks, for each algorithm and size. Run by `make
# scaling`; some minutes. Predictions of the cost model, not measurements.
cd "$(dirname "$0")/.." || exit 1
sim=${BUILD:-build}/bin/collet-sim
machine="8 gpu nvswitch : 4 nic 200"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for hosts in 2 16 128 1024 16384; do
    "$sim" --synthetic "$machine" --nodes "$hosts" --sizes 1K:1G --factor 1024 >"$scratch/table" || exit 1
    sed -E '/^#/d; s/\*/ /' "$scratch/table" | awk -v ranks=$((8 * hosts)) '
        $3 == "no" || $3 == "not" { print $1, $2, ranks, "–"; next }
        { print $1, $2, ranks, sprintf("%.0f", $6) ($9 == "each" || $9 == "grouped" ? "" : " " $9) }' OFS='\t'
done >"$scratch/all"

for size in 1K 1M 1G; do
    awk -F'\t' -v size="$size" '
        $1 == size { if (!($2 in seen)) { seen[$2] = 1; order[++n] = $2 } time[$2, $3] = $4; ranks[$3] = 1 }
        END {
            printf "\n%s bytes, µs:\n\n| algorithm |", size
            split("16 128 1024 8192 131072", list, " ")
            for (k = 1; k <= 5; k++) printf " %d ranks |", list[k]
            printf "\n|---|---:|---:|---:|---:|---:|\n"
            for (a = 1; a <= n; a++) {
                printf "| %s |", order[a]
                for (k = 1; k <= 5; k++) printf " %s |", ((order[a], list[k]) in time) ? time[order[a], list[k]] : ""
                printf "\n"
            }
        }' "$scratch/all"
done
