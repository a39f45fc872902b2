#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How many cache lines do calls move between the ranks of a host? As collet-prog --lines counts them, row by row, without what a rank
# reads and writes in its own buffers.
#
#     scripts/lines.sh [RANKS]       16 unless given; BUILD=build is where collet-prog is
#
# Control: headers, tails, heads, and what readers say of loans. Busiest: the rank that touches the most.
set -o pipefail
prog=${BUILD:-$(dirname "$0")/../build}/bin/collet-prog
ranks=${1:-16}

cells() {
    cat <<'END'
broadcast 8|broadcast_direct|LL|
broadcast 8, pairs|broadcast_direct|LL|COLLET_FANS=0
broadcast 4K|broadcast_direct|Simple|
broadcast 64K|broadcast_direct|Simple|
broadcast 64K, registered|broadcast_direct|Simple|--registered
broadcast 64K|broadcast_tree|LL128|
allreduce 8|allreduce_oneshot|LL|
allreduce 8|allreduce_doubling|LL|
allreduce 4K|allreduce_twoshot|Simple|
allreduce 4K|allreduce_doubling|Simple|
allreduce 64K|allreduce_twoshot|Simple|
allreduce 64K, pairs|allreduce_twoshot|Simple|COLLET_FANS=0
allreduce 64K, registered|allreduce_twoshot|Simple|--registered
allreduce 64K|allreduce_ring|Simple|
allgather 4K|allgather_direct|LL|
allgather 4K|allgather_bruck|LL|
allgather 64K|allgather_direct|Simple|
allgather 64K, pairs|allgather_direct|Simple|COLLET_FANS=0
allgather 64K|allgather_ring|Simple|
reducescatter 64K|reducescatter_direct|Simple|
alltoall 64K|alltoall_direct|Simple|
END
}

# Of what collet-prog prints: who, does, own memory, payload, headers, loans, tails, heads, all, bytes.
row_of() {
    awk '
        function whole(x) { return x == int(x) ? x "" : sprintf("%.1f", x) }
        $(NF - 8) == "reads"  { everyone = $1 == "all"; shared = $(NF - 1) - $(NF - 7); payload["read"] = $(NF - 6); all["read"] = shared }
        $(NF - 8) == "writes" { payload["written"] = $(NF - 6); all["written"] = $(NF - 1) - $(NF - 7); touched = shared + all["written"]
                                busiest = !everyone && touched > busiest ? touched : busiest }
        /^in a row/           { messages = $4; lines = $6 }
        END { printf "%8d %8s %8d %8s %9s %9d %6d\n", payload["written"], whole(all["written"] - payload["written"]), payload["read"],
              whole(all["read"] - payload["read"]), whole(busiest), messages, lines }'
}

printf '%-26s %-10s %-7s %17s %17s %9s %16s\n' "$ranks ranks" "" "" "written" "read" "busiest" "in a row"
printf '%-26s %-10s %-7s %8s %8s %8s %8s %9s %9s %6s\n' "" algorithm protocol payload control payload control "rank" messages lines
while IFS='|' read -r cell algorithm protocol how; do
    size=${cell#* } setting=COLLET_FANS=1 option=()
    case $how in COLLET_*) setting=$how ;; --*) option=("$how") ;; esac
    row=$(env "$setting" "$prog" --lines "${option[@]}" --bytes "${size%%,*}" --proto "$protocol" "$algorithm" "$ranks" | row_of) || exit 1
    printf '%-26s %-10s %-8s %s\n' "$cell" "${algorithm#*_}" "$protocol" "$row"
done < <(cells)
