#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How many files does it take to add something? This test adds one dummy of each kind to a copy of the tree, prints which
# files each dummy touched, builds the copy, and uses every dummy: verified, chosen by name, simulated, run with checked
# results, and compiled for GPUs where nvcc is installed.
#
#    collective   its line in PROG_COLLECTIVES, its prototype and its function, its algorithm  at most 4 files
#    algorithm    src/algo/<collective>_<name>.c     and its line in ALGORITHMS                2
#    type         its enumerator in collet.h         and its row in COLLET_TYPES               2
#    protocol     src/fifo/proto_<name>.h            its row in PROTOCOLS, its include and its choice in proto.h, its lanes in parts.h   4
#    transport    src/transport/<name>.c             and its line in TRANSPORTS                2
#    layer        src/layers/<name>/, with a README  and its line in mk/layers.mk              3
#
# Each dummy is a copy of something that works, under another name.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
if [ "${COLLET_TEST_LEVEL:-normal}" = fast ]; then
    echo "builds a second copy of the library: not at the fast level"
    exit 77
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy" "$copy".*' EXIT
tar -cf - --exclude='./build*' --exclude=./.git . | tar -xf - -C "$copy"
build=$copy/build

# ---- adding

# Runs an edit in the copy and prints the files that it touched. Fails if the edit fails or touches more files than it may.
#    adds WHAT MOST EDIT
adds() {
    local what=$1 most=$2 edit=$3 files
    rm -rf "$copy.before" && cp -r "$copy" "$copy.before"
    (cd "$copy" && "$edit") || return 1
    files=$(cd "$copy" && find . -type f | sort | while read -r file; do cmp -s "$file" "$copy.before/$file" || echo "${file#./}"; done)
    printf '%-10s %d files: %s\n' "$what" "$(echo "$files" | wc -l)" "$(echo $files)" | tee -a "$copy.touched"
    [ "$(echo "$files" | wc -l)" -le "$most" ]
}

# Puts a line behind the one line of a file that has this text in it.
#    insert FILE TEXT LINE
insert() {
    local file=$1 text=$2 line=$3
    [ "$(grep -cF -- "$text" "$file")" = 1 ] || { echo "$file: '$text' stands in $(grep -cF -- "$text" "$file") lines"; return 1; }
    TEXT=$text LINE=$line awk '{ print } index($0, ENVIRON["TEXT"]) { print ENVIRON["LINE"] }' "$file" > "$file.new" &&
        mv "$file.new" "$file"
}

# The same for the last row of a table, which gets the backslash that rows before it have.
append() {
    sed -i -E "s/^(    X\($2,.*[^\\ ]) *$/\1 \\\\/" "$1" && insert "$1" "    X($2," "$3"
}

add_algorithm() {
    sed 's/allreduce_ring/allreduce_dummy/g' src/algo/allreduce_ring.c > src/algo/allreduce_dummy.c &&
        insert src/program/registry.h '#define ALGORITHMS(X)' \
            '    X(ALLREDUCE, allreduce, dummy, ANYWHERE, TO_FEW, ANY_ORDER, "the ring under another name") \'
}

add_type() {
    local count
    count=$(sed -n 's/^ *COLLET_TYPE_COUNT = \([0-9]*\).*/\1/p' include/collet.h)
    sed -i "s/^    COLLET_TYPE_COUNT = $count/    COLLET_DUMMY = $count, COLLET_TYPE_COUNT = $((count + 1))/" include/collet.h &&
        append src/base/types.h FLOAT8_E5M2 \
            '    X(DUMMY, dummy, WHOLE, int16_t, int16_t, uint16_t, int16_t, dummy, 0, 0, SAME, __VA_ARGS__)'
}

# What lanes of a GPU do with Simple, and the same under the dummy's name behind it.
simple_parts_twice() {
    {
        sed '/---- LL: /,$d' "$1"
        sed -n '/^enum { SIMPLE_LANES/,/---- LL: /p' "$1" | sed '$d; s/simple_/dummy_/g; s/SIMPLE_/DUMMY_/g'
        sed -n '/---- LL: /,$p' "$1"
    } > "$1.new" && mv "$1.new" "$1"
}

