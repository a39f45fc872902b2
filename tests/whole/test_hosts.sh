#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Jobs on several hosts, which are network namespaces (tests/common/hosts.sh): collectives over tcp between hosts and
# shared memory inside, hierarchical algorithms, two interfaces at once, interfaces that are down or unlike, IPv6 alone,
# launchers, and what ranks see of hosts and ranks that vanish. The perf programs check every result.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/hosts.sh

bin=${BUILD:-build}/bin
[ -x "$bin/all_reduce_perf" ] || lab_skip "the perf programs are not built in $bin"
lab_enter "$@"

level=${COLLET_TEST_LEVEL:-normal}
programs="all_reduce all_gather reduce_scatter alltoall broadcast reduce sendrecv"
short="-b 8 -e 1M -f 16 -n 2 -w 1"
export COLLET_CPUS=1        # ranks of all hosts share the machine: none of them may spin for long
export COLLET_INIT_TIMEOUT=60 # the machine may be busy

slow() { [ "$level" != fast ]; }

# The lines that hold $1, of all ranks of the last job.
said() { cat $lab/rank*.out | grep -E "$1"; }

# Bytes that host $1 has received on interface $2.
received() { on_host "$1" sed -nE "s/^ *$2: *([0-9]+) .*/\1/p" /proc/net/dev; }

# ---------------------------------------------------------------------------------------------- hosts and algorithms

shared_memory_inside_tcp_between() {
    COLLET_DEBUG=INFO lab_job 2 2 "$bin/all_reduce_perf" $short || return 1
    said 'rank (0 .. 1|1 .. 0|2 .. 3|3 .. 2) via shm' && ! said 'rank (0 .. 1|1 .. 0|2 .. 3|3 .. 2) via tcp' &&
        said 'rank [01] -> [23] via tcp' && ! said 'rank [01] (->|<-) [23] via shm'
}

all_collectives() {
    local program
    for program in $programs; do
        echo "$program"
        lab_job "$1" "$2" "$bin/${program}_perf" $short || return 1
    done
}

# forced NAME PROGRAM HOSTS RANKS_PER_HOST: the algorithm is taken, and right.
forced() {
    COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=PLAN COLLET_ALGO=$1 lab_job "$3" "$4" "$bin/$2_perf" $short || return 1
    said "PLAN .*: $1, " >/dev/null || { echo "$1 was not taken"; return 1; }
}

algorithms_between_hosts() {
    local name
    for name in hier hiertree; do forced $name all_reduce "$1" "$2" || return 1; done
    forced hier alltoall "$1" "$2" || return 1
    slow || return 0
    for name in ring tree halving oneshot twoshot; do forced $name all_reduce "$1" "$2" || return 1; done
    for name in ring direct pat; do forced $name all_gather "$1" "$2" && forced $name reduce_scatter "$1" "$2" || return 1; done
}

# -------------------------------------------------------------------------------------------------------- interfaces

# Runs 2 × 1 ranks with calls of $1 (4M), $2 (4) of them, of $3 (all_reduce); sets on_eth0 and on_eth1 to the KiB that host 2 received there.
traffic() {
    local before0 before1
    before0=$(received 2 eth0) before1=$(received 2 eth1)
    COLLET_DEBUG=INFO lab_job 2 1 "$bin/${3:-all_reduce}_perf" -b "${1:-4M}" -e "${1:-4M}" -n "${2:-4}" -w 1 || return 1
    on_eth0=$((($(received 2 eth0) - before0) / 1024)) on_eth1=$((($(received 2 eth1) - before1) / 1024))
    echo "received: $on_eth0 KiB on eth0, $on_eth1 KiB on eth1"
}

# One channel takes all interfaces.
two_interfaces_at_once() {
    COLLET_NCHANNELS=1 traffic && [ $on_eth0 -gt 8000 ] && [ $on_eth1 -gt 8000 ] && tied 0 "eth0, eth1" "eth0, eth1"
}

# A message has one channel. Of a single one, each interface takes half.
one_message_by_two_interfaces() {
    traffic 64M 1 sendrecv && [ $on_eth0 -gt 32000 ] && [ $((on_eth0 - on_eth1)) -lt $((on_eth0 / 20)) ] &&
        [ $((on_eth1 - on_eth0)) -lt $((on_eth1 / 20)) ]
}

