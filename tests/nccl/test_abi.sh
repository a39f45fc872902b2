#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# libnccl.so.2 in NCCL's place: its names, the values and layouts that programs have compiled into them, and a program of
# NCCL's users that runs with it. What needs NVIDIA's NCCL looks for it in NCCL_HOME (by default where CUDA is), and is
# skipped where there is none. NCCL_TESTS=folder: the sources of nccl-tests, which are then built with our header.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

lib=$PWD/${BUILD:-build}/lib
ours=$lib/libnccl.so.2
nvcc=${NVCC:-${CUDA_HOME:-/usr/local/cuda}/bin/nvcc}
cuda=$(dirname "$(dirname "$(realpath -m "$nvcc")")")
theirs=${NCCL_HOME:-$cuda}
real=$(ls "$theirs"/lib/libnccl.so.2 "$theirs"/lib64/libnccl.so.2 2>/dev/null | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COLLET_DEVICE=host
NCCL_REFUSED=$(sed -nE 's/^ *X\((REFUSED|ASKED), ([A-Za-z0-9]+),.*/nccl\2/p' src/layers/nccl/nccl_names.h | paste -sd ' ')
export NCCL_REFUSED

# ---- names ----

shown() { nm -D --defined-only "$1" | awk '{ print $2, $3 }' | sort; }

# Weak and strong ones, and no other name.
exports_are_nccls() {
    diff <(awk '/^2/ { print "T", (NF > 2 ? "nccl" : "pnccl") $2; if (NF == 2) print "W", "nccl" $2 }' tests/nccl/names.txt | sort) \
        <(shown "$ours")
}

both_names_are_one_function() {
    nm -D --defined-only "$ours" | sed 's/ p\?nccl/ /' | awk '{ if ($3 in at && at[$3] != $1) { print $3; bad = 1 } at[$3] = $1 } END { exit bad }'
}

header_is_of_2_27() { grep -qE '^#define NCCL_VERSION_CODE 227[0-9]{2}$' include/compat/nccl.h; }
soname_is_nccls() { objdump -p "$ours" | grep -E 'SONAME +libnccl\.so\.2$'; }
names_have_no_version() { objdump -T "$ours" | grep -E ' p?nccl' | grep -vE '(Base|g    DF \.text|w   DF \.text)' && return 1 || ! objdump -p "$ours" | grep 'Version definitions'; }
no_name_of_theirs_is_missing() { comm -23 <(shown "$real" | cut -d' ' -f2 | sort) <(shown "$ours" | cut -d' ' -f2 | sort) | grep . && return 1 || return 0; }

# docs/nccl.md has the table of names.
page_is_the_table() {
    diff <(sed -nE 's/^ *X\(([A-Z]+), ([A-Za-z0-9]+), "([0-9.]+)", "(.*)"\).*/| `nccl\2` | \3 | \L\1\E | \4 |/p' src/layers/nccl/nccl_names.h) \
        <(grep '^| `nccl' docs/nccl.md)
}

# PyTorch calls it for each communicator.
asks_for_properties() {
    python3 -c 'import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
for _ in range(3):
    if lib.ncclCommQueryProperties(None, None) != 5: sys.exit("it is not refused")' "$ours" 2>&1
}
properties_are_asked_for_quietly() {
    [ "$(NCCL_DEBUG=INFO asks_for_properties | grep -c 'INFO.*ncclCommQueryProperties() is not supported')" = 1 ] && [ -z "$(NCCL_DEBUG=WARN asks_for_properties)" ]
}

# ---- headers ----

header_compiles() { "$@" -Wall -Wextra -Werror -pedantic -Iinclude/compat -fsyntax-only -include nccl.h -x "$language" /dev/null; }
layouts_agree() { gcc -std=c11 -Wall -Wextra -Werror -I"$1" tests/nccl/layouts.c -o "$work/layouts" && "$work/layouts"; }

# ---- programs ----

build() { # PROGRAM, folder of nccl.h, library
    gcc -std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Werror -I"$2" tests/nccl/ranks.c -o "$work/$1" "$3" -ldl -pthread
}
runs_with_ours() { "$@" >"$work/output" && grep -qx "library: .*$ours" "$work/output" || { cat "$work/output"; return 1; }; }

cat >"$work/profiler.c" <<'PROGRAM'
#include <nccl.h>
#include <stdio.h>
ncclResult_t ncclGetVersion(int *version) { ncclResult_t result = pncclGetVersion(version); *version = 1; return result; }
int main(void) { int version; return ncclGetVersion(&version) != ncclSuccess || version != 1 || *ncclGetLastError(NULL) != '\0'; }
PROGRAM
profiler_comes_between() { gcc -Iinclude/compat "$work/profiler.c" -o "$work/profiler" "$ours" && LD_LIBRARY_PATH=$lib "$work/profiler"; }

python_calls_it() { timeout 60 python3 tests/nccl/ids.py "$ours"; }

params_have_names() {
    timeout 60 python3 tests/nccl/params.py "$ours" >"$work/output" 2>&1 && grep -q 'NCCL_IB_TIMEOUT=22$' "$work/output" && ! grep hunter2 "$work/output" || { cat "$work/output"; return 1; }
}

# One line tells of NCCL's variables that nothing here reads; those that are read are not in it.
ignored_variables_are_named() {
    NCCL_COLLNET_ENABLE=0 NCCL_CHECK_POINTERS=1 NCCL_NET=Socket NCCL_PROTO=Simple NCCL_DEBUG=INFO LD_LIBRARY_PATH=$lib \
        "$work/ours" getters_answer 2>&1 | grep -E 'set, but without effect on collet:' | grep NCCL_COLLNET_ENABLE | grep NCCL_CHECK_POINTERS >"$work/lines" &&
        ! grep -E 'NCCL_(NET|PROTO|DEBUG)\b' "$work/lines"
}
# A network that is not there ends no job: what there is carries the data.
networks_of_others_end_no_job() {
    local plugin
    for plugin in "" none; do
        NCCL_NET=libfabric NCCL_NET_PLUGIN=$plugin LD_LIBRARY_PATH=$lib "$work/ours" getters_answer >"$work/output" 2>&1 &&
            grep 'NCCL_NET=libfabric: .*NCCL_NET_PLUGIN names' "$work/output" || return 1
    done
}

# ---- tuner plugins ----

with_plugin() { # its file, what the log has to hold
    NCCL_TUNER_PLUGIN=$1 NCCL_DEBUG=INFO LD_LIBRARY_PATH=$lib "$work/ours" allreduces_small_and_large >"$work/output" 2>&1
}
example_chooses() {
    gcc -shared -fPIC -Wall -Wextra -Werror -Iinclude/compat examples/plugins/tuner_two_ways.c -o "$work/libnccl-tuner-two_ways.so" &&
        with_plugin "$work/libnccl-tuner-two_ways.so" && grep -q 'two ways for 4 ranks on 1 nodes' "$work/output" &&
        grep -q 'allreduce up to 64 bytes on 4 ranks: tree, LL, ' "$work/output" &&
        grep -q 'allreduce up to 1048576 bytes on 4 ranks: ring, Simple, .* chunk 32768 bytes' "$work/output" || { cat "$work/output"; return 1; }
    LD_LIBRARY_PATH=$work:$lib NCCL_TUNER_PLUGIN=two_ways "$work/ours" allreduces_small_and_large
}
# Rings would be its choice, if a cost that is no number were the least.
no_number_is_no_cost() {
    sed -e 's/cost\[algo\]\[proto\] = 0/cost[algo][proto] = 0, cost[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = __builtin_nanf("")/' \
        -e 's/int algo = .*/int algo = NCCL_ALGO_TREE;/' -e 's/int proto = .*/int proto = NCCL_PROTO_LL;/' \
        examples/plugins/tuner_two_ways.c >"$work/tuner_no_number.c" &&
        gcc -shared -fPIC -Iinclude/compat "$work/tuner_no_number.c" -o "$work/no_number.so" &&
        with_plugin "$work/no_number.so" && grep -q 'tuner plugin two ways: entry \[1\]\[2\] of its table is not a number: ignored' "$work/output" &&
        grep -q 'allreduce up to 1048576 bytes on 4 ranks: tree, LL, ' "$work/output" || { cat "$work/output"; return 1; }
}
# Messages may be empty, and lines cannot carry nothing: whatever a plugin or a variable wants.
empty_messages_stay_simple() {
    NCCL_TUNER_PLUGIN=$work/libnccl-tuner-two_ways.so NCCL_PROTO=LL LD_LIBRARY_PATH=$lib "$work/ours" messages_meet >"$work/output" 2>&1 &&
        NCCL_TUNER_PLUGIN=$work/libnccl-tuner-two_ways.so NCCL_PROTO=LL LD_LIBRARY_PATH=$lib "$work/ours" gather_and_scatter >>"$work/output" 2>&1 || { cat "$work/output"; return 1; }
}
# The layout that plugins have compiled into them.
tuner_layouts_agree() {
    printf '%s\n' '#include <nccl_tuner.h>' '#include <stddef.h>' '#include <stdio.h>' 'int main(void) { printf("%zu %zu %zu %zu %zu %d %d %d %d\n",' \
        'sizeof(ncclTuner_v6_t), offsetof(ncclTuner_v6_t, getCollInfo), offsetof(ncclTuner_v6_t, getChunkSize), sizeof(ncclTunerConstants_v6_t),' \
        'sizeof(ncclNvlDomainInfo_v6_t), ncclFuncAllReduce, NCCL_ALGO_PAT, NCCL_NUM_ALGORITHMS, NCCL_PROTO_SIMPLE); }' >"$work/tuner.c"
    gcc -Iinclude/compat "$work/tuner.c" -o "$work/tuner" && [ "$("$work/tuner")" = "40 16 32 1152 12 4 6 7 2" ]
}

# ---- profiler plugins ----

profiled() { # its name, variables… -- case of the program
    local name=$1 variables=()
    shift
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    rm -f "$work/lines"
    env "${variables[@]}" NCCL_PROFILER_PLUGIN="$name" PROFILER_LINES="$work/lines" NCCL_DEBUG=INFO LD_LIBRARY_PATH="$work:$lib" \
        timeout 60 "$work/ours" "$2" >"$work/output" 2>&1
}
# A send and a receive over one wire: what the messages carry is what was called with, and a slot's header at most.
messages_are_counted() {
    awk '$3 == "Send" || $3 == "Recv" { found++; if ($10 > 0 && $4 > 0 && ($14 < $4 || $12 < 1)) bad = 1 } END { exit bad || !found }' "$work/lines"
}
# Every rank of the four has as many lines of a call as the others; wires are there between processes that share no memory.
example_is_told() {
    gcc -shared -fPIC -Wall -Wextra -Werror -Iinclude/compat examples/plugins/profiler_lines.c -o "$work/libnccl-profiler-lines.so" || return 1
    profiled lines -- allreduces_small_and_large && grep -q 'lines for rank 0 of 4 on 1 nodes' "$work/output" &&
        grep -qE '^rank 3 AllReduce [0-9]+ ncclFloat32 [A-Za-z]+ (LL|LL128|SIMPLE) [1-9][0-9]* channels 0 wires 0 messages 0 bytes [0-9.]+ us$' "$work/lines" &&
        [ "$(grep -o '^rank [0-3] AllReduce' "$work/lines" | sort | uniq -c | awk '{ print $1 }' | uniq | wc -l)" = 1 ] &&
        profiled "$work/libnccl-profiler-lines.so" COLLET_TRANSPORT=tcp -- messages_meet &&
        grep -qE '^rank 0 Send [0-9]+ ncclUint8 peer [1-3] [1-9][0-9]* channels [1-9][0-9]* wires [1-9][0-9]* messages [1-9]' "$work/lines" &&
        messages_are_counted ||
        { tail "$work/output" "$work/lines"; return 1; }
}
# Each call is known by its number of elements: a line per rank and turn. The others of that number are none.
is_done_by() { # function and elements, algorithm, protocol and channels, as a pattern
    [ "$(grep -cE "^rank [0-3] $1 ncclFloat32 $2 " "$work/lines")" = "${3:-8}" ] && [ "$(grep -cE "^rank [0-3] $1 " "$work/lines")" = "${3:-8}" ] ||
        { echo "$1: not by $2"; grep -E " $1 " "$work/lines"; return 1; }
}
calls_are_done_as_they_say() {
    profiled lines -- a_call_has_its_own_algorithm && is_done_by 'AllReduce 1001' 'TREE SIMPLE' && is_done_by 'AllReduce 1004' 'RING LL' &&
        is_done_by 'AllReduce 1005' 'oneshot [A-Z0-9]+' && is_done_by 'AllReduce 1006' 'RING LL128' && is_done_by 'AllReduce 1007' 'TREE LL' &&
        is_done_by 'Broadcast 2001' 'TREE [A-Z0-9]+' && is_done_by 'Reduce 2002' 'TREE [A-Z0-9]+' &&
        [ "$(grep -c 'WARN.*config.algSelection=CollnetChain,Tree,LL: collet has no CollnetChain for allreduce; the rest counts' "$work/output")" = 4 ] ||
        { tail "$work/output"; return 1; }
}
calls_have_the_channels_that_they_say() {
    profiled lines -- a_call_has_its_own_channels && is_done_by 'AllReduce 1011' 'RING [A-Z0-9]+ 3 channels' 4 && is_done_by 'AllReduce 1012' 'RING [A-Z0-9]+ 1 channels' 4 &&
        is_done_by 'AllReduce 1048576' 'RING SIMPLE 5 channels' 4 && is_done_by 'AllReduce 1013' 'RING [A-Z0-9]+ 2 channels' 4 || { tail "$work/output"; return 1; }
}
# Its table, and its groups of events, in the order of NCCL: each starts inside the one that it is part of, and all are stopped.
events_lie_in_each_other() {
    cat >"$work/nested.c" <<'PLUGIN'
#include <nccl_profiler.h>
#include <stdlib.h>
#define GROUP_API ncclProfileGroupApi
struct event { uint64_t type; struct event *parent; int inside, sends, state, next; };
static int started, stopped, steps, channels, wanted;
/* The type of what an event of this type lies in; 0: several. */
static uint64_t above(uint64_t type) {
    switch (type) {
    case ncclProfileColl: return ncclProfileCollApi;
    case ncclProfileP2p: return ncclProfileP2pApi;
    case ncclProfileProxyStep: return ncclProfileProxyOp;
    case ncclProfileProxyOp: case ncclProfileKernelCh: case GROUP_API: return 0;
    default: return GROUP_API;
    }
}
static ncclResult_t begin(void **context, uint64_t id, int *mask, const char *name, int nnodes, int nranks, int rank, ncclDebugLogger_t log) {
    (void)id, (void)name, (void)nnodes, (void)nranks, (void)rank, (void)log;
    wanted = getenv("NESTED_MASK") ? atoi(getenv("NESTED_MASK")) : ~0;
    return *context = &started, *mask = wanted, ncclSuccess;
}
static ncclResult_t start(void *context, void **handle, ncclProfilerEventDescr_v6_t *about) {
    struct event *event = *handle = calloc(1, sizeof *event), *parent = about->parentObj;
    (void)context;
    if (!(about->type & (uint64_t)wanted)) abort();
    *event = (struct event){.type = about->type, .parent = parent};
    if (parent) parent->inside++;
    if (wanted == ~0 && about->type != GROUP_API && (!parent || (above(about->type) && parent->type != above(about->type)))) abort();
    if (about->type == ncclProfileProxyOp) event->sends = about->proxyOp.isSend;
    if (about->type == ncclProfileProxyStep) {
        if (parent) { event->sends = parent->sends; if (about->proxyStep.step != parent->next++) abort(); }
        __atomic_add_fetch(&steps, 1, __ATOMIC_RELAXED);
    }
    if (about->type == ncclProfileKernelCh) __atomic_add_fetch(&channels, 1, __ATOMIC_RELAXED);
    return __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED), ncclSuccess;
}
/* States come in their order, once each. */
static ncclResult_t note(void *handle, ncclProfilerEventState_v6_t state, ncclProfilerEventStateArgs_v6_t *args) {
    struct event *event = handle;
    if (event->type == ncclProfileProxyStep && !event->parent && !event->state) event->sends = state == ncclProfilerProxyStepSendGPUWait;
    const int first = event->type == ncclProfileProxyStep ? event->sends ? 8 : 10 : event->type == ncclProfileProxyOp ? 19 : 22;
    const int next = event->state == 8 ? 9 : event->state == 10 ? 12 : 0;
    if ((int)state != (event->state ? next : first)) abort();
    if (state == ncclProfilerKernelChStop && !args->pTimer) abort();
    return event->state = (int)state, ncclSuccess;
}
static ncclResult_t stop(void *handle) {
    struct event *event = handle;
    if (event->inside || (event->type == ncclProfileKernelCh && event->state != 22)) abort();
    if (event->parent) event->parent->inside--;
    return free(event), __atomic_add_fetch(&stopped, 1, __ATOMIC_RELAXED), ncclSuccess;
}
static ncclResult_t end(void *context) {
    (void)context;
    if (!started || started != stopped || (wanted == ~0 && !channels) || (getenv("NESTED_STEPS") && !steps)) abort();
    return ncclSuccess;
}
const ncclProfiler_v6_t ncclProfiler_v6 = {"nested", begin, start, stop, note, end};
PLUGIN
    gcc -shared -fPIC -Wall -Wextra -Werror -Iinclude/compat "$work/nested.c" -o "$work/libnccl-profiler-nested.so" &&
        profiled nested -- messages_meet && profiled nested NESTED_STEPS=1 COLLET_TRANSPORT=tcp -- allreduces_small_and_large &&
        profiled nested NESTED_STEPS=1 COLLET_TRANSPORT=tcp COLLET_PROXY=1 -- allreduces_small_and_large &&
        profiled nested NESTED_STEPS=1 NESTED_MASK=$((1 << 4)) COLLET_TRANSPORT=tcp -- messages_meet &&
        profiled nested NESTED_MASK=2 COLLET_TRANSPORT=tcp -- allreduces_small_and_large || { tail "$work/output"; return 1; }
}
profiler_layouts_agree() {
    printf '%s\n' '#include <nccl_profiler.h>' '#include <stdio.h>' '#define D ncclProfilerEventDescr_v6_t' 'int main(void) { printf("%zu %zu %zu %zu %zu %zu %zu %zu %d %d\n",' \
        'sizeof(D), offsetof(D, coll.seqNumber), offsetof(D, coll.nChannels), offsetof(D, coll.algo), offsetof(D, coll.parentGroup), offsetof(D, p2p.peer),' \
        'offsetof(D, proxyOp.isSend), sizeof(ncclProfiler_v6_t), ncclProfileP2pApi, ncclProfilerProxyOpInProgress_v4); }' >"$work/layout.c"
    gcc -Iinclude/compat "$work/layout.c" -o "$work/layout" && [ "$("$work/layout")" = "$1" ] || { "$work/layout"; return 1; }
}

