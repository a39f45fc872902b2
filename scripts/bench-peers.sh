#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench-peers.sh: collectives of float32 by collet, Open MPI, MPICH, Intel MPI, oneCCL and Gloo (only allreduce), all timed by the same
# loop (bench/loop.h) and run in turns: round after round, each library once at its default and once in each other way listed
# below, and the limit, which only moves what must move. Prints tables of medians and ratios, and leaves them as Markdown, with all
# samples, in $BUILD/bench.
#
#   --quick             fewer and shorter rounds, below 6 minutes (the default: below 30)
#   --minutes M         all in M minutes, on 2, 4, 8 and 16 ranks as far as there are CPUs: five collectives, sizes 8,4K,64K,1M,16M,
#                       one way of each peer a round, and fewer sizes where M minutes are too short for three rounds of them all
#   --candidates        collet in shared memory with each of its algorithms, too, a third of them a round, and a table of what the choice
#                       loses against the best one; always where there are 8 CPUs or more
#   --collective LIST   of allreduce, allgather, reducescatter, alltoall, broadcast, reduce
#   --only LIST         of shm2, shm16 (2 or 16 ranks, or any number; shared memory), tcp2, tcp4 (over the loopback interface)
#   --sizes LIST        bytes of the larger buffer, such as 8,4K,2M; by default 8 to 16M, for more than 2 ranks to 2M
#   --rounds N          so many rounds
#   --archive FILE      peers and loops of `scripts/peers.sh archive`: neither a compiler nor `make` is needed (or BENCH_PEERS_ARCHIVE=FILE)
#
# Else it needs what `make` has built. Peers are those in $PEERS (by default $BUILD/peers, where `scripts/peers.sh get` puts the
# newest of PyPI), and Debian's for those that are not there. A peer that is nowhere is left out.
set -u

cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PEERS=${PEERS:-$BUILD/peers}
out=$BUILD/bench
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)

rounds=10 milliseconds=50 budget=1740 only="" sizes="" collectives="" archive=${BENCH_PEERS_ARCHIVE:-} in_turn="" candidates=""
least_rounds=3 # so many must fit into --minutes
run_limit=90 # seconds; a run takes three or four
cpus=$(nproc)

say() { echo "bench-peers: $*" >&2; }
die() { say "$*"; exit 1; }

