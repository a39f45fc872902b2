#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Does every command on the pages that a newcomer begins with work? Each one is run as he runs it: nothing is set in the
# environment but HOME and PATH, and the folder is none of the checkout's, unless the command names a file of it.
#
#    page ──▶ commands (tests/common/fences.sh) ──┬─▶ run: a page's commands one after another, in one shell
#                                                 ├─▶ built and tested elsewhere: make, make test …
#                                                 └─▶ need what few machines have, as a comment in the page says
#
# The last lines say how many commands were run, and what the others need.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/fences.sh

pages=(README.md docs/python.md docs/pytorch.md docs/nccl.md docs/clusters.md)
build=$(realpath "${BUILD:-build}")
[ -x "$build/bin/all_reduce_perf" ] || { echo "all_reduce_perf is not built in $build"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/installed # for the pages' /usr/local
built_elsewhere='^(scripts/deps\.sh && )?make( demo| test| libs)? *(#|$)'

# As the build was made, by the same nvcc: what is installed is not compiled again for GPUs.
cuda=0
[ "$(cut -c1-4 "$build/flags")" != CUDA ] || cuda="auto NVCC=$(sed 's/ *-gencode.*//' "$build/nvcc-flags")"

# What is one word may be here: a program or a module of Python.
is_here() { [[ $1 != *\ * ]] && { command -v "$1" || python3 -c "import $1"; } >/dev/null 2>&1; }

kind_of() { # needs command
    if [[ $2 =~ $built_elsewhere ]]; then
        echo built
    elif [ "$1" = - ] || is_here "$1"; then
        echo run
    else
        echo needs
    fi
}

# Files that commands of the pages name, in a folder of its own for each page.
provide_files() { # page folder
    fenced c README.md >"$2/hello.c"
    fenced python docs/python.md >"$2/program.py"
    printf '%s\n' '#include <nccl.h>' 'int main(void) { int version; return ncclGetVersion(&version); }' >"$2/program.c"
}

# A folder that looks like the checkout: what commands write beside it does not lie there.
pretend_checkout() { # folder
    mkdir "$1" && ln -s "$PWD"/* "$1" && rm -f "$1/build" && ln -s "$build" "$1/build"
}

# Runs each command, and tells the first one that fails. 77 is no failure: this machine does not permit what the command needs.
run_in_order='
    make() { flock "$CHECKOUT/build/flags" make "$@"; }
    while IFS= read -r -u 9 line; do
        where=${line%%	*} command=${line#*	}
        case $command in
        *build/* | *scripts/* | *integrations/* | *tests/* | make\ *) cd "$CHECKOUT" ;;
        *) cd "$ELSEWHERE" ;;
        esac
        status=
        eval "$command" >"$HOME/said" 2>&1 </dev/null || status=$?
        [ "${status:-77}" = 77 ] || { echo "$where: status $status: $command"; tail -n 20 "$HOME/said"; exit 1; }
    done 9<"$HOME/commands"
'

commands_run() { # page
    local home=$work/${1//[^a-z]/-}
    mkdir -p "$home/elsewhere" && pretend_checkout "$home/checkout" && provide_files "$1" "$home/elsewhere"
    grep "^$1:.*	run	" "$work/commands" | cut -f1,3- | sed "s|/usr/local|$prefix|g" >"$home/commands"
    timeout 120 env -i HOME="$home" PATH=/usr/local/bin:/usr/bin:/bin MAKEFLAGS="-- CUDA=$cuda" \
        CHECKOUT="$home/checkout" ELSEWHERE="$home/elsewhere" bash -c "$run_in_order"
}

every_block_says_what_it_is() { ! fences_without_a_word "${pages[@]}" | grep .; }
installs() { flock "$build/flags" make -s install CUDA=$cuda BUILD="$build" PREFIX="$prefix" >/dev/null; }

for page in "${pages[@]}"; do
    fenced_commands "$page"
done | while IFS=$'\t' read -r where needs command; do
    printf '%s\t%s\t%s\t%s\n' "$where" "$(kind_of "$needs" "$command")" "$command" "$needs"
done >"$work/all"
cut -f1-3 "$work/all" >"$work/commands"

check every_block_of_the_first_pages_says_what_it_is every_block_says_what_it_is
check make_install_installs installs
for page in "${pages[@]}"; do
    ! grep -q "^$page:.*	run	" "$work/commands" || check "commands_of_${page//[^a-zA-Z]/_}_run" commands_run "$page"
done
printf '%s commands were run, %s are run by other tests\n' "$(grep -c '	run	' "$work/commands")" "$(grep -c '	built	' "$work/commands")"
awk -F'\t' '$2 == "needs" { n[$4]++ } END { for (what in n) printf "%4d need %s\n", n[what], what }' "$work/all" | sort -rn
finish
