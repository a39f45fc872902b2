#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The line between the core and its layers (mk/layers.mk): what the core knows of them, in names and in lines; which layer takes names of
# which other one; does each link with what it needs; what do only tests take? tests/whole/test_source.sh looks at includes.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/layers.sh

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# As the build was made: nothing is compiled again for GPUs.
cuda=0
[ "$(cut -c1-4 "$build/flags")" != CUDA ] || cuda=auto
making() { make -s --no-print-directory CUDA=$cuda BUILD="$build" "$@"; }

at_most() { within "$1" "$2" && [ "$2" -gt 0 ]; }
core_is_built() { making core >/dev/null; }
lines_are_within_the_limit() { at_most lines "$(making core-files | xargs cat | wc -l)"; }
seams_are_within_the_limit() { at_most seams "$(making core-seams | wc -l)"; }
pointers_without_a_type() { making core-files | grep '\.h$' | xargs grep -nE '^ +(const )?void \*+[a-z_]+;'; }
no_pointer_without_a_type_is_a_layers() { at_most untyped "$(pointers_without_a_type | wc -l)" || ! pointers_without_a_type; }

# On a machine that has no other package.
core_needs_libsodium_alone() {
    mkdir "$work/packages"
    cp "$(pkg-config --variable=pcfiledir libsodium)/libsodium.pc" "$work/packages"
    PKG_CONFIG_LIBDIR=$work/packages COLLET_NO_INSTALL=1 scripts/deps.sh core &&
        ! PKG_CONFIG_LIBDIR=$work/packages COLLET_NO_INSTALL=1 scripts/deps.sh build >/dev/null 2>&1 &&
        ! making core-files | xargs grep -nE '#include <(hwloc|libxml|infiniband|cuda)'
}

# All that the core takes, it or a stand-in gives: nothing of a layer is left to be found.
core_needs_no_layer() {
    local lib=$build/core/libcollet.a
    nm "$lib" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$work/given"
    nm "$lib" 2>/dev/null | sed -n 's/^ * U //p' | sort -u | comm -23 - "$work/given" >"$work/wanted"
    find "$build/obj/src/layers" "$build/obj/src/topo/probe" "$build/obj/src/transport/verbs" "$build/obj/src/transport/ipc" -name '*.o' \
        -exec nm {} + 2>/dev/null | awk 'NF == 3 && $2 ~ /[TDBR]/ { print $3 }' | sort -u | comm -12 - "$work/wanted" >"$work/missing"
    [ -s "$work/given" ] && ! grep . "$work/missing"
}

