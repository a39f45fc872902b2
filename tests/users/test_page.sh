#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The table of variables of docs/nccl.md: each variable that the code reads has a row with an effect, and each row with an effect is in the code.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

page=docs/nccl.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the table of knobs and src/layers/nccl/nccl_config.c read.
in_the_code() {
    {
        sed -n '/^#define CONFIG_KNOBS/,/^struct config {/p' src/base/config.h
        sed -n '/READ_HERE\[\] = {/,/};/p' src/layers/nccl/nccl_config.c
    } | grep -oE '"NCCL_[A-Z0-9_]+"' | tr -d '"' | sort -u
}
rows() { sed -nE 's/^\| `(NCCL_[A-Z0-9_]+)` \| ([^|]*) \| (.*) \|$/\1 \3/p' "${1:-$page}"; }
with_effect() { rows "$1" | grep -vE '^[A-Z0-9_]+ none: ' | cut -d' ' -f1 | sort; }

effects_are_those_of_the_code() { diff <(in_the_code) <(with_effect "$1"); }
no_variable_has_two_rows() { ! rows | cut -d' ' -f1 | sort | uniq -d | grep .; }
each_row_says_something() { [ "$(rows | wc -l)" = 119 ] && [ "$(in_the_code | wc -l)" -ge 40 ] && ! rows | grep -vE '^[A-Z0-9_]+ .{5,}'; }

# A knob that a row names is the one that the variable sets.
knobs_are_named_right() {
    local variable knob bad=0
    while read -r variable knob; do
        grep -qE "(INT|TEXT)\([a-z_]+, \"${knob#COLLET_}\", \"$variable\"" src/base/config.h || { echo "$variable is not $knob"; bad=1; }
    done < <(rows | sed -nE 's/^(NCCL_[A-Z0-9_]+) `(COLLET_[A-Z_]+)`.*/\1 \2/p')
    return $bad
}
# In configuration.md there is a list, too.
lists_agree() {
    diff <(sed -n '/^#define CONFIG_KNOBS/,/^struct config {/p' src/base/config.h | grep -oE '"NCCL_[A-Z0-9_]+"' | tr -d '"' | sort) \
        <(sed -n '/`NCCL_` spelling counts/,/a few more count/p' docs/configuration.md | grep -oE '`NCCL_[A-Z0-9_]+`' | tr -d '`' | sort)
}

a_row_too_many_is_noticed() {
    sed 's/^| `NCCL_CROSS_NIC` .*/| `NCCL_CROSS_NIC` |  | it does much |/' "$page" >"$work/more.md" && ! effects_are_those_of_the_code "$work/more.md" >/dev/null &&
        grep -v '^| `NCCL_IB_TC`' "$page" >"$work/less.md" && ! effects_are_those_of_the_code "$work/less.md" >/dev/null
}

check rows_with_an_effect_are_what_the_code_reads effects_are_those_of_the_code "$page"
check no_variable_has_two_rows no_variable_has_two_rows
check each_of_the_119_rows_says_something each_row_says_something
check a_knob_in_a_row_is_set_by_its_variable knobs_are_named_right
check the_other_page_lists_the_same_variables lists_agree
check a_row_too_many_or_too_few_is_noticed a_row_too_many_is_noticed
finish
