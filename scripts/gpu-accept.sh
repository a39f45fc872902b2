#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gpu-accept.sh [seconds [seconds for many cores]]: everything that a GPU has to show, in one report, in 300 seconds at most, however
# much of it hangs. Then, if a second number is given, MPI libraries beside collet on the CPUs of the same machine, if these are 8 or more.
#
#   $BUILD/gpu-accept/report.txt     the machine, what it can do, the output of every part, and last a table of the parts:
#                                    the one file to send back
#   $BUILD/gpu-accept/results.tsv    every figure that was measured, a line each, for programs to read
#   $BUILD/gpu-accept/gpu.tuning     constants of the cost model
#
# The most valuable parts come first: a run that is cut off, at whatever second, has shown what it could. Every part says every two
# seconds how far it is; one that is stopped says how many of its cases it had done.
#
# ACCEPT_SLOW=1: what it runs on is slow, so small sizes and ten times as long for each part. ACCEPT_NCCL=PATH, PYTHON=PATH: NVIDIA's
# library, and the Python that has PyTorch, if they are not found. Needs no compiler and nothing beside bash, coreutils and what is in
# $BUILD (make gpu-accept-bundle). Exits 0 if every part passed, or if there is no GPU ("skipped: no CUDA device").
set -u
cd "$(dirname "$0")/.." || exit 1

export BUILD=${BUILD:-build}
build=$BUILD
work=$build/gpu-accept
report=$work/report.txt
results=$work/results.tsv
last_second=$((${1:-300} - 5))
peers_seconds=${2:-0}
mkdir -p "$work" || exit 1
slow=${ACCEPT_SLOW:-}
times=${slow:+10} times=${times:-1}
table=()
failed=0

# In a bundle all programs are one.
one=$build/tests/gpu/one_program
program() { # its words, in `found`
    if [ -x "$build/$1" ]; then found=("$build/$1"); else found=("$one" "${1##*/}"); fi
}
program tests/gpu/test_accept
accept=("${found[@]}")
beside=$build/tests/gpu/beside
collet_nccl=$build/lib/libnccl.so.2

