#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The bad cases of docs/slow.md, made on purpose: each runs a healthy job, the same job with something wrong, and the command
# that shows what is wrong.
#   lab-slow.sh [one-cpu|far-cpus|wrong-nic|late|throttled|lossy|mismatch …]      all of them unless named
# A case that this machine cannot make says so. Times are those of this machine, now; nothing is judged by them.
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
perf=$build/bin/all_reduce_perf

title() { printf '\n== %s\n' "$1"; }
cannot() { printf 'not on this machine: %s\n' "$1"; }

# The rows of a perf program: size and time out of place.
row() { # what, command…
    local what=$1
    shift
    "$@" 2>/dev/null | awk -v what="$what" '$1 ~ /^[0-9]+$/ { printf "%-28s %8d B %12.1f us\n", what, $1, $6; rows++ }
        END { if (!rows) printf "%-28s failed\n", what }'
}
shows() { sed -E 's/^[^ ]+:[0-9]+:[0-9]+ //' | sort -u | head -n "${1:-3}"; }

one_cpu() {
    title "two ranks share a CPU"
    row healthy "$perf" --procs 2 -b 8 -e 64K -f 8192 -n 20 -w 5
    row "one CPU for both" taskset -c 0 "$perf" --procs 2 -b 8 -e 64K -f 8192 -n 20 -w 5
    echo "collet-info says:"
    taskset -c 0 "$build/bin/collet-info" 2>&1 | grep -i 'cpu' | head -n 2
}

far_cpus() {
    title "ranks on CPUs that are far from each other"
    local near far
    near=$(cat /sys/devices/system/node/node0/cpulist 2>/dev/null | cut -d, -f1 | cut -d- -f1)
    far=$(cat /sys/devices/system/node/node1/cpulist 2>/dev/null | cut -d, -f1 | cut -d- -f1)
    [ -n "$far" ] || { cannot "it has one NUMA node"; return; }
    row "CPUs $near and $((near + 1))" taskset -c "$near,$((near + 1))" "$perf" --procs 2 -b 8 -e 64K -f 8192 -n 20 -w 5
    row "CPUs $near and $far" taskset -c "$near,$far" "$perf" --procs 2 -b 8 -e 64K -f 8192 -n 20 -w 5
    echo "all_reduce_perf says:"
    taskset -c "$near,$far" "$perf" --procs 2 -b 8 -e 8 -n 20 -w 5 2>&1 | grep 'Line round trip'
}

# Two virtual hosts: false where they cannot be made.
hosts() {
    [ -x "$build/bench/slow_link" ] || make -s --no-print-directory BUILD="$build" "$build/bench/slow_link"
    "$build/bench/slow_link" "$@" true 2>/dev/null && return
    cannot "two virtual hosts need network namespaces and /dev/net/tun"
    return 1
}

wrong_nic() {
    title "the wrong NIC: one with 10 ms to the other host, beside one without"
    hosts --fast-too || return
    local job=("$build/bench/slow_link" --fast-too "$perf" -b 64K -e 64K -n 5 -w 2 -c 0)
    row "the fast one" env COLLET_SOCKET_IFNAME=fast "${job[@]}"
    row "both, as found" "${job[@]}"
    echo "COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=CONN says:"
    COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=CONN "${job[@]}" 2>&1 | grep 'sockets of rank 0' | shows 1
}

# The second process of a perf program that this script has started.
second_of() {
    local child
    for _ in {1..100}; do
        child=$(pgrep -P "$1" | sed -n 2p)
        [ -n "$child" ] && break
        sleep 0.05
    done
    echo "$child"
}
end_job() {
    pkill -KILL -P "$1"
    kill -KILL "$1"
    wait "$1"
} 2>/dev/null

late() {
    title "a late rank"
    local job child log
    log=$(mktemp)
    COLLET_WARN_AFTER=1 "$perf" --procs 2 -b 8 -e 8 -n 100000000 -w 1 -c 0 >/dev/null 2>"$log" &
    job=$!
    child=$(second_of $job)
    sleep 1
    kill -STOP "$child"
    for _ in {1..100}; do
        grep -q 'has waited' "$log" && break
        sleep 0.1
    done
    kill -CONT "$child"
    echo "COLLET_WARN_AFTER=1 says, with process $child stopped:"
    grep 'has waited' "$log" | shows 1
    end_job $job
    rm -f "$log"
}

# Stops and continues a process, 80 ms of each 100, as a container's limit of a fifth of a CPU does.
throttle() {
    while kill -STOP "$1"; do
        sleep 0.08
        kill -CONT "$1" && sleep 0.02
    done
} 2>/dev/null

throttled() {
    title "a rank in a throttled container"
    local job throttle child out
    out=$(mktemp)
    row healthy "$perf" --procs 2 -b 64K -e 64K -n 2000 -w 5 -c 0
    "$perf" --procs 2 -b 64K -e 64K -n 2000 -w 5 -c 0 -I 1 >"$out" 2>&1 &
    job=$!
    child=$(second_of $job)
    throttle "$child" &
    throttle=$!
    disown $throttle
    wait $job
    kill $throttle
    row "a fifth of a CPU" cat "$out"
    awk '$1 ~ /^[0-9]+$/ { print "-I 1 says: the shortest iteration " $10 " us, the longest " $11 " us" }' "$out"
    rm -f "$out"
} 2>/dev/null

lossy() {
    title "a link that loses packets"
    hosts --delay-ms 1 || return
    local job=("$perf" -b 1M -e 1M -n 5 -w 2 -c 0)
    row "a link of 1 ms" "$build/bench/slow_link" --delay-ms 1 "${job[@]}"
    row "… that loses 1 in 30" "$build/bench/slow_link" --delay-ms 1 --lose 30 "${job[@]}"
    echo "nstat -az TcpRetransSegs in the host of rank 0 says:"
    "$build/bench/slow_link" --delay-ms 1 --lose 30 bash -c '"$@" >/dev/null 2>&1; [ "$RANK" != 0 ] ||
        awk "\$1 == \"Tcp:\" && \$13 + 0 > 0 { print \"TcpRetransSegs \" \$13 }" /proc/net/snmp' - "${job[@]}"
}

mismatch() {
    title "ranks that make different calls"
    local program
    program=$(mktemp --suffix=.py)
    cat >"$program" <<'END'
import array, collet
with collet.init() as comm:
    data = array.array("f", [0] * 1000)
    try:
        comm.broadcast(data) if comm.rank == 1 else comm.allreduce(data)
    except collet.ColletError as error:
        print(f"rank {comm.rank}: {error}")
END
    PYTHONPATH=integrations/python timeout 60 python3 -m collet.run -n 3 "$program" 2>&1 | grep '^rank' | sort | head -n 3
    rm -f "$program"
}

[ $# -gt 0 ] || set -- one-cpu far-cpus wrong-nic late throttled lossy mismatch
for case; do
    case $case in
    one-cpu | far-cpus | wrong-nic | late | throttled | lossy | mismatch) "${case//-/_}" ;;
    *) echo "lab-slow.sh: there is no case $case" >&2 && exit 2 ;;
    esac
done
