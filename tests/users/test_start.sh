#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How newcomers start ranks, and what they are told: addresses as other programs write them, two ranks with one number, two hosts
# on one machine, the transport that is used, what the first make has found.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=$(realpath "${BUILD:-build}")
bin=$build/bin
[ -x "$bin/hello_allreduce" ] && [ -x "$bin/all_reduce_perf" ] || { echo "hello_allreduce is not built in $bin"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset ${!COLLET_@} ${!NCCL_@}

# Below the ports that the kernel takes for connections: of those, another program might have one a moment later.
free_port() {
    python3 - <<'PYTHON'
import random, socket
for port in random.sample(range(20000, 29400), 100):
    try:
        socket.socket(socket.AF_INET6).bind(("::", port))
    except OSError:
        continue
    print(port)
    break
PYTHON
}

# Two ranks at an address, on the hosts of the array hosts if there is one; what each prints is in $work/rank<r>.
start_two() { # address port command…
    local address=$1 port=$2 rank pids=() failed=0
    shift 2
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 MASTER_ADDR=$address MASTER_PORT=$((port - 2)) COLLET_HOSTID=${hosts[rank]:-} timeout 60 "$@" >"$work/rank$rank" 2>&1 &
        pids+=($!)
    done
    for rank in 0 1; do
        wait "${pids[rank]}" || failed=1
    done
    [ $failed = 0 ] || { cat "$work"/rank?; return 1; }
}

an_address_may_have_brackets() {
    start_two '[::1]' "$(free_port)" "$bin/hello_allreduce" && grep -q 'rank 1 of 2: .* together 3' "$work/rank1"
}

# Ranks of one host name that are told apart use tcp; the others, shared memory.
the_transport_is_the_one_that_is_used() {
    local hosts=(a b)
    start_two 127.0.0.1 "$(free_port)" "$bin/all_reduce_perf" --host 1 -b 8 -e 8 -n 1 && grep -qx '# Transport: tcp' "$work/rank0" || return 1
    "$bin/all_reduce_perf" --host 1 --procs 2 -b 8 -e 8 -n 1 | grep -qx '# Transport: shm' &&
        "$bin/all_reduce_perf" --host 1 -b 8 -e 8 -n 1 | grep -qx '# Transport: none is needed'
}

a_second_rank_0_is_told_so() {
    local port first
    port=$(free_port)
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port - 2)) "$bin/hello_allreduce" >"$work/first" 2>&1 &
    first=$!
    until grep -q "$(printf ':%04X 0.*:0000 0A' "$port")" /proc/net/tcp /proc/net/tcp6 || ! kill -0 $first; do sleep 0.1; done
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port - 2)) timeout 60 "$bin/hello_allreduce" >"$work/second" 2>&1
    kill $first
    wait $first
    grep -q "port $port, .*Is another process rank 0 of this job as well" "$work/second" || { cat "$work/first" "$work/second"; return 1; }
}

two_hosts_on_one_machine() {
    local status
    scripts/two-hosts.sh --ranks 1 "$bin/all_reduce_perf" --host 1 -b 8 -e 8 -n 1 >"$work/said" 2>&1
    status=$?
    [ $status = 77 ] || { grep -q '^rank 0 on h1 | # Transport: tcp$' "$work/said" && grep -q ' on *h2 device' "$work/said" && [ $status = 0 ]; } ||
        { cat "$work/said"; return 1; }
}

# A folder where nothing was built: compiler and packages are named, and what is left out.
the_first_make_says_what_it_found() {
    make -s BUILD="$work/new" CUDA=0 "$work/new/needs" >"$work/said" && grep -q '^  compiler  .*[0-9]' "$work/said" &&
        grep -q '^  topology  hwloc [0-9]' "$work/said" && grep -q '^  GPUs      left out' "$work/said" || { cat "$work/said"; return 1; }
    make -s BUILD="$work/new" CUDA=0 "$work/new/needs" | { ! grep .; }
}

if command -v python3 >/dev/null && grep -q 00000001 /proc/net/if_inet6 2>/dev/null; then
    check an_address_may_have_brackets an_address_may_have_brackets
    check the_transport_is_the_one_that_is_used the_transport_is_the_one_that_is_used
    check a_second_rank_0_is_told_so a_second_rank_0_is_told_so
else
    skipped "what meets at an address: python3 or IPv6 is not here"
fi
check two_hosts_on_one_machine two_hosts_on_one_machine
check the_first_make_says_what_it_found the_first_make_says_what_it_found
finish