# ---- nccl-tests ----

# All of their programs, or those that NCCL_TESTS_PROGRAMS lists. tests/gpusim/nccl_tests.sh runs them.
nccl_tests_build() {
    mkdir -p "$work/home/lib" && ln -s "$PWD/include/compat" "$work/home/include" && ln -s "$ours" "$work/home/lib/libnccl.so" || return 1
    cp -r "$NCCL_TESTS" "$work/sources" && make -C "$work/sources/src" -j2 build BUILDDIR="$work/nccl-tests" CUDA_HOME="$cuda" CUDA_LIB="$(dirname "$(ls "$cuda"/lib*/libcudart.so | head -n 1)")" \
        NCCL_HOME="$work/home" NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90" \
        ${NCCL_TESTS_PROGRAMS:+"BIN_FILES_LIST=$NCCL_TESTS_PROGRAMS"} >"$work/output" 2>&1 || { tail "$work/output"; return 1; }
    local program
    for program in "$work"/nccl-tests/*_perf; do
        strings "$program" | grep -q 'nccl-headers' && LD_LIBRARY_PATH=$lib ldd -r "$program" 2>&1 | tee "$work/output" | grep -q "$ours" &&
            ! grep 'undefined symbol: nccl' "$work/output" || { echo "$program"; cat "$work/output"; return 1; }
    done
}

check the_soname_is_libnccl_so_2 soname_is_nccls
check every_name_of_NCCL_is_shown_weak_and_strong_and_nothing_else exports_are_nccls
check both_names_of_a_function_are_one_function both_names_are_one_function
check the_names_have_no_version names_have_no_version
check the_page_about_NCCL_lists_what_the_table_of_names_has page_is_the_table
language=c check our_header_compiles_as_C99 header_compiles gcc -std=c99
language=c++ check our_header_compiles_as_CXX11 header_compiles g++ -std=c++11
check our_header_says_that_it_is_of_2_27 header_is_of_2_27
check our_header_has_the_values_and_layouts_of_NCCL layouts_agree include/compat
check a_program_compiles_with_our_header build ours include/compat "$ours"
check that_program_runs_on_host_memory env LD_LIBRARY_PATH="$lib" "$work/ours"
check a_profiler_overrides_a_weak_name profiler_comes_between
check variables_of_NCCL_that_do_nothing_are_named_in_one_line ignored_variables_are_named
check a_network_that_is_not_there_ends_no_job networks_of_others_end_no_job
check a_tuner_plugin_has_its_layout tuner_layouts_agree
check the_example_of_a_tuner_plugin_chooses example_chooses
check a_cost_that_is_no_number_is_ignored no_number_is_no_cost
check messages_without_elements_are_simple_whatever_a_plugin_wants empty_messages_stay_simple
check a_profiler_plugin_has_its_layout profiler_layouts_agree "112 24 80 88 104 56 44 48 1024 19"
check the_example_of_a_profiler_plugin_is_told_of_every_operation example_is_told
check a_call_is_done_by_the_algorithm_that_it_says calls_are_done_as_they_say
check a_call_has_the_channels_that_it_says calls_have_the_channels_that_they_say
check the_events_of_a_profiler_lie_in_each_other events_lie_in_each_other
if command -v python3 >/dev/null; then
    check python_passes_an_id_by_value python_calls_it
    check parameters_are_found_by_name params_have_names
    check who_asks_for_properties_three_times_is_told_once_at_INFO properties_are_asked_for_quietly
else
    skipped "python3 is not here"
fi
if [ -e "$theirs/include/nccl.h" ]; then
    check their_header_has_those_values_and_layouts layouts_agree "$theirs/include"
    check a_program_compiles_with_their_header build theirs "$theirs/include" "$ours"
    check that_program_runs_with_our_library env LD_LIBRARY_PATH="$lib" "$work/theirs"
else
    skipped "nccl.h of NVIDIA is not in $theirs/include: NCCL_HOME may name where it is"
fi
if [ -n "$real" ]; then
    check their_library_has_no_name_that_ours_lacks no_name_of_theirs_is_missing
    check a_program_links_to_their_library build linked "$theirs/include" "$real"
    check it_runs_with_ours_by_LD_LIBRARY_PATH runs_with_ours env LD_LIBRARY_PATH="$lib:$(dirname "$real")" "$work/linked"
    check it_runs_with_ours_by_LD_PRELOAD runs_with_ours env LD_PRELOAD="$ours" LD_LIBRARY_PATH="$(dirname "$real")" "$work/linked"
else
    skipped "libnccl.so.2 of NVIDIA is not in $theirs"
fi
if [ -d "${NCCL_TESTS:-/nowhere}/src" ] && [ -x "$cuda/bin/nvcc" ]; then
    check nccl_tests_are_built_with_our_header_and_library nccl_tests_build
else
    skipped "nccl-tests: NCCL_TESTS does not name their sources, or there is no nvcc"
fi
finish
