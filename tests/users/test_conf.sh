#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Files of NCCL that set variables (NCCL_CONF_FILE, ~/.nccl.conf, /etc/nccl.conf), and where its log goes. Before, no such file was read, and
# NCCL_DEBUG_SUBSYS had no effect.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/users/users.sh
unset NCCL_DEBUG NCCL_CONF_FILE NCCL_ALGO

run() { env "$@" timeout 60 "$job" >"$work/output" 2>&1; } # [VARIABLE=VALUE…]
has() { grep -qE "$1" "$work/output" || { echo "not said: $1"; cat "$work/output"; return 1; }; }
lacks() { ! grep -qE "$1" "$work/output" || { echo "said: $1"; cat "$work/output"; return 1; }; }

file_of_the_home_counts() {
    printf '# of the user\n\nNCCL_DEBUG=INFO\n  NCCL_ALGO = ring \r\nNCCL_IB_RETRY_CNT=15\n' >"$work/.nccl.conf"
    run && has "INFO ENV $work/.nccl.conf: 3 variable" && has 'PLAN allreduce up to .*: ring, ' && has 'WARN ENV NCCL_IB_RETRY_CNT=15: 7 counts' && lacks 'line . is no'
}
environment_comes_first() { run NCCL_ALGO=tree && has 'PLAN allreduce up to .*: tree, ' && lacks 'PLAN allreduce .*: ring, ' && run NCCL_DEBUG=WARN && lacks INFO; }

# It takes the place of the user's file.
named_file_comes_instead() {
    printf 'NCCL_DEBUG=INFO\nNCCL_ALGO=tree\n' >"$work/named.conf"
    run NCCL_CONF_FILE="$work/named.conf" && has "INFO ENV $work/named.conf: 2 variable" && has ': tree, ' && lacks '\.nccl\.conf' && lacks RETRY_CNT
}
named_file_may_be_missing() { run NCCL_CONF_FILE="$work/nowhere" && has "WARN ENV NCCL_CONF_FILE=$work/nowhere: there is no such file" && lacks '\.nccl\.conf'; }

# Collet's own variables, and those of plugins, may stand there, too.
other_variables_may_stand_there() {
    printf 'COLLET_DEBUG=INFO\nCOLLET_ALGO=tree\n' >"$work/own.conf"
    run NCCL_CONF_FILE="$work/own.conf" && has 'INFO ENV COLLET_ALGO=tree' && has ': tree, '
}
bad_lines_are_told() {
    printf 'NCCL_DEBUG=INFO\nno setting\nNCCL_ALGO=tree\n1X=2\n' >"$work/bad.conf"
    run NCCL_CONF_FILE="$work/bad.conf" && has "WARN ENV $work/bad.conf: line 2 is no VARIABLE=value" && has ': tree, '
}
# A folder, a pipe that nobody writes into, a file that may not be read.
what_is_no_file_holds_nobody_up() {
    mkfifo "$work/pipe"
    run NCCL_CONF_FILE="$work" && has 'no such file' && run NCCL_CONF_FILE="$work/pipe" && has 'no such file' && run NCCL_CONF_FILE=/dev/zero && has 'no such file'
}

# The kernel says whether a program has more rights than its user. Here a library says it.
secure_programs_read_no_file_of_users() {
    printf '#include <dlfcn.h>\nunsigned long getauxval(unsigned long type) {\n    unsigned long (*next)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");\n    return type == 23 ? 1 : next(type);\n}\n' >"$work/secure.c"
    ${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -w "$work/secure.c" -o "$work/secure.so" -ldl || return 1
    run LD_PRELOAD="$work/secure.so" && lacks 'ENV .*nccl.conf' && lacks INFO &&
        run LD_PRELOAD="$work/secure.so" NCCL_CONF_FILE="$work/named.conf" && has 'NCCL_CONF_FILE=.*: it is not read: this program has more rights' && lacks INFO
}

# /etc/nccl.conf of a mount namespace: the user's file comes before it.
file_of_the_machine_comes_last() {
    printf 'NCCL_DEBUG=INFO\nNCCL_PROTO=LL\nNCCL_ALGO=tree\n' >"$work/etc.conf"
    printf 'NCCL_ALGO=ring\n' >"$work/.nccl.conf"
    mkdir -p "$work/etc" && cp "$work/etc.conf" "$work/etc/nccl.conf"
    [ -e /etc/passwd ] && cp /etc/passwd "$work/etc/"
    own_etc timeout 60 "$job" >"$work/output" 2>&1 && has 'INFO ENV /etc/nccl.conf: 3 variable' && has 'PLAN allreduce up to .*: ring, LL, ' && lacks ': tree'
}
own_etc() { unshare "${unshared[@]}" sh -c 'mount --bind "$0" /etc && exec "$@"' "$work/etc" "$@"; }
may_mount() { mkdir -p "$work/etc" && { unshared=(-m) && own_etc true || { unshared=(-rm) && own_etc true; }; } 2>/dev/null; }

# ---- the log ----

subsystems_are_translated() {
    rm -f "$work/.nccl.conf"
    run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING && has 'INFO PLAN' && lacks 'INFO (INIT|ENV|CONN)' &&
        run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,P2P && has 'INFO INIT' && has 'INFO CONN' && lacks 'INFO PLAN' &&
        run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=^INIT,TUNING && has 'INFO CONN' && lacks 'INFO (INIT|PLAN)' &&
        run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=RAS && lacks INFO && run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL && has 'INFO PLAN' &&
        run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=BOOTSTRAPPING,INIT && has 'WARN ENV NCCL_DEBUG_SUBSYS=.*: BOOTSTRAPPING is no subsystem; the rest counts' && has 'INFO INIT' &&
        run NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT COLLET_DEBUG_SUBSYS=PLAN && has 'INFO PLAN' && lacks 'INFO INIT'
}
# %h is the host, %p the process: a file for each of the two.
lines_go_into_a_file_per_process() {
    local host
    host=$(uname -n)
    run NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$work/log.%h.%p" && lacks INFO && [ "$(ls "$work"/log."${host%%.*}".[0-9]* | wc -l)" = 2 ] &&
        [ "$(cat "$work"/log.* | grep -c 'INFO INIT communicator .* ready')" = 2 ]
}

check a_small_job_is_built job_is_built
check the_users_file_sets_variables file_of_the_home_counts
check what_the_environment_sets_stays environment_comes_first
check a_file_that_is_named_comes_in_its_place named_file_comes_instead
check a_named_file_that_is_missing_is_told named_file_may_be_missing
check other_variables_may_stand_in_a_file other_variables_may_stand_there
check a_line_that_is_no_setting_is_told bad_lines_are_told
check what_is_no_regular_file_is_not_read what_is_no_file_holds_nobody_up
check a_program_with_more_rights_reads_no_file_of_its_user secure_programs_read_no_file_of_users
if may_mount; then
    check the_machines_file_comes_last file_of_the_machine_comes_last
else
    skipped "the_machines_file_comes_last: nothing can be mounted here"
fi
check subsystems_of_NCCL_are_those_of_collet subsystems_are_translated
check the_log_has_a_file_for_each_process lines_go_into_a_file_per_process
finish
