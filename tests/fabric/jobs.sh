# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Jobs of collet on both hosts of the lab, and how they end. To be sourced after lab.sh.
#
#   settings                        environment of the ranks, "NAME=value …": see settings_for
#   start_job RANKS PROGRAM…        RANKS on each host
#   end_job                         waits, and prints what they printed
#   is_exact RANKS PROGRAM…         runs it: every rank checked its results and found them right
#   goes_on_through ACTION…         an endless allreduce is exact before, during and after that
#   fails_everywhere ACTION…        an endless allreduce that this ends: with an error on every rank that is left
job_limit=160 # seconds after which a rank counts as hung; generous, as emulated hosts are slow on a machine that is busy

# Ranks meet and watch each other over eth0, and data take rail 1; tcp has all of it on rail 1. What collet should notice
# by itself is well below job_limit. Six retries, because rxe takes 7 to mean "without end".
settings_for() {
    settings="COLLET_TIMEOUT=15 COLLET_INIT_TIMEOUT=20 COLLET_HEARTBEAT_TIMEOUT=5000"
    case $1 in
    verbs)
        settings+=" COLLET_TRANSPORT=self,shm,verbs COLLET_SOCKET_IFNAME==eth0"
        settings+=" COLLET_IB_HCA=rxe1 COLLET_IB_RETRY_CNT=6"
        ;;
    tcp) settings+=" COLLET_TRANSPORT=self,shm,tcp COLLET_SOCKET_IFNAME==eth1" ;;
    esac
}

start_job() {
    local ranks=$1 host
    shift
    for host in 1 2; do
        on $host.side "rm -f /tmp/rank.* /tmp/status.*" # before anybody counts the rows of rank 0
        limit=$((job_limit + 10)) tell $host "env $settings run_ranks $ranks $job_limit $*"
    done
}

end_job() {
    local host
    for host in 1 2; do
        [ ! -e "$lab_dir/$host.pid" ] || limit=$((job_limit + 10)) answer $host
    done
}

# ended_with PATTERN OUTPUT: of how many ranks the exit status matches.
ended_with() {
    grep -cE "^rank [0-9]+ ended with ($1)$" <<<"$2"
}

is_exact() {
    local output
    start_job "$@"
    output=$(end_job)
    echo "$output"
    [ "$(ended_with 0 "$output")" = $((2 * $1)) ]
}

# ---------------------------------------------------------------------------------------------------- while a job runs

endless="all_reduce_perf -b 64K -e 64K -n 4 -N 0 -c 1"

# Rows of results that rank 0 has printed.
rows() {
    on 1.side "cat /tmp/rank.0 2>/dev/null | grep -c ' float '"
}

wait_for_rows() {
    local from deadline=$((SECONDS + 100))
    from=$(rows)
    while [ "$(rows)" -lt $((from + $1)) ]; do
        if [ $SECONDS -ge $deadline ] || ! on 1.side "test ! -e /tmp/status.0"; then
            echo "no progress: $from rows, then $(rows)"
            return 1
        fi
        sleep 0.2
    done
}

goes_on_through() {
    local output went_on=1
    start_job 2 "$endless"
    wait_for_rows 3 && "$@" && wait_for_rows 5 && went_on=0
    on 1.side "killall -KILL all_reduce_perf"
    on 2.side "killall -KILL all_reduce_perf"
    output=$(end_job)
    echo "$output"
    [ $went_on = 0 ] && rows_are_right "$output"
}

# The columns "#wrong" of every whole row.
rows_are_right() {
    awk '$5 == "sum" && NF == 14 { rows++; wrong += ($10 != "0") + ($14 != "0") } END { exit !(rows > 0 && wrong == 0) }' <<<"$1"
}

# PERF_FAILED, which is 1, is what a perf program ends with when a call of collet returned an error.
fails_everywhere() {
    local output acted=1 left=4
    start_job 2 "$endless"
    wait_for_rows 3 && "$@" && acted=0
    [ -e "$lab_dir/2.pid" ] || left=2
    output=$(end_job)
    echo "$output"
    [ $acted = 0 ] && [ "$(ended_with 1 "$output")" = $left ] && rows_are_right "$output"
}

# ------------------------------------------------------------------------------------------------------ worse networks

# with_netem RAIL RULE COMMAND…: while packets that leave either host by this rail are treated so.
with_netem() {
    local rail=$1 rule=$2 host status
    shift 2
    for host in 1 2; do
        on $host "tc qdisc add dev eth$rail root netem limit 10000 $rule" || return
    done
    "$@"
    status=$?
    for host in 1 2; do
        on $host "tc -s qdisc show dev eth$rail; tc qdisc del dev eth$rail root" || status=1
    done
    return $status
}

with_mtu() {
    local mtu=$1 host status
    shift
    for host in 1 2; do
        on $host "ip link set eth1 mtu $mtu; ip link set eth2 mtu $mtu"
    done
    "$@"
    status=$?
    for host in 1 2; do
        on $host "ip link set eth1 mtu 9000; ip link set eth2 mtu 9000"
    done
    return $status
}
