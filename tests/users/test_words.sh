#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A word that is nearly one that is known: wherever names are taken, the message says which was meant. A word that is near to
# nothing gets no guess.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

bin=$(realpath "${BUILD:-build}")/bin
for program in all_reduce_perf hello_allreduce collet-prog; do
    [ -x "$bin/$program" ] || { echo "$program is not built in $bin"; exit 77; }
done
unset ${!COLLET_@} ${!NCCL_@}

guesses() { # what-was-meant program arguments…
    local meant=$1 said
    shift
    said=$("$@" 2>&1 >/dev/null)
    grep -qF "; did you mean $meant?" <<<"$said" || { echo "$said"; return 1; }
}
guesses_nothing() { # program arguments…
    local said
    said=$("$@" 2>&1 >/dev/null)
    [ -n "$said" ] && ! grep 'did you mean' <<<"$said"
}
hello() { env "$@" "$bin/hello_allreduce"; }

check algorithms_of_the_environment guesses ring hello COLLET_ALGO=rign
check protocols_of_the_environment guesses Simple hello COLLET_PROTO=Simpel
check transports_of_the_environment guesses tcp hello COLLET_TRANSPORT=tpc
check variables guesses COLLET_DEBUG hello COLLET_DEBGU=INFO
check types_of_perf_programs guesses float "$bin/all_reduce_perf" -d flaot
check operators_of_perf_programs guesses prod "$bin/all_reduce_perf" -o pord
check options_of_perf_programs guesses --procs "$bin/all_reduce_perf" --prcs 2
check options_of_tools guesses --peers "$bin/collet-prog" --pers
check algorithms_of_collet_prog guesses allreduce_ring "$bin/collet-prog" allreduce_rng 4
check algorithms_of_collet_sim guesses ring "$bin/collet-sim" --synthetic "2 cpu" --ranks 2 --algo rig
check collectives guesses allreduce "$bin/collet-sim" --collective alreduce
check collectives_of_collet_topo guesses alltoall "$bin/collet-topo" --synthetic "2 cpu" --explain --collective all2all
check types_of_tools guesses float "$bin/collet-prog" --geometry 4 flaot
check no_algorithm_is_near guesses_nothing hello COLLET_ALGO=butterfly
check no_option_is_near guesses_nothing "$bin/collet-prog" --no-such-option
check an_option_without_its_value_is_known guesses_nothing "$bin/all_reduce_perf" --procs
finish
