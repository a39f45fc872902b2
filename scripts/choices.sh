#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Which algorithm is chosen for which size, as collet-sim predicts it for some machines.
#
#     scripts/choices.sh [COLLECTIVE…]       allreduce unless given; BUILD=build is where collet-sim is
#
# Forecasts know one CPU for each rank, near the others; a communicator may find something else and choose otherwise.
set -o pipefail
sim=${BUILD:-$(dirname "$0")/../build}/bin/collet-sim

machines() {
    cat <<'END'
2 ranks, one host|1 cpu|--ranks 2
4 ranks, one host|1 cpu|--ranks 4
8 ranks, one host|1 cpu|--ranks 8
16 hosts of 1 rank|1 cpu : 1 nic 100|--nodes 16 --ranks 1
4 hosts of 4 ranks|1 cpu : 1 nic 100|--nodes 4 --ranks 4
8 GPUs, NVSwitch|8 gpu nvswitch|
4 hosts of 8 GPUs|8 gpu nvswitch : 4 nic 200|--nodes 4
END
}

# The algorithm and protocol that collet-sim marks as the fastest, size by size.
fastest() {
    awk '/^ *[0-9]+[KMG]? +\*/ { sub(/\*/, " "); printf "%-17s", $2 " " $3 }'
}

for collective in "${@:-allreduce}"; do
    printf '%-20s%-17s%-17s%-17s%-17s%-17s%s\n' "$collective" 8 128 2K 32K 512K 8M
    while IFS='|' read -r name machine options; do
        # shellcheck disable=SC2086 # options are words
        row=$("$sim" --synthetic "$machine" $options --collective "$collective" --sizes 8:8M --factor 16 | fastest) || exit 1
        printf '%-20s%s\n' "$name" "$row" | sed 's/ *$//'
    done < <(machines)
done