# tied CHANNEL INTERFACES1 INTERFACES2: so say hosts 1 and 2 of the last job's connections on this channel ("0", or "0 lane
# 63"), and nothing else.
tied() {
    local host=1 expected
    for expected in "$2" "$3"; do
        said "^h$host:.* channel $1( lane [0-9]+)?: [0-9]+ sockets of rank .* over $expected\$" >/dev/null &&
            ! said "^h$host:.* channel $1( lane [0-9]+)?: [0-9]+ sockets of rank " | grep -v " over $expected\$" || {
            echo "host $host: channel $1 is not over $expected alone"
            return 1
        }
        host=$((host + 1))
    done
}

# There is a channel for each interface, and small calls take the first channel alone.
channels_have_rails() {
    traffic && [ $on_eth0 -gt 8000 ] && [ $on_eth1 -gt 8000 ] && tied 0 eth0 eth0 && tied 1 eth1 eth1 || return 1
    traffic 32K 100 && [ $on_eth0 -gt 3000 ] && [ $on_eth1 -lt 300 ] || return 1
    COLLET_NSOCKETS=4 COLLET_NCHANNELS=2 traffic 32K 100 && [ $((on_eth0 - on_eth1)) -lt 300 ] &&
        [ $((on_eth1 - on_eth0)) -lt 300 ] && tied 0 eth0 eth0 && tied 1 eth1 eth1
}

# All pairs of ranks, not only neighbours of the ring, and messages, which have one channel.
all_pairs_have_rails() {
    COLLET_DEBUG=INFO COLLET_ALGO=direct lab_job 2 2 "$bin/alltoall_perf" $short && tied 0 eth0 eth0 && tied 1 eth1 eth1 &&
        COLLET_DEBUG=INFO lab_job 2 2 "$bin/sendrecv_perf" $short && tied "0 lane 63" "eth0, eth1" "eth0, eth1"
}

# With three channels for two interfaces, one of them would have two.
odd_channels_use_all() {
    COLLET_NCHANNELS=3 traffic && tied 0 "eth0, eth1" "eth0, eth1" && tied 2 "eth0, eth1" "eth0, eth1"
}

# Calls the interface of host 2 on rail $1 $2, and back.
rename_interface() {
    on_host 2 ip link set "eth$1" down && on_host 2 ip link set "eth$1" name "$2" && lab_plug 2 "$1" "$2"
}
name_back() {
    on_host 2 ip link set "$2" down && on_host 2 ip link set "$2" name "eth$1" && lab_plug 2 "$1"
}

other_names() {
    local result=1
    rename_interface 1 fast1 && COLLET_DEBUG=INFO lab_job 2 1 "$bin/all_reduce_perf" -b 1M -e 1M -n 2 &&
        tied 0 eth0 eth0 && tied 1 eth1 fast1 && result=0
    name_back 1 fast1 && return $result
}

# Sorted by name, host 2 has its interfaces in the other order: what should be one rail are two. They do not meet if hosts
# do not answer for addresses of other interfaces, as they do by default.
rails_that_do_not_meet() {
    local result=1
    on_host 1 sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore' || return 1
    rename_interface 0 late0 && COLLET_DEBUG=INFO lab_job 2 1 "$bin/all_reduce_perf" -b 1M -e 1M -n 2 &&
        said 'no connection to rank .* by [a-z]+[01]: ' >/dev/null && tied 0 "eth0, eth1" "late0, eth1" && result=0
    on_host 1 sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/arp_ignore'
    name_back 0 late0 && return $result
}

# A file about the machine can name them in another order, and a NIC that is not there.
rails_of_a_file() {
    local file=$lab/machine.xml result
    {
        echo '<system version="1"><cpu numaid="0" affinity="0x3" arch="x86_64">'
        for name in "$@"; do
            echo "<pci busid=\"0000:0$((bus += 1)):00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic>"
            echo "<net name=\"$name\" dev=\"$((bus - 1))\" speed=\"10000\" port=\"1\"/></nic></pci>"
        done
        echo '</cpu></system>'
    } >"$file"
    COLLET_TOPO_FILE=$file traffic
}
order_of_a_file() { local bus=0; rails_of_a_file eth1 eth0 && tied 0 eth1 eth1 && tied 1 eth0 eth0; }
unknown_name_in_a_file() { local bus=0; rails_of_a_file eth1 mlx5_7 && tied 0 eth1 eth1 && tied 1 "eth0, eth1" "eth0, eth1"; }

