# SPDX-License-Identifier: Apache-2.0
#
# For tests that are shell scripts: `check a_sentence command…` runs one case, `skipped why` says that one cannot be run,
# `finish` sums up for run-tests.sh.
# CASES='_on_8_gpus$' runs only those whose sentence matches.
# A case is silent where it passes; what the command prints is shown where it fails.

# A busy machine gets more time: for timeout also behind env, on another host, or in a function of another file.
patient=$PWD/scripts/patient.sh
PATH=$PWD/tests/common/patient:$PATH

passed=0
failed=0
skips=0

check() {
    local name=$1 output status
    [[ $name =~ ${CASES:-} ]] || return 0
    shift
    output=$("$@" 2>&1)
    status=$?
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        echo "ok    $name"
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
        echo "${output:-it said nothing, and ended with status $status}" | sed 's/^/      /'
    fi
}

skipped() {
    skips=$((skips + 1))
    echo "skip  $1"
}

finish() {
    echo "$passed passed, $failed failed$([ $skips = 0 ] || echo ", $skips skipped")"
    [ "$failed" = 0 ]
    exit
}
