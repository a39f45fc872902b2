#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The reading path: every file of the core stands in docs/reading.md once, every layer has its row and its README, and the numbers of
# lines are about right. scripts/reading.sh makes the numbers anew.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

rows=$(scripts/reading.sh --rows)

# Files of all rows but those of layers, a line each time that one is named.
core_files_named() {
    scripts/reading.sh --files "$(awk -F'\t' '$1 != "layers" && $1 != "sums" { print $4 }' <<<"$rows")"
}

# Names between backticks that stand for files, row by row: a file of two rows comes twice.
core_files_by_rows() {
    local row
    while IFS=$'\t' read -r _ _ _ row; do
        scripts/reading.sh --files "$row"
    done < <(awk -F'\t' '$1 != "layers" && $1 != "sums" && $4 ~ /^`/' <<<"$rows")
}

core_files_stand_there() { diff <(core_files_named) <(ls src/*/*.[ch] | sort); }
no_core_file_stands_there_twice() { ! core_files_by_rows | sort | uniq -d | grep .; }

patterns_match() {
    local word bad=0
    for word in $(grep -oE '`src/[^`]+`' docs/reading.md | tr -d '`' | sed 's/ /\n/g'); do
        compgen -G "$word" >/dev/null || { echo "no file is called $word"; bad=1; }
    done
    return $bad
}

# Of rows that `which` selects: are the numbers that are written within so many percent?
within() {
    awk -F'\t' -v percent="$1" -v which="$2" '
        (which == "sums") == ($1 == "sums" || $4 ~ /^\*\*/) {
            seen++
            apart = $2 > $3 ? $2 - $3 : $3 - $2
            if ($2 !~ /^[0-9]+$/ || $2 == 0 || apart * 100 > percent * $3) {
                print $4 ": " $2 " lines are written, " $3 " are there; run scripts/reading.sh"
                bad = 1
            }
        }
        END { exit bad || seen == 0 }'
}
lines_are_about_right() { within 15 rows <<<"$rows"; }
sums_are_about_right() { within 5 sums <<<"$rows"; }
wrong_numbers_are_noticed() {
    ! printf 'walk\t116\t100\t`a`\n' | within 15 rows >/dev/null && printf 'walk\t115\t100\t`a`\n' | within 15 rows &&
        ! printf 'walk\t106\t100\t**together**\n' | within 5 sums >/dev/null
}

# Each folder below src that is no room of the core alone has a row and a README.
layers_have_rows_and_readmes() {
    local folder bad=0
    for folder in $(sed -nE 's/^layer_[a-z]+ *:= *(src\/[a-z\/]+).*/\1/p' mk/layers.mk) src/kernels/cuda src/layers/*/; do
        folder=${folder%/}
        grep -q "^| \`$folder\` |" docs/reading.md || { echo "$folder has no row"; bad=1; }
        [ -s "$folder/README.md" ] || { echo "$folder has no README.md"; bad=1; }
        [ "$(wc -l <"$folder/README.md")" -le 60 ] || { echo "$folder/README.md is longer than a page"; bad=1; }
    done
    return $bad
}

# Files in the first cells of "Reading order" of a layer's README are there, and every file of C is named, alone or with its header.
readmes_name_their_files() {
    local readme folder cells word name bad=0
    for readme in src/*/*/README.md; do
        folder=$(dirname "$readme")
        cells=$(sed -n '/^## Reading order/,/^## See it/p' "$readme" | sed -nE 's/^\| (`[^|]*) \|.*/\1/p' | grep -oE '`[^`]+`' | tr -d '`')
        for word in $cells; do
            compgen -G "$folder/$word" >/dev/null || { echo "$readme names $word"; bad=1; }
        done
        for name in "$folder"/*.c; do
            [ -e "$name" ] || continue
            for word in $cells; do
                # shellcheck disable=SC2053 # words may be patterns
                [[ ${name##*/} == $word ]] && continue 2
            done
            echo "$readme says nothing of ${name##*/}"; bad=1
        done
    done
    return $bad
}

check core_files_stand_there core_files_stand_there
check no_core_file_stands_there_twice no_core_file_stands_there_twice
check patterns_match patterns_match
check lines_are_about_right lines_are_about_right
check sums_are_about_right sums_are_about_right
check wrong_numbers_are_noticed wrong_numbers_are_noticed
check layers_have_rows_and_readmes layers_have_rows_and_readmes
check readmes_name_their_files readmes_name_their_files
finish
