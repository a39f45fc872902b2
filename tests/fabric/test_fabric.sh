#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# test_fabric.sh [TRANSPORT…]: collet between two virtual hosts with software RDMA (lab.sh), two ranks on each, so that
# shared memory and a network mix. For each transport, in one boot:
#
#   conformance     every collective, type and operation, over both protocols; frames of 1500 and 9000 bytes; registered buffers (verbs);
#                   puts, gets, and transfers of many blocks
#   bad networks    loss, delay, reordering: results are exact
#   outages         a cable out for two seconds, and until the end; a host without power: an error on every rank, no hang
#   two rails       channels go by them; one of them dies, and one returns; a NIC without a link; the control plane's network dies (verbs)
#   misled          a port down on one host alone, devices in another order, links that lead nowhere (verbs)
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/fabric/lab.sh
. tests/fabric/jobs.sh

build=${BUILD:-build}
level=${COLLET_TEST_LEVEL:-normal}
transports=("$@")
[ $# -gt 0 ] || transports=(verbs tcp)

skip() {
    echo "skip  fabric: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}

# --------------------------------------------------------------------------------------------------------- conformance

hosts_reach_each_other() {
    on 1 "for net in 0 1 2; do ping -c 1 -s 8000 10.0.\$net.2 || exit 1; done"
}

pingpong() {
    local status
    tell 2 "ibv_rc_pingpong -d rxe$1 -g 1 -n 100"
    sleep 1
    on 1 "ibv_rc_pingpong -d rxe$1 -g 1 -n 100 10.0.$1.2"
    status=$?
    answer 2 && return $status
}

# Of every connection: shm on one host, the transport between them.
connections_take() {
    local transport=$1 output settings="$settings COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=CONN"
    output=$(is_exact 2 all_reduce_perf -b 8 -e 1M -f 128 -n 1) || { echo "$output"; return 1; }
    grep -oE 'rank [0-9] (->|<-) [0-9] via [a-z]+' <<<"$output" | awk -v transport="$transport" '
        { expected = int($2 / 2) == int($4 / 2) ? "shm" : transport; seen[expected]++ }
        $6 != expected { print; wrong++ }
        END { exit !(seen["shm"] && seen[transport] && !wrong) }'
}

# Carried by a thread of each rank's, which shares the host's one CPU with both of them.
proxies_carry() {
    local settings="$settings COLLET_PROXY=1"
    is_exact 2 all_reduce_perf -b 20 -e 300K -f 100 -n 2 -c 1
}

# Sizes from a few elements to many slots, odd counts among them.
collective_is_exact() {
    local sizes="-b 20 -e 300K -f 11" settings="$settings COLLET_PROTO=$2"
    [ "$level" != full ] || sizes="-b 20 -e 4M -f 3"
    is_exact 2 "$1" "$sizes" -n 2 -c 1
}

types_and_operations_are_exact() {
    local sizes="-b 1K -e 1K" settings="$settings COLLET_PROTO=$1"
    [ "$level" != full ] || sizes="-b 16 -e 256K -f 32"
    is_exact 2 all_reduce_perf -d all -o all "$sizes" -n 1 -c 1
}

# bytes_of OUTPUT: what producers say at the end: bytes sent, bytes of them from memory of programs, bytes into it.
bytes_of() {
    awk '/bytes were sent/ { sub(/.*: rank [0-9]* -> [0-9]*: /, ""); sent += $1; lent += $5; landed += $13 }
        END { printf "%d %d %d\n", sent, lent, landed }' <<<"$1"
}

# With ordinary buffers all is copied into slots and out of them. Registered ones are read where they are. Where payloads belong,
# producers learn in time for those behind the slots that are there: 8 of 128 KiB here.
registered_buffers_are_sent_from() { # PROGRAM, LENT and LANDED: percent, at least
    local output copied settings="$settings COLLET_BUFFSIZE=1M COLLET_ALGO=ring COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=NET"
    copied=$(is_exact 1 "$1" -b 4M -e 4M -n 1 -w 0 -R 0) || { echo "$copied"; return 1; }
    output=$(is_exact 1 "$1" -b 4M -e 4M -n 1 -w 0 -R 1) || { echo "$output"; return 1; }
    echo "ordinary: $(bytes_of "$copied"); registered: $(bytes_of "$output")"
    awk -v lent="$2" -v landed="$3" '
        NR == 1 { bad = $1 == 0 || $2 + $3 > 0 }
        NR == 2 { bad += $1 == 0 || $2 < $1 * lent / 100 || $3 < $1 * landed / 100 }
        END { exit bad }' <<<"$(bytes_of "$copied")"$'\n'"$(bytes_of "$output")"
}

check_conformance() {
    local transport=$1 program protocol protocols="Simple LL"
    [ "$transport" = verbs ] || [ "$level" = full ] || protocols=Simple
    check "shared_memory_and_${transport}_mix" connections_take "$transport"
    for protocol in $protocols; do
        for program in all_reduce all_gather reduce_scatter alltoall broadcast reduce; do
            check "${program}_is_exact_over_${transport}_with_$protocol" collective_is_exact ${program}_perf $protocol
        done
        check "types_and_operations_are_exact_over_${transport}_with_$protocol" types_and_operations_are_exact $protocol
    done
    check "sendrecv_is_exact_over_$transport" collective_is_exact sendrecv_perf Simple
    if [ "$transport" = verbs ]; then
        check proxies_carry_verbs proxies_carry
        check messages_are_sent_from_registered_buffers_and_land_in_them registered_buffers_are_sent_from sendrecv_perf 90 10
        check sums_are_sent_from_registered_buffers_and_land_in_them registered_buffers_are_sent_from all_reduce_perf 90 10
    fi
    check "puts_are_exact_over_$transport" is_exact 2 put_perf -b 8 -e 64K -f 128 -n 2 -c 1
    check "gets_are_exact_over_$transport" is_exact 2 get_perf -b 8 -e 64K -f 128 -n 2 -c 1
    check "blocks_come_into_a_window_over_$transport" is_exact 1 kv_perf --blocks 300
    check "frames_of_1500_bytes_carry_$transport" with_mtu 1500 is_exact 2 all_reduce_perf -b 8 -e 1M -f 8 -n 2
}

# -------------------------------------------------------------------------------------------------------- bad networks

traffic() {
    is_exact 2 all_reduce_perf -b 8 -e 256K -f 8 -n 20 -c 1 && is_exact 2 alltoall_perf -b 64K -e 64K -n 20 -c 1
}

# The rule has to have done something, or it was not tested.
survives_loss() {
    local output
    output=$(with_netem 1 "loss $1" traffic)
    local status=$?
    echo "$output"
    [ $status = 0 ] && awk '/dropped [0-9]+/ { sub(/,/, "", $7); dropped += $7 } END { exit !dropped }' <<<"$output"
}

check_bad_networks() {
    local transport=$1
    check "${transport}_is_exact_when_one_packet_in_1000_is_lost" survives_loss 0.1%
    check "${transport}_is_exact_when_one_packet_in_100_is_lost" survives_loss 1%
    check "${transport}_is_exact_when_packets_are_late" with_netem 1 "delay 3ms" traffic
    check "${transport}_is_exact_when_packets_overtake" with_netem 1 "delay 3ms reorder 99%" traffic
}

# ------------------------------------------------------------------------------------------------------------- outages

outage() {
    pull_cable "$1" "$2" && sleep "$3" && plug_cable "$1" "$2"
}

# Of RDMA the error has to say what it is that cannot be reached.
cable_is_out_for_ever() {
    local output status cause=collet_allreduce
    [ "$1" != verbs ] || cause="collet_allreduce: .*peer 10\.0\.1\.[12] is unreachable"
    output=$(fails_everywhere pull_cable 2 1)
    status=$?
    plug_cable 2 1
    echo "$output"
    [ $status = 0 ] && grep -q "$cause" <<<"$output"
}

# Host 2 loses power, and is there again for the next case.
check_outages() {
    local transport=$1
    check "${transport}_goes_on_after_2_seconds_without_a_cable" goes_on_through outage 2 1 2
    check "a_cable_out_for_ever_is_an_error_on_every_rank_over_$transport" cable_is_out_for_ever "$transport"
    check "a_host_that_dies_is_an_error_on_every_other_rank_over_$transport" fails_everywhere kill_host 2
    start_host 2
    check "the_host_comes_up_again_after_$transport" wait_host 2
}

# ----------------------------------------------------------------------------------------------------------- two rails

two_rails="COLLET_IB_HCA=rxe1,rxe2"

sent_on_both_rails() {
    on 1 "cat /sys/class/net/eth[12]/statistics/tx_bytes" | paste -sd' '
}

both_rails_carry_data() {
    local before after settings="$settings $two_rails"
    before=$(sent_on_both_rails)
    is_exact 2 all_reduce_perf -b 1M -e 1M -n 2 || return
    after=$(sent_on_both_rails)
    echo "bytes sent by eth1 and eth2: $before, then $after"
    awk '{ exit !($3 - $1 > 1e6 && $4 - $2 > 1e6) }' <<<"$before $after"
}

# A file about the machine with a NIC for each rail, the second one first: channel 0 goes by that.
rails_in_a_file="$two_rails COLLET_TOPO_FILE=/tmp/machine.xml"
write_machine() {
    local host name bus=1 nics=
    for name in rxe2 rxe1; do
        nics+="<pci busid='0000:0$bus:00.0' class='0x020000' link_speed='16.0 GT/s PCIe' link_width='16'><nic>"
        nics+="<net name='$name' dev='$((bus++ - 1))' speed='10000' port='1'/></nic></pci>"
    done
    for host in 1 2; do
        on $host "echo \"<system version='1'><cpu numaid='0' affinity='0x1' arch='x86_64'>$nics</cpu></system>\" >/tmp/machine.xml"
    done
}

# Small calls take the first channel alone.
channels_have_rails() {
    local before after output settings="$settings $rails_in_a_file COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=NET"
    before=$(sent_on_both_rails)
    is_exact 2 all_reduce_perf -b 32K -e 32K -n 20 || return
    after=$(sent_on_both_rails)
    echo "bytes sent by eth1 and eth2: $before, then $after"
    awk '{ exit !($4 - $2 > 5e5 && ($3 - $1) * 10 < $4 - $2) }' <<<"$before $after" || return
    settings+=" COLLET_NCHANNELS=2"
    output=$(is_exact 2 all_reduce_perf -b 1M -e 1M -n 2)
    grep -oE "channel .* port 1|of the channel's ring|in reserve|by turns" <<<"$output" | paste -sd' \n' | sort | uniq -c
    for rank in 0 1 2 3; do
        grep -qE "^$rank: .*channel 0 .* rxe2 port 1.* of the channel's ring" <<<"$output" &&
            grep -qE "^$rank: .*channel 1 .* rxe1 port 1.* of the channel's ring" <<<"$output" || return
    done
    ! grep -E "channel (0 .* rxe1|1 .* rxe2) port 1.* of the channel's ring|by turns" <<<"$output"
}

# Without a file, and with no cable in the NICs of rail 2.
nic_without_a_link() {
    local output host settings="$settings COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=GRAPH"
    for host in 1 2; do
        pull_cable $host 2 && on $host "until grep -q down /sys/class/net/eth2/operstate; do sleep 0.1; done" || return
    done
    output=$(is_exact 1 all_reduce_perf -b 64K -e 64K -n 1)
    local status=$?
    plug_cable 1 2 && plug_cable 2 2 || return
    echo "$output"
    [ $status = 0 ] && grep -q 'eth2 has no link and is left out' <<<"$output" && grep -q 'map:.*NIC eth1' <<<"$output" &&
        ! grep 'map:.*NIC eth2' <<<"$output"
}

# Pulled out of one end; both say so, once for each peer, and go on with the other rail.
one_rail_dies() {
    local output status settings="$settings $2 COLLET_DEBUG=WARN"
    output=$(goes_on_through pull_cable 2 "$1")
    status=$?
    plug_cable 2 "$1"
    echo "$output"
    [ $status = 0 ] && grep -q "^[01]: .* on rxe$1 .*without this rail" <<<"$output" &&
        grep -q "^[23]: .* on rxe$1 .*without this rail" <<<"$output" &&
        ! sed -n "s/^\([0-3]\): .* on rxe$1 .*\(rank [0-9]*\) (host .*without this rail.*/\1 \2/p" <<<"$output" | sort | uniq -d | grep .
}

# Out of host 2 alone, and in again: then host 1 sends by this rail again.
cable_goes_and_returns() {
    local sent="cat /sys/class/net/eth$1/statistics/tx_bytes" before now deadline
    pull_cable 2 "$1" && wait_for_rows 5 && plug_cable 2 "$1" || return
    before=$(on 1.side "$sent") deadline=$((SECONDS + 100))
    until now=$(on 1.side "$sent") && [ "$now" -gt $((before + 1000000)) ]; do
        [ $SECONDS -lt $deadline ] || { echo "eth$1 sent $before bytes, then $now"; return 1; }
        sleep 0.2
    done
}

one_rail_returns() {
    local output status rank settings="$settings $two_rails COLLET_DEBUG=WARN"
    output=$(goes_on_through cable_goes_and_returns "$1")
    status=$?
    plug_cable 2 "$1"
    echo "$output"
    for rank in 0 1 2 3; do
        grep -q "^$rank: .* by rxe$1 port 1, carries again" <<<"$output" || return
    done
    return $status
}

# The ranks watch each other by this network, and data go by another one. For longer than a host may be silent.
watching_cable_is_out() {
    pull_cable 2 0 && sleep 10
}

control_plane_moves() {
    local status settings="$settings COLLET_SOCKET_IFNAME==eth0,eth2"
    goes_on_through watching_cable_is_out
    status=$?
    plug_cable 2 0
    return $status
}

# ------------------------------------------------------------------------------------------------- networks that mislead

# Which device of this host is connected with which network of the other one, by the log: "rxe2 10.0.2" and so on.
pairs_of_rails() {
    grep -oE "rxe[0-9] port 1, GID [0-9]+, to 10\.0\.[0-9]" <<<"$1" | sed 's/ port.* to / /' | sort -u | paste -sd, -
}

rails_are() {
    local output expected=$1 status settings="$settings $two_rails COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=NET"
    output=$(is_exact 2 all_reduce_perf -b 64K -e 64K -n 4)
    status=$?
    echo "$output"
    [ $status = 0 ] && [ "$(pairs_of_rails "$output")" = "$expected" ]
}

# The other host has both.
port_down_on_one_host() {
    local status
    pull_cable 1 1 && on 1 "until grep -q down /sys/class/net/eth1/operstate; do sleep 0.1; done" || return
    rails_are "rxe2 10.0.2"
    status=$?
    plug_cable 1 1
    return $status
}

# libibverbs lists rxe2 first on host 2.
rails_in_another_order() {
    local status
    on 2 "rdma link delete rxe1; rdma link add rxe1 type rxe netdev eth1" || return
    rails_are "rxe1 10.0.1,rxe2 10.0.2"
    status=$?
    on 2 "rdma link delete rxe2; rdma link add rxe2 type rxe netdev eth2"
    return $status
}

# All that leaves by this rail is dropped, although its link is up: sums are exact even so, and the log has these words.
#    exact_without RAIL SETTINGS WORDS
exact_without() {
    local output status settings="$settings $2 COLLET_IB_TIMEOUT=14 COLLET_DEBUG=WARN"
    output=$(with_netem "$1" "loss 100%" is_exact 2 all_reduce_perf -b 64K -e 64K -n 4)
    status=$?
    echo "$output"
    [ $status = 0 ] && grep -q "$3" <<<"$output"
}

check_misleading_networks() {
    check a_port_that_is_down_on_one_host_alone_mixes_up_no_rails port_down_on_one_host
    check devices_in_another_order_mix_up_no_rails rails_in_another_order
    check a_rail_that_leads_nowhere_is_left_out exact_without 2 "$two_rails" "on rxe2 .*without this rail"
    check where_the_network_drops_rdma_tcp_takes_over exact_without 1 "COLLET_TRANSPORT=self,shm,verbs,tcp" "going on by tcp"
}

# -----------------------------------------------------------------------------------------------------------------------

why=$(lab_needs "$build/fabric") || skip "$why"
if ! lab_start "$build/fabric" "$build/bin"; then
    echo "the virtual hosts do not start"
    echo "0 passed, 1 failed"
    exit 1
fi

check the_hosts_reach_each_other hosts_reach_each_other
check rdma_goes_over_rail_1 pingpong 1
check rdma_goes_over_rail_2 pingpong 2
for transport in "${transports[@]}"; do
    settings_for "$transport"
    check_conformance "$transport"
    check_bad_networks "$transport"
    if [ "$transport" = verbs ]; then
        check both_rails_carry_data both_rails_carry_data
        write_machine
        check channels_go_by_the_rails_of_their_rings channels_have_rails
        check the_second_rail_takes_over one_rail_dies 1 "$two_rails"
        check the_first_rail_takes_over one_rail_dies 2 "$two_rails"
        check a_rail_in_reserve_takes_over one_rail_dies 2 "$rails_in_a_file"
        check a_rail_that_is_back_carries_data_again one_rail_returns 1
        check a_nic_without_a_link_carries_no_ring nic_without_a_link
        check a_job_outlives_the_network_of_its_control_plane control_plane_moves
        check_misleading_networks
    fi
    check_outages "$transport"
done
finish
