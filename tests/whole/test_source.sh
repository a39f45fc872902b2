#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Rules about the source tree that no compiler enforces: includes go down, the environment is read in one place,
# preprocessor conditionals stay where they belong, every file says its licence.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/layers.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the files of a room of the core may include, besides their own room, base and seams.
#
#    the walk    api ▶ plan ▶ algo                        an algorithm is data: it sees neither executors nor connections
#                        └──▶ exec ▶ kernels              programs run; what they run on
#                              └──▶ chan ▶ transport
#    nouns       fifo, program, topo, boot, base          below everything in the walk
#    seams       what the core knows of its layers: src/seams/*.h, seen from everywhere
#
# Single headers are seen from beside: what block numbers mean (fifo/geometry.h), which steps speak of.
may_include() {
    case $1 in
    base) ;;
    fifo | boot | topo) ;;
    program) echo topo fifo/geometry.h ;;
    algo) echo program topo ;;
    transport) echo fifo boot topo program ;;
    chan) echo transport fifo boot topo program plan/map.h ;;
    kernels) echo fifo program ;;
    exec) echo kernels chan transport fifo boot program ;;
    plan) echo exec kernels chan transport fifo boot topo program algo ;;
    api) echo plan exec kernels chan transport fifo boot topo program algo ;;
    seams) echo api plan exec kernels chan transport fifo boot topo program ;;
    *) return 1 ;;
    esac
}

includes_go_down() {
    local file room header allowed bad=0
    for file in src/*/*.[ch]; do
        room=$(basename "$(dirname "$file")")
        allowed=$(may_include "$room") || { echo "$file: the room $room has no line in this test"; return 1; }
        for header in $(sed -nE 's/^#include "([a-z0-9_]+\/[a-z0-9_]+\.h)".*/\1/p' "$file"); do
            case " $room base seams layers $allowed " in
            *" ${header%%/*} "* | *" $header "*) ;;
            *) echo "$file includes $header"; bad=1 ;;
            esac
        done
    done
    return $bad
}

# Every include of another room's file, as "the room, what it includes". Single headers that are seen from below count as no room.
edges_of_rooms() {
    local file room header
    for file in src/*/*.[ch]; do
        room=$(basename "$(dirname "$file")")
        [ "$room" != seams ] || continue
        for header in $(sed -nE 's/^#include "([a-z0-9_]+\/[a-z0-9_]+\.h)".*/\1/p' "$file"); do
            case ${header%%/*} in "$room" | seams) continue ;; esac
            [[ " $(may_include "$room") " == *" $header "* ]] || echo "$room ${header%%/*}"
        done
    done
}

no_circle() { # of the edges that it reads; prints one
    ! tsort 2>&1 >/dev/null | grep .
}

rooms_form_no_circle() { edges_of_rooms | sort -u | no_circle; }

circles_are_noticed() { ! { edges_of_rooms; echo "transport chan"; } | sort -u | no_circle; }

# A layer includes headers of the core, and those of the layers that its line in mk/layers.mk names. Nobody includes those of tools.
layers_include_what_they_need() { # reads the registry
    includes_of_layers >"$work/includes"
    [ -s "$work/includes" ] && ! not_in_registry "$work/includes" | grep .
}
registry_is_kept() { registry | layers_include_what_they_need; }
stranger_is_noticed() { ! registry | sed 's/^\(verifier .*\) schedules/\1/' | layers_include_what_they_need >/dev/null; }

# The core includes none of them. Those that it still does are counted.
layers_seen_from_the_core() { includes_of_layers | sed -n 's/^core //p'; }
core_includes_no_more_layers() { # reads what the core includes
    local seen
    seen=$(cat)
    within headers "$(grep -c . <<<"$seen")" || { echo "$seen"; return 1; }
}
core_includes_no_layer() { layers_seen_from_the_core | core_includes_no_more_layers; }
header_of_a_layer_is_noticed() {
    ! { layers_seen_from_the_core; seq -f 'src/api/coll.c src/layers/gpu/%g.h' 0 "$(limit headers)"; } | core_includes_no_more_layers >/dev/null
}

includes_name_the_room() {
    ! git ls-files 'src/*.[ch]' | xargs grep -nE '^#include "[^/"]+"' | grep -v '"collet.h"'
}

the_rules_forbid_something() {
    [[ " $(may_include algo) " != *" exec "* ]] && [[ " $(may_include chan) " != *" kernels "* ]] &&
        [ -z "$(may_include base)" ] && ! may_include nowhere
}

environment_is_read_once() {
    local places
    places=$(git ls-files 'src/*.[ch]' | xargs grep -nE '\b(secure_)?getenv *\(')
    [ "$(echo "$places" | wc -l)" = 1 ] || { echo "$places"; return 1; }
}

# Include guards apart, #if belongs to what hides machines (port.h, lanes.h, os, crc32c), registries, loops that need a pragma, and the
# table of protocols, which lists the protocols' files for the one that asks for them.
conditionals_are_where_they_belong() {
    local file found bad=0
    for file in $(git ls-files 'src/*.[ch]'); do
        case $file in
        src/*/port.h | src/fifo/lanes.h | src/fifo/protocol.h | src/base/os.[ch] | src/base/mapping.c | src/layers/gpu/cuda*.c | src/*/registry.c | src/layers/*/registry.c | src/kernels/reduce_* | src/base/crc32c.c) continue ;;
        esac
        found=$(grep -nE '^ *# *(if|ifdef|ifndef|elif)\b' "$file" | grep -vE '#ifndef COLLET_[A-Z0-9_]+_H$')
        [ -z "$found" ] || { echo "$found" | sed "s|^|$file:|"; bad=1; }
    done
    return $bad
}

