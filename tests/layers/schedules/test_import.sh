#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Schedules in MSCCL-style XML: verified, run with checked data out of place and in place, refused by name.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

bin=${BUILD:-build}/bin
if [ ! -x "$bin/collet-prog" ] || [ ! -x "$bin/all_reduce_perf" ]; then
    echo "$bin/collet-prog is not built"
    exit 77
fi
if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
file=$scratch/schedule.xml

samples="allreduce_ring:all_reduce allreduce_ring_instances:all_reduce allreduce_rings_both_ways:all_reduce
allreduce_pairs:all_reduce allreduce_pairs_factor:all_reduce
allgather_ring:all_gather allgather_ring_in_output:all_gather allgather_pairs:all_gather
allgather_ring_factor:all_gather allgather_ring_channels:all_gather allgather_pairs_factor:all_gather allgather_pairs_in_output:all_gather
allgather_by_numbers:all_gather allgather_copies:all_gather allgather_copies_of_scratch:all_gather reducescatter_ring_factor:reduce_scatter alltoall_factor:alltoall
reducescatter_ring:reduce_scatter reducescatter_pairs:reduce_scatter alltoall_direct:alltoall alltoall_two_step:alltoall"

make_sample() { python3 tests/common/schedules.py "$1" "$2" > "$file"; } # NAME RANKS

samples_are_verified() {
    local sample ranks output
    for sample in $samples; do
        for ranks in 2 3 4 5 8; do
            [[ ! $sample =~ ^(alltoall_two_step|allgather_by_numbers): ]] || [ $((ranks % 2)) = 0 ] || continue
            make_sample "${sample%%:*}" "$ranks" || return 1
            output=$("$bin/collet-prog" --check --import "$file") && grep -q "^verified: .*_imported, $ranks ranks" <<<"$output" ||
                { echo "$sample $ranks: $output"; return 1; }
        done
    done
}

# The perf programs check every element, out of place and in place where the collective has that.
#    runs_checked PROTOCOL RANKS…
runs_checked() {
    local protocol=$1 sample ranks
    shift
    for sample in $samples; do
        for ranks in "$@"; do
            make_sample "${sample%%:*}" "$ranks" || return 1
            COLLET_PROTO=$protocol COLLET_PROGRAM=$file COLLET_DEBUG=INFO "$bin/${sample##*:}_perf" --procs "$ranks" -b 8 -e 300K -f 37 \
                -n 1 -w 0 > "$scratch/out" 2> "$scratch/log" || { echo "$sample $ranks"; tail -5 "$scratch/out" "$scratch/log"; return 1; }
            grep -q '# Out of bounds values *: *0 OK' "$scratch/out" && grep -q "ranks: imported, $protocol," "$scratch/log" ||
                { echo "$sample $ranks"; tail -5 "$scratch/out" "$scratch/log"; return 1; }
        done
    done
}

