# SPDX-License-Identifier: Apache-2.0
#
# How fast collet is in the lab, beside perftest in the same boot. Everything is emulated: only ratios mean anything, and
# none of them fails a test. To be sourced after jobs.sh.

# perftest PROGRAM…: between the hosts, over rail 1; prints the row of its table.
perftest() {
    tell 2 "$* -d rxe1 -x 1"
    sleep 1
    on 1 "$* -d rxe1 -x 1 10.0.0.2" | awk '/^ *[0-9]+ +[0-9]+ /'
    answer 2 >/dev/null
}

# time_us TRANSPORT RANKS PROGRAM BYTES: the time of one call.
time_us() {
    local iterations=20 output
    [ "$4" -ge 1000 ] || iterations=200
    settings_for "$1"
    start_job "$2" "$3 -b $4 -e $4 -n $iterations -w 3 -c 0"
    output=$(end_job)
    awk -v bytes="$4" '$2 == bytes { print $7 }' <<<"$output"
}

# A row of the report: what, value, unit, what it is compared with, the other value, and the wanted ratio.
speed_row() {
    awk -v what="$1" -v ours="$2" -v unit="$3" -v other="$4" -v theirs="$5" -v goal="$6" 'BEGIN {
        if (ours + 0 <= 0 || theirs + 0 <= 0) { printf "%-42s not measured: %s %s; %s: %s\n", what, ours, unit, other, theirs; exit 1 }
        printf "%-42s %9.1f %-4s   %-24s %9.1f   ratio %5.2f%s\n", what, ours, unit, other, theirs, ours / theirs, goal }'
}

# megabytes_s BYTES US: the speed, as ib_write_bw counts: in units of 2^20.
megabytes_s() {
    awk -v bytes="$1" -v us="${2:-0}" 'BEGIN { if (us > 0) print bytes / 1048576 / (us / 1e6) }'
}

# report_speeds TRANSPORT…
report_speeds() {
    local transport bytes one_way bandwidth status=0
    local -A us
    bandwidth=$(perftest ib_write_bw -b -s 1048576 -n 60 -t 16 | awk '{ print $4 / 2 }')
    one_way=$(perftest ib_write_lat -s 8 -n 2000 | awk '{ print $5 }')
    for transport in "$@"; do
        speed_row "sendrecv, 1 MiB, $transport: busbw" \
            "$(megabytes_s 1048576 "$(time_us "$transport" 1 sendrecv_perf 1048576)")" MB/s \
            "half of ib_write_bw -b" "$bandwidth" "   goal 0.85 or more" || status=1
        speed_row "allreduce, 8 B, $transport" "$(time_us "$transport" 1 all_reduce_perf 8)" us \
            "ib_write_lat, one way" "$one_way" "   goal 2.5 or less" || status=1
    done
    [ $# -gt 1 ] || return $status
    for bytes in 65536 262144 1048576; do
        for transport in "$@"; do
            us[$transport]=$(time_us "$transport" 2 all_reduce_perf $bytes)
        done
        speed_row "allreduce, $((bytes >> 10)) KiB, 2 ranks a host, $1" "${us[$1]}" us "over $2" "${us[$2]}" \
            "   goal below 1" || status=1
    done
    return $status
}
