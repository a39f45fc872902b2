#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Files that knobs name are no reason to wait, or to die. A reader that left and a limit on files killed ranks by signals, a pipe that
# nobody reads or empties kept them waiting without end, an endless file took all memory, and files of other users got logs.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

bin=${BUILD:-build}/bin
[ -x "$bin/all_reduce_perf" ] || { echo "programs are not built in $bin"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Two ranks, a few calls. They end in a few seconds, or hang.
perf() { timeout 30 env "$@" "$bin/all_reduce_perf" --procs 2 -b 8 -e 64K -f 8 -n 20 -w 1; }
# The calls do their work, and what is said has these words.
goes_on() { # words, variables…
    local words=$1
    shift
    perf "$@" >"$work/out" 2>&1 || { echo "ended with $?"; tail -5 "$work/out"; return 1; }
    grep -q "$words" "$work/out" || { tail -5 "$work/out"; return 1; }
}
# An error says why.
is_refused() {
    local words=$1 rc
    shift
    perf "$@" >"$work/out" 2>&1
    rc=$?
    [ $rc != 0 ] && [ $rc -lt 124 ] && grep -q "$words" "$work/out" || { echo "ended with $rc"; tail -5 "$work/out"; return 1; }
}
fifo() { rm -f "$work/pipe"; mkfifo "$work/pipe"; echo "$work/pipe"; }

# ---- readers that leave

env --default-signal=PIPE true 2>/dev/null && DEFAULT=--default-signal=PIPE || DEFAULT=

# A program that knows nothing of the signal; perf programs ignore it.
hello() { timeout 30 env $DEFAULT "$@" "$bin/hello_allreduce"; }
a_reader_of_the_log_leaves() {
    { hello COLLET_DEBUG=TRACE 2>&1 >"$work/out"; echo $? >"$work/rc"; } | head -c 1 >/dev/null
    [ "$(cat "$work/rc")" = 0 ] || { echo "ended with $(cat "$work/rc")"; return 1; }
}

# ---- pipes that nobody empties

the_log_is_a_full_pipe() {
    local pipe rc
    pipe=$(fifo)
    exec 9<>"$pipe"
    head -c 65536 /dev/zero >&9
    perf COLLET_DEBUG=TRACE >"$work/out" 2>"$pipe"
    rc=$?
    exec 9>&-
    [ $rc = 0 ]
}
records_go_into_a_full_pipe() {
    local pipe rc
    pipe=$(fifo)
    exec 9<>"$pipe"
    head -c 65536 /dev/zero >&9
    goes_on 'operations are missing in COLLET_RECORD' COLLET_RECORD="$pipe"
    rc=$?
    exec 9>&-
    return $rc
}
# No reader at all. What only looks is done without, what counts is an error.
is_done_without() { goes_on "$2" COLLET_DEBUG=WARN "$1=$(fifo)"; }
is_an_error() { is_refused "$2" "$1=$(fifo)"; }
metrics_take_its_place() {
    local pipe
    pipe=$(fifo)
    perf COLLET_METRICS="$pipe" >"$work/out" 2>&1 && [ -f "$pipe" ]
}

# ---- limits and disks

the_log_meets_the_limit_on_files() { # the ranks' own memory is smaller
    truncate -s 64M "$work/log" && (ulimit -f 65536 && goes_on ' Avg bus bandwidth' COLLET_DEBUG=TRACE COLLET_DEBUG_FILE="$work/log")
}
records_meet_the_limit_on_files() {
    truncate -s 64M "$work/records" && (ulimit -f 65536 && goes_on 'operations are missing in COLLET_RECORD' COLLET_RECORD="$work/records")
}
memory_beyond_the_limit_is_named() { (ulimit -f 40 && is_refused_or_goes_on); }
is_refused_or_goes_on() {
    local said rc
    said=$(perf 2>&1)
    rc=$?
    [ $rc = 0 ] || { [ $rc -lt 124 ] && [[ $said == *"ulimit -f"* ]]; } || { echo "ended with $rc"; echo "$said" | tail -c 500; return 1; }
}

# ---- endless files

an_endless_file_is_refused() { (ulimit -v 8000000 && is_refused 'more than 4 MiB' "$1=/dev/zero"); }

# ---- file systems whose server does not answer

# The job's work is done, and these words are said, while the server is silent. When that is seen the server ends: until then the kernel
# keeps a process that has asked it (hung_files.c).
says_without_the_server() { # words … -- open|write variables…; all files are in $work/hung
    local words=() how watcher
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    how=$2
    shift 2
    rm -f "$work/hung.end"
    : >"$work/out"
    for word in "${words[@]}"; do until grep -qE "$word" "$work/out"; do sleep 0.2; done; done && touch "$work/hung.end" &
    watcher=$!
    timeout 100 "$work/hung_files" "$work/hung" "$how" 60 env "$@" \
        "$bin/all_reduce_perf" --procs 2 -b 8 -e 64K -f 8 -n 20 -w 1 >"$work/out" 2>&1
    kill $watcher 2>/dev/null
    wait $watcher 2>/dev/null
    grep -q '# the server has ended' "$work/out" && [ -e "$work/hung.end" ] || { tail -5 "$work/out"; return 1; }
}

# ---- files that are not this user's alone

a_second_name_is_refused() { # variable, words
    echo keep >"$work/important" && ln -f "$work/important" "$work/trap" &&
        goes_on "$2" COLLET_DEBUG=WARN "$1=$work/trap" && [ "$(cat "$work/important")" = keep ]
}
a_strangers_file_is_refused() {
    rm -f "$work/trap" && : >"$work/trap" && chmod 666 "$work/trap" && chown 65534 "$work/trap" &&
        goes_on "$2" COLLET_DEBUG=WARN "$1=$work/trap" && [ ! -s "$work/trap" ]
}
devices_will_do() {
    goes_on ' Avg bus bandwidth' COLLET_DEBUG=INFO COLLET_DEBUG_FILE=/dev/null COLLET_RECORD=/dev/null &&
        goes_on '"seq": 1' COLLET_RECORD=/dev/stderr && perf COLLET_RECORD=/dev/fd/2 2>"$work/err" >/dev/null && grep -q '"seq"' "$work/err"
}
a_pipe_that_is_read_will_do() {
    local pipe
    pipe=$(fifo)
    cat "$pipe" >"$work/got" &
    sleep 0.2
    goes_on ' Avg bus bandwidth' COLLET_RECORD="$pipe" && wait $! && grep -q '"seq": 1' "$work/got"
}
tuning_may_come_through_a_pipe() {
    goes_on 'constants are those of /dev/fd' COLLET_DEBUG=INFO COLLET_TUNER_FILE=/dev/fd/7 7< <("$bin/collet-tune" --print)
}

check a_reader_of_the_log_may_leave a_reader_of_the_log_leaves
check a_log_that_is_a_full_pipe_holds_up_nobody the_log_is_a_full_pipe
check records_into_a_full_pipe_hold_up_nobody records_go_into_a_full_pipe
check a_log_into_a_pipe_without_reader_goes_to_stderr is_done_without COLLET_DEBUG_FILE 'cannot open COLLET_DEBUG_FILE.*nobody reads this pipe'
check a_record_into_a_pipe_without_reader_is_an_error is_an_error COLLET_RECORD 'COLLET_RECORD is .*nobody reads this pipe'
check a_trace_into_a_pipe_without_reader_is_not_written is_done_without COLLET_TRACE 'cannot write COLLET_TRACE.*nobody reads this pipe'
check a_topology_into_a_pipe_without_reader_is_not_written is_done_without COLLET_TOPO_DUMP_FILE 'COLLET_TOPO_DUMP_FILE.*nobody reads this pipe'
check metrics_take_the_place_of_a_pipe metrics_take_its_place
check a_topology_from_a_pipe_without_writer_is_done_without is_done_without COLLET_TOPO_FILE 'nobody writes into this pipe'
check a_tuning_file_from_a_pipe_without_writer_is_an_error is_an_error COLLET_TUNER_FILE 'nobody writes into this pipe'
check a_schedule_from_a_pipe_without_writer_is_an_error is_an_error COLLET_PROGRAM 'nobody writes into this pipe'
check a_plugin_that_is_a_pipe_is_not_loaded is_done_without COLLET_NET_PLUGIN 'it is no regular file'
check a_log_beyond_the_limit_on_files_kills_nobody the_log_meets_the_limit_on_files
check records_beyond_the_limit_on_files_kill_nobody records_meet_the_limit_on_files
check memory_beyond_the_limit_on_files_is_named memory_beyond_the_limit_is_named
if mkdir "$work/hung" && ${CC:-cc} -O1 -o "$work/hung_files" tests/edges/hung_files.c && "$work/hung_files" "$work/hung" never 1 true 2>"$work/why"; then
    never='its file system does not answer' done='Avg bus bandwidth'
    check a_log_on_a_server_that_falls_silent_holds_up_nobody says_without_the_server "$done" -- write COLLET_DEBUG=TRACE COLLET_DEBUG_FILE="$work/hung/log.%p"
    check a_log_on_a_server_that_is_silent_goes_to_stderr says_without_the_server "$done" "cannot open COLLET_DEBUG_FILE.*$never" -- open COLLET_DEBUG=WARN COLLET_DEBUG_FILE="$work/hung/log.%p"
    check records_on_a_server_that_falls_silent_hold_up_nobody says_without_the_server "$done" "cannot write COLLET_RECORD: .*operations are missing" -- write COLLET_RECORD="$work/hung/record.%r"
    check a_trace_on_a_server_that_is_silent_is_not_written says_without_the_server "$done" "cannot write COLLET_TRACE.*$never" -- open COLLET_TRACE="$work/hung/trace.%r"
    check a_topology_on_a_server_that_is_silent_is_not_written says_without_the_server "$done" "topology cannot be written: $never" -- open COLLET_TOPO_DUMP_FILE="$work/hung/topology"
    check a_topology_from_a_server_that_is_silent_is_done_without says_without_the_server "$done" "cannot be read: $never" -- open COLLET_DEBUG=WARN COLLET_TOPO_FILE="$work/hung/made"
    check a_tuning_file_from_a_server_that_is_silent_is_an_error says_without_the_server "cannot be read: $never" -- open COLLET_TUNER_FILE="$work/hung/made"
    check metrics_on_a_server_that_is_silent_are_an_error says_without_the_server "cannot write COLLET_METRICS.*$never" -- open COLLET_METRICS="$work/hung/metrics.%r"
else
    skipped "servers of files that do not answer: $(tail -n 1 "$work/why")"
fi
for knob in COLLET_TUNER_FILE COLLET_PROGRAM; do check "an_endless_file_is_refused_as_$knob" an_endless_file_is_refused $knob; done
check a_file_with_a_second_name_gets_no_log a_second_name_is_refused COLLET_DEBUG_FILE 'cannot open COLLET_DEBUG_FILE.*Permission denied'
check a_file_with_a_second_name_gets_no_trace a_second_name_is_refused COLLET_TRACE 'cannot write COLLET_TRACE.*Permission denied'
check a_file_with_a_second_name_gets_no_topology a_second_name_is_refused COLLET_TOPO_DUMP_FILE 'COLLET_TOPO_DUMP_FILE.*Permission denied'
if [ "$(id -u)" = 0 ]; then
    check a_file_of_another_user_gets_no_log a_strangers_file_is_refused COLLET_DEBUG_FILE 'cannot open COLLET_DEBUG_FILE.*Permission denied'
    check a_file_of_another_user_gets_no_trace a_strangers_file_is_refused COLLET_TRACE 'cannot write COLLET_TRACE.*Permission denied'
else
    skipped "files of other users: only root can make them"
fi
check devices_and_descriptors_will_do devices_will_do
check a_pipe_that_is_read_gets_records a_pipe_that_is_read_will_do
check tuning_comes_through_a_pipe tuning_may_come_through_a_pipe
finish
