#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A file that a knob names and that cannot be read is never passed over in silence, and nobody waits for it. What changes results or was asked for
# by name is an error; what can be done without is told on stderr, whatever COLLET_DEBUG says. Before, a job went on as if
# COLLET_TOPO_FILE were not set, as if an empty COLLET_TUNER_FILE had been read, and without the plugins that only
# NCCL's names use; and a plugin that was copied in part ended the process.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
[ -x "$build/bin/all_reduce_perf" ] || { echo "programs are not built in $build/bin"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset COLLET_DEBUG NCCL_DEBUG

# ---- the files

mkdir "$work/folder"
mkfifo "$work/pipe"
: >"$work/empty"
seq 500 | tr 0-9 '\200-\211' >"$work/garbage"
head -c 3000 "$build/lib/libnccl.so.2" >"$work/part" # of a library: the loader died of it
: >"$work/forbidden" && chmod 000 "$work/forbidden"
kinds="missing folder pipe empty garbage"
[ -r "$work/forbidden" ] && skipped "a file without permission: this user may read every file" || kinds+=" forbidden"
path_of() { [ "$1" = endless ] && echo /dev/zero || echo "$work/$1"; }

# ---- the programs

perf() { timeout 30 env "$@" "$build/bin/all_reduce_perf" --procs 2 -b 8 -e 1K -f 8 -n 5 -w 1; }

# A program that uses NCCL's names: only there, plugins that choose and watch are loaded.
cat >"$work/nccl.c" <<'END_OF_C'
#include <stdio.h>
int ncclCommInitAll(void **comms, int n, const int *devices);
const char *ncclGetLastError(void *comm);
int main(void) {
    void *comms[2];
    int result = ncclCommInitAll(comms, 2, NULL);
    if (result != 0)
        fprintf(stderr, "%s\n", ncclGetLastError(NULL));
    return result != 0;
}
END_OF_C
${CC:-cc} -o "$work/nccl" "$work/nccl.c" -L"$build/lib" -l:libnccl.so.2
nccl() { timeout 30 env COLLET_DEVICE=host LD_LIBRARY_PATH="$build/lib" "$@" "$work/nccl"; }

# ---- the verdicts

# The job does its work, and a line names the knob and the file.
is_told() { # program, knob, kind
    "$1" "$2=$(path_of "$3")" >"$work/out" 2>"$work/err" || { echo "ended with $?"; tail -5 "$work/err"; return 1; }
    names "$2" "$3"
}
is_refused() {
    local rc
    "$1" "$2=$(path_of "$3")" >"$work/out" 2>"$work/err"
    rc=$?
    [ $rc != 0 ] && [ $rc -lt 124 ] || { echo "ended with $rc"; tail -5 "$work/err"; return 1; }
    names "$2" "$3"
}
names() { # knob, kind. NCCL's spelling names the same knob; what all ranks got from rank 0 is its file
    grep -a "${1#COLLET}" "$work/err" | grep -aqF -e "$(path_of "$2")" -e "$1 of rank 0" || { echo "not named:"; cat "$work/err"; return 1; }
}

# knob, program, verdict, kinds of files besides those that all have
table() {
    echo "COLLET_TOPO_FILE perf is_told endless"
    echo "COLLET_NET_PLUGIN perf is_told endless part"
    echo "COLLET_TUNER_FILE perf is_refused endless"
    echo "COLLET_PROGRAM perf is_refused endless"
    echo "COLLET_TUNER_PLUGIN nccl is_told endless part"
    echo "COLLET_PROFILER_PLUGIN nccl is_told endless part"
}
while read -r knob program verdict more; do
    for kind in $kinds $more; do check "${knob}_${verdict}_if_it_is_$kind" "$verdict" "$program" "$knob" "$kind"; done
done < <(table)

# Plugins for NCCL's names, in a program that has none of these.
has_no_effect() { perf "$1=$work/missing" >"$work/out" 2>"$work/err" && grep -q "$1 has no effect" "$work/err"; }
for knob in COLLET_TUNER_PLUGIN COLLET_PROFILER_PLUGIN; do check "${knob}_is_told_to_have_no_effect" has_no_effect $knob; done

# Files that are written: a folder that is not there, and one in the place of the file.
for knob in COLLET_TOPO_DUMP_FILE COLLET_TRACE; do
    check "${knob}_is_told_in_no_folder" is_told perf $knob missing/file
    check "${knob}_is_told_if_it_is_a_folder" is_told perf $knob folder
done
for knob in COLLET_RECORD COLLET_METRICS; do
    check "${knob}_is_refused_in_no_folder" is_refused perf $knob missing/file
    check "${knob}_is_refused_if_it_is_a_folder" is_refused perf $knob folder
done
a_log_goes_to_stderr() { perf COLLET_DEBUG=WARN "COLLET_DEBUG_FILE=$work/$1" >"$work/out" 2>"$work/err" && names COLLET_DEBUG_FILE "$1"; }
check COLLET_DEBUG_FILE_is_told_in_no_folder a_log_goes_to_stderr missing/file
check COLLET_DEBUG_FILE_is_told_if_it_is_a_folder a_log_goes_to_stderr folder
finish