# So that `break NAME` stops in one place. The variants of the loops over types are left out: one of them runs.
names_of_functions() {
    local rooms='src/api src/plan src/exec src/kernels src/chan src/transport src/fifo src/layers/gpu'
    {
        grep -rnoP '^[a-z][\w \*]*?[ \*]\K[a-z]\w*(?=\([^;]*$)' --include=*.c $rooms
        grep -rnoP '^static inline [\w \*]*?[ \*]\K[a-z]\w*(?=\([^;]*$)' --include=*.h $rooms
    } | grep -v '^src/kernels/reduce_\(plain\|avx2\|avx512\).h'
}
no_name_twice() { # of lines file:line:name; prints each that is in two files
    awk -F: '$3 in file && file[$3] != $1 { print $3 " is in " file[$3] " and in " $1; bad = 1 } { file[$3] = $1 } END { exit bad }'
}
functions_have_names_of_their_own() { names_of_functions | no_name_twice; }
twins_are_noticed() { ! { names_of_functions; echo "src/api/twin.c:1:conn_try"; } | no_name_twice >/dev/null; }

files_say_their_licence() {
    local file bad=0
    for file in $(git ls-files 'src/*.[ch]') include/*.h include/*/*.h examples/*.c examples/*/*.[ch] $(git ls-files 'tests/*.[ch]' 'tests/*.sh') scripts/*.sh Makefile mk/*.mk .ci/run; do
        [ -e "$file" ] || continue
        head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$file"; bad=1; }
    done
    return $bad
}

# Lengths of functions, in lines from the one that ends in "{" to the "}" in the first column, as "lines file:line".
lengths_of_functions() { # files
    awk 'FNR == 1 { start = 0 }
        /^[a-z_].*\{$/ && !/^(struct|enum|union|typedef)[^(]*\{$/ && !/=/ { start = FNR }
        /^\}$/ && start { print FNR - start + 1, FILENAME ":" start; start = 0 }' "$@" | sort -n
}
functions_are_short() { # reads lengths
    awk '{ length_of[NR] = $1; place[NR] = $2 }
        END { at = int(NR * 0.99); print NR " functions, 99 of 100 have at most " length_of[at] " lines, the longest " length_of[NR] ": " place[NR]
              exit !(NR > 0 && length_of[at] <= 30 && length_of[NR] <= 44) }'
}
functions_of_the_library_are_short() { lengths_of_functions $(git ls-files 'src/*.c') | functions_are_short; }
a_long_function_is_noticed() {
    ! { lengths_of_functions $(git ls-files 'src/*.c'); echo "45 src/api/long.c:1"; } | functions_are_short >/dev/null
}

# Whatever makes a descriptor in the library has os_high() or OS_DESCRIPTOR() around it, or is os_fopen() (base/os.h).
makers='socket|accept4?|eventfd|epoll_create1|memfd_create|open|openat|dup|pipe2?|socketpair|mkstemp|fopen|opendir|inotify_init1|timerfd_create'
descriptors_made_low() { # files
    sed -E 's:"[^"]*"::g; s:/\*.*::; /^ *\* /d' "$@" | grep -E "[^a-z_>.]($makers)\(|SYS_pidfd_open|F_DUPFD(_CLOEXEC)?, [0-2]\b" | grep -vE 'os_high\(|OS_DESCRIPTOR\(|static |^ *(int|FILE|DIR) \*?[a-z_]+\('
}
descriptors_are_above_the_terminal() {
    local file bad=0
    for file in $(git ls-files 'src/*.c' ':!src/layers/tools' ':!src/layers/nccl/nccl_net*'); do
        [ "$file" = src/base/os.c ] && continue
        descriptors_made_low "$file" | sed "s|^|$file: |" | grep . && bad=1
    done
    return $bad
}
a_low_descriptor_is_noticed() {
    descriptors_made_low <(echo '    int fd = socket(AF_INET, SOCK_STREAM, 0);') | grep -q socket &&
        descriptors_made_low <(echo '    int fd = fcntl(other, F_DUPFD_CLOEXEC, 0);') | grep -q DUPFD
}

# One word, one meaning: a name of a structure has one owner in src. A seam, and the layer that takes its place, have the same one.
structures_with_two_owners() { # FILE…
    grep -nHoE '^struct [a-z0-9_]+ \{' "$@" | sed -E 's/^([^:]+):([0-9]+):struct ([a-z0-9_]+) .*/\3 \1:\2/' | sort |
        awk '$1 == name && $2 !~ /^src\/seams\// { print "struct " name ": " place ", " $2 } { name = $1; place = $2 }'
}
structures_have_one_owner() {
    local twice
    twice=$(structures_with_two_owners $(git ls-files 'src/*.[ch]' 'src/*.cuh'))
    [ -z "$twice" ] || { echo "$twice"; return 1; }
}
a_second_owner_is_noticed() {
    printf 'struct fifo {\n' >"$work/one.c"
    printf 'struct fifo {\n' >"$work/two.c"
    structures_with_two_owners "$work/one.c" "$work/two.c" | grep -q 'struct fifo: '
}

