#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a machine can check of the documentation: step tables are what collet-prog prints, log lines have their documented
# form, programs compile, and every file, function, variable and link that a page names is there.
#
#    <!-- collet-prog allreduce_ring 4 -->
#    ```                                        the block that follows such a line is what that command prints: a program
#    …                                          of build/bin or scripts, maybe behind env NAME=value, maybe with a filter behind a |
#    ```                                        test_docs.sh --update makes all blocks anew
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/fences.sh

bin=${BUILD:-build}/bin
pages=(README.md docs/*.md)

for program in collet-prog local_allreduce; do
    if [ ! -x "$bin/$program" ]; then
        echo "$program is not built in $bin"
        exit 77
    fi
done

# The page with every marked block made anew.
with_fresh_tables() {
    PATH="$PWD/$bin:$PWD/scripts:$PATH" awk '
        /^<!-- (env |collet-[a-z]+ |choices.sh|lines.sh).* -->$/ { command = $0; gsub(/^<!-- | -->$/, "", command) }
        inside && /^```/                                { inside = 0 }
        !inside                                         { print }
        /^```/ && command != ""                         { while ((command | getline line) > 0) print line
                                                          close(command); command = ""; inside = 1 }
    ' "$1"
}

if [ "${1:-}" = --update ]; then
    for page in "${pages[@]}"; do
        fresh=$(mktemp)
        with_fresh_tables "$page" >"$fresh" && ! cmp -s "$fresh" "$page" && cat "$fresh" >"$page" && echo "updated $page"
        rm -f "$fresh"
    done
    exit 0
fi

tables_are_fresh() {
    local page bad=0
    for page in "${pages[@]}"; do
        diff -u --label "$page" --label "now" "$page" <(with_fresh_tables "$page") || bad=1
    done
    [ $bad = 0 ] || echo "run tests/whole/test_docs.sh --update"
    return $bad
}

every_algorithm_has_its_table() {
    local source bad=0
    for source in $(sed -nE 's/^ *X\([A-Z]+, ([a-z]+), ([a-z]+),.*/\1_\2/p' src/program/registry.h); do
        grep -q "^<!-- collet-prog $source 4\b.*-->$" docs/algorithms.md || { echo "$source has none"; bad=1; }
    done
    return $bad
}

# The documented forms of log lines, as regular expressions.
log_forms() {
    sed -n '/^### Lines with a fixed form/,/^For example/p' docs/configuration.md |
        sed -nE '/^(INIT|GRAPH|PLAN|CONN) /{ s/[().]/\\&/g; s/\[([^]]*)\]/(\1)*/g; s/<[a-z]+>/.+/g; p; }'
}

log_lines_have_their_documented_form() {
    local lines form bad=0
    lines=$(COLLET_TRANSPORT=shm COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=INIT,GRAPH,PLAN,CONN "$bin/local_allreduce" 2>&1 >&-)
    echo "$lines" | grep -vE "^[^: ]+:[0-9]+:[0-9]+ collet INFO ($(log_forms | paste -sd '|'))\$" && bad=1
    while read -r form; do
        echo "$lines" | grep -qE " collet INFO $form\$" || { echo "no line like: $form"; bad=1; }
    done < <(log_forms)
    return $bad
}

# The table of rooms has a line for every folder of src, and none more.
rooms_are_the_folders() {
    diff <(printf 'src/%s\n' $(ls src) | sort) \
        <(sed -n '/^| room |/,/^$/s/^| `\(src\/[a-z]*\)` |.*/\1/p' docs/architecture.md | sort)
}

# The table of subsystems has those of log.h, and for each of them the library has a line to log.
subsystems_are_the_logs() {
    local name bad=0
    diff <(sed -nE 's/^ *X\(([A-Z]+)\) +\/\*.*/\1/p' src/base/log_words.h) \
        <(sed -n '/^| subsystem |/,/^$/s/^| \([A-Z]*\) |.*/\1/p' docs/configuration.md) || bad=1
    for name in $(sed -nE 's/^ *X\(([A-Z]+)\) +\/\*.*/\1/p' src/base/log_words.h); do
        grep -rqE "log_[a-z]+\((LOG_[A-Z]+, (LOG_)?)?$name," src || { echo "nothing is logged under $name"; bad=1; }
    done
    return $bad
}

# C programs in README.md compile as C99 and C++ against the header.
programs_compile() {
    local program
    program=$(fenced c README.md)
    [ -n "$program" ] || { echo "README.md has no program"; return 1; }
    echo "$program" | ${CC:-gcc} -std=c99 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c - &&
        echo "$program" | ${CXX:-g++} -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ -
}

# The words of all pages between single backticks, as page:word.
words_in_backticks() {
    grep -HoE '`[^`]+`' "${pages[@]}" | tr -d '`'
}

