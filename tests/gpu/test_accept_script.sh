#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What gpu-accept.sh makes of its parts, with programs that pass, fail, hang or are not there; and whether the bundle holds all
# that it needs.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A build folder of stubs: what test_accept does is said by part, the others pass.
stubs() {
    rm -rf "$work/build"
    mkdir -p "$work/build/tests/gpu" "$work/build/bin"
    printf '#!/bin/bash\nfor part; do case $part in\n%s\nesac; done\nexit 0\n' "$1" >"$work/build/tests/gpu/test_accept"
    printf '#!/bin/bash\necho here\n' >"$work/build/bin/all_reduce_perf"
    chmod +x "$work/build/tests/gpu/test_accept" "$work/build/bin/all_reduce_perf"
}
run() { BUILD=$work/build PATH=/usr/bin:/bin scripts/gpu-accept.sh "$@" >"$work/out.txt" 2>&1; }
in_table() { sed -n '/^=== summary/,$p' "$work/build/gpu-accept/report.txt" | grep -E "$1"; }

passes_if_all_parts_do() {
    stubs ''
    run && in_table '^graphs +[0-9]+ s +passed$' && in_table '^all_reduce_perf -t 4 +[0-9]+ s +passed$'
}

tells_each_verdict_at_once() { grep -xE -e '--- graphs: passed, [0-9]+ s; [0-9]+ s are left' "$work/build/gpu-accept/report.txt"; }

has_a_file_for_figures() { head -n 1 "$work/build/gpu-accept/results.tsv" | grep -P '^part\tlibrary\tranks\tmode\tbytes\t'; }

names_what_was_not_there() { in_table '^example: overlap +- s +not run: no .*/bin/overlap$'; }

names_a_part_that_fails() {
    stubs 'graphs) exit 3 ;;'
    run && return 1
    in_table '^graphs .*FAILED \(exit status 3\)$' && in_table '^streams .*passed$'
}

ends_in_time_whatever_hangs() {
    stubs 'device) sleep 100 ;;'
    local start=$SECONDS
    run 14 && return 1
    [ $((SECONDS - start)) -lt 14 ] && in_table '^current GPU unchanged .*FAILED \(stopped after' &&
        in_table '^abort of a hung rank .*FAILED \(not run: the time is up\)$'
}

# The program says on SIGTERM how far it is; what it leaves running keeps nothing waiting.
says_how_far_a_part_was_that_it_stops() {
    stubs 'device) sleep 50 & trap "echo CUT OFF device: 3 of 9 cases, 1 wrong; exit 143" TERM; while :; do sleep 0.1; done ;;'
    run 20 && return 1
    in_table '^current GPU unchanged .*FAILED \(stopped after [0-9]+ s: device: 3 of 9 cases, 1 wrong\)$' && in_table '^graphs .*passed$'
}

the_acceptance_itself_says_how_far_it_is() {
    local status
    command -p timeout 60 "$build/tests/gpu/test_accept" --emulated --seconds 50 simple >"$work/long.txt" 2>&1 & local program=$!
    until grep -q 'of the sample' "$work/long.txt"; do sleep 0.1; kill -0 $program || return 1; done
    kill $program # of timeout, which passes it on
    wait $program
    status=$?
    [ $status = 124 ] || [ $status = 143 ] && grep -E '^CUT OFF simple: [0-9]+ of [0-9]+ cases, 0 wrong' "$work/long.txt"
}

# NVIDIA's library is asked by turns: what hangs there is said, asked no second time, and no failure.
nvidias_library_may_hang() {
    local start
    stubs ''
    mkdir -p "$work/build/lib"
    printf '#!/bin/bash\ncase "$*" in *nvidia*--ranks\ 4*) sleep 30 ;; *nvidia*messages*) exit 3 ;; esac\n' >"$work/build/tests/gpu/beside"
    chmod +x "$work/build/tests/gpu/beside"
    echo collet_ >"$work/build/lib/libnccl.so.2"
    echo another >"$work/nvidia.so"
    start=$SECONDS
    ACCEPT_NCCL=$work/nvidia.so run || return 1
    [ $((SECONDS - start)) -lt 30 ] && in_table "^latency, nvidia, 4 ranks +[67] s +NVIDIA's library hangs \(stopped after 6 s\)$" &&
        in_table "^latency, nvidia, 4 ranks +- s +not asked again: NVIDIA's library hung$" &&
        in_table '^latency, nvidia, 8 ranks .*passed$' && in_table '^whole-GPU waits, collet, messages .*passed$' &&
        in_table "^whole-GPU waits, nvidia, messages .*NVIDIA's library fails \(exit status 3\)$"
}

is_skipped_without_a_gpu() {
    stubs 'none) echo "skipped: no CUDA device"; exit 77 ;;'
    run && [ "$(cat "$work/out.txt")" = 'skipped: no CUDA device' ]
}

fails_where_a_gpu_cannot_be_used() {
    stubs '*) echo "there may be a GPU, but it cannot be used: the driver is too old"; exit 1 ;;'
    run && return 1
    grep 'the driver is too old' "$work/build/gpu-accept/report.txt"
}

