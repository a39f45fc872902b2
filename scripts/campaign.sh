#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# campaign.sh NAME COMMAND UNIT…: does what takes too long for one sitting, unit by unit. The command finds its unit in $UNIT. A campaign
# may be stopped at any time. The next call goes on with the units that have no line in build-campaigns/NAME.txt yet:
#
#      unit   time   verdict   when               commit     what it said last
#      1      34 s   ok        2026-11-27 08:41   39b6188c   100 passed, 0 failed
#      101    36 s   FAIL      2026-11-27 08:42   39b6188c   99 passed, 1 failed       its output: build-campaigns/NAME.101.log
#      201    ◀── next
#
#    MINUTES=60       a sitting: no unit begins after so many minutes
#    RETRY=1          units that failed are done again
#    UNITS='1 101'    these alone, done or not
#    AT_ONCE=2        so many at the same time
#
# campaign.sh --table NAME…: how far these have come. Delete the .txt, and a campaign begins anew.
# Exit status: 1 if a unit has failed, 130 if it was stopped, 2 if it runs already.
set -u -m # each unit is a process group, so it can be stopped with all that it has begun
folder=${CAMPAIGN_FOLDER:-build-campaigns}

# The last line of a unit counts.
verdict_of() { awk -F'\t' -v unit="$1" '$1 == unit { verdict = $3 } END { print verdict }' "$folder/$name.txt"; }

is_due() {
    [ -z "${UNITS:-}" ] || return 0
    case $(verdict_of "$1") in
    '') return 0 ;;
    FAIL) [ "${RETRY:-0}" = 1 ] ;;
    *) return 1 ;;
    esac
}

# In a process of its own. If that is stopped, there is no line.
do_unit() {
    local begun=$SECONDS log=$folder/$name.${1//\//-}.log status verdict
    UNIT=$1 bash -c "$command" >"$log" 2>&1 </dev/null 9<&-
    status=$?
    case $status in 0) verdict=ok ;; 77) verdict=skip ;; *) verdict=FAIL ;; esac
    printf '%s\t%d s\t%s\t%s\t%s\t%s\n' "$1" $((SECONDS - begun)) $verdict "$(date '+%F %H:%M')" "$commit" \
        "$(grep . "$log" | tail -n 1 | cut -c 1-100)" | tee -a "$folder/$name.txt"
    [ $verdict = FAIL ] || rm "$log"
}

stop() {
    trap '' INT TERM HUP
    echo "$name: stopped; the same command goes on"
    exec 2>/dev/null # bash tells of each job that ends so
    for group in $(jobs -p); do kill -TERM -- "-$group"; done
    wait
    exit 130
}

sit() {
    for unit in ${UNITS:-"$@"}; do
        is_due "$unit" || continue
        while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-1}" ]; do wait -n; done
        [ -z "${MINUTES:-}" ] || [ $SECONDS -lt $((MINUTES * 60)) ] || break
        do_unit "$unit" &
    done
    wait
}

# A row of the table: of the units that the campaign has.
row() {
    touch "$folder/$1.units" "$folder/$1.txt"
    awk -F'\t' -v name="$1" '
        FILENAME ~ /units$/ { total++; known[$1] = 1; next }
        !($1 in known) { next }
        { verdict[$1] = $3; seconds += $2; first = first == "" ? $4 : first; last = $4; commits += !seen[$5]++ }
        END {
            for (unit in verdict) { done++; if (verdict[unit] == "FAIL") { bad++; names = names " " unit } }
            printf "%-11s %5d of %-6s %6d %8d   %-16s   %-16s %8d%s\n", name, done, total ? total : "?", bad, seconds / 60, first, last,
                commits, bad ? "   failed:" names : ""
            exit bad > 0
        }' "$folder/$1.units" "$folder/$1.txt"
}
head='campaign     done of units  failed  minutes   first              last             commits'

mkdir -p "$folder"
if [ "$1" = --table ]; then
    shift
    status=0
    echo "$head"
    for name; do row "$name" || status=1; done
    exit $status
fi
name=$1 command=$2
shift 2
commit=$(git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
touch "$folder/$name.txt"
exec 9<"$folder/$name.txt"
flock -n 9 || { echo "campaign.sh: $name is running already" >&2; exit 2; }
printf '%s\n' "$@" >"$folder/$name.units"
trap stop INT TERM HUP
sit "$@"
echo "$head"
row "$name"
