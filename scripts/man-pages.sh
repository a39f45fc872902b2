#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# man-pages.sh OUT PROGRAM…: makes OUT/man3 and OUT/man7 from include/collet.h, and OUT/man1 from what the programs print for
# --help and from the first sentence of their sources. So a page cannot say anything else than the header or the program.
set -eu -o pipefail
cd "$(dirname "$0")/.."
out=$1
shift

version=$(sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
rm -rf "$out"
mkdir -p "$out/man1" "$out/man3" "$out/man7"
awk -v dir="$out" -v version="$version" -f scripts/man-pages.awk include/collet.h

# "collet-prog: shows programs. More." of the comment that begins its source: "shows programs".
purpose_of() {
    if [ -e src/layers/tools/"$1".py ]; then
        sed -nE "s/^# $1: (.*)/\1/p" src/layers/tools/"$1".py | sed -E 's/[.:;]( .*)?$//'
        return
    fi
    [[ $1 != *_perf ]] || printf 'measures %s: ' "${1%_perf}"
    sed -n '3,/\*\/\|^ \*$/p' src/layers/tools/"$1".c examples/perf/"$1".c 2>/dev/null | sed 's/^ \* \?//; s/ \*\/$//' | paste -sd' ' |
        sed -E "s/^$1: //; s/[.:;] .*//; s/[.]? *\/?$//"
}

as_it_is() {
    echo .nf
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
    echo .fi
}

program_page() { # program
    local name help
    name=$(basename "$1")
    help=$("$1" --help)
    printf '.TH %s 1 "" "collet %s" "Programs of collet"\n' "$name" "$version"
    printf '.nh\n.ad l\n.SH NAME\n%s \\- %s\n' "${name//-/\\-}" "$(purpose_of "$name")"
    printf '.SH SYNOPSIS\n'
    sed '/^$/,$d; s/^usage: /       /; s/^       //' <<<"$help" | as_it_is
    printf '.SH DESCRIPTION\n'
    sed '1,/^$/d' <<<"$help" | as_it_is
    printf '.SH SEE ALSO\n.BR collet (7)\n'
}

for program in "$@"; do
    program_page "$program" >"$out/man1/$(basename "$program").1"
done
