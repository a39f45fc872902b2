#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How much of a wide network does a broadcast fill? By turns, through the same bridge (bench/slow_link.c): as many sockets as there are CPUs,
# each with a thread that sends, as iperf does; and collet's broadcast of as many bytes between two ranks.
#   make bench-far; or, once it is built, bench-far.sh [rounds, 4] [MiB, 256] [delay there, and back, in ms, 25]
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
rounds=${1:-4} mib=${2:-256} delay=${3:-25}
bridge=("$build/bench/slow_link" --delay-ms "$delay")
"${bridge[@]}" true || { echo "two virtual hosts need network namespaces and /dev/net/tun"; exit 77; }

sender=$(mktemp)
trap 'rm -f "$sender"' EXIT
cat >"$sender" <<'END'
import os, socket, sys, threading, time

sockets, total = int(sys.argv[1]), int(sys.argv[2]) << 20
address, part, passes = ("10.77.9.2", 5201), total // sockets, 3
ends = []
if os.environ["RANK"] == "1":
    listener = socket.create_server(address, backlog=sockets)
    ends = [listener.accept()[0] for _ in range(sockets)]
else:
    while len(ends) < sockets:
        try:
            ends.append(socket.create_connection(address))
        except ConnectionRefusedError:
            time.sleep(0.05)

def send(end):
    data, left = memoryview(bytes(1 << 20)), part
    while left > 0:
        left -= end.send(data[: min(left, len(data))])
    end.recv(1)

def receive(end):
    data, left = memoryview(bytearray(1 << 20)), part
    while left > 0:
        left -= end.recv_into(data[: min(left, len(data))])
    end.send(b"x")

times = []
for _ in range(passes):
    begun = time.monotonic()
    threads = [threading.Thread(target=receive if os.environ["RANK"] == "1" else send, args=(end,)) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.append(time.monotonic() - begun)
if os.environ["RANK"] == "0":
    print(f"{total / 1e6 / min(times[1:]):.0f}")
END

# MB/s; the first of three passes fills the windows of TCP.
plain() { "${bridge[@]}" python3 "$sender" "$(nproc)" "$mib" 2>/dev/null | tail -n 1; }
collet() {
    "${bridge[@]}" "$build/bin/broadcast_perf" -b "${mib}M" -e "${mib}M" -w 1 -n 2 -c 0 2>/dev/null |
        awk '$1 ~ /^[0-9]+$/ { print int($1 / $6) }'
}

printf '%d MiB, %d ms there and back, %d CPUs, load %s\n' "$mib" $((2 * delay)) "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
printf 'round   plain sockets   collet\n'
for ((round = 1; round <= rounds; round++)); do
    a=$(plain) b=$(collet)
    printf '%5d   %8s MB/s   %s MB/s   %s\n' "$round" "$a" "$b" "$(awk "BEGIN { print $b / $a }")"
done
