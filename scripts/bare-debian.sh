#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bare-debian.sh [--cuda]: do README's first commands work where nothing is installed? Makes a Debian 12 with no more than
# apt (debootstrap --variant=minbase) in a temporary folder, copies the tracked files of this checkout there, and runs
# each line of README's first block in it.
#
#   ok    scripts/deps.sh && make demo    61 s
#   ok    make test                       402 s
#   2 passed, 0 failed
#
# --cuda shows the CUDA toolkit of this machine (/usr/local/cuda) to it. Needs root, debootstrap, git and a Debian mirror;
# without one of them it says so and exits with 77. BARE_COMMANDS="…" runs these lines instead of README's.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

skip() {
    echo "skipped: $*"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "making a Debian of its own needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
git rev-parse --git-dir >/dev/null 2>&1 || skip "this is no git checkout"
cuda=
[ "${1:-}" != --cuda ] || cuda=$(realpath -e /usr/local/cuda) || skip "/usr/local/cuda is not there"

root=$(mktemp -d)
chmod 755 "$root"
trap 'rm -rf --one-file-system "$root"' EXIT

mirror() {
    # shellcheck disable=SC2016 # $(REPO_URI) is apt's
    apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Codename: bookworm' 'Component: main' | head -n 1
}

readme_commands() { # the lines of the first block, less their comments
    awk '/^```/ { if (inside++) exit; next } inside { sub(/ +#.*/, ""); print }' README.md
}

# The mounts are those of one command and of nobody else. The network, proxies and certificates are this machine's.
inside() {
    # shellcheck disable=SC2016 # expanded inside
    unshare --mount --pid --fork --kill-child bash -c '
        mount -t proc proc "$0/proc" && mount -t tmpfs shm "$0/dev/shm" && mount -t devpts pts "$0/dev/pts" || exit
        if [ -n "$1" ]; then mount --bind "$1" "$0/usr/local/cuda" && mount -o remount,bind,ro "$0/usr/local/cuda" || exit; fi
        root=$0
        shift
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"' \
        "$root" "$cuda" ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        bash -c "cd /collet && $1" </dev/null
}

echo "a bare Debian 12 …"
from=$(mirror)
debootstrap --variant=minbase bookworm "$root" "${from:-http://deb.debian.org/debian}" >"$root.log" 2>&1 || {
    tail -n 3 "$root.log"
    rm -f "$root.log"
    skip "debootstrap cannot make one here"
}
rm -f "$root.log"
apt-config dump Acquire >"$root/etc/apt/apt.conf.d/99here"
mkdir -p "$root/collet" "$root/dev/shm" "$root/usr/local/cuda"
[ -n "$cuda" ] || rmdir "$root/usr/local/cuda"
changes=$(git stash create)
git archive "${changes:-HEAD}" | tar -x -C "$root/collet"

passed=0 failed=0
while read -r -u 9 line; do
    echo "=== $line"
    start=$SECONDS
    if inside "$line"; then
        verdict=ok passed=$((passed + 1))
    else
        verdict=FAIL failed=$((failed + 1))
    fi
    printf '%-4s  %s   %d s\n' $verdict "$line" $((SECONDS - start))
done 9< <(if [ -n "${BARE_COMMANDS:-}" ]; then echo "$BARE_COMMANDS"; else readme_commands; fi)
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