read_options() {
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) rounds=3 milliseconds=10 budget=330 ;;
        --minutes) read_minutes "${2:?"--minutes needs a number"}"; shift ;;
        --collective) collectives=${2:?"--collective needs a list of names"}; shift ;;
        --only) only=${2:?"--only needs a list such as shm2,shm16,tcp2"}; shift ;;
        --sizes) sizes=${2:?"--sizes needs a list such as 8,4K,2M"}; shift ;;
        --rounds) rounds=${2:?"--rounds needs a number"}; shift ;;
        --candidates) candidates=yes ;;
        --archive) archive=${2:?"--archive needs the name of a file"}; shift ;;
        *) sed -n 's/^# \{0,1\}//; 4,21p' "$0" >&2; exit 2 ;;
        esac
        shift
    done
    [[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds $rounds: a number from 1 up is needed"
    set_defaults
    local c
    for c in ${only//,/ }; do
        [[ $c =~ ^(shm|tcp)([2-9]|[1-5][0-9]|6[0-4])$ ]] || die "--only $c: shm2 to shm64 and tcp2 to tcp64 are known"
    done
}

read_minutes() {
    [[ $1 =~ ^[1-9][0-9]*$ ]] || die "--minutes $1: a number from 1 up is needed"
    rounds=100 milliseconds=15 budget=$(($1 * 60 - 12)) in_turn=yes run_limit=40
}

cases_that_fit() {
    local n cases=shm2
    for n in 4 8 16; do
        [ "$n" -gt "$cpus" ] || cases+=,shm$n
    done
    echo "$cases"
}

set_defaults() {
    [ "$cpus" -lt 8 ] || candidates=yes
    [ "$rounds" -ge "$least_rounds" ] || least_rounds=$rounds
    if [ -n "$in_turn" ]; then
        : "${collectives:=allreduce,allgather,reducescatter,alltoall,broadcast}" "${sizes:=8,4K,64K,1M,16M}"
        : "${only:=$(cases_that_fit)}"
    fi
    : "${collectives:=allreduce,allgather,reducescatter,alltoall,broadcast,reduce}" "${only:=shm2,shm4,tcp2,tcp4}"
}

# ---------------------------------------------------------------------------------------------------------------- build

libraries=() # those that are here
loops=$out   # where their loops are

# The folder of a peer that came from PyPI; nothing for Debian's.
home_of() { [ ! -d "$PEERS/$1" ] || echo "$PEERS/$1"; }

unpack_archive() {
    local library
    [ -e "$archive" ] || die "--archive $archive: there is no such file; scripts/peers.sh archive makes it"
    tar -C "$scratch" -xf "$archive" || die "--archive $archive: cannot be unpacked"
    PEERS=$scratch/peers loops=$scratch/peers/loops
    unset LD_LIBRARY_PATH LD_PRELOAD # each finds its own libraries
    for library in limit collet openmpi mpich impi oneccl; do
        [ ! -x "$loops/${library}_loop" ] || libraries+=("$library")
    done
    [ ${#libraries[@]} -gt 0 ] || die "--archive $archive: it has no loops; was it made by scripts/peers.sh archive?"
}

build() {
    local cc=${CC:-gcc} cxx=${CXX:-g++} common=() name
    local flags=(-O2 -g -Wall -Wextra -pthread -Ibench -Iinclude -Isrc)
    for name in bench/loop bench/board src/layers/tuner/on_cpus src/layers/tuner/line_probe; do
        "$cc" -std=gnu11 "${flags[@]}" -c "$name.c" -o "$out/${name##*/}.o" || exit 1
        common+=("$out/${name##*/}.o")
    done
    [ -e "$BUILD/lib/libcollet.a" ] || die "$BUILD/lib/libcollet.a is not there: run make first"
    # shellcheck disable=SC2046 # a list of words
    "$cc" -std=gnu11 "${flags[@]}" bench/collet_loop.c "${common[@]}" $(make -s BUILD="$BUILD" static-link) \
        -o "$out/collet_loop" || exit 1
    "$cc" -std=gnu11 "${flags[@]}" bench/limit_loop.c "${common[@]}" -lm -o "$out/limit_loop" || exit 1
    BUILD=$BUILD scripts/peers.sh candidates >"$out/candidates" || exit 1
    libraries=(limit collet)
    build_mpi openmpi "Open MPI" "openmpi-bin libopenmpi-dev"
    build_mpi mpich MPICH "mpich libmpich-dev"
    [ -z "$(home_of impi)" ] || build_mpi impi "Intel MPI" ""
    [ -z "$(home_of impi)" ] || [ -z "$(home_of oneccl)" ] || build_oneccl
    build_peer gloo Gloo "libgloo-dev g++" "$cxx" \
        "$cxx" -std=c++17 "${flags[@]}" bench/gloo_loop.cc "${common[@]}" -lgloo -lm
}

# build_mpi library name packages: with what came from PyPI, else with Debian's wrapper of the compiler.
build_mpi() {
    local library=$1 home compiler=(mpicc."$1") runner=mpirun.$1
    home=$(home_of "$library")
    if [ -n "$home" ]; then
        home=$(cd "$home" && pwd)
        compiler=("$cc" "-I$home/include" "-L$home/lib" "-Wl,-rpath,$home/lib" ) runner=$home/bin/mpirun
    fi
    build_peer "$library" "$2" "$3" "$runner" "${compiler[@]}" -std=gnu11 "${flags[@]}" bench/mpi_loop.c "${common[@]}" \
        ${home:+-lmpi} -lm
}

# Intel MPI starts its ranks.
build_oneccl() {
    local home
    home=$(cd "$PEERS/oneccl" && pwd)
    build_peer oneccl oneCCL "" "$(home_of impi)/bin/mpirun" "$cxx" -std=c++17 "${flags[@]}" "-I$home/include" "-L$home/lib" \
        "-Wl,-rpath,$home/lib" bench/oneccl_loop.cc "${common[@]}" -lccl -lm
}

# build_peer library name packages runner compiler arguments...
build_peer() {
    local library=$1 name=$2 packages=$3 runner=$4
    shift 4
    if ! command -v "$runner" >/dev/null || ! command -v "$1" >/dev/null; then
        say "$name is left out: no $runner or $1 (Debian packages: $packages; or scripts/peers.sh get)"
    elif ! "$@" -o "$out/${library}_loop" 2>"$out/${library}_build.log"; then
        say "$name is left out: its loop does not compile (Debian packages: $packages); see $out/${library}_build.log"
    else
        libraries+=("$library")
    fi
}

# ------------------------------------------------------------------------------------------------- ways to run each one

ranks_of() { echo "${1//[a-z]/}"; }

sizes_of() {
    if [ -n "$sizes" ]; then
        echo "$sizes"
    elif [ "$(ranks_of "$1")" -gt 2 ]; then
        echo 8,512,4K,32K,256K,2M
    else
        echo 8,512,4K,32K,256K,2M,16M
    fi
}

# Has this Open MPI the component for many ranks of a host? By itself it does not choose it.
has_xhc() { [ -n "$(home_of openmpi)" ] && grep -qs mca_coll_xhc_component "$(home_of openmpi)"/lib/libmpi.so* "$(home_of openmpi)"/lib/openmpi/*; }

# ways case library: the first is the library's default. Open MPI binds two ranks by itself, more it does not. Intel MPI binds all.
ways() {
    case $2:$1 in
    limit:*) echo default push ;;
    collet:*) echo default bound registered ;;
    openmpi:shm2) echo default unbound copying "$(has_xhc && echo xhc)" ;;
    openmpi:shm*) echo default bound copying "$(has_xhc && echo xhc)" ;;
    openmpi:tcp2) echo default unbound ;;
    impi:shm* | oneccl:shm*) echo default unbound ;;
    impi:tcp* | oneccl:tcp*) ;;  # its package has shared memory alone
    mpich:tcp[3-9]* | mpich:tcp1*) echo default ;; # its ranks do not yield: a call on 2 CPUs takes tens of milliseconds
    gloo:shm*) ;;                # it has TCP alone
    *) echo default bound ;;
    esac
}

# Candidate k is the k-th algorithm of each collective: with how many is each tried once?
ncandidates() { cut -d ' ' -f 1 "$loops/candidates" 2>/dev/null | sort | uniq -c | awk '{ most = $1 > most ? $1 : most } END { print most + 0 }'; }

# The algorithms of candidate k, as COLLET_ALGO takes them: "allreduce:ring,broadcast:chain"; only of collectives that are measured.
algorithms_of() {
    awk -v wanted="${1#candidate}" -v measured=",$collectives," '
        index(measured, "," $1 ",") && ++k[$1] == wanted { printf "%s%s:%s", comma, $1, $2; comma = "," }' "$loops/candidates"
}

# A third of the candidates in each round.
candidates_of_round() {
    local all third k
    all=$(ncandidates)
    third=$(((all + 2) / 3))
    for ((k = 0; k < third; k++)); do
        echo "candidate$(((($1 - 1) * third + k) % all + 1))"
    done
}

# ways_of_round round case library: all, or with --minutes one of a peer's (its settings as they are), each in its turn.
ways_of_round() {
    local all
    read -r -a all <<<"$(ways "$2" "$3")"
    if [ "$3" = collet ] && [ -n "$candidates" ] && [[ $2 = shm* ]]; then
        # shellcheck disable=SC2046 # a list of words
        echo "${all[@]}" $(candidates_of_round "$1")
    elif [ -z "$in_turn" ] || [ ${#all[@]} -lt 2 ] || [ "$3" = collet ]; then
        echo "${all[@]}"
    else
        echo "${all[($1 + 1) % 2]}"
    fi
}

# Each sets `command` for one case and way. Bound: every rank has one CPU, counted round and round. Registered: buffers are
# collet's. Copying: bound, and Open MPI copies through shared memory also where one process could read the other's.
# Candidate: bound, with one algorithm. Ranks of the limit are bound: two on one CPU would find all in its cache.
limit_command() {
    command=("$loops/limit_loop" -p -n "$(ranks_of "$1")")
    [ "$2" = default ] || command+=(-w)
}

collet_command() {
    command=(env)
    case $1 in tcp*) command+=(COLLET_TRANSPORT=tcp) ;; esac
    case $2 in candidate*) command+=("COLLET_ALGO=$(algorithms_of "$2")") ;; esac
    command+=("$loops/collet_loop" -n "$(ranks_of "$1")")
    case $2 in
    bound | candidate*) command+=(-p) ;;
    registered) command+=(-R) ;;
    esac
}

openmpi_command() {
    local home single_copy=(--mca btl_vader_single_copy_mechanism none)
    home=$(home_of openmpi)
    command=(mpirun.openmpi)
    if [ -n "$home" ]; then
        single_copy=(--mca smsc "^cma,xpmem,knem")
        command=(env "OPAL_PREFIX=$home" "HOME=${HOME:-/tmp}" "$home/bin/mpirun")
    fi
    command+=(-n "$(ranks_of "$1")")
    [ "$(ranks_of "$1")" -le "$cpus" ] || command+=(--oversubscribe)
    case $2 in
    unbound) command+=(--bind-to none) ;;
    bound | copying | xhc) command+=(--bind-to core:overload-allowed) ;;
    esac
    [ "$2" != xhc ] || command+=(--mca coll_xhc_priority 40)
    if [ "$2" != default ] && [ "$(ranks_of "$1")" -gt "$cpus" ]; then
        command+=(--mca mpi_yield_when_idle 1)
    fi
    [ "$2" != copying ] || command+=("${single_copy[@]}")
    case $1 in tcp*) command+=(--mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include lo) ;; esac
    command+=("$loops/openmpi_loop" -b "$scratch/board")
}

mpich_command() {
    local home over_lo=(-env UCX_TLS "tcp,self" -env UCX_NET_DEVICES lo)
    home=$(home_of mpich)
    command=(mpirun.mpich)
    if [ -n "$home" ]; then # its UCX does not take the loopback interface
        over_lo=(-env MPIR_CVAR_CH4_NETMOD ofi -env FI_PROVIDER tcp -env FI_TCP_IFACE lo)
        command=("$home/bin/mpirun")
    fi
    command+=(-n "$(ranks_of "$1")")
    [ "$2" = default ] || command+=(-bind-to core)
    case $1 in tcp*) command+=(-env MPIR_CVAR_NOLOCAL 1 "${over_lo[@]}") ;; esac
    command+=("$loops/mpich_loop" -b "$scratch/board")
}

impi_command() {
    local home
    home=$(home_of impi)
    command=(env "I_MPI_ROOT=$home" I_MPI_FABRICS=shm "PATH=$home/bin:$PATH")
    [ "$2" != unbound ] || command+=(I_MPI_PIN=0)
    command+=("$home/bin/mpirun" -n "$(ranks_of "$1")" "$loops/${3:-impi}_loop" -b "$scratch/board")
}

# It looks for Intel MPI's library by itself.
oneccl_command() {
    impi_command "$1" "$2" oneccl
    command=(env "LD_LIBRARY_PATH=$(home_of impi)/lib" "${command[@]}")
}

gloo_command() {
    command=("$loops/gloo_loop" -n "$(ranks_of "$1")")
    [ "$2" = default ] || command+=(-p)
}

# ----------------------------------------------------------------------------------------------------------------- runs

declare -A failures=() # of "case library way"

# What a run measures: of a candidate, the collectives that have so many algorithms.
collectives_of() {
    case $1 in
    candidate*) algorithms_of "$1" | tr ',' '\n' | cut -d : -f 1 | paste -sd, ;;
    *) echo "$collectives" ;;
    esac
}

# run_once round case library way: adds its samples to those of all runs.
run_once() {
    local round=$1 case=$2 library=$3 way=$4 command status limit=$run_limit left=$((budget - SECONDS))
    [ -z "$in_turn" ] || [ "$left" -ge "$limit" ] || limit=$((left > 1 ? left : 1))
    [ "${failures[$case $library $way]:-0}" -lt 2 ] || return 0 # twice is enough
    [ -n "$(collectives_of "$way")" ] || return 0
    "${library}_command" "$case" "$way"
    rm -f "$scratch/board" "$scratch/samples"
    timeout -k 5 "$limit" "${command[@]}" -c "$(collectives_of "$way")" -s "$(sizes_of "$case")" -t "$milliseconds" \
        </dev/null >"$scratch/samples" 2>"$scratch/errors" &
    running=$!
    wait "$running"
    status=$?
    running=
    if [ "$status" = 124 ] && [ "$limit" -lt "$run_limit" ]; then
        say "$case $library $way is cut off: the time is up"
    elif [ "$status" != 0 ]; then
        failures[$case $library $way]=$((${failures[$case $library $way]:-0} + 1))
        [ "$status" != 124 ] || { status="none after $run_limit s" failures[$case $library $way]=2; }
        say "$case $library $way failed, exit status $status:"
        tail -n 3 "$scratch/errors" >&2
    fi
    sed -n "s/^sample /round=$round case=$case ranks=$(ranks_of "$case") library=$library way=$way /p" \
        "$scratch/samples" >>"$out/samples.txt"
}

# On a terminal one line that changes; in a log of --minutes a line for each run, so that it is seen to be alive.
progress() {
    if [ -t 2 ]; then
        printf '\rround %d of %d: %-30s' "$1" "$rounds" "$2" >&2
    elif [ -n "$in_turn" ]; then
        say "$SECONDS s: round $1, $2"
    fi
}

run_round() {
    local round=$1 case library way
    for case in ${only//,/ }; do
        for library in "${libraries[@]}"; do
            for way in $(ways_of_round "$round" "$case" "$library"); do
                [ "$SECONDS" -lt "$budget" ] || return 0
                progress "$round" "$case $library $way"
                run_once "$round" "$case" "$library" "$way"
            done
        done
    done
}

# So many runs are in a round.
runs_of_round() {
    local case library runs=0
    for case in ${only//,/ }; do
        for library in "${libraries[@]}"; do
            # shellcheck disable=SC2046 # a list of words
            set -- $(ways_of_round 1 "$case" "$library")
            runs=$((runs + $#))
        done
    done
    echo $runs
}

# thin_sizes k: every k-th size, the first and the last always.
thin_sizes() {
    local all i thinned=
    IFS=, read -r -a all <<<"$sizes"
    for ((i = 0; i < ${#all[@]} - 1; i += $1)); do
        thinned+=${all[i]},
    done
    sizes=$thinned${all[-1]}
}

# How long a run takes on this machine is seen at collet's own on the most ranks; others take about as long, on fewer ranks less.
fit_into_minutes() {
    local begin=${EPOCHREALTIME/./} most=shm2 case needed
    for case in ${only//,/ }; do
        [ "$(ranks_of "$case")" -lt "$(ranks_of "$most")" ] || most=$case
    done
    run_once 0 "$most" collet default
    needed=$((least_rounds * $(runs_of_round) * (${EPOCHREALTIME/./} - begin) / 1000000))
    say "$least_rounds rounds of $(runs_of_round) runs take up to $needed s"
    [ "$needed" -le $((budget - SECONDS)) ] || {
        thin_sizes $(((needed + budget - SECONDS - 1) / (budget - SECONDS)))
        say "so the sizes are only $sizes"
    }
}

# CPU time in ticks: of all programs, and of this one with the runs that it started and that have ended.
ticks_of_all() { sed -n 's/^cpu  *//p' /proc/stat | { read -r user nice system _ && echo $((user + nice + system)); }; }
ticks_of_ours() {
    local fields
    read -r -a fields <<<"$(sed 's/.*) //' "/proc/$$/stat")"
    echo $((fields[11] + fields[12] + fields[13] + fields[14]))
}

foreign_percent=0 # of all CPUs' time, used by other programs during the runs
rounds_done=0

run_all() {
    local round longest=0 begin started=$SECONDS all ours
    all=$(ticks_of_all) ours=$(ticks_of_ours)
    [ -z "$in_turn" ] || fit_into_minutes
    : >"$out/samples.txt"
    for ((round = 1; round <= rounds; round++)); do
        begin=$SECONDS
        run_round "$round"
        [ "$SECONDS" -ge "$budget" ] || rounds_done=$round
        [ $((SECONDS - begin)) -le "$longest" ] || longest=$((SECONDS - begin))
        [ ! -t 2 ] || printf '\r%60s\r' '' >&2
        say "round $round of $rounds took $((SECONDS - begin)) s"
        if [ "$round" -lt "$rounds" ] && [ $((SECONDS + longest)) -gt "$budget" ]; then
            say "stopping here: another round could pass the limit of $budget s"
            break
        fi
    done
    local foreign=$(($(ticks_of_all) - all - $(ticks_of_ours) + ours))
    local total=$(((SECONDS - started) * cpus * $(getconf CLK_TCK)))
    [ "$foreign" -le 0 ] || [ "$total" -le 0 ] || foreign_percent=$((100 * foreign / total))
}

# ---------------------------------------------------------------------------------------------------------------- table

facts() {
    local model governor
    model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)
    echo "$(date -u +%F), ${model:-$(uname -m)}, $cpus CPUs${governor:+, governor $governor}, Linux $(uname -r)"
    echo "collet $(collet_version)$(versions)"
    [ "$rounds_done" -ge 3 ] || echo "FEW ROUNDS: $rounds_done whole ones, so single rows may be outliers"
    [ "$foreign_percent" -lt 5 ] || echo "DISTURBED: other programs used $foreign_percent % of the CPUs meanwhile"
}

collet_version() {
    cat "$loops/collet_version" 2>/dev/null || sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.
}

version_of() {
    cat "$(home_of "$1")/VERSION" 2>/dev/null || case $1 in
    openmpi) mpirun.openmpi --version | sed -n '1s/.* //p' ;;
    mpich) mpirun.mpich --version | sed -n 's/^ *Version: *//p' ;;
    gloo) dpkg-query -W -f '${Version}' libgloo-dev 2>/dev/null || echo 'of unknown version' ;;
    esac
}

versions() {
    local library
    for library in "${libraries[@]}"; do
        case $library in
        openmpi) echo -n ", Open MPI $(version_of openmpi)" ;;
        mpich) echo -n ", MPICH $(version_of mpich)" ;;
        impi) echo -n ", Intel MPI $(version_of impi)" ;;
        oneccl) echo -n ", oneCCL $(version_of oneccl)" ;;
        gloo) echo -n ", Gloo $(version_of gloo)" ;;
        esac
    done
}

running=
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; exit 130' INT TERM
# Open MPI asks whoever is root, as in a container, to say that this is meant.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

read_options "$@"
command -v python3 >/dev/null || die "the table needs python3 (Debian package: python3)"
if [ -n "$archive" ]; then
    unpack_archive
else
    build
fi
"$loops/collet_loop" -n 1 -t 1 -c "$collectives" -s "${sizes:-8}" >"$scratch/alone" ||
    die "collet, --collective $collectives or --sizes $sizes does not work"
say "takes up to $((budget / 60 + 1)) minutes, in which the machine should do nothing else"
run_all
facts >"$out/facts.txt"
python3 bench/table.py "$out/samples.txt" "$out/facts.txt" --markdown "$out/table.md" ${in_turn:+--overview} || exit 1
say "Markdown: $out/table.md, all samples: $out/samples.txt"
for failed in "${!failures[@]}"; do
    case $failed in *" collet "*) die "collet failed; see above" ;; esac
done
