#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Waits inside other libraries end. Before, hwloc asked for ever where a sandbox refuses sched_getaffinity(), and PMIx_Init() of a
# launcher that does not answer never came back: creation hung, and no time limit held.
B=${BUILD:-build}
. tests/common/cases.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset COLLET_DEBUG
export COLLET_WARN_AFTER=1 COLLET_INIT_TIMEOUT=3

cat > "$folder/refuse.c" <<'C'
#include <errno.h>
int sched_getaffinity(int pid, unsigned long bytes, void *set) { errno = EPERM; return -1; }
C
cat > "$folder/pmix.c" <<'C'
#include <unistd.h>
int PMIx_Init(void *self, void *infos, unsigned long n) { for (;;) pause(); }
int PMIx_Put(unsigned char scope, const char *key, void *value) { return 0; }
int PMIx_Commit(void) { return 0; }
int PMIx_Fence_nb(void *a, unsigned long b, void *c, unsigned long d, void *e, void *f) { return 0; }
int PMIx_Get_nb(void *a, const char *b, void *c, unsigned long d, void *e, void *f) { return 0; }
int PMIx_Finalize(void *a, unsigned long b) { return 0; }
C
${CC:-cc} -shared -fPIC -o "$folder/refuse.so" "$folder/refuse.c"
${CC:-cc} -shared -fPIC -o "$folder/libpmix.so.2" "$folder/pmix.c"

LD_PRELOAD="$folder/refuse.so" timeout 18 "$B/bin/hello_allreduce" > "$folder/hwloc" 2>&1 &
env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=others LD_LIBRARY_PATH="$folder" \
    timeout 18 "$B/bin/hello_allreduce" > "$folder/pmix" 2>&1 &
wait

has() { grep -q "$2" "$folder/$1" || { cat "$folder/$1"; false; }; }
check a_job_goes_on_without_hwloc_if_that_does_not_end has hwloc "hello from rank 0 of 1"
check hwloc_is_named has hwloc "WARN GRAPH hwloc has looked at this machine for 10 s and does not end: going on without it"
check a_launchers_library_that_does_not_end_is_named has pmix "has waited for .*PMIx_Init has not ended"
check it_ends_creation_in_time has pmix "timeout: after 3 s (COLLET_INIT_TIMEOUT) .*PMIx_Init has not ended"
finish
