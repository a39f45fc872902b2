#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the Makefile promises: the second make does nothing, whichever goals came first, and with -j8 nothing is made twice. Compilers
# are stood in for by scripts that write empty files and a line of a log, so that this takes seconds.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL

# ---- stand-ins: cc, and an nvcc that knows two architectures

mkdir -p "$work/cuda/bin"
cat >"$work/cc" <<'CC'
#!/bin/bash
while [ $# -gt 0 ]; do
    case $1 in
    -dumpmachine) exec echo x86_64-linux-gnu ;;
    -o) out=$2 && shift ;;
    esac
    shift
done
echo "$out" >>"$(dirname "$0")/made"
: >"$out"
: >"${out%.*}.d"
CC
cat >"$work/cuda/bin/nvcc" <<'NVCC'
#!/bin/bash
case $1 in
--version) exec echo 'Cuda compilation tools, release 12.4, V12.4.1' ;;
--list-gpu-arch) exec printf 'compute_%s\n' 70 90 ;;
--help) exit ;;
esac
exec "$(dirname "$0")/../../cc" "$@"
NVCC
chmod +x "$work/cc" "$work/cuda/bin/nvcc"

makes() { # goals and options: with the stand-ins, in a folder of its own
    make CC="$work/cc" NVCC="$work/cuda/bin/nvcc" BUILD="$work/build" WERROR= CFLAGS= "$@" 2>&1
}
makes_nothing() { # goals
    local said
    said=$(makes "$@")
    [ -z "$said" ] || { echo "make $*: $(head -n 3 <<<"$said")"; return 1; }
}
nothing_was_made_twice() { ! sort "$work/made" | uniq -d | grep -m 3 .; }

# ---- cases

# As the build was made, so that nothing is stale because CUDA is another.
built_is_built() {
    local goal cuda=0
    [ "$(cut -c1-4 "$build/flags")" != CUDA ] || cuda=auto
    for goal in all libs tests; do
        make -q CUDA=$cuda BUILD="$build" $goal || { echo "make $goal again: $(make -n CUDA=$cuda BUILD="$build" $goal | grep -v '^:$' | head -n 3)"; return 1; }
    done
}

# The kernels by themselves, last first: each object has flags of its own, and none of them are those of the others.
kernels_in_any_order() {
    local object
    makes -j2 CUDA=1 cuda-kernels >/dev/null || { makes CUDA=1 cuda-kernels; return 1; }
    for object in $(grep '/exec_cuda.*\.o$' "$work/made" | sort -r) cuda-kernels; do
        makes_nothing CUDA=1 "$object" || return 1
    done
}

# "core-files" calls make for the core, which the other goal makes, too.
goals_with_children_wait() { # goals
    rm -rf "$work/build" "$work/made"
    makes -j8 CUDA=0 "$@" >"$work/said" || { tail -n 5 "$work/said"; return 1; }
    nothing_was_made_twice && ! grep jobserver "$work/said" && makes_nothing CUDA=0 core
}
layers_change_the_core() {
    local two=("LAYERS=verbs topology")
    makes CUDA=0 core "${two[@]}" >/dev/null && makes_nothing CUDA=0 core "${two[@]}" &&
        ar t "$work/build/core/libcollet.a" | grep -q '^verbs_send' || { echo "the library lacks a layer"; return 1; }
}

# -n changes nothing: other flags than those of the build are shown, not noted.
dry_runs_are_dry() {
    local before
    makes CUDA=0 core >/dev/null
    before=$(cat "$work/build/flags")
    makes -n CUDA=0 CPPFLAGS=-DOTHER core | grep -q -- '-DOTHER.* -c' && [ "$(cat "$work/build/flags")" = "$before" ] && makes_nothing CUDA=0 core
}

children_get_jobs() { ! grep -nE '^	[^+#]*\$\(AGAIN\)' Makefile mk/*.mk; }
every_file_is_included() {
    local file bad=0
    for file in mk/*.mk; do
        grep -qxF "include $file" Makefile || { echo "the Makefile does not include $file"; bad=1; }
    done
    return $bad
}

[ ! -e "$build/flags" ] || check what_is_built_is_not_built_again built_is_built
check kernels_are_made_once_in_any_order kernels_in_any_order
check a_goal_that_calls_make_waits_for_the_others goals_with_children_wait core core-files
check and_others_wait_for_it goals_with_children_wait core-files core
check other_layers_make_another_core layers_change_the_core
check a_dry_run_leaves_no_trace dry_runs_are_dry
check children_share_the_jobs_of_their_caller children_get_jobs
check every_file_of_mk_is_included every_file_is_included
finish
