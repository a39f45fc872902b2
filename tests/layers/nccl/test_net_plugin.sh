#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Jobs over a network plugin of NCCL's kind: the example's (examples/net_plugin/), collet's own (libnccl-net-collet.so), and
# others' where NET_PLUGIN names them:
#
#     NET_PLUGIN="/path/libnccl-net-one.so /path/libnccl-net-other.so" tests/layers/nccl/test_net_plugin.sh
#
# (with FI_PROVIDER=tcp for a plugin over libfabric)
#
# The ranks are on hosts that are network namespaces (tests/common/hosts.sh). The perf programs check every result.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh
. tests/common/hosts.sh

build=$(realpath "${BUILD:-build}")
bin=$build/bin
[ -x "$bin/all_reduce_perf" ] || lab_skip "the perf programs are not built in $bin"
lab_enter "$@"
lab_hosts 2 2 || lab_skip "the hosts could not be built"

export COLLET_CPUS=1 COLLET_INIT_TIMEOUT=60 COLLET_HEARTBEAT_TIMEOUT=60000
short="-b 8 -e 1M -f 16 -n 2 -w 1"
example=$lab/libnccl-net-sockets.so
${CC:-gcc} -g -Wall -Wextra -Werror -shared -fPIC -I src examples/net_plugin/sockets.c -o "$example" || exit 1

# The lines that hold $1, of all ranks of the last job.
said() { cat $lab/rank*.out | grep -E "$1"; }

# A shared memory inside hosts, the plugin between them.
carries_a_job() {
    COLLET_NET_PLUGIN=$1 COLLET_DEBUG=INFO lab_job 2 2 "$bin/all_reduce_perf" $short || return 1
    said 'rank [01] -> [23] via plugin' >/dev/null && said 'rank (0 .. 1|2 .. 3) via shm' >/dev/null &&
        ! said 'rank [01] (->|<-) [23] via (tcp|shm|verbs)'
}

all_collectives_by() {
    local program
    for program in all_gather reduce_scatter alltoall broadcast reduce sendrecv; do
        COLLET_NET_PLUGIN=$1 COLLET_DEBUG=INFO lab_job 2 2 "$bin/${program}_perf" $short || return 1
        said 'rank [01] (->|<-) [23] via plugin' >/dev/null || return 1
    done
}

with_checksums() { COLLET_CHECKSUM=1 COLLET_SELFTEST=1 COLLET_NET_PLUGIN=$1 lab_job 2 1 "$bin/all_reduce_perf" $short; }

conforms() {
    COLLET_NET_PLUGIN=$1 COLLET_TEST_WIRE=plugin on_host 1 timeout 300 "$build/tests/core/test_conformance" tcp \
        n=3 allreduce/ring int32 sum count=17
}

# Both of a host's devices carry slots: each channel has one.
devices_are_nics() {
    COLLET_NET_PLUGIN=$1 COLLET_DEBUG=INFO lab_job 2 1 "$bin/all_reduce_perf" -b 4M -e 4M -n 2 -w 1 &&
        said 'device 0: eth0, 10000 Mbit/s' >/dev/null && said 'device 1: eth1, 10000 Mbit/s' >/dev/null &&
        said 'PLAN .* 2 channel' >/dev/null
}

is_shown() { COLLET_NET_PLUGIN=$1 on_host 1 "$bin/collet-info" | grep -E 'net plugin +yes +sockets, version 8 .*2 device'; }

# The ranks go by tcp, and say so.
hosts_with_unlike_plugins_use_tcp() {
    cat >$lab/unlike <<'END'
#!/bin/sh
[ "$RANK" = 0 ] && export COLLET_NET_PLUGIN=none
exec "$@"
END
    chmod +x $lab/unlike
    COLLET_NET_PLUGIN=$example COLLET_DEBUG=INFO lab_job 2 1 $lab/unlike "$bin/all_reduce_perf" $short &&
        said 'rank 0 -> 1 via tcp.*not plugin: the ranks have different plugins' >/dev/null
}

a_plugin_that_is_missing_is_named() {
    COLLET_NET_PLUGIN=nowhere lab_job 2 1 "$bin/all_reduce_perf" $short &&
        said 'COLLET_NET_PLUGIN=nowhere cannot be loaded: .*going on without it' >/dev/null
}

# An empty file stands for one that the loader finds and cannot load, as for lack of another library.
a_plugin_that_does_not_load_tells_why() {
    : >$lab/libnccl-net-hollow.so
    COLLET_NET_PLUGIN=hollow LD_LIBRARY_PATH=$lab on_host 1 "$bin/collet-info" | grep -E 'hollow cannot be loaded: .*libnccl-net-hollow.so: file too short'
}

by_nccls_variable() {
    NCCL_NET_PLUGIN=sockets LD_LIBRARY_PATH=$lab COLLET_DEBUG=INFO lab_job 2 1 "$bin/all_reduce_perf" -b 8 -e 8 -n 1 &&
        said 'rank 0 -> 1 via plugin' >/dev/null
}