# The schedule after a sed script is refused, with these words.
#    is_refused WORDS SCRIPT SAMPLE RANKS
is_refused() {
    local output
    make_sample "$3" "$4" && sed -i "$2" "$file"
    output=$("$bin/collet-prog" --import "$file" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qF -- "$1" <<<"$output" || { echo "'$output' does not say '$1'"; return 1; }
}

refusals_name_the_instruction() {
    is_refused "schedule.xml:4: <step> type=\"xyz\" is not understood" '4s/type="s"/type="xyz"/' allreduce_ring 3 &&
        is_refused "schedule.xml:4: <step> gpu 0 tb 0 step 0 (s): chunks 9 to 9 of buffer i, which has 3" '4s/srcoff="[0-9]*"/srcoff="9"/' allreduce_ring 3 &&
        is_refused "(s): srcbuf=\"q\": i, o or s is expected" '4s/srcbuf="i"/srcbuf="q"/' allreduce_ring 3 &&
        is_refused "gpu 0 tb 0 step 1 (rrs): receives 2 chunks where 1 were sent" '5s/cnt="1"/cnt="2"/;5s/srcoff="[0-9]*"/srcoff="0"/' allreduce_ring 3 &&
        is_refused "gpu 0 tb 0 step 0 (s): depid=\"7\" deps=\"0\": there is no such step on its gpu" '4s/depid="-1" deps="-1"/depid="7" deps="0"/' allreduce_ring 3 &&
        is_refused "gpu 0 tb 0 step 0 (r): never runs" 's/type="s"/type="r"/' allreduce_ring 3 &&
        is_refused "gpu 0 tb 0 step 0 (s): reads chunk 0 of 1, which nobody has written yet" '4s/srcbuf="i"/srcbuf="s"/;s/s_chunks="0"/s_chunks="3"/' allreduce_ring 3 &&
        is_refused "its threadblock has no gpu to send to" '3s/send="1"/send="-1"/' allreduce_ring 3 &&
        is_refused "schedule.xml:1: <algo> nchunksperloop=\"4\": equally many chunks per rank, of 3, are expected" '1s/nchunksperloop="3"/nchunksperloop="4"/' allgather_ring 3 &&
        is_refused "coll=\"custom\"" '1s/coll="[a-z]*"/coll="custom"/' allgather_ring 3 &&
        is_refused "schedule.xml:2: <gpu> id=\"5\": gpus are listed by number" '2s/id="0"/id="5"/' allgather_ring 3 &&
        is_refused "schedule.xml:7: " '3s/tb/tp/' allgather_ring 3
}

# Without the last step of a rank, nothing is wrong for the reader; the verifier finds it.
wrong_schedules_are_found() {
    local output
    make_sample allgather_pairs 3
    sed -i '0,/type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0"/s//type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1"/' "$file"
    output=$("$bin/collet-prog" --import "$file")
    [ $? = 1 ] && grep -q '^wrong.*rank 0' <<<"$output" || { echo "$output"; return 1; }
    COLLET_PROGRAM=$file "$bin/all_gather_perf" --procs 3 -b 8 -e 8 -n 1 -w 0 > "$scratch/out" 2>&1 && { echo "it ran"; return 1; }
    grep -q 'COLLET_PROGRAM is wrong' "$scratch/out" || { tail -5 "$scratch/out"; return 1; }
}

# Cut after any number of bytes, a schedule is an error, and never a crash.
cut_files_are_errors() {
    local bytes
    make_sample allreduce_pairs 2
    for ((bytes = 0; bytes < $(wc -c < "$file") - 8; bytes += 97)); do
        head -c "$bytes" "$file" > "$scratch/cut.xml"
        "$bin/collet-prog" --import "$scratch/cut.xml" > "$scratch/out" 2>&1
        [ $? = 2 ] && grep -qE 'cut.xml:([0-9]+: | cannot be read: it is empty)' "$scratch/out" || { echo "$bytes bytes: $(cat "$scratch/out")"; return 1; }
    done
}

other_numbers_of_ranks_are_told() {
    make_sample allreduce_ring 4
    COLLET_DEBUG=WARN COLLET_PROGRAM=$file "$bin/all_reduce_perf" --procs 3 -b 8 -e 8 -n 1 -w 0 > "$scratch/out" 2>&1 &&
        grep -q "COLLET_PROGRAM is not used: it is for 4 ranks, the communicator has 3" "$scratch/out" || { tail -5 "$scratch/out"; return 1; }
}

# Without any setting, by one rank, with each name once. What repeats other attributes is not told.
attributes_without_effect_are_told() {
    local told="these attributes have no effect here: proto minBytes maxBytes outofplace weight (docs/algorithms.md"
    make_sample allreduce_ring 2 && sed -i '1s/<algo /<algo minBytes="0" maxBytes="65536" /; s/<tb /<tb weight="2" /' "$file"
    sed -i '1s/ proto="Simple"//; 1s/<algo /<algo proto="LL" /' "$file"
    COLLET_PROGRAM=$file "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1 -w 0 2>"$scratch/log" >"$scratch/out" &&
        [ "$(grep -cF "$told" "$scratch/log")" = 1 ] && "$bin/collet-prog" --check --import "$file" 2>&1 >"$scratch/out" | grep -qF "$told" ||
        { cat "$scratch/log"; return 1; }
    sed -i 's/ proto="LL"//; s/ minBytes="0" maxBytes="65536"//; s/ weight="2"//; s/ outofplace="[01]"//' "$file"
    ! "$bin/collet-prog" --check --import "$file" 2>&1 | grep 'no effect'
}

check samples_are_verified_for_2_to_8_ranks samples_are_verified
check samples_are_right_with_checked_data_in_simple runs_checked Simple 2 4
check samples_are_right_with_checked_data_in_ll runs_checked LL 2 6
check refusals_name_the_instruction refusals_name_the_instruction
check wrong_schedules_are_found_before_they_run wrong_schedules_are_found
check files_that_are_cut_are_errors cut_files_are_errors
check attributes_without_effect_are_told attributes_without_effect_are_told
check another_number_of_ranks_is_told other_numbers_of_ranks_are_told
finish
