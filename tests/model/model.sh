#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# model.sh broken FOLDER: checks it with what lies in the folder, as fifo/fifo.h, in the place of the file of src.
# model.sh [large]: checks slots (slots.c), loans (loans.c), the heap (heap.c), waking (wake.c) and one-sided operations
# (windows.c) in all interleavings, then breaks them in every way below and sees that each is noticed.
#
#    of each line of src/fifo that has        mutants
#    port_load_acquire                        the load does not acquire
#    port_store_release, port_store_fenced    the store does not release; there is no store
#    port_line_store                          there is no store
#    port_line_load                           it loads nothing: 0
#    __ATOMIC_ACQUIRE, _RELEASE, _SEQ_CST     it is relaxed
#    __atomic_fetch_add, __atomic_fetch_or    it changes nothing
#    SCOPED_LOCK                              there is no lock
#    and those of mutants.txt
#
# What only a GPU's lanes do is not run here: tests/layers/gpu/test_block.c does.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}/model
cc=${CC:-gcc}
internal=${BUILD:-build}/lib/libcollet-internal.a
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=gnu11 -D_GNU_SOURCE= -O1 -g -Wall -Wextra -U_FORTIFY_SOURCE -Itests/model)
checked=(-fsanitize=thread -Wno-tsan -Dmemcpy=model_memcpy -Dmemmove=model_memcpy -Dmemset=model_memset)
for call in mutex_lock mutex_unlock cond_wait cond_signal; do checked+=(-Dpthread_$call=model_$call); done
libraries=$(pkg-config --libs libsodium hwloc libxml-2.0)
mkdir -p "$build"

# The checker itself is compiled without hooks.
compile_checker() {
    local name
    for name in explore memory hooks; do
        $cc "${flags[@]}" -c tests/model/$name.c -o "$build/$name.o" || return 1
    done
}

# compile_checked PROGRAM SOURCE [FOLDER]: what lies in the folder stands for the file of that name in src. Rooms that the models
# neither have nor stand in for are not called; that of slots needs the library.
compile_checked() {
    local -a others=("$internal" $libraries -pthread -ldl -lm)
    [ "$2" = slots ] || others=(-no-pie -Wl,--unresolved-symbols=ignore-all)
    $cc "${flags[@]}" "${checked[@]}" ${3:+-I"$3"} -Isrc -Iinclude -c "tests/model/$2.c" -o "$1.o" &&
        $cc "$1.o" "$build"/{explore,memory,hooks}.o "${others[@]}" -o "$1"
}

# Loans of a few bytes have two parts. A heap of a few bytes has four grains, and its variables are the model's.
for_model() { # folder
    [ ! -f "$1/layers/memory/loan.c" ] || sed -i -E 's/^#define (NEAR|FAR|LEAST_FAR)_PART_BYTES .*/#define \1_PART_BYTES 8u/' "$1/layers/memory/loan.c"
    [ ! -f "$1/layers/memory/heap.c" ] || sed -i -e 's/^#define GRAIN_BYTES .*/#define GRAIN_BYTES 64u/' \
        -e '/^static pthread_mutex_t heap_lock/,/^static struct heap_view \*views;/d' "$1/layers/memory/heap.c"
}
copies_for_model() {
    mkdir -p "$build/small/layers/memory" && cp src/layers/memory/{loan,heap}.c "$build/small/layers/memory/" && for_model "$build/small"
}

# One line each: file, program of perl -0p, what it does. N: which of the lines with such a call.
mutants_of_accesses() {
    local file call n count
    for file in fifo/fifo.h fifo/proto_direct.h fifo/proto_ll.h fifo/proto_ll128.h layers/memory/loan.c layers/memory/heap.c \
        layers/windows/{onesided,send,receive}.c layers/windows/op.h; do
        for call in port_load_acquire port_store_release port_store_fenced port_line_store port_line_load \
            __ATOMIC_ACQUIRE __ATOMIC_RELEASE __ATOMIC_SEQ_CST __atomic_fetch_add __atomic_fetch_or SCOPED_LOCK; do
            count=$(host_part "src/$file" | grep -o "$call\b" | wc -l)
            for ((n = 1; n <= count; n++)); do
                case $call in
                port_load_acquire) echo "$file|$(nth $n $call port_line_load)|$call $n does not acquire" ;;
                port_store_release | port_store_fenced)
                    echo "$file|$(nth $n $call port_line_store)|$call $n does not release"
                    echo "$file|$(nth $n $call '(void)sizeof')|$call $n is left out"
                    ;;
                port_line_store) echo "$file|$(nth $n $call '(void)sizeof')|$call $n is left out" ;;
                port_line_load) echo "$file|$(nth $n $call '0 * (uint64_t)')|$call $n sees nothing" ;;
                __ATOMIC_*) echo "$file|$(nth $n $call __ATOMIC_RELAXED)|$call $n is relaxed" ;;
                __atomic_*) echo "$file|my \$n = 0; s/\\b$call\\([^,]*,/++\$n == $n ? \"\$& 0 * \" : \$&/ge|$call $n changes nothing" ;;
                SCOPED_LOCK) echo "$file|$(nth $n $call '(void)')|lock $n is not taken" ;;
                esac
            done
        done
    done
}