# A rank that dies ends the others' calls.
a_death_is_noticed() {
    cat >$lab/dies <<'END'
#!/bin/sh
[ "$RANK" = 1 ] && { "$@" & pid=$!; sleep 2; kill -KILL $pid; exit 0; }
exec "$@"
END
    chmod +x $lab/dies
    LAB_LIMIT=40 COLLET_NET_PLUGIN=$example COLLET_HEARTBEAT=100 COLLET_HEARTBEAT_TIMEOUT=1000 \
        lab_job 2 1 $lab/dies "$bin/all_reduce_perf" -b 64K -e 64K -n 20 -w 1 -N 0 >/dev/null
    case $(<$lab/rank0.status) in 0 | 124 | 137) lab_show 2; return 1 ;; esac
    said 'rank 1' >/dev/null
}

check a_plugin_carries_what_goes_between_hosts carries_a_job "$example"
check all_collectives_are_right all_collectives_by "$example"
check checksums_and_self_tests_hold with_checksums "$example"
check collectives_conform conforms "$example"
check its_devices_are_the_nics_of_the_graph devices_are_nics "$example"
check collet_info_shows_it is_shown "$example"
check hosts_with_unlike_plugins_use_tcp hosts_with_unlike_plugins_use_tcp
check a_plugin_that_is_missing_is_named a_plugin_that_is_missing_is_named
check a_plugin_that_does_not_load_tells_why a_plugin_that_does_not_load_tells_why
check nccls_variable_will_do by_nccls_variable
check a_rank_that_dies_is_noticed a_death_is_noticed

with_several_receives_per_request() {
    carries_a_job "$1" && said 'device 0: collet, .* 8 receive.s. per request' >/dev/null
}
check collet_carries_jobs_of_collet with_several_receives_per_request "$build/lib/libnccl-net-collet.so"
check all_collectives_are_right_over_it all_collectives_by "$build/lib/libnccl-net-collet.so"

# NCCL's own headers (plugins/net/example/nccl of its sources), if NCCL_NET_HEADERS says where they are, have the same layouts.
layouts_are_nccls() {
    local v pair
    {
        echo '#include "net.h"'
        echo '#include "layers/nccl/plug_abi.h"'
        for v in 8 9 10 11 12; do
            for pair in init:init devices:devices getProperties:get_properties listen:listen connect:connect accept:accept \
                regMr:reg_mr regMrDmaBuf:reg_mr_dmabuf deregMr:dereg_mr isend:isend irecv:irecv iflush:iflush test:test \
                closeSend:close_send closeRecv:close_recv closeListen:close_listen irecvConsumed:irecv_consumed; do
                echo "_Static_assert(offsetof(ncclNet_v${v}_t, ${pair%:*}) == offsetof(struct plug_table, ${pair#*:}), \"$v $pair\");"
            done
        done
        for v in 11 12; do
            echo "_Static_assert(offsetof(ncclNet_v${v}_t, setNetAttr) == offsetof(struct plug_table, set_attributes), \"$v\");"
            echo "_Static_assert(sizeof(ncclNetProperties_v${v}_t) == sizeof(struct plug_properties_v$v), \"$v\");"
            echo "_Static_assert(offsetof(ncclNetProperties_v${v}_t, maxCollBytes) == offsetof(struct plug_properties_v$v, most_collective_bytes), \"$v\");"
        done
        for v in 9 10; do
            echo "_Static_assert(sizeof(ncclNetProperties_v${v}_t) == offsetof(struct plug_properties_v11, requests), \"$v\");"
            echo "_Static_assert(offsetof(ncclNetProperties_v${v}_t, maxRecvs) == offsetof(struct plug_properties, receives), \"$v\");"
        done
        echo '_Static_assert(sizeof(ncclNetProperties_v8_t) == sizeof(struct plug_properties_v8), "8");'
        echo '_Static_assert(offsetof(ncclNetProperties_v8_t, maxRecvs) == offsetof(struct plug_properties_v8, receives), "8");'
    } >$lab/layouts.c
    ${CC:-gcc} -fsyntax-only -I"$NCCL_NET_HEADERS" -I src $lab/layouts.c
}
if [ -n "${NCCL_NET_HEADERS:-}" ]; then
    check layouts_are_those_of_nccls_headers layouts_are_nccls
else
    skipped "layouts_are_those_of_nccls_headers: NCCL_NET_HEADERS names no folder"
fi

[ -n "${NET_PLUGIN:-}" ] || skipped "plugins of others: NET_PLUGIN names none"
for plugin in ${NET_PLUGIN:-}; do
    name=$(basename "$plugin" .so | tr -c 'a-z0-9\n' _)
    check "${name}_carries_what_goes_between_hosts" carries_a_job "$plugin"
    check "${name}_all_collectives_are_right" all_collectives_by "$plugin"
    check "${name}_collectives_conform" conforms "$plugin"
done
finish