# A reader of what others say has a fuzz target, or a reason in tests/fuzz/readers.txt to have none; and each target has a reader.
reading_calls='recv|recvmsg|readv?|fgets|getline|getdelim|fscanf|dlsym|getenv|xmlCtxtReadMemory|boot_try_recv|bundle_try_recv|oob_allgather_try|wire_take|wire_next'
readers_are_fuzzed() {
    local file target bad=0 lines
    lines=$(grep -v '^#' tests/fuzz/readers.txt)
    for file in $(git ls-files 'src/*.c'); do # comments and texts do not count
        sed -E 's:"[^"]*"::g; /^ *\/\*/d; /^ *\* /d' "$file" | grep -qE "\<($reading_calls)\(" || continue
        grep -q "^$file " <<<"$lines" || { echo "$file reads, and is not in tests/fuzz/readers.txt"; bad=1; }
    done
    while read -r file target; do
        [ -z "$file" ] || [ -e "$file" ] || { echo "tests/fuzz/readers.txt: there is no $file"; bad=1; }
        [[ $target == -* ]] && continue
        for target in $target; do
            [ -e "tests/fuzz/fuzz_$target.c" ] || { echo "tests/fuzz/readers.txt: there is no target $target"; bad=1; }
        done
    done <<<"$lines"
    for target in tests/fuzz/fuzz_*.c; do
        target=$(basename "$target" .c) target=${target#fuzz_}
        grep -qE "^src/[^ ]+ .*\<$target\>" <<<"$lines" || { echo "$target covers no file of tests/fuzz/readers.txt"; bad=1; }
        grep -qE "^$target +[1-9][0-9]*$" tests/fuzz/inputs.txt || { echo "$target has no line in tests/fuzz/inputs.txt"; bad=1; }
        grep -q "\`$target\`" docs/reliability.md || { echo "docs/reliability.md does not say what $target reads"; bad=1; }
    done
    return $bad
}
readers_without_a_target_are_noticed() { ! reading_calls='fopen' readers_are_fuzzed >/dev/null; }

files_are_formatted() { ! git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror 2>&1 | grep -m 5 error; }

check includes_go_down_the_walk includes_go_down
check rooms_form_no_circle rooms_form_no_circle
check a_circle_of_rooms_would_be_noticed circles_are_noticed
check layers_include_what_they_need registry_is_kept
check an_include_of_another_layer_would_be_noticed stranger_is_noticed
check the_core_includes_no_more_headers_of_layers core_includes_no_layer
check one_more_would_be_noticed header_of_a_layer_is_noticed
check includes_name_the_room includes_name_the_room
check the_rules_of_this_test_forbid_something the_rules_forbid_something
check the_environment_is_read_in_one_place environment_is_read_once
check conditionals_are_where_they_belong conditionals_are_where_they_belong
check functions_on_the_path_of_a_call_have_names_of_their_own functions_have_names_of_their_own
check a_name_that_two_files_have_would_be_noticed twins_are_noticed
check a_name_of_a_structure_has_one_owner structures_have_one_owner
check a_second_owner_would_be_noticed a_second_owner_is_noticed
check every_file_says_its_licence files_say_their_licence
check functions_of_the_library_are_short functions_of_the_library_are_short
check a_long_function_would_be_noticed a_long_function_is_noticed
check descriptors_are_above_those_of_the_terminal descriptors_are_above_the_terminal
check a_lower_one_would_be_noticed a_low_descriptor_is_noticed
check who_reads_what_others_say_is_fuzzed readers_are_fuzzed
check a_reader_that_is_not_fuzzed_would_be_noticed readers_without_a_target_are_noticed
case $(clang-format --version 2>&1) in # other versions format differently
*"version 14."*) check make_format_has_been_run files_are_formatted ;;
*) skipped "make_format_has_been_run: clang-format 14 is not here" ;;
esac
finish
