#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The labs of docs/course: what a reader begins with fails with words that help, and the solutions pass.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

course=docs/course
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
verdict() { COURSE=$1 make -s --no-print-directory BUILD="${BUILD:-build}" "lab$2" 2>&1; }

begins_with() { # lab, words
    local said
    said=$(verdict $course "$1") && { echo "it passes: $said"; return 1; }
    [[ $said == *"$2"* && $said == *"not yet"* ]] || { echo "$said"; return 1; }
}
solution_passes() {
    local said
    said=$(verdict $course/solutions "$1") && [[ $said == *passed* ]] || { echo "$said"; return 1; }
}
has_a_hint() { [[ $(HINT=1 $course/lab.sh "$1") == "$(cat "$course/lab$1/HINT")" ]]; }
# Line 2 mended twice over: nobody could say which change it was.
one_change_a_line() {
    local said ways=$work/lab9
    mkdir -p "$ways" && sed 's/^2 .*/2 call=transfer blocks=100/' $course/solutions/lab9/ways >"$ways/ways"
    said=$(CAUSE=2 verdict "$work" 9)
    [[ $said == *"not mended by one word: 2"* ]] || { echo "$said"; return 1; }
}
table_is_complete() {
    local lab
    for lab in 1 2 3 4 5 6 7 8 9; do
        grep -q "^| $lab | \`lab$lab/" $course/README.md || { echo "lab $lab is not in $course/README.md"; return 1; }
        [ "$(ls $course/lab$lab)" = "$({ ls $course/solutions/lab$lab; echo HINT; } | LC_ALL=C sort)" ] ||
            { echo "lab$lab and its solution have different files"; return 1; }
    done
}

check the_table_of_labs_is_complete table_is_complete
check lab_1_says_that_nothing_is_stored begins_with 1 'nothing is stored to OUT block 0'
check lab_2_says_how_much_is_sent begins_with 2 'too much: 1.33 buffers do'
check lab_3_says_how_many_turns_do begins_with 3 'too many turns: 5 do'
check lab_4_says_what_is_missing begins_with 4 'that of rank 2 is missing'
check lab_5_names_the_circle begins_with 5 'deadlock with 1 slot'
check lab_6_shows_a_wrong_word begins_with 6 'get() said 1, but the words are not those'
check lab_7_says_that_nothing_is_broken begins_with 7 'changes nothing'
check lab_8_says_that_a_prediction_is_off begins_with 8 'more than 20 % off'
check lab_9_names_the_lines_that_are_slow begins_with 9 'not mended by one word: 1 2 3 4 5 6 7 8 9 10'
check lab_9_takes_one_change_a_line one_change_a_line
for lab in 1 2 3 4 5 6 7 8 9; do
    check "solution_${lab}_passes" solution_passes $lab
    check "lab_${lab}_has_a_hint" has_a_hint $lab
done
finish
