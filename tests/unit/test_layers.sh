#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The line between the core and its layers (mk/layers.mk): what the core knows of them, in names and in lines, and who includes whom.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

limit() { sed -nE "s/^$1 ([0-9]+)$/\1/p" tests/core/limits.txt; }

at_most() { # what, number
    echo "  $1 of the core: $2, at most $(limit "$1")"
    [ "$2" -gt 0 ] && [ "$2" -le "$(limit "$1")" ]
}

core_is_built() { make -s --no-print-directory BUILD="$build" core >/dev/null; }
lines_are_within_the_limit() { at_most lines "$(make -s --no-print-directory BUILD="$build" core-files | xargs cat | wc -l)"; }
seams_are_within_the_limit() { at_most seams "$(make -s --no-print-directory BUILD="$build" core-seams | wc -l)"; }

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

every_layer_has_a_readme() {
    local folder bad=0
    for folder in $(sed -nE 's/^layer_[a-z]+ +:= ([^ ]+).*/\1/p' mk/layers.mk); do
        [ -s "$folder/README.md" ] || { echo "$folder has no README.md"; bad=1; }
    done
    return $bad
}

if [ -n "${SANITIZE:-}" ]; then skipped "what a build without sanitizers is like"; finish; exit; fi
check core_is_built core_is_built
check lines_are_within_the_limit lines_are_within_the_limit
check seams_are_within_the_limit seams_are_within_the_limit
check core_needs_no_layer core_needs_no_layer
check stand_ins_stand_in stand_ins_stand_in
check every_layer_has_a_readme every_layer_has_a_readme
finish