# A GPU's lanes come last in each file.
host_part() { sed '/---- lanes/,$d' "$1"; }
nth() { echo "my \$n = 0; s/\\b$2\\b/++\$n == $1 ? '$3' : \$&/ge"; }

mutants() {
    mutants_of_accesses
    sed -nE 's/^([a-z0-9_/.]+) \| (.*) \| ([^|]*)$/\1|\2|\3/p' tests/model/mutants.txt
}

# So that no access comes in without a mutant: each line with one must be changed by some mutant. Spared are what has no meaning but
# its time, a fence that pairs with none and a number that nobody reads; and the fence that is empty on a CPU.
accesses='__(atomic|sync)_|port_(load|store|fence|line|lines|word|flag)[a-z0-9_]*\(|SCOPED_LOCK'
spared='^fifo/fifo_place.c:.*(__atomic_thread_fence|gauged)|^kernels/interp.h:.*port_fence\(\)'
accessed_lines() { # on a CPU; port.h says what accesses are, lanes.h has those of a GPU
    local path
    for path in src/fifo/*.[ch] src/layers/memory/{loan,heap}.[ch] src/layers/windows/{onesided.c,send.c,receive.c,op.h} src/kernels/interp.h; do
        [[ $path =~ /(port|lanes)\.h$ ]] || host_part "$path" | grep -nE "$accesses" | sed "s|^|${path#src/}:|"
    done
}
changed_lines() {
    local file program what
    while IFS='|' read -r file program what; do
        perl -0pe "$program" "src/$file" |
            diff --old-line-format="$file:%dn:%L" --new-line-format= --unchanged-line-format= "src/$file" -
    done < <(mutants)
}
every_access_has_a_mutant() {
    local left
    left=$(accessed_lines | grep -vE "$spared" | grep -vxFf <(changed_lines))
    echo "without a mutant: $left"
    [ -z "$left" ] && [ "$(accessed_lines | wc -l)" -gt 30 ]
}

# The models that have that file. Of several, one must notice.
models_of() { # file
    case $1 in
    api/* | base/* | layers/streams/*) echo wake ;;
    layers/memory/loan.c | fifo/proto_direct.h) echo loans ;;
    layers/memory/heap.c) echo heap ;;
    layers/windows/*) echo windows ;;
    fifo/fifo.h) echo slots loans ;;
    *) echo slots ;;
    esac
}

is_noticed() { # number, file, program
    local folder=$work/$1 status model
    mkdir -p "$folder/$(dirname "$2")"
    perl -0pe "$3" "src/$2" >"$folder/$2" || return 1
    ! cmp -s "src/$2" "$folder/$2" || { echo "it changes nothing: $3"; return 1; }
    [[ $2 != fifo/@(fifo|proto_direct).h ]] || { mkdir -p "$folder/layers/memory" && cp "$build/small/layers/memory/loan.c" "$folder/layers/memory/"; }
    for_model "$folder"
    for model in $(models_of "$2"); do
        compile_checked "$folder/checked" "$model" "$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; return 1; }
        timeout 200 "$folder/checked" quick >"$folder/log"
        status=$?
        rm -f "$folder/checked"
        [ $status != 1 ] || return 0
    done
    echo "no scenario notices it (status $status)"
    return 1
}

# Each CPU has one in its hands.
try_mutants() {
    local number=0 file program what
    while IFS='|' read -r file program what; do
        number=$((number + 1))
        [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
        { is_noticed $number "$file" "$program" && touch "$work/$number.noticed"; } >"$work/$number.says" 2>&1 &
    done < <(mutants)
    wait
}
was_noticed() { cat "$work/$1.says" && [ -f "$work/$1.noticed" ]; }

check_mutants() {
    local number=0 file program what
    try_mutants
    while IFS='|' read -r file program what; do
        number=$((number + 1))
        check "noticed: $file: $what" was_noticed $number
    done < <(mutants)
}

# Exits with 1 if some scenario notices what is broken, and shows what goes wrong there; with 0 if none does.
check_broken() { # folder
    local name
    compile_checker && compile_checked "$work/slots" slots "$1" || exit 2
    name=$(timeout 120 "$work/slots" quick)
    case $? in
    0) exit 0 ;;
    1) "$work/slots" "$name" | grep -v '^ok' && exit 1 ;;
    esac
    exit 2
}

models="slots loans heap wake windows"
explore() { # program, large
    compile_checked "$build/$1" "$1" "$build/small" && "$build/$@" >"$work/$1.table"
}
# Prints the table of a program, and adds up its last line.
tell() { # program
    cat "$work/$1.table"
    if [[ $(tail -n 1 "$work/$1.table") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
}

[ "${1:-}" = broken ] && check_broken "$2"
compile_checker && copies_for_model || { echo "0 passed, 1 failed"; exit 1; }
for model in $models; do explore $model "$@" & done
wait
for model in $models; do tell $model; done
check every_access_has_a_mutant every_access_has_a_mutant
check_mutants
finish