add_protocol() {
    sed 's/simple_/dummy_/g; s/SIMPLE_/DUMMY_/g' src/fifo/proto_simple.h > src/fifo/proto_dummy.h &&
        append src/fifo/protocol.h LL128 '    X(DUMMY, dummy, "Dummy", LONG, 16, 16, SIMPLE)' &&
        insert src/fifo/proto.h '#include "fifo/proto_direct.h"' '#include "fifo/proto_dummy.h"' &&
        insert src/fifo/proto.h '? ll_##verb' '     : (kind) == PROTOCOL_DUMMY ? dummy_##verb(__VA_ARGS__) \' &&
        sed -i 's/PROTOCOL_COUNT == 3/PROTOCOL_COUNT == 4/' src/fifo/proto.h &&
        simple_parts_twice src/kernels/cuda/parts.h
}

add_transport() {
    sed 's/shm_/dummy_/g; s/transport_shm/transport_dummy/; s/"shm"/"dummy"/; s/COLLET_TRANSPORT_SHM/1u << 7/' src/transport/shm.c > src/transport/dummy.c &&
        insert src/transport/registry.c '    X(shm)' '    X(dummy) \'
}

add_collective() {
    sed 's/broadcast_chain/dummy_chain/g' src/algo/broadcast_chain.c > src/algo/dummy_chain.c &&
        insert src/program/registry.h '#define PROG_COLLECTIVES(X)' '    X(DUMMY, dummy, WHOLE, WHOLE, COPIES, FROM_ROOT, SAME_PLACE) \' &&
        insert src/program/registry.h '#define ALGORITHMS(X)' '    X(DUMMY, dummy, chain, ANYWHERE, TO_FEW, ANY_ORDER, "a pipeline that starts at the root") \' &&
        insert include/collet.h 'COLLET_API enum collet_result collet_group_end(void);' \
            'COLLET_API enum collet_result collet_dummy(const void *, void *, size_t, enum collet_type, int, struct collet_comm *, void *);' &&
        sed -n '/^enum collet_result collet_broadcast(/,/^}/p' src/api/coll.c | sed 's/collet_broadcast/collet_dummy/; s/PROG_BROADCAST/PROG_DUMMY/' > "$copy.function" &&
        cat "$copy.function" >> src/api/coll.c
}

add_layer() {
    mkdir src/layers/dummy &&
        printf '%s\n' '# Layer: dummy' > src/layers/dummy/README.md &&
        printf '%s\n' '#include "collet.h"' 'COLLET_API int collet_dummy_layer(void);' 'int collet_dummy_layer(void) { return COLLET_VERSION; }' > src/layers/dummy/dummy.c &&
        insert mk/layers.mk 'layer_nccl ' 'layer_dummy := src/layers/dummy'
}

# The core alone has it not; with it, only the link differs.
layer_is_linked() {
    local core=$build/core/libcollet.a
    builds CUDA=0 core && ! nm "$core" 2>/dev/null | grep -q collet_dummy_layer && builds CUDA=0 LAYERS=dummy core &&
        nm "$core" 2>/dev/null | grep -q 'T collet_dummy_layer'
}

# The program that measures a collective is its user's, as a test is, and not counted.
add_perf_program() {
    sed 's/broadcast/dummy/g' "$copy/examples/perf/broadcast_perf.c" > "$copy/examples/perf/dummy_perf.c"
}

# ---- using

# Not optimized: that halves the time.
builds() { make -s -C "$copy" -j"$(nproc)" BUILD="$build" WERROR= CFLAGS=-O0 "$@" > "$copy.log" 2>&1 || { grep -E 'error|undefined' "$copy.log" | head -n 20; return 1; }; }

verifies() {
    for ranks in 1 2 5 8; do
        "$build/bin/collet-prog" --check "$1" "$ranks" || return 1
    done
}