# Each stand-in has the names of the layer, and no other ones.
stand_ins_stand_in() {
    local source layer folder bad=0
    for source in $(ls src/seams/*.c | grep -v /list.c); do
        layer=$(basename "$source" .c)
        folder=$(sed -nE "s/^layer_$layer +:= ([^ ]+).*/\1/p" mk/layers.mk)
        [ -d "$folder" ] || { echo "$source: mk/layers.mk has no layer $layer"; bad=1; continue; }
        nm "$build/obj/src/seams/$layer.o" | awk 'NF == 3 && $2 ~ /[TDBR]/ { print $3 }' | sort -u >"$work/stand_in"
        find "$build/obj/$folder" -name '*.o' -exec nm {} + | awk 'NF == 3 && $2 ~ /[TDBR]/ { print $3 }' | sort -u >"$work/layer"
        comm -23 "$work/stand_in" "$work/layer" | sed "s|^|$source has what the layer has not: |" | grep . && bad=1
    done
    return $bad
}

# A README's section "Other layers" names those that the registry names, *so*, and no other ones.
readmes_name_the_needs() { # reads the registry
    local name folder needs bad=0
    while read -r name folder needs; do
        [ -s "$folder/README.md" ] || { echo "$folder has no README.md"; bad=1; continue; }
        diff <(tr ' ' '\n' <<<"$needs" | grep . | sort) \
            <(sed '1,/^## Other layers/d' "$folder/README.md" | grep -oE '\*[a-z]+\*' | tr -d '*' | grep -vx "$name" | sort -u) |
            sed -n "s|^< |$folder/README.md does not name |p; s|^> |$folder/README.md names what mk/layers.mk does not: |p" | grep . && bad=1
    done
    return $bad
}

# How to link a program with no layer, with each alone and what it needs, and with all. What is to be compiled is compiled.
links() { making "$@" core-links; } # what else make is told

# Links the example for each line that it reads, and runs it. A name that nobody gives is found by the linker, and one that two give.
all_link() {
    local name command bad=0
    while read -r name command; do
        eval "$command -o $work/linked" && "$work/linked" >/dev/null || { echo "the core does not link or run with: $name"; bad=1; }
    done
    return $bad
}
link_with() { grep "^$1 "; } # of the lines that it reads
all_layers_link() { # none, each, all
    all_link <<<"$links" && [ "$(wc -l <<<"$links")" = $(($(registry | grep -vc '^tools ') + 2)) ]
}
missing_need_is_noticed() {
    all_link < <(links layer_verifier=src/layers/verifier | link_with verifier) 2>&1 | grep -q 'undefined reference'
}
second_giver_is_noticed() {
    all_link < <(link_with verifier <<<"$links" | sed "s|$| $build/obj/src/seams/verifier.o|") 2>&1 | grep -q 'multiple definition'
}

# Names that objects give ("file D name") and take ("file U name"); a file is a source without its end.
names_of() { # objects
    nm -A "$@" 2>/dev/null | sed -nE "s|^$build/obj/([^:.]+)[^:]*\.o:[0-9a-f]* +([A-Z]) ([^ ]+)$|\1 \2 \3|p" | sed 's/ [TDBRVWC] / D /'
}

# Every use of a name that another file gives, as "who, who gives it, the name".
uses() { awk '$2 == "D" { giver[$3] = $1 } $2 == "U" { taker[++n] = $1; name[n] = $3 }
    END { for (i = 1; i <= n; i++) if (name[i] in giver) print taker[i], giver[name[i]], name[i] }'; }

# Of the uses, those of names of other layers for which there is no stand-in, as "who whose file name".
uses_of_layers() {
    local source objects=()
    for source in $(git ls-files 'src/*.c' ':!src/seams'); do
        [ -e "$build/obj/${source%.c}.o" ] && objects+=("$build/obj/${source%.c}.o")
    done
    names_of "${objects[@]}" | uses | awk "$of_registry"'
        FILENAME == ARGV[1] { register(); next }
        FILENAME == ARGV[2] { if ($2 == "D") stand_in[$3] = 1; next }
        { a = owner($1); b = owner($2) }
        a != b && b != "core" && !($3 in stand_in) { print a, b, $1, $3 }' <(registry) <(names_of "$build"/obj/src/seams/*.o) -
}
names_are_in_the_registry() { # reads the registry
    uses_of_layers >"$work/uses"
    [ -s "$work/uses" ] && ! not_in_registry "$work/uses" | grep .
}
registry_is_kept() { registry | names_are_in_the_registry; }
stranger_is_noticed() { ! registry | sed 's/^\(verifier .*\) schedules/\1/' | names_are_in_the_registry >/dev/null; }

# No need without a reason: a header that is included, or a name that is taken.
needs_are_needed() { # reads the registry
    { includes_of_layers; uses_of_layers; } | cut -d ' ' -f 1,2 | sort -u >"$work/reasons"
    awk '{ for (i = 3; i <= NF; i++) print $1, $i }' | sort -u | comm -23 - "$work/reasons" >"$work/needless"
    ! sed 's/^/mk\/layers.mk: no reason for /' "$work/needless" | grep .
}
registry_has_reasons() { registry | needs_are_needed; }
need_without_a_reason_is_noticed() { ! registry | sed 's/^observe .*/& nccl/' | needs_are_needed >/dev/null; }

# Files of one room that need each other in a circle: each includes a header of the next, or takes a name of it. NAME.c and NAME.h are one
# file. What only CUDA compiles counts by its includes.
edges_of_files() {
    includes | sed -E 's/\.[a-z]+//g'
    names_of $(link_with all <<<"$links" | grep -oE "$build/obj/src/[^ ]+\.o" | grep -v '/cuda[^/]*$') | uses | cut -d ' ' -f 1,2
}
circles_are_within_the_limit() { # reads edges
    local room number bad=0
    files_in_circles | tee "$work/circles" | cut -d ' ' -f 1 | sed 's|^src/||' | uniq -c >"$work/rooms"
    while read -r number room; do
        within "circles $room" "$number" || { grep "^src/$room " "$work/circles"; bad=1; }
    done <"$work/rooms"
    return $bad
}
files_form_no_new_circle() { edges_of_files | circles_are_within_the_limit; }
new_circle_is_noticed() {
    { edges_of_files; echo src/algo/cube src/algo/registry; } | circles_are_within_the_limit | grep '^src/algo src/algo/allreduce_doubling$'
}

# Functions and data of the library that no other file of it takes, but tests do: what only tests call is static, and they include the file.
taken_by_tests_alone() { # a name that others take, as if they did not
    local objects=() source
    for source in $(git ls-files 'src/*.c' 'src/*.cu' 'examples/*.c'); do
        [ -e "$build/obj/${source%.c*}.o" ] && objects+=("$build/obj/${source%.c*}.o")
    done
    names_of "${objects[@]}" "$build"/obj/src/kernels/reduce_variant.*.o | grep -v " U ${1:-}$" >"$work/all"
    uses <"$work/all" | awk '{ print $3 }' | sort -u >"$work/taken"
    awk '$1 ~ /^src/ && $2 == "D" { print $3 }' "$work/all" | grep -vE '^(main$|collet|p?nccl)' | sort -u | comm -23 - "$work/taken" |
        while read -r name; do grep -rqw "$name" tests --include='*.[ch]' && echo "$name"; done
}
name_of_tests_is_noticed() { taken_by_tests_alone id_unpack | grep -qx id_unpack; }
tests_alone_take_no_more() { taken_by_tests_alone >"$work/alone"; within tests-alone "$(wc -l <"$work/alone")" || { cat "$work/alone"; return 1; }; }

if [ -n "${SANITIZE:-}" ]; then skipped "what a build without sanitizers is like"; finish; exit; fi
check core_is_built core_is_built
check lines_are_within_the_limit lines_are_within_the_limit
check seams_are_within_the_limit seams_are_within_the_limit
check no_pointer_without_a_type_is_a_layers no_pointer_without_a_type_is_a_layers
check core_needs_no_package_but_libsodium core_needs_libsodium_alone
check core_needs_no_layer core_needs_no_layer
check stand_ins_stand_in stand_ins_stand_in
links=$(links)
check every_layer_links_with_what_it_needs_and_runs all_layers_link
check a_need_that_is_left_out_would_be_noticed missing_need_is_noticed
check a_name_that_two_give_would_be_noticed second_giver_is_noticed
check layers_take_names_of_those_that_they_need registry_is_kept
check a_name_of_another_layer_would_be_noticed stranger_is_noticed
check what_a_layer_needs_has_a_reason registry_has_reasons
check a_need_without_a_reason_would_be_noticed need_without_a_reason_is_noticed
check every_layer_has_a_readme_that_names_what_it_needs eval 'registry | readmes_name_the_needs'
check files_of_a_room_form_no_new_circle files_form_no_new_circle
check a_new_circle_would_be_noticed new_circle_is_noticed
check what_only_tests_take_is_static tests_alone_take_no_more
check one_more_name_of_tests_would_be_noticed name_of_tests_is_noticed
finish