# Of the shared libraries that came along (gpu-accept-bundle.sh), those that this machine has not, and what those need.
take_libraries() {
    local lacking needed library before=-1
    lacking=$(cd "$work" && pwd)/lacking needed=$(cd "$build/needed" && pwd)
    rm -rf "$lacking"
    mkdir "$lacking"
    export LD_LIBRARY_PATH=$lacking${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    while [ "$(find "$lacking" -name '*.so*' | wc -l)" != $before ]; do
        before=$(find "$lacking" -name '*.so*' | wc -l)
        for library in $(ldd "${accept[0]}" "$beside" "$collet_nccl" "$build"/bin/* 2>/dev/null | sed -nE 's/^\s*(\S+) => not found/\1/p'); do
            [ -e "$needed/$library" ] && ln -sf "$needed/$library" "$lacking/"
        done
    done
}
[ -d "$build/needed" ] && take_libraries

row() { table+=("$(printf '%-32s %6s s   %s' "$@")"); }

# Without a process: whatever still slept would hold the report's pipe.
exec {never}<> <(:)
pause() { read -rt "$1" -u $never; }

# What it prints comes at once. What it leaves behind when it ends holds nothing up for longer than a second.
watched() { # SECONDS command…
    local limit=$1 status writer copier k
    shift
    exec {writer}> >(exec tee "$work/part.txt")
    copier=$!
    timeout --kill-after=3 "$limit" "$@" >&$writer 2>&1 {writer}>&-
    status=$?
    exec {writer}>&-
    for k in {1..40}; do
        kill -0 $copier 2>/dev/null || break
        pause 0.025
    done
    kill $copier 2>/dev/null
    return $status
}

# For programs that do not say it themselves.
say_that_it_goes_on() { # NAME
    local seconds=0
    while pause 2; [ $seconds -lt 1000 ]; do
        seconds=$((seconds + 2))
        echo "  … $1: $seconds s"
    done
}

# One part: its name, the seconds it may take, and the command. Exit status 77 is a part that does not apply.
part() {
    local name=$1 limit=$(($2 * times)) start=$SECONDS status verdict how speaker left=$((last_second - SECONDS))
    shift 2
    if [ $left -lt 2 ]; then
        if [ -n "${asks:-}" ]; then
            row "$name" - 'not asked: the time is up'
        else
            row "$name" - 'FAILED (not run: the time is up)'
            failed=1
        fi
        return
    fi
    limit=$((left < limit ? left : limit))
    printf '\n=== %s: %s\n' "$name" "$*"
    [ -n "${speaks:-}" ] && speaker= || { say_that_it_goes_on "$name" & speaker=$!; }
    watched "$limit" "$@"
    status=$?
    [ -z "$speaker" ] || { kill "$speaker" && wait "$speaker"; } 2>/dev/null
    how=$(grep -aE '^CUT OFF ' "$work/part.txt" | tail -n 1)
    case $status in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    124 | 137) verdict="FAILED (stopped after $limit s${how:+: ${how#CUT OFF }})" ;;
    *) verdict="FAILED (exit status $status)" ;;
    esac
    [ -z "${asks:-}" ] || answer $status $limit
    [[ $verdict == FAILED* ]] && failed=1
    row "$name" $((SECONDS - start)) "$verdict"
    printf -- '--- %s: %s, %s s; %s s are left\n' "$name" "$verdict" $((SECONDS - start)) $((last_second - SECONDS))
}

# A part that asks NVIDIA's library: whatever it answers is no fault of collet. What hung is not asked again.
nvidia_hung=
nvidia_part() { # NAME command…
    local name=$1
    shift
    if grep -qxF "$name" <<<"$nvidia_hung"; then
        row "$name" - "not asked again: NVIDIA's library hung"
    else
        asks=1 part "$name" 6 "$@"
    fi
}
answer() { # STATUS SECONDS: the verdict, where it is no pass
    case $1 in
    0 | 77) ;;
    124 | 137) verdict="NVIDIA's library hangs (stopped after $2 s)" nvidia_hung+=$name$'\n' ;;
    *) verdict="NVIDIA's library fails (exit status $1)" ;;
    esac
}

accept_part() { # NAME SECONDS [--seconds N] part…
    local name=$1 limit=$2
    shift 2
    speaks=1 part "$name" "$limit" "${accept[@]}" ${slow:+--slow} --results "$results" "$@"
}

# A part whose program may not have been built, or cannot run here.
program_part() { # NAME SECONDS PROGRAM argument…
    local name=$1 limit=$2 wanted=$3
    program "$wanted"
    shift 3
    if [ -x "${found[0]}" ]; then part "$name" "$limit" "${found[@]}" "$@"; else row "$name" - "not run: no $build/$wanted"; fi
}
python_part() { # NAME SECONDS FILE
    [ -f "$3" ] || return
    if [ -n "$python" ]; then part "$1" "$2" "$python" "$3" --seconds $(($2 - 5)); else row "$1" - 'not run: no python3'; fi
}

# In PATH, or where CUDA's packages put it.
find_sanitizer() {
    local nvcc
    nvcc=$(command -v "${NVCC:-nvcc}")
    for found in "$(command -v compute-sanitizer)" "${nvcc%/*}/compute-sanitizer" /usr/local/cuda{,-*}/bin/compute-sanitizer \
        /usr/local/cuda{,-*}/compute-sanitizer/compute-sanitizer; do
        [ -x "$found" ] && echo "$found" && return
    done
}

# The one that has PyTorch, if there is one.
find_python() {
    local found any=
    for found in "${PYTHON:-}" "$(command -v python3)" "${VIRTUAL_ENV:-}/bin/python3" /opt/*/bin/python3 /opt/*/.venv/bin/python3; do
        [ -x "$found" ] || continue
        any=${any:-$found}
        timeout 5 "$found" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null && echo "$found" && return
    done
    echo "$any"
}

# NVIDIA's own: where it is said to be, what PyTorch brought along, or the system's.
find_nccl() {
    local found
    for found in "${ACCEPT_NCCL:-}" \
        $([ -z "$python" ] || timeout 5 "$python" -c 'import glob, sys; print(*[f for p in sys.path for f in glob.glob(p + "/nvidia/nccl/lib/libnccl.so.2")])' 2>/dev/null) \
        $(ldconfig -p 2>/dev/null | sed -nE 's/.*libnccl\.so\.2 .*=> //p'); do
        [ -f "$found" ] && ! grep -qa collet_ "$found" && echo "$found" && return
    done
}

# Each may hang, so all are asked at once.
ask() { timeout --kill-after=1 4 "${@:2}" >"$work/$1" 2>/dev/null & }

machine() {
    date -u '+%Y-%m-%d %H:%M:%S UTC'
    uname -srm
    program bin/collet-info
    ask gpus nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode,mig.mode.current --format=csv,noheader
    ask links nvidia-smi topo -m
    ask compiler "${NVCC:-nvcc}" --version
    ask info "${found[@]}"
    wait
    cat "$work/gpus" "$work/links"
    tail -n 2 "$work/compiler"
    sed '/^ *COLLET_/d' "$work/info"
    echo "NVIDIA's library: ${nvidia_nccl:-not found}"
    ngpus=$(sed -nE 's/^([0-9]+) GPU.*/\1/p' "$work/probe.txt")
}

# What the parts below would find out one by one, each tried for some seconds.
abilities() {
    accept_part 'what can be done here' 32 --seconds $((30 * times)) abilities
    [ -n "$sanitizer" ] || echo '  cannot  compute-sanitizer: it is not installed'
    command -v nvidia-smi >/dev/null || echo '  cannot  say what joins the GPUs: nvidia-smi is not here'
}

# What lies between GPUs is what one of them cannot show.
between_gpus() {
    accept_part 'between GPUs: lines' 25 --seconds 8 ll128
    accept_part 'between GPUs: windows, switches' 60 windows
    accept_part 'between GPUs: processes' 40 processes
}

basics() {
    accept_part graphs 15 graphs
    accept_part 'graphs, 10,000 replays' 20 replays
    # Ranks in graphs of their own need a queue of the GPU each.
    CUDA_DEVICE_MAX_CONNECTIONS=32 accept_part 'graphs, one of each rank' 15 rankgraphs
    accept_part streams 15 streams
    accept_part 'current GPU unchanged' 10 device
    accept_part 'abort of a hung rank' 20 abort
    accept_part 'kinds of memory' 15 memory
}

# Seconds suffice for the whole table: 788 cases of 0.3 ms, and one in twenty of about 5 ms.
conformance() {
    local name
    for name in chosen Simple LL128 LL; do
        accept_part "conformance, $name" 25 --seconds 5 "${name,,}"
    done
}

processes() {
    accept_part 'processes on one GPU' 40 processes
    accept_part 'windows, engines, switches' 60 windows
}

tuning_file() {
    local what='--procs 2,4 --sizes 8:67108864'
    [ -z "$slow" ] || what='--procs 2 --sizes 64:256'
    speaks=1 program_part 'tuning file' 50 bin/collet-tune --device --quick --seconds $((30 * times)) $what --output "$work/gpu.tuning"
    [ -f "$work/gpu.tuning" ] && printf '\n=== %s\n' "$work/gpu.tuning" && cat "$work/gpu.tuning"
}

ask_library() { # NAME PATH ranks
    local ask=("$beside" --library "$2" --name "$1" --ranks "$3" --results "$results" ${slow:+--slow} latency) name="latency, $1, $3 ranks"
    if [ "$1" = nvidia ]; then nvidia_part "$name" "${ask[@]}"; else part "$name" 15 "${ask[@]}"; fi
}

# The same program asks both libraries, by turns.
libraries_by_turns() {
    local ranks turn
    [ -x "$beside" ] && [ -f "$collet_nccl" ] || { row 'latency in graphs' - "not run: no $beside or no $collet_nccl"; return; }
    for ranks in 2 4 8; do
        for turn in 1 2; do
            [ $turn = 2 ] && { [ -z "$nvidia_nccl" ] || [ $ranks = 8 ]; } && continue
            ask_library collet "$collet_nccl" $ranks
            [ -z "$nvidia_nccl" ] || ask_library nvidia "$nvidia_nccl" $ranks
        done
        [ -n "$slow" ] && break
    done
    [ -n "$nvidia_nccl" ] || row 'latency, nvidia' - 'not run: no libnccl.so.2 of NVIDIA is found'
}

# Collet has to get through; of NVIDIA's library it is a question.
whole_gpu_waits() {
    [ -x "$beside" ] && [ -z "$slow" ] || return
    local what
    for what in memset messages; do
        [ -z "$nvidia_nccl" ] || nvidia_part "whole-GPU waits, nvidia, $what" "$beside" --library "$nvidia_nccl" --name nvidia $what
        part "whole-GPU waits, collet, $what" 12 "$beside" --library "$collet_nccl" --name collet $what
    done
}

# Its own daemon, in a folder of its own, for as long as the part takes.
with_mps() {
    export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
    mkdir -p "$work/mps"
    CUDA_MPS_PIPE_DIRECTORY=$(cd "$work/mps" && pwd)
    CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
    if timeout 10 nvidia-cuda-mps-control -d >/dev/null 2>&1; then
        accept_part 'processes, with MPS' 40 processes
        accept_part 'modes, with MPS' 60 modes
        echo quit | timeout 10 nvidia-cuda-mps-control
    else
        row 'processes, with MPS' - 'not run: its daemon does not start'
    fi
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}
mps() {
    if command -v nvidia-cuda-mps-control >/dev/null; then with_mps; else row 'processes, with MPS' - 'not run: no daemon'; fi
}

sanitized() {
    local name="sanitizer $1" tool=$1 what=$2
    [ "$what" = small ] || name+=", LL128"
    if [ -n "$sanitizer" ]; then
        part "$name" 45 "$sanitizer" --tool "$tool" --error-exitcode 9 "${accept[@]}" "$what"
    else
        row "$name" - 'not run: compute-sanitizer is not installed'
    fi
}
sanitizers() {
    sanitized memcheck small
    sanitized racecheck small
    echo
    echo 'A line of LL128 is stored by 8 lanes together. A tool that comes between them may part them: wrong results in the'
    echo 'next parts alone, where "conformance, LL128" has none, are not a fault of the library.'
    sanitized memcheck small128
    sanitized racecheck small128
}

programs() {
    local sizes='-b 8 -e 64M -n 10' ranks
    [ -z "$slow" ] || sizes='-b 8 -e 4K -n 1 -w 1'
    for ranks in 2 4; do
        program_part "all_reduce_perf -t $ranks" 30 bin/all_reduce_perf -t $ranks $sizes -f 8
    done
    program_part 'example: overlap' 30 bin/overlap ${slow:+2 256 1}
    python_part PyTorch 60 tests/gpu/accept_torch.py
    python_part CuPy 30 tests/gpu/accept_cupy.py
    python_part JAX 40 tests/gpu/accept_jax.py
}

# The order is that of what is to be known first, should the time run out.
everything() {
    local sanitizer python nvidia_nccl ngpus
    echo 'the acceptance of collet on GPUs; every part says every two seconds how far it is'
    sanitizer=$(find_sanitizer)
    python=$(find_python)
    nvidia_nccl=$(find_nccl)
    machine
    abilities
    [ "${ngpus:-1}" -lt 2 ] || between_gpus
    basics
    conformance
    accept_part '1 to 8 ranks, three ways' 70 modes
    [ "${ngpus:-1}" -ge 2 ] || processes
    accept_part 'plans beside limits' 50 --seconds 20 sweep
    tuning_file
    libraries_by_turns
    whole_gpu_waits
    mps
    sanitizers
    programs
    printf '\n=== summary\n'
    printf '%s\n' "${table[@]}"
    [ $failed = 0 ]
}

# MPI libraries beside collet, on the CPUs: those that scripts/peers.sh has packed, or what is installed.
many_cores() {
    local archive speaker minutes=$((peers_seconds / 60))
    [ "$minutes" -gt 0 ] || return
    if [ "$(nproc)" -lt 8 ]; then
        echo "the benchmark of many cores is not run: there are $(nproc)"
    elif [ ! -f scripts/bench-peers.sh ]; then
        echo 'the benchmark of many cores is not run: no scripts/bench-peers.sh'
    else
        for archive in "${BENCH_PEERS_ARCHIVE:-}" peers.tar.xz ../peers.tar.xz "$build/peers.tar.xz" build-dist/peers.tar.xz; do
            [ -f "$archive" ] && export BENCH_PEERS_ARCHIVE=$archive && break
        done
        printf '\n=== many cores: %s minutes, %s\n' $minutes "${BENCH_PEERS_ARCHIVE:-what is installed}"
        say_that_it_goes_on 'many cores' & speaker=$!
        timeout --kill-after=5 "$peers_seconds" bash scripts/bench-peers.sh --minutes $minutes
        kill $speaker
    fi
}

timeout --kill-after=1 4 "${accept[@]}" none >"$work/probe.txt" 2>&1
if [ $? = 77 ]; then
    tail -n 1 "$work/probe.txt"
    exit 0
fi
printf 'part\tlibrary\tranks\tmode\tbytes\tpredicted_us\tmeasured_us\tlimit_us\tplan\n' >"$results"
everything 2>&1 | tee "$report"
status=${PIPESTATUS[0]}
many_cores 2>&1 | tee -a "$report"
echo "the whole report: $report"
exit "$status"