# There is a row, and a line with this word.
#    is_simulated WORD OPTION…
is_simulated() {
    local word=$1
    shift
    "$build/bin/collet-sim" --synthetic '4 cpu' --ranks 4 --sizes 1M:1M "$@" > "$copy.log" || return 1
    grep -q '^ *1M ' "$copy.log" && grep -q "$word" "$copy.log" || { cat "$copy.log"; return 1; }
}

# How a buffer is cut, of the type and for slots of the protocol.
has_geometry() { "$build/bin/collet-prog" --geometry 1000 dummy | grep -q 'Dummy *takes [1-9]'; }

# A perf program with checked results, and a line of the plan that says that the dummy was chosen.
#    measures WORD PROGRAM OPTION…
measures() {
    local word=$1 program=$2
    shift 2
    COLLET_DEBUG=INFO "$build/bin/$program" --procs 3 -b 8 -e 256K -f 32 -n 2 -w 1 "$@" > "$copy.out" 2> "$copy.log" ||
        { cat "$copy.out" "$copy.log"; return 1; }
    grep -q '# Out of bounds values *: *0 OK' "$copy.out" || { cat "$copy.out"; return 1; }
    grep -qi -- "$word" "$copy.log" || { echo "no line of the log names $word"; return 1; }
}

# ---- the cases

check a_collective_touches_at_most_four_files adds collective 4 add_collective
check an_algorithm_touches_two_files adds algorithm 2 add_algorithm
check a_type_touches_two_files adds type 2 add_type
check a_protocol_touches_four_files adds protocol 4 add_protocol
check a_transport_touches_two_files adds transport 2 add_transport
check a_layer_touches_its_folder_and_one_line adds layer 3 add_layer

cat "$copy.touched"

add_perf_program
programs=(collet-prog collet-sim all_reduce_perf dummy_perf)
check the_copy_with_all_of_them_builds builds CUDA=0 "${programs[@]/#/$build/bin/}"
if [ -n "$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)" ]; then
    check kernels_with_all_of_them_compile builds CUDA=1 CUDA_ARCH=ptx "$build/obj/src/kernels/cuda/exec_cuda_reduce.SUM.o"
else
    skipped "kernels_with_all_of_them_compile: nvcc is not installed"
fi
check the_layer_is_linked_if_it_is_asked_for layer_is_linked
check the_algorithm_is_verified verifies allreduce_dummy
check the_collective_is_verified verifies dummy_chain
check the_algorithm_is_simulated is_simulated dummy --collective allreduce --algo dummy
check the_collective_is_simulated is_simulated chain --collective dummy
COLLET_PROTO=dummy check the_protocol_is_simulated is_simulated Dummy --collective allreduce
check the_type_is_simulated is_simulated 'allreduce of dummy' --collective allreduce --type dummy
COLLET_ALGO=dummy COLLET_PROTO=dummy COLLET_TRANSPORT=dummy check all_of_them_together_are_simulated is_simulated 'dummy *Dummy' --algo dummy --type dummy
check the_type_and_the_protocol_have_a_geometry has_geometry
COLLET_ALGO=dummy check the_algorithm_is_chosen_and_right measures 'ranks: dummy' all_reduce_perf
COLLET_PROTO=dummy check the_protocol_is_chosen_and_right measures ', Dummy,' all_reduce_perf
COLLET_TRANSPORT=dummy check the_transport_is_chosen_and_right measures 'via dummy' all_reduce_perf
check the_type_is_right measures PLAN all_reduce_perf -d dummy -o all
check the_collective_is_right measures 'dummy up to' dummy_perf -d dummy
COLLET_ALGO=chain check the_collective_has_its_algorithm_by_name measures 'dummy up to .*: chain' dummy_perf
COLLET_ALGO=dummy COLLET_PROTO=dummy COLLET_TRANSPORT=dummy check all_of_them_together_are_right measures ', Dummy,' all_reduce_perf -d dummy
finish
