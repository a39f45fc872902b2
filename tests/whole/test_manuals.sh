#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Manual pages can be found: each has a line NAME, from which man-db's whatis and apropos know what it is about.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

programs=("${BUILD:-build}"/bin/collet-* "${BUILD:-build}"/bin/*_perf)
[ -x "${programs[0]}" ] || { echo "the tools are not built in ${BUILD:-build}"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C.UTF-8

pages_are_made() { scripts/man-pages.sh "$work/man" $(realpath "${programs[@]}") && ls "$work"/man/man{1,3,7} >/dev/null; }

# What a page says of itself: two words at least, and not a word that only the page before explains.
names_say_something() {
    local page line bad=0
    for page in "$work"/man/man?/*; do
        grep -q '^\.so ' "$page" && continue
        line=$(sed -n '/^\.SH NAME/{n;p;q}' "$page" | sed 's/\\//g')
        [[ $line =~ ^[a-z].*\ -\ [^\ ]+\ [^\ ]+ && ! $line =~ \ -\ ([Tt]he\ same|What|As|Like)\  ]] || { echo "${page##*/}: $line"; bad=1; }
    done
    return $bad
}
read_by_lexgrog() {
    local page said
    for page in "$work"/man/man?/*; do
        said=$(cd "$work/man" && lexgrog "$page" 2>&1) && grep -qE ': "[a-z].* - [^ ]' <<<"$said" || { echo "$said"; return 1; }
    done
}
whatis_knows_every_page() {
    local page
    mandb --create --quiet "$work/man" || return 1
    for page in "$work"/man/man?/*; do
        page=$(basename "$page")
        whatis -M "$work/man" -s "${page##*.}" "${page%.*}" | grep -q " - ." || { echo "$page"; return 1; }
    done
}
apropos_finds() { # what is looked for, page
    apropos -M "$work/man" "$1" | grep "^$2 "
}

check pages_are_made pages_are_made
check names_say_what_it_is names_say_something
if command -v lexgrog >/dev/null && command -v mandb >/dev/null; then
    check lexgrog_reads_every_page read_by_lexgrog
    check whatis_knows_every_page whatis_knows_every_page
    check apropos_finds_a_program apropos_finds predicts collet-sim
    check apropos_finds_a_call apropos_finds "goodbye" collet_comm_destroy
    check apropos_finds_the_overview apropos_finds "collective communication" collet
else
    skipped "man-db"
fi
finish
