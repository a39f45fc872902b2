#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet-status says what a process is: one in creation, the parent of ranks, one without collet, none. Before, a rank in creation was
# told that it had not come yet itself, and all other cases had one text.
B=${BUILD:-build}
. tests/common/cases.sh

folder=$(mktemp -d)
started=()
end_all() {
    for pid in "${started[@]}"; do kill -9 "$pid" 2> /dev/null; done
    rm -rf "$folder"
}
trap end_all EXIT
unset COLLET_DEBUG
export COLLET_WARN_AFTER=0 COLLET_INIT_TIMEOUT=60
port=$((20000 + $$ % 10000))

# begin COMMAND…: in the background; its PID is $begun
begin() {
    "$@" > /dev/null 2>&1 &
    begun=$!
    started+=("$begun")
    disown
}

# shows PID TEXT…: soon, what is said of this process has each text, and nothing of what nobody may be told
shows() {
    local pid=$1 text tries said missing
    shift
    for tries in $(seq 50); do
        said=$("$B/bin/collet-status" "$pid" 2>&1)
        missing=
        for text in "$@"; do [[ $said == *"$text"* ]] || missing=$text; done
        [ -n "$missing" ] || break
        sleep 0.2
    done
    [ -z "$missing" ] && [[ $said != *"has not come yet"* ]] && return
    printf 'not shown: %s\n%s\n' "$missing" "$said"
    return 1
}

# The only child of a process, when it has one.
child_of() {
    local tries
    for tries in $(seq 50); do
        cat "/proc/$1/task/$1/children" 2> /dev/null | grep -o '[0-9]*' | head -1 | grep . && return
        sleep 0.1
    done
}

begin env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$B/bin/hello_allreduce"
waits=$begun
check a_rank_in_creation_is_shown_as_what_it_is \
    shows "$waits" "of 2 ranks, which is being created" "$waits  is in init, and waits for the other ranks" \
    "rank 1" "is not known to that process"

begin "$B/bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 100000000
check the_parent_of_procs_leads_to_its_ranks shows "$begun" "of 2 ranks" "rank 0" "rank 1" "allreduce"

begin bash -c "env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 10)) $B/bin/hello_allreduce; true"
launcher=$begun
check a_launcher_leads_to_what_it_has_started shows "$launcher" "is in init, and waits for the other ranks"
started+=("$(child_of "$launcher")")

begin env RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=status-$$ "$B/bin/hello_allreduce"
check a_process_that_has_no_communicator_yet_is_told_from_others \
    shows "$begun" "process $begun uses collet, but has no communicator" "waits in init for its launcher or for rank 0"

begin sleep 60
check a_process_without_collet_is_told_from_others \
    shows "$begun" "neither it nor a process that it has started uses collet"

check a_process_that_does_not_exist_is_told_from_others shows 4194303 "4194303: there is no such process"

if unshare -p -n -f true 2> /dev/null; then
    begin unshare -p -n -f --kill-child env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port sh -c \
        "ip link set lo up 2> /dev/null; $B/bin/hello_allreduce; true"
    init=$(child_of "$begun")
    check the_first_process_of_a_container_leads_to_its_ranks \
        shows "$init" "rank 0" "is in init, and waits for the other ranks"
else
    skipped "the_first_process_of_a_container_leads_to_its_ranks: no namespaces here"
fi
finish