one_interface_chosen() {
    COLLET_SOCKET_IFNAME==eth1 LAB_MASTER=$(lab_address 1 1) traffic && [ $on_eth0 -lt 100 ] && [ $on_eth1 -gt 8000 ]
}

# An interface of host 2 that is down when the job starts. Host 1 does not know.
down_at_init() {
    local rail=$1 other=$((1 - $1)) result=1
    on_host 2 ip link set "eth$rail" down
    if LAB_MASTER=$(lab_address 1 $other) traffic && said "interfaces that are down are not used: .*eth$rail"; then
        [ $((rail == 0 ? on_eth0 : on_eth1)) -lt 100 ] && result=0
    fi
    lab_plug 2 "$rail"
    return $result
}

# Up at both ends, but nothing gets through.
cut_in_between() {
    local result
    ip link set h2r1 nomaster
    traffic && [ "$on_eth0" -gt 8000 ]
    result=$?
    ip link set h2r1 master rail1
    return $result
}

unlike_mtus() {
    local result
    ip link set h2r0 mtu 9000 && on_host 2 ip link set eth0 mtu 9000 && on_host 1 ip link set eth0 mtu 1400 &&
        lab_job 2 2 "$bin/alltoall_perf" -b 1M -e 4M -f 4 -n 2 -w 1
    result=$?
    on_host 1 ip link set eth0 mtu 1500
    return $result
}

ipv6_alone() {
    local host rail result
    for host in 1 2; do
        for rail in 0 1; do on_host $host ip -4 address flush dev eth$rail; done
    done
    LAB_MASTER=$(lab_address 1 0 6) traffic && [ $on_eth0 -gt 8000 ] && [ $on_eth1 -gt 8000 ] &&
        LAB_MASTER=$(lab_address 1 0 6) lab_job 2 2 "$bin/all_reduce_perf" $short
    result=$?
    for host in 1 2; do
        for rail in 0 1; do lab_plug $host $rail 2>/dev/null; done
    done
    return $result
}

# ---------------------------------------------------------------------------------------------------------- failures

# Starts an endless job on 2 × 2 ranks, of calls of $1 bytes (64 KiB); returns when it runs.
start_endless() {
    local tries bytes=${1:-65536}
    LAB_LIMIT=${limit:-40} COLLET_TIMEOUT=${timeout:-3} COLLET_HEARTBEAT=100 COLLET_HEARTBEAT_TIMEOUT=${silence:-1000} \
        lab_start 2 2 "$bin/all_reduce_perf" -b "$bytes" -e "$bytes" -n 20 -w 1 -N 0
    for ((tries = 0; tries < 1000; tries++)); do
        [ "$(grep -c "^ *$bytes " $lab/rank0.out 2>/dev/null)" -gt 0 ] && return 0
        sleep 0.02
    done
    lab_wait
    lab_show 4
    return 1
}

# Every rank that is meant ended by itself, with a failure that it named.
ended_with_errors() {
    local rank status bad=0
    for rank in "$@"; do
        status=$(<"$lab/rank$rank.status")
        case $status in 0 | 124 | 137) bad=1 ;; esac
        grep -qiE 'collet_|error|fail' "$lab/rank$rank.out" || bad=1
    done
    [ $bad = 0 ] || lab_show 4
    return $bad
}

host_cut_off() {
    start_endless || return 1
    on_host 2 ip link set eth0 down
    on_host 2 ip link set eth1 down
    lab_wait
    lab_plug 2 0
    lab_plug 2 1
    ended_with_errors 0 1 2 3
}

# One of two rails, which carries data, and perhaps the control plane. That goes on by the other one and tells all ranks.
rail_cut() {
    local limit=60 timeout=100 silence=4000
    start_endless 4194304 || return 1
    ip link set "h2r$1" nomaster
    lab_wait
    ip link set "h2r$1" master "rail$1"
    ended_with_errors 0 1 2 3 && said 'nothing is acknowledged that was sent' >/dev/null || { lab_show 4; return 1; }
}

# The one whose parents are `timeout` and the like would leave it behind, so the program itself is killed.
rank_killed() {
    local pid
    start_endless || return 1
    for pid in $(pgrep -x all_reduce_perf); do
        tr '\0' '\n' <"/proc/$pid/environ" | grep -qx RANK=3 && kill -KILL "$pid"
    done
    lab_wait
    ended_with_errors 0 1 2 && said 'rank 3' >/dev/null
}