# All that comes before the list of what the machine can do hangs, the list too, and no signal but the last one ends it. Five seconds
# of the script take one here.
says_what_can_be_done_within_a_minute() {
    local hang='trap "" TERM; end=$((SECONDS + 100)); while [ $SECONDS -lt $end ]; do sleep 0.1; done' name began try
    stubs "none | abilities) $hang ;;
device) date +%s%N >$work/then ;;"
    mkdir "$work/hung"
    for name in nvidia-smi nvcc; do printf '#!/bin/bash\n%s\n' "$hang" >"$work/hung/$name"; done
    cp "$work/hung/nvcc" "$work/build/bin/collet-info"
    cat >"$work/hung/timeout" <<'STUB'
#!/bin/bash
[[ $1 == --kill-after=* ]] || exit 99 # what ignores a signal would never end
fifth() { echo "$(($1 / 5)).$(($1 % 5 * 2))"; }
exec /usr/bin/timeout --kill-after="$(fifth "${1#--kill-after=}")" "$(fifth "$2")" "${@:3}"
STUB
    chmod +x "$work/hung"/* "$work/build/bin/collet-info"
    for try in 1 2 3; do # a busy machine may take its time, but not always
        began=$(date +%s%N)
        BUILD=$work/build PATH=$work/hung:/usr/bin:/bin scripts/gpu-accept.sh >"$work/out.txt" 2>&1 && return 1
        in_table '^what can be done here .*FAILED \(stopped after' || return 1
        echo "try $try: $((($(cat "$work/then") - began) * 5 / 1000000)) ms"
        [ $((($(cat "$work/then") - began) * 5)) -ge 60000000000 ] || return 0
    done
    return 1
}

bundle_runs_elsewhere() {
    local said
    BUILD=$build scripts/gpu-accept-bundle.sh && mv "$build/gpu-accept-bundle" "$work/bundle" || return 1
    ldd "$build/tests/gpu/one_program" | grep -o 'libhwloc.so[.0-9]*' | sort -u | while read -r library; do
        [ -f "$work/bundle/build/needed/$library" ] || exit 1
    done || return 1
    said=$(cd / && env -i PATH=/usr/bin:/bin CUDA_VISIBLE_DEVICES= "$work/bundle/scripts/gpu-accept.sh") &&
        [ "$said" = 'skipped: no CUDA device' ]
}

# Also with the libraries that it brings, and nothing of this machine's but the C library.
bundle_works_with_its_own_libraries() {
    LD_LIBRARY_PATH=$work/bundle/build/needed timeout 60 "$work/bundle/build/tests/gpu/one_program" test_accept --emulated graphs
}

# What gpu-accept.sh runs is in the bundle, and `make bundle` builds it first.
bundle_has_every_program() {
    local program
    for program in $(grep -oE '(program|program_part [^/]*) (bin|tests)/[a-z_/-]*[a-z]' scripts/gpu-accept.sh | sed 's|.*/||' | sort -u); do
        "$work/bundle/build/tests/gpu/one_program" 2>&1 | grep -q " $program\\b" || { echo "$program is missing"; return 1; }
    done
    for program in tests/gpu/one_program tests/gpu/beside lib/libnccl.so.2; do
        [ ! -f "$build/$program" ] || [ -f "$work/bundle/build/$program" ] || { echo "$program is missing"; return 1; }
    done
}

check passes_if_all_parts_do passes_if_all_parts_do
check tells_each_verdict_at_once tells_each_verdict_at_once
check has_a_file_for_figures has_a_file_for_figures
check names_what_was_not_there names_what_was_not_there
check names_a_part_that_fails names_a_part_that_fails
check says_how_far_a_part_was_that_it_stops says_how_far_a_part_was_that_it_stops
check the_acceptance_itself_says_how_far_it_is the_acceptance_itself_says_how_far_it_is
check ends_in_time_whatever_hangs ends_in_time_whatever_hangs
check nvidias_library_may_hang nvidias_library_may_hang
check is_skipped_without_a_gpu is_skipped_without_a_gpu
check fails_where_a_gpu_cannot_be_used fails_where_a_gpu_cannot_be_used
check says_what_can_be_done_within_a_minute says_what_can_be_done_within_a_minute
# A program that needs a library, which needs another one: neither is in any usual place.
bundle_brings_what_a_machine_lacks() {
    stubs ''
    mkdir "$work/build/needed" "$work/far"
    echo 'int far(void) { return 0; }' >"$work/far.c"
    echo 'int far(void); int near(void) { return far(); }' >"$work/near.c"
    echo 'int near(void); int main(void) { return near(); }' >"$work/main.c"
    gcc -shared -fPIC -o "$work/build/needed/libfar.so" "$work/far.c" &&
        gcc -shared -fPIC -o "$work/build/needed/libnear.so" "$work/near.c" -L"$work/build/needed" -lfar &&
        gcc -o "$work/build/bin/overlap" "$work/main.c" -L"$work/build/needed" -lnear -Wl,-rpath-link="$work/build/needed" &&
        run && in_table '^example: overlap .*passed$'
}

if [ -x "$build/tests/gpu/one_program" ]; then # a build with CUDA
    check the_bundle_runs_elsewhere bundle_runs_elsewhere
    check the_bundle_has_every_program_that_the_script_runs bundle_has_every_program
    check the_bundle_works_with_its_own_libraries bundle_works_with_its_own_libraries
fi
check bundle_brings_what_a_machine_lacks bundle_brings_what_a_machine_lacks
finish
