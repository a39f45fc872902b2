# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# How fast collet is in the lab, beside perftest in the same boot. Everything is emulated, so only ratios mean anything,
# and none of them fails a test. What is compared is measured in turns, several times, and the best of each counts. To be
# sourced after jobs.sh.

# perftest PROGRAM…: between the hosts, over rail 1; prints the row of its table.
perftest() {
    tell 2 "$* -d rxe1 -x 1"
    sleep 1
    on 1 "$* -d rxe1 -x 1 10.0.0.2" | awk '/^ *[0-9]+ +[0-9]+ /'
    answer 2 >/dev/null
}

declare -A best # of each thing measured, by name

# keep NAME least|most VALUE
keep() {
    best[$1]=$(awk -v which="$2" -v now="$3" -v best="${best[$1]:-}" 'BEGIN {
        better = best == "" || now != "" && (which == "least" ? now + 0 < best + 0 : now + 0 > best + 0)
        print better ? now : best }')
}

# time_calls TRANSPORT PROGRAM SIZES…: keeps the times of calls in us as "TRANSPORT PROGRAM BYTES", with a rank on each host.
time_calls() {
    local transport=$1 program=$2 bytes us
    settings_for "$transport"
    start_job 1 "${program}_perf ${*:3} -w 3 -c 0"
    while read -r bytes us; do
        keep "$transport $program $bytes" least "$us"
    done < <(end_job | awk '$4 == "float" { print $2, $7 }')
}

# time_pairs TRANSPORT PROGRAM SIZE…: keeps, as "TRANSPORT PROGRAM BYTES typical", the median of half the time of two
# calls in a row, as ib_write_lat halves the time there and back. (Of two ranks in step, the one that was late in a call has
# less to wait in it and more in the next: single times lie to both sides of what a call takes.)
time_pairs() {
    local transport=$1 program=$2 times=/tmp/calls.json bytes
    settings_for "$transport"
    on 1 "rm -f $times"
    start_job 1 "${program}_perf ${*:3} -w 3 -c 0 -I 1 -J $times"
    bytes=$(end_job | awk '$4 == "float" { print $2 }')
    keep "$transport $program $bytes typical" least "$(
        on 1 "grep -o '\"per_process_max_times_us\": [[][[][^]]*' $times | head -n 1" | sed 's/.*\[//' | tr ',' '\n' |
            awk 'NR % 2 { first = $1; next } { print (first + $1) / 2 }' | sort -g | awk '{ us[NR] = $1 } END { print us[int((NR + 1) / 2)] }')"
}

# time_blocks TRANSPORT: keeps, as "TRANSPORT blocks", the MiB/s of a transfer of 500 blocks of 8 KiB.
time_blocks() {
    settings_for "$1"
    start_job 1 kv_perf --blocks 500
    keep "$1 blocks" most "$(end_job | awk '/a transfer, prepared once/ { print 500 * 8192 / 1048576 / ($(NF - 2) / 1000) }')"
}

# measure_speeds TRANSPORT…: small calls in more detail over the first of them.
measure_speeds() {
    local transport latency
    keep write_bw most "$(perftest ib_write_bw -b -s 1048576 -n 30 -t 16 | awk '{ print $4 }')"
    keep write_blocks most "$(perftest ib_write_bw -s 8192 -n 500 -t 16 | awk '{ print $4 }')"
    latency=$(perftest ib_write_lat -s 8 -n 1000)
    keep write_lat_typical least "$(awk '{ print $5 }' <<<"$latency")"
    keep write_lat_average least "$(awk '{ print $6 }' <<<"$latency")"
    keep write_pair least "$(perftest ib_write_bw -b -s 8 -n 1000 -t 1 | awk '$5 > 0 { print 2 / $5 }')" # its rate counts both
    for transport in "$@"; do
        time_calls "$transport" sendrecv -b 1M -e 1M -n 10
        time_calls "$transport" all_reduce -b 8 -e 8 -n 200
        time_calls "$transport" put -b 8 -e 8 -n 200 # a signal, then a put with a signal
        time_blocks "$transport"
        time_calls "$transport" all_reduce -b 64K -e 1M -f 4 -n 10
    done
    time_pairs "$1" all_reduce -b 8 -e 8 -n 200
}

# compare WHAT OURS UNIT WITH-WHAT THEIRS GOAL: a line of the report.
compare() {
    awk -v what="$1" -v ours="$2" -v unit="$3" -v other="$4" -v theirs="$5" -v goal="$6" 'BEGIN {
        measured = ours > 0 && theirs > 0
        ratio = measured ? sprintf("%6.2f", ours / theirs) : "  none"
        printf "%-34s %9.1f %-4s  %-22s %9.1f  ratio %s  goal %s\n", what, ours, unit, other, theirs, ratio, goal
        exit !measured }'
}

# MiB/s, as ib_write_bw counts.
speed_of() {
    awk -v bytes="$1" -v us="${2:-0}" 'BEGIN { if (us > 0) print bytes / 1048576 / (us / 1e6) }'
}

half_of() {
    awk -v value="${1:-0}" 'BEGIN { print value / 2 }'
}

# report_speeds ROUNDS TRANSPORT…
report_speeds() {
    local rounds=$1 round transport bytes status=0
    shift
    for ((round = 0; round < rounds; round++)); do
        measure_speeds "$@"
    done
    echo "Speeds in this lab, a rank on each host, best of $rounds:"
    for transport in "$@"; do
        compare "sendrecv, 1 MiB, $transport: busbw" "$(speed_of 1048576 "${best[$transport sendrecv 1048576]:-}")" MB/s \
            "half of ib_write_bw -b" "$(half_of "${best[write_bw]:-}")" "≥ 0.85" || status=1
        compare "allreduce, 8 B, $transport: average" "${best[$transport all_reduce 8]:-}" us \
            "ib_write_lat, average" "${best[write_lat_average]:-}" "≤ 2.5" || status=1
        compare "put of 8 B and signal, $transport" "$(half_of "${best[$transport put 8]:-}")" us \
            "ib_write_lat, average" "${best[write_lat_average]:-}" "≤ 1.3" || status=1
        compare "blocks of 8 KiB, $transport" "${best[$transport blocks]:-}" MB/s \
            "ib_write_bw of 8 KiB" "${best[write_blocks]:-}" "≥ 0.8" || status=1
    done
    compare "allreduce, 8 B, $1: average" "${best[$1 all_reduce 8]:-}" us \
        "ib_write_bw -b -t 1" "${best[write_pair]:-}" "none" || status=1
    compare "allreduce, 8 B, $1: typical" "${best[$1 all_reduce 8 typical]:-}" us \
        "ib_write_lat, typical" "${best[write_lat_typical]:-}" "≤ 2.5" || status=1
    [ $# -gt 1 ] || return $status
    for bytes in 65536 262144 1048576; do
        compare "allreduce, $((bytes >> 10)) KiB, $1" "${best[$1 all_reduce $bytes]:-}" us \
            "over $2" "${best[$2 all_reduce $bytes]:-}" "< 1" || status=1
    done
    return $status
}