# --------------------------------------------------------------------------------------------------------- launchers

# 2 × 2 ranks of real launchers, which reach host 2 as they would with rsh or ssh, and meet where MASTER_ADDR says, or through
# the launcher itself.
by_open_mpi() {
    on_host 1 env TMPDIR=$lab OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
        mpirun.openmpi -np 4 --host h1:2,h2:2 --oversubscribe --bind-to none --mca plm_rsh_agent $lab/rsh "$@" \
        $lab/rank "$bin/all_reduce_perf" $short >$lab/rank0.out 2>&1
    launched_on_two_hosts $?
}

by_mpich() {
    on_host 1 timeout 60 mpiexec.mpich -hosts h1,h2 -ppn 2 -n 4 -launcher rsh -launcher-exec $lab/rsh "$@" \
        $lab/rank "$bin/all_reduce_perf" $short >$lab/rank0.out 2>&1
    launched_on_two_hosts $?
}

# The launcher's status is $1, and the ranks are where they should be, as their own table says.
launched_on_two_hosts() {
    [ "$1" = 0 ] && [ "$(grep -cE '^# +Rank +[0-3] .* h[12] device' $lab/rank0.out)" = 4 ] && said ' h1 device' >/dev/null &&
        said ' h2 device' >/dev/null && said '^# Transport: shm tcp$' >/dev/null || { cat $lab/rank0.out; return 1; }
}

# ------------------------------------------------------------------------------------------------------------- cases

lab_hosts 4 2 || lab_skip "the hosts could not be built"

check ranks_share_memory_inside_a_host_and_use_tcp_between_hosts shared_memory_inside_tcp_between
check hierarchical_algorithms_are_right_on_two_hosts algorithms_between_hosts 2 2
check two_interfaces_carry_one_connection_at_once two_interfaces_at_once
check two_interfaces_carry_halves_of_one_message one_message_by_two_interfaces
if on_host 1 test -e /sys/class/net/eth1; then
    check channels_go_by_the_interfaces_of_their_rings channels_have_rails
    if slow; then
        check connections_of_all_ranks_stay_on_their_rail all_pairs_have_rails
        check a_connection_uses_all_interfaces_if_channels_do_not_divide_by_them odd_channels_use_all
        check interfaces_of_a_rail_may_have_unlike_names other_names
        check rails_that_do_not_meet_are_given_up rails_that_do_not_meet
    fi
else
    skipped "hosts may not have a sysfs of their own here"
fi
check a_file_says_which_channel_has_which_interface order_of_a_file
check a_channel_whose_adapter_is_not_here_uses_all_interfaces unknown_name_in_a_file
check an_interface_that_is_down_is_left_out_and_named down_at_init 1
check a_rank_that_is_killed_is_noticed_on_the_other_host rank_killed
if slow; then
    check all_collectives_are_right_on_two_hosts all_collectives 2 2
    check all_collectives_are_right_on_three_hosts all_collectives 3 1
    check all_collectives_are_right_on_four_hosts all_collectives 4 2
    check hierarchical_algorithms_are_right_on_three_hosts algorithms_between_hosts 3 2
    check a_chosen_interface_is_the_only_one one_interface_chosen
    check the_first_interface_may_be_down_too down_at_init 0
    check an_interface_that_leads_nowhere_is_done_without cut_in_between
    check interfaces_may_have_unlike_mtus unlike_mtus
    check ipv6_alone_will_do ipv6_alone
    check ranks_end_with_errors_when_a_host_is_cut_off host_cut_off
    check ranks_end_with_errors_when_one_of_two_networks_dies rail_cut 1
    check the_network_that_is_left_tells_all_ranks_so rail_cut 0
    if command -v mpirun.openmpi >/dev/null; then
        check ranks_of_open_mpi_meet_at_master_addr by_open_mpi -x MASTER_ADDR=h1
        check ranks_of_open_mpi_meet_without_a_word by_open_mpi
    else
        skipped "Open MPI is not installed"
    fi
    if command -v mpiexec.mpich >/dev/null; then
        check ranks_of_mpich_meet_at_master_addr by_mpich -env MASTER_ADDR h1
        check ranks_of_mpich_meet_without_a_word by_mpich
    else
        skipped "MPICH is not installed"
    fi
fi
finish
