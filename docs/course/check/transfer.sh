#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The verdict of lab 9: each slow transfer is measured as the lab has it, and as the reader's line says. What counts is the line, since times
# are those of this machine, now.
#   transfer.sh PROGRAM WAYS     CAUSE=3: the third one alone
program=$1 ways=$2
slow=$(dirname "$0")/../lab9/ways
slow_link=$BUILD/bench/slow_link

# number, word that mends it, the cause
causes="1 gap=0 many small pieces: those that touch are merged into one
2 call=transfer a call for each block, and a message for each call
3 wait=end each block waits until the one before is there
4 register=once the window is registered for each transfer, and all ranks meet for that
5 prepare=once the list is checked, sorted and merged for each transfer
6 memory=shared memory that the other process cannot map: the bytes are copied twice
7 transport=any tcp, between ranks that share memory
8 nic=fast the wrong network: the slow one takes its share
9 compute=during the writer computes only when all is there
10 owner=free the owner is slow: its CPU has other work, and collet-rma waits for it"

line_of() { sed -nE "s/^$2 +//p" "$1" | head -n 1; }

# The milliseconds of a line, or "-" if this machine cannot make it.
milliseconds() {
    local word words=() command=()
    for word in $1; do
        case $word in
        transport=tcp) command+=("COLLET_TRANSPORT=self,tcp") ;;
        transport=any) ;;
        nic=fast) command+=(COLLET_SOCKET_IFNAME=fast "$slow_link" --fast-too) ;;
        nic=both) command+=("$slow_link" --fast-too) ;;
        *) words+=("$word") ;;
        esac
    done
    if [[ ${command[*]} == *slow_link* ]] && ! "$slow_link" --fast-too true >/dev/null 2>&1; then
        echo -
        return
    fi
    env "${command[@]}" timeout 100 "$program" "${words[@]}"
}

# The line may differ from the lab's in that word alone.
only_mended() { # slow line, the reader's, word
    local key=${3%%=*}
    # shellcheck disable=SC2086 # lists of words
    diff <(printf '%s\n' $1 | grep -v "^$key=" | sort) <(printf '%s\n' $2 | grep -v "^$key=" | sort) >/dev/null
}

not_yet() {
    printf '\n%s\n\nnot yet. HINT=1 gives a hint.\n' "$1"
    exit 1
}

printf 'lab 9: ten slow transfers\n\n%26s %12s %12s\n' '' 'slow, ms' 'yours, ms'
unmended=""
while read -r number word cause; do
    [ -z "${CAUSE:-}" ] || [ "$CAUSE" = "$number" ] || continue
    line=$(line_of "$slow" "$number") yours=$(line_of "$ways" "$number")
    [ -n "$yours" ] || not_yet "line $number is missing"
    before=$(milliseconds "$line") || not_yet "line $number does not run: $line"
    after=$before
    if [ "$yours" != "$line" ]; then
        after=$(milliseconds "$yours") || not_yet "line $number does not run: $yours"
    fi
    printf '%2d  %-22s %12s %12s' "$number" "${word%%=*}" "$before" "$after"
    if [[ " $yours " == *" $word "* ]] && only_mended "$line" "$yours" "$word"; then
        printf '   %s\n' "$cause"
    else
        unmended+=" $number"
        printf '\n'
    fi
done <<<"$causes"
[ -z "$unmended" ] || not_yet "not mended by one word:$unmended"
printf '\npassed\n'
