#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What users see of collet is what docs/surface.txt says: names of libraries, knobs, options, columns, lines of the log, metrics. And
# scripts/surface.sh, which prints it, notices what is missing: each case below takes one thing out of a copy of the build.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=$(realpath "${BUILD:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in nm readelf python3; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done
[ -x "$build/bin/collet-info" ] || { echo "collet-info is not built in $build/bin"; exit 77; }

surface_is_as_it_was() {
    diff -u docs/surface.txt <(BUILD=$build scripts/surface.sh) ||
        { echo "run make surface > docs/surface.txt and say in CHANGELOG.md what changed"; return 1; }
}

# The same on one CPU, in another language and with knobs set.
surface_is_the_same_elsewhere() {
    diff -u docs/surface.txt <(LC_ALL=C.UTF-8 COLUMNS=40 COLLET_DEBUG=INFO COLLET_TRANSPORT=tcp NCCL_ALGO=ring BUILD=$build \
        taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" scripts/surface.sh)
}

copy_of_the_build() {
    rm -rf "$work/build"
    mkdir -p "$work/build"
    cp -rs "$build/bin" "$build/lib" "$work/build/"
}

# In the copy this program does what the true one does, and then what `edit` says with what was printed.
instead_of() { # program edit
    rm "$work/build/bin/$1"
    printf '#!/bin/bash\n"%s" "$@" | %s\n' "$build/bin/$1" "$2" >"$work/build/bin/$1"
    chmod +x "$work/build/bin/$1"
}

# Just these lines are missing from the surface of the copy, and there are no others.
misses() { # kind line…
    local kind=$1
    shift
    diff <(printf -- '< %s\n' "$@" | sort) \
        <(diff <(grep "^$kind " docs/surface.txt) <(BUILD=$work/build scripts/surface.sh "$kind") | grep '^[<>]' | sort)
}

# A library of the same names but one, for the linker's eyes only.
a_missing_symbol() {
    copy_of_the_build
    sed -n 's/^symbol libcollet.so \(.*\)/void \1(void) {}/p' docs/surface.txt | grep -v collet_group_start >"$work/few.c"
    rm "$work/build/lib/libcollet.so"
    ${CC:-gcc} -w -fno-builtin -shared -fPIC -o "$work/build/lib/libcollet.so" "$work/few.c" && misses symbol 'symbol libcollet.so collet_group_start'
}

a_missing_knob() {
    copy_of_the_build
    instead_of collet-info "grep -v COLLET_CHECKSUM"
    misses knob 'knob COLLET_CHECKSUM'
}

a_missing_name_of_nccl() {
    copy_of_the_build
    rm "$work/build/lib/libnccl.so.2"
    sed 's/NCCL_SHM_DISABLE/NCCL-SHM-DISABLE/g' "$build/lib/libnccl.so.2" >"$work/build/lib/libnccl.so.2"
    misses knob 'knob NCCL_SHM_DISABLE'
}

a_missing_flag() {
    copy_of_the_build
    instead_of collet-sim "sed -E '/^ +--limit/d'"
    misses flag 'flag collet-sim --limit'
}

# It stands in the text about another option, but is none.
a_flag_that_is_only_mentioned() {
    copy_of_the_build
    instead_of collet-sim "sed -E 's/^ +--limit N */      --factor N  not --limit: /'"
    misses flag 'flag collet-sim --limit'
}

a_missing_program() {
    copy_of_the_build
    rm "$work/build/bin/collet-info"
    misses flag 'flag collet-info '{--help,--json,--output,--version,-h,-o}
}

a_missing_column() {
    copy_of_the_build
    instead_of collet-sim "sed 's/ how *$//'"
    misses column 'column collet-sim how 9'
}

# One perf program that prints other columns than the rest has lines of its own.
a_column_that_one_program_lacks() {
    copy_of_the_build
    instead_of gather_perf "sed -E '/^# +size/s/ #wrong *$//'"
    BUILD=$work/build scripts/surface.sh column | grep -x 'column gather_perf busbw 12' &&
        ! BUILD=$work/build scripts/surface.sh column | grep -x 'column gather_perf #wrong 13'
}

a_missing_metric() {
    copy_of_the_build
    instead_of all_reduce_perf 'cat; sed -i /collet_calls_total/d ${COLLET_METRICS%/*}/*.prom'
    misses metric 'metric collet_calls_total{communicator,name,rank,host} counter'
}

a_label_that_a_metric_lacks() {
    copy_of_the_build
    instead_of all_reduce_perf "cat; sed -i '/idle_seconds/s/,host=[^}]*//' \${COLLET_METRICS%/*}/*.prom"
    misses metric 'metric collet_idle_seconds{communicator,name,rank,host} gauge' 2>&1 | grep -F 'collet_idle_seconds{communicator,name,rank} gauge'
}

check what_users_see_is_what_the_record_says surface_is_as_it_was
check what_is_printed_depends_on_no_cpu_no_language_and_no_knob surface_is_the_same_elsewhere
check a_missing_symbol_is_noticed a_missing_symbol
check a_missing_knob_is_noticed a_missing_knob
check a_missing_name_of_nccl_is_noticed a_missing_name_of_nccl
check a_missing_flag_is_noticed a_missing_flag
check a_flag_that_help_only_mentions_counts_as_missing a_flag_that_is_only_mentioned
check a_missing_program_is_noticed a_missing_program
check a_missing_column_is_noticed a_missing_column
check a_column_that_one_program_lacks_is_noticed a_column_that_one_program_lacks
check a_missing_metric_is_noticed a_missing_metric
check a_label_that_a_metric_lacks_is_noticed a_label_that_a_metric_lacks
finish
