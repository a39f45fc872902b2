#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Waits inside other libraries, and inside the kernel, end. Before, hwloc asked for ever where a sandbox refuses sched_getaffinity() (its part for x86 did, which is
# left out now), and PMIx_Init() of a launcher that does not answer never came back: creation hung, and no time limit held. And one rank of a machine looks at it for all: if
# only its hwloc is slow, all others said after COLLET_INIT_TIMEOUT that it had not said "what machine it is on". The kernel lists interfaces for
# one caller at a time: while other programs made and removed many, ranks stood still in getifaddrs() for a minute.
B=${BUILD:-build}
. tests/common/cases.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset COLLET_DEBUG
export COLLET_WARN_AFTER=1

cat > "$folder/refuse.c" <<'C'
#include <errno.h>
int sched_getaffinity(int pid, unsigned long bytes, void *set) { errno = EPERM; return -1; }
C
cat > "$folder/endless.c" <<'C'
#include <unistd.h>
int hwloc_topology_load(void *topology) { for (;;) pause(); }
C
cat > "$folder/links.c" <<'C'
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int getifaddrs(void *list) { /* answers $LISTS times */
    static int calls;
    while (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) >= atoi(getenv("LISTS"))) pause();
    return ((int (*)(void *))dlsym(RTLD_NEXT, "getifaddrs"))(list);
}
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
${CC:-cc} -shared -fPIC -o "$folder/endless.so" "$folder/endless.c"
${CC:-cc} -shared -fPIC -D_GNU_SOURCE -o "$folder/links.so" "$folder/links.c" -ldl
${CC:-cc} -shared -fPIC -o "$folder/libpmix.so.2" "$folder/pmix.c"

rank_of_three() { # RANK COMMAND …
    local rank=$1
    shift
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port COLLET_INIT_TIMEOUT=100 timeout 60 "$@" > "$folder/of-three-$rank" 2>&1
}

LD_PRELOAD="$folder/refuse.so" COLLET_DEBUG=WARN timeout 18 "$B/bin/hello_allreduce" > "$folder/refused" 2>&1 &
LD_PRELOAD="$folder/endless.so" COLLET_INIT_TIMEOUT=600 timeout 18 "$B/bin/hello_allreduce" > "$folder/hwloc" 2>&1 &
LD_PRELOAD="$folder/endless.so" COLLET_INIT_TIMEOUT=16 timeout 18 "$B/bin/hello_allreduce" > "$folder/half" 2>&1 &
LD_PRELOAD="$folder/links.so" LISTS=1 COLLET_DEBUG=INFO timeout 20 "$B/bin/hello_allreduce" > "$folder/listed" 2>&1 &
LD_PRELOAD="$folder/links.so" LISTS=0 COLLET_INIT_TIMEOUT=8 timeout 20 "$B/bin/hello_allreduce" > "$folder/unlisted" 2>&1 &
port=$((20000 + $$ % 10000))
rank_of_three 0 env LD_PRELOAD="$folder/endless.so" "$B/bin/hello_allreduce" &
rank_of_three 1 "$B/bin/hello_allreduce" &
rank_of_three 2 "$B/bin/hello_allreduce" &
env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=others LD_LIBRARY_PATH="$folder" \
    COLLET_INIT_TIMEOUT=12 timeout 18 "$B/bin/hello_allreduce" > "$folder/pmix" 2>&1 &
wait

has() { grep -q "$2" "$folder/$1" || { cat "$folder/$1"; false; }; }
check hwloc_ends_though_a_sandbox_refuses_a_call eval 'has refused "hello from rank 0 of 1" && ! grep WARN "$folder/refused"'
check a_job_goes_on_without_hwloc_if_that_does_not_end has hwloc "hello from rank 0 of 1"
check hwloc_is_named has hwloc "WARN GRAPH hwloc has looked at this machine for 1[0-9] s and does not end: going on without it"
check it_gets_half_of_the_time_of_init has half "hwloc has looked at this machine for [89][0-9.]* s and does not end"
check the_other_ranks_go_on eval 'has of-three-1 "hello from rank 1 of 3" && has of-three-2 "hello from rank 2 of 3"'
check creation_goes_on_with_the_interfaces_that_were_listed_before eval 'has listed "hello from rank 0 of 1" && has listed "INFO NET the kernel does not list"'
check a_kernel_that_lists_no_interfaces_is_waited_for_half_of_the_time has unlisted "timeout: the kernel has not listed the network interfaces of host .* for 4 s"
check that_wait_is_not_silent has unlisted "has waited for 1 s: for the kernel to list its network interfaces"
check a_launchers_library_that_does_not_end_is_named has pmix "has waited for .*PMIx_Init has not ended"
check it_ends_creation_in_time has pmix "timeout: after 12 s (COLLET_INIT_TIMEOUT) .*PMIx_Init has not ended"
finish