files_named_exist() {
    local page word bad=0
    while IFS=: read -r page word; do
        [ -e "$word" ] || { echo "$page names $word"; bad=1; }
    done < <(words_in_backticks | grep -E ':(src|include|examples|tests|scripts|docs|bench|\.ci)/[A-Za-z0-9_./-]+$')
    return $bad
}

functions_named_exist() {
    local page word bad=0
    while IFS=: read -r page word; do
        grep -rqw "${word%()}" include src examples || { echo "$page names $word"; bad=1; }
    done < <(words_in_backticks | grep -E ':[a-z_0-9]+\(\)$')
    return $bad
}

variables_named_exist() {
    local page word bad=0
    while IFS=: read -r page word; do
        grep -rqwE "$word|\"${word#COLLET_}\"" include src examples integrations scripts mk Makefile || { echo "$page names $word"; bad=1; }
    done < <(grep -HoE '\bCOLLET_[A-Z0-9_]+\b' "${pages[@]}" | sort -u)
    return $bad
}

# Every --option and -o that a command on a page gives to a program of build/bin is in the program's --help.
options_named_exist() {
    local place program words option bad=0
    while IFS=$'\t' read -r place program words; do
        [ -x "$bin/$program" ] || continue
        for option in $(grep -oE '(^| )--?[A-Za-z][a-z_]*' <<<"$words"); do
            "$bin/$program" --help 2>&1 | grep -qE -- "(^|[ [,|])$option\b" || { echo "$place: $program has no $option"; bad=1; }
        done
    done < <(grep -nE '\b(collet-[a-z]+|[a-z]+_perf) ' "${pages[@]}" | sed -E 's/`[^`]*$//' |
        sed -nE 's/^([^:]*:[0-9]+):.*\b(collet-[a-z]+|[a-z_]+_perf)( [^`#|&;]*).*/\1\t\2\t\3/p')
    return $bad
}

english_is_plain() {
    tests/common/english.sh $(git ls-files README.md CONTRIBUTING.md CHANGELOG.md 'docs/*.md' 'src/*/README.md' 'src/*.[ch]' 'src/*.cu*' \
        'include/*.h' 'examples/*.[ch]' 'tests/*.[ch]')
}

# The page that compares with NCCL and MPI has a line for every public function.
every_function_has_its_counterpart() {
    local name bad=0
    for name in $(grep -oE '\bcollet_[a-z_]+\(' include/collet.h | tr -d '(' | sort -u); do
        grep -qF "\`$name()\`" docs/rosetta.md || { echo "docs/rosetta.md has no $name()"; bad=1; }
    done
    return $bad
}

# The page about types has a row for each row of the code's tables: constant and name, then what it is summed up in, or which
# types an operator takes.
types_are_the_tables() {
    diff <(sed -nE 's/^ +X\(([A-Z0-9_]+), (\w+), (REAL|WHOLE), \w+, (\w+), (\w+), .*/COLLET_\1 \2 \3 \4 \5/p' src/base/types.h |
        awk '{ print $1, $2, ($3 == "REAL" ? $4 : $5) }') \
        <(sed -nE 's/^\| `(COLLET_\w+)` \| (\w+) \| [^|]+ \| (\w+) \|.*\|$/\1 \2 \3/p' docs/types.md | grep -E ' (u?int[0-9]+_t|float|double)$') &&
        diff <(sed -nE 's/^ +X\(([A-Z]+), (\w+), \w+, \w+, (ANY|WHOLE), .*/COLLET_\1 \2 \3/p' src/base/types.h | sed 's/ANY$/any/; s/WHOLE$/integers/') \
            <(sed -nE 's/^\| `(COLLET_\w+)` \| (\w+) \| (any|integers) \|.*/\1 \2 \3/p' docs/types.md)
}

links_lead_somewhere() {
    local page link bad=0
    while IFS=: read -r page link; do
        [ -e "$(dirname "$page")/$link" ] || { echo "$page links to $link"; bad=1; }
    done < <(grep -HoE '\]\([^)#]+' "${pages[@]}" | sed 's/:](/:/' | grep -v ':https\?:')
    return $bad
}

check step_tables_are_what_collet_prog_prints tables_are_fresh
check every_algorithm_has_its_step_table every_algorithm_has_its_table
check log_lines_have_their_documented_form log_lines_have_their_documented_form
check rooms_of_the_architecture_are_the_folders_of_src rooms_are_the_folders
check subsystems_of_the_log_are_those_that_the_table_lists subsystems_are_the_logs
check the_programs_in_the_readme_compile programs_compile
check files_that_pages_name_exist files_named_exist
check functions_that_pages_name_exist functions_named_exist
check variables_that_pages_name_exist variables_named_exist
check options_that_commands_on_pages_give_exist options_named_exist
check no_page_or_comment_has_a_pattern_that_must_be_read_twice english_is_plain
check every_public_function_has_its_counterpart_in_nccl_and_mpi every_function_has_its_counterpart
check types_and_operators_of_the_page_are_those_of_the_code types_are_the_tables
check links_lead_somewhere links_lead_somewhere
finish
