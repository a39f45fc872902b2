#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that cannot be used: a path that is not there, a library that needs another one, a library without the right symbol, an init()
# that fails. The job goes on without them, and one line of each process has every file that was tried, and why not. Before, a tuner or a
# profiler that was not there ended the job, and only the last cause was told.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/users/users.sh

# The job is right; each of its two processes says so once.
goes_on() { # VARIABLE=VALUE, text
    env "$1" timeout 60 "$job" >"$work/output" 2>&1 && [ "$(grep -cE "collet WARN [A-Z]+ $2; going on without it" "$work/output")" = 2 ] &&
        [ "$(grep -c WARN "$work/output")" = 2 ] || { cat "$work/output"; return 1; }
}

none_is_there() { # kind, variable as the line has it
    local upper=${1^^} file='cannot open shared object file: No such file or directory'
    goes_on "NCCL_${upper}_PLUGIN=/nowhere/libx.so" "$2=/nowhere/libx.so cannot be loaded: /nowhere/libx.so: $file" &&
        goes_on "NCCL_${upper}_PLUGIN=nowhere" "$2=nowhere cannot be loaded: nowhere: $file; libnccl-$1-nowhere.so: $file" &&
        goes_on "NCCL_${upper}_PLUGIN=$work" "$2=$work cannot be loaded: $work: it is no regular file"
}
net_is_not_there() { none_is_there net COLLET_NET_PLUGIN; }
tuner_is_not_there() { none_is_there tuner NCCL_TUNER_PLUGIN; }
profiler_is_not_there() { none_is_there profiler NCCL_PROFILER_PLUGIN; }

# Found, but it lacks a library or a function: the loader says which.
plugin_lacks_a_function() { # kind, variable
    echo 'int missing(void); int unused(void) { return missing(); }' >"$work/lacking.c"
    ${CC:-gcc} -shared -fPIC "$work/lacking.c" -o "$work/libnccl-$1-lacking.so" &&
        LD_LIBRARY_PATH=$work:$lib goes_on "NCCL_${1^^}_PLUGIN=lacking" "$2=lacking cannot be loaded: lacking: .*; $work/libnccl-$1-lacking.so: undefined symbol: missing"
}
plugins_lack_a_function() {
    plugin_lacks_a_function net COLLET_NET_PLUGIN && plugin_lacks_a_function tuner NCCL_TUNER_PLUGIN && plugin_lacks_a_function profiler NCCL_PROFILER_PLUGIN
}

symbols_are_missing() {
    local other
    echo 'int x;' | ${CC:-gcc} -shared -fPIC -x c - -o "$work/other.so" && other=$work/other.so
    goes_on "NCCL_NET_PLUGIN=$other" "COLLET_NET_PLUGIN=$other has no table of version 8 to 12" &&
        goes_on "NCCL_TUNER_PLUGIN=$other" "NCCL_TUNER_PLUGIN=$other has no ncclTunerPlugin_v6: collet takes version 6" &&
        goes_on "NCCL_PROFILER_PLUGIN=$other" "NCCL_PROFILER_PLUGIN=$other has no ncclProfiler_v6: collet takes version 6"
}

failing() { # kind, header, table
    printf '#include <%s>\n%s\n' "$2" "$3" >"$work/failing_$1.c"
    ${CC:-gcc} -shared -fPIC -w -Iinclude/compat "$work/failing_$1.c" -o "$work/failing_$1.so"
}
inits_fail() {
    failing tuner nccl_tuner.h 'static ncclResult_t init(void) { return ncclSystemError; } static ncclResult_t info(void) { return ncclSuccess; }
        const ncclTuner_v6_t ncclTunerPlugin_v6 = {.name = "failing", .init = (void *)init, .getCollInfo = (void *)info};' &&
        failing profiler nccl_profiler.h 'static ncclResult_t init(void) { return ncclSystemError; }
        const ncclProfiler_v6_t ncclProfiler_v6 = {.name = "failing", .init = (void *)init, .startEvent = (void *)init, .stopEvent = (void *)init};' &&
        goes_on "NCCL_TUNER_PLUGIN=$work/failing_tuner.so" "NCCL_TUNER_PLUGIN=$work/failing_tuner.so is no help: its init\(\) failed" &&
        goes_on "NCCL_PROFILER_PLUGIN=$work/failing_profiler.so" "NCCL_PROFILER_PLUGIN=$work/failing_profiler.so is no help: its init\(\) failed"
}

env_plugins_are_not_loaded() { goes_on NCCL_ENV_PLUGIN=foo 'NCCL_ENV_PLUGIN=foo is not loaded: collet has no such plugins, .*' && ! goes_on NCCL_ENV_PLUGIN=none '' >/dev/null; }

check a_small_job_is_built job_is_built
check a_network_plugin_that_is_not_there_is_told_with_every_file net_is_not_there
check a_tuner_that_is_not_there_is_told_with_every_file tuner_is_not_there
check a_profiler_that_is_not_there_is_told_with_every_file profiler_is_not_there
check a_plugin_that_lacks_a_function_is_told_with_its_name plugins_lack_a_function
check a_library_that_is_no_plugin_is_told_with_what_it_lacks symbols_are_missing
check a_plugin_whose_init_fails_is_left_out inits_fail
check plugins_for_the_environment_are_not_loaded env_plugins_are_not_loaded
finish
