#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# reading.sh: counts the lines that docs/reading.md speaks of, and writes the numbers into its tables.
#
#    <!-- reading: walk -->                        a table begins: the first cell of a row names files, the second is their lines
#    | files | lines | questions |
#    | `src/api/coll.c` | 253 | What … |           patterns of the shell are fine: `src/api/comm.[hc]`
#    | **together** | 253 | |                      of this table
#    <!-- reading: end -->
#
# In the table named "sums", the first cell names a table in bold: its sum; **core** is all but layers, **all** is everything.
# reading.sh --print: the page with numbers made anew, on standard output. reading.sh --rows: table, lines as written, lines, files.
cd "$(dirname "$0")/.." || exit 1
page=${PAGE:-docs/reading.md}

# Names of files in a cell, one a line.
files_of() {
    local word file
    for word in $(grep -oE '`[^`]+`' <<<"$1" | tr -d '`'); do
        for file in $word; do
            if [ -d "$file" ]; then
                find "$file" -type f ! -name README.md
            else
                [ ! -f "$file" ] || echo "$file"
            fi
        done
    done | sort -u
}

lines_of() {
    local files
    mapfile -t files < <(files_of "$1")
    [ ${#files[@]} = 0 ] && echo 0 && return
    cat "${files[@]}" | wc -l
}

with_commas() { sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }

declare -A sums
core=0
all=0

# Writes the page (page), or a line per row (rows), or nothing (sums). Sums come from an earlier walk.
walk_page() {
    local line table='' first second third n sum=0
    while IFS= read -r line; do
        case $line in
        '<!-- reading: end -->') table='' ;;
        '<!-- reading: '*' -->') table=${line#<!-- reading: }; table=${table% -->}; sum=0 ;;
        '| '*)
            IFS='|' read -r _ first second third <<<"$line"
            n=''
            first=${first# } first=${first% } second=${second// /}
            if [ -z "$table" ]; then
                :
            elif [ "$table" = sums ] && [[ $first == '**'* ]]; then
                n=${first//\*/}; n=${n%% *}
                case $n in core) n=$core ;; all) n=$all ;; *) n=${sums[$n]:-0} ;; esac
            elif [ "$first" = '**together**' ]; then
                n=$sum sums[$table]=$sum
            elif [[ $first == '`'* ]]; then
                n=$(lines_of "$first"); sum=$((sum + n))
            fi
            if [ -n "$n" ]; then
                [ "$1" != rows ] || printf '%s\t%s\t%s\t%s\n' "$table" "${second//,/}" "$n" "$first"
                line="| $first | $(with_commas "$n") |$third|"
            fi ;;
        esac
        [ "$1" != page ] || printf '%s\n' "$line"
    done <"$page"
}

[ "${1:-}" = --files ] || walk_page sums
for table in "${!sums[@]}"; do
    all=$((all + ${sums[$table]}))
    [ "$table" = layers ] || core=$((core + ${sums[$table]}))
done

case ${1:-} in
--print) walk_page page ;;
--rows) walk_page rows ;;
--files) files_of "$2" ;;
'') fresh=$(mktemp) && walk_page page >"$fresh" && cat "$fresh" >"$page"; rm -f "$fresh" ;;
*) sed -n 's/^# \?//; 3,14p' "$0"; exit 2 ;;
esac
