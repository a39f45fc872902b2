#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# COLLET_TRACE, COLLET_RECORD, and the programs that read what they write.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

bin=${BUILD:-build}/bin
command -v python3 >/dev/null || { echo "python3 is not here"; exit 77; }
[ -x "$bin/all_reduce_perf" ] && [ -x "$bin/collet-sim" ] || { echo "programs are not built in $bin"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

perf() { # variables… -- arguments of a perf program with 3 processes
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    shift
    env "${variables[@]}" "$bin/all_reduce_perf" --procs 3 -n 3 -w 1 -c 0 "$@" >/dev/null
}

# It is JSON; the bars of a track follow each other or lie in each other; every message leaves in a step, and comes later, in
# another one; all ranks are there.
adds_up() { # file, ranks
    python3 - "$@" <<'END'
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
bars = [e for e in events if e["ph"] == "X"]
names = {e["pid"]: e["args"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
assert sorted(a["rank"] for a in names.values()) == list(range(int(sys.argv[2]))), names
tracks = [(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
assert len(tracks) == len(set(tracks)) and {(b["pid"], b["tid"]) for b in bars} <= set(tracks), tracks
assert {b["cat"] for b in bars} >= {"step"} and all(b["dur"] >= 0 and b["pid"] in names for b in bars)
tracks = collections.defaultdict(list)
for b in bars:
    tracks[b["pid"], b["tid"]].append((b["ts"], b["ts"] + b["dur"]))
for track, times in tracks.items():
    times.sort()
    assert all(a[1] <= b[0] + 1e-3 for a, b in zip(times, times[1:])), track
sent, got = ({e["id"]: e for e in events if e["ph"] == end} for end in "sf")
assert sent.keys() == got.keys() and len(sent) > 8
for name, e in sent.items():
    assert e["ts"] < got[name]["ts"], name
    for end in e, got[name]:
        assert any(a - 1e-3 <= end["ts"] <= b + 1e-3 for a, b in tracks[end["pid"], end["tid"]]), end
END
}

trace_adds_up() { # variables…
    local file=$work/trace.json
    rm -f "$file"
    perf COLLET_TRACE="$file" "$@" -- -b 64K -e 64K && adds_up "$file" 3 && [ "$(stat -c %a "$file")" = 600 ]
}

# The file of an earlier job is replaced.
old_traces_go() {
    local file=$work/old.json first second
    perf COLLET_TRACE="$file" -- -b 8 -e 8 && first=$(grep -c '"ph"' "$file") && touch -d '1 minute ago' "$file" &&
        perf COLLET_TRACE="$file" -- -b 8 -e 8 && second=$(grep -c '"name":"process_name"' "$file") && [ "$second" = 3 ] && [ "$first" -gt 3 ]
}

few_events_are_kept() {
    local file=$work/few.json
    perf COLLET_TRACE="$file" COLLET_TRACE_EVENTS=64 -- -b 64K -e 64K && python3 - "$file" <<'END'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
steps = [e for e in events if e.get("cat") == "step"]
assert 64 <= len(steps) <= 3 * 64, len(steps)
END
}

# Of small calls that are many one in eight has bars, the same ones on all ranks, or as many as are asked for.
many_calls_are_sampled() {
    local file=$work/many.json every
    for every in 8 1; do
        rm -f "$file"
        perf COLLET_TRACE="$file" COLLET_TRACE_EVERY=$every -- -b 8 -e 8 -n 300 && adds_up "$file" 3 && python3 - "$file" $every <<'END' || return 1
import collections, json, sys
events, every = json.load(open(sys.argv[1]))["traceEvents"], int(sys.argv[2])
ranks = collections.defaultdict(set)
for e in events:
    if e.get("cat") == "step":
        ranks[e["args"]["seq"]].add(e["pid"])
last = max(ranks)
assert last > 300 and all(len(those) == 3 for those in ranks.values()), ranks
assert sorted(ranks) == [n for n in range(1, last + 1) if n <= 256 or n % every == 0], sorted(ranks)
END
    done
}

overlay_shows_both() {
    local file=$work/ring.json text
    rm -f "$file"
    "$bin/collet-sim" --synthetic "3 cpu" --ranks 3 --sizes 64K --algo ring --timeline "$work/predicted.json" >/dev/null &&
        perf COLLET_ALGO=ring COLLET_TRACE="$file" -- -b 64K -e 64K &&
        text=$("$bin/collet-trace" --overlay "$work/predicted.json" --output "$work/both.json" "$file") || return 1
    echo "$text"
    grep -q '^# measured: ' <<<"$text" && grep -q '^# predicted: ' <<<"$text" && [ "$(grep -c 'the slowest is rank [0-2]: ' <<<"$text")" = 2 ] &&
        python3 - "$work/both.json" <<'END'
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
assert sorted(name.split(" (")[0] for name in names.values()) == [f"{what}: rank {rank}" for what in ("measured", "predicted") for rank in range(3)]
critical = {e["pid"] >= 1000000 for e in events if e.get("args", {}).get("critical")}
assert critical == {False, True} and min(e["ts"] for e in events if e["ph"] == "X") == 0
assert all(n == 2 for n in collections.Counter(e["id"] for e in events if e["ph"] in "sf").values())
END
}

record_is_complete() {
    perf COLLET_RECORD="$work/record.jsonl" -- -b 4K -e 64K -f 16 && python3 - "$work/record.jsonl" <<'END'
import collections, json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
calls = collections.Counter((l["communicator"], l["seq"]) for l in lines if l["collective"] == "allreduce")
assert len(calls) > 5 and set(calls.values()) == {3}, calls
for l in lines:
    assert l["began_ns"] <= l["ended_ns"] and l["state"] == "done" and l["transport"] and l["algorithm"] and l["channels"] >= 1, l
assert {4096, 65536} <= {l["bytes"] for l in lines}
END
}

report_has_tables_and_plots() {
    local text plots=()
    command -v gnuplot >/dev/null && plots=(--plots "$work/plots")
    text=$("$bin/collet-report" "${plots[@]}" "$work/record.jsonl") || return 1
    echo "$text"
    grep -qE '^ +allreduce +65536 +[a-z]+ ' <<<"$text" && grep -q 'last to enter' <<<"$text" || return 1
    [ ${#plots[@]} = 0 ] || [ "$(grep -l '<svg' "$work"/plots/{sizes,times,stragglers}.svg | wc -l)" = 3 ]
}

# A nameless communicator of two ranks that are up and have both called something: other programs of the machine may have
# communicators too.
pair_of() {
    awk -F'"' '$4 == "" && /^collet_rank_up/ { ranks[$2]++; up[$2] += / 1$/ }
        $4 == "" && /^collet_calls_total/ { called[$2] += / [1-9]/ }
        END { for (c in ranks) if (ranks[c] == 2 && up[c] == 2 && called[c] == 2) { print c; exit } }'
}
# A job of two is asked over HTTP while it runs; each line is a comment or a value, and both ranks are there.
metrics_are_served() {
    local exporter job page port communicator deadline=$((SECONDS + 120))
    "$bin/collet-status" --serve 0 >"$work/exporter" &
    exporter=$!
    "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1000000000 -c 0 >/dev/null 2>&1 &
    job=$!
    while [ $SECONDS -lt $deadline ]; do
        port=$(sed -nE 's|.*:([0-9]+)/metrics|\1|p' "$work/exporter")
        page=$([ -n "$port" ] && exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3)
        communicator=$(pair_of <<<"$page")
        [ -n "$communicator" ] && break
        sleep 0.2
    done
    kill $exporter $job
    wait $exporter $job 2>/dev/null
    [ "$(grep -c "^collet_rank_up{communicator=\"$communicator\",name=\"\",rank=\"[01]\",host=\"[^\"]*\"} 1" <<<"$page")" = 2 ] &&
        ! sed '1,/^\r*$/d' <<<"$page" | grep -vE '^(# (HELP|TYPE) collet_[a-z_]+ .+|collet_[a-z_]+\{.*\} [0-9.e+-]+)$' || { echo "$page"; return 1; }
    python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["panels"]) == 4' packaging/grafana.json
}

# With COLLET_METRICS two processes show a rank each, at a port of its own of this host alone. Clients that say nothing, say
# nonsense, say too much or leave at once get nothing, and calls go on meanwhile.
processes_show_their_ranks() {
    local job status
    env COLLET_METRICS=20100-20400 COLLET_DEBUG=INFO COLLET_DEBUG_FILE="$work/shown.%p" \
        "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1000000000 -c 0 >/dev/null 2>&1 &
    job=$!
    python3 - "$work"/shown <<'END'
import glob, re, socket, sys, time
limit = time.monotonic() + 60
def ports():
    log = "".join(open(name).read() for name in glob.glob(sys.argv[1] + ".*"))
    return [int(port) for port in re.findall(r"metrics of process \d+ at http://127\.0\.0\.1:(\d+)/metrics", log)]
while len(ports()) < 2:
    assert time.monotonic() < limit, "no ports in the log"
    time.sleep(0.05)
def client(port, text):
    s = socket.create_connection(("127.0.0.1", port), 30)
    s.sendall(text)
    return s
def page(port, question=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
    answer = b""
    try:
        with client(port, question) as s:
            while more := s.recv(65536):
                answer += more
    except ConnectionError:
        pass
    return answer.decode()
def value(port, name, rank):
    while time.monotonic() < limit:
        found = re.search(rf'^{name}{{communicator="[0-9a-f]{{16}}",name="",rank="{rank}",host="[^"]+"}} (\S+)$', page(port), re.M)
        if found:
            return float(found[1])
        time.sleep(0.05)
    raise SystemExit(f"no {name} of rank {rank} at port {port}: {page(port)}")
rank_at = {}
for port in ports():
    while time.monotonic() < limit and port not in rank_at:
        rank_at.update({port: int(r) for r in re.findall(r'^collet_rank_up{.*rank="(\d+)"', page(port), re.M)})
assert sorted(rank_at.values()) == [0, 1], rank_at
for port, rank in rank_at.items():
    listening = [l.split()[1] for l in open("/proc/net/tcp") if l.split()[3] == "0A"]
    assert f"0100007F:{port:04X}" in listening and f"00000000:{port:04X}" not in listening, listening
    head, _, text = page(port).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK") and f"Content-Length: {len(text)}" in head, head
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) collet_\w+ .+|collet_\w+{.*} [0-9.e+-]+", line), line
    assert value(port, "collet_rank_up", rank) == 1
    for nonsense in b"\x16\x03\x01", b"POST / HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 10000:
        assert page(port, nonsense) == ""
    before = value(port, "collet_calls_total", rank)
    silent = [client(port, b"GET /") for k in range(12)]
    client(port, b"GET / HTTP/1.1\r\n\r\n").close()
    while value(port, "collet_calls_total", rank) <= before:
        assert time.monotonic() < limit
    crowd = [client(port, b"") for k in range(40)]
    for s in silent + crowd:
        s.close()
    after = value(port, "collet_calls_total", rank)
    while value(port, "collet_calls_total", rank) <= after:
        assert time.monotonic() < limit
END
    status=$?
    kill $job
    wait $job 2>/dev/null
    return $status
}

# Files are whole, others may read them, and nothing else is left.
metrics_are_written() {
    local file
    mkdir "$work/prom" && perf COLLET_METRICS="$work/prom/collet.%p.prom" -- -b 8 -e 8 || return 1
    [ "$(ls "$work/prom" | wc -l)" = 3 ] && [ "$(stat -c %a "$work"/prom/*.prom | sort -u)" = 644 ] || { ls -l "$work/prom"; return 1; }
    for file in "$work"/prom/*.prom; do
        [ "$(grep -cE '^collet_rank_up\{communicator="[0-9a-f]+",name="",rank="[0-2]",host="[^"]+"\} 1$' "$file")" = 1 ] || { cat "$file"; return 1; }
    done
}

# A port that another program has is an error that names it, and says what helps.
taken_ports_are_named() {
    python3 - "$bin/all_reduce_perf" <<'END'
import os, socket, subprocess, sys
with socket.create_server(("127.0.0.1", 0)) as taken:
    port = taken.getsockname()[1]
    run = subprocess.run([sys.argv[1], "--procs", "2", "-b", "8", "-e", "8", "-n", "1"], env=dict(os.environ, COLLET_METRICS=str(port)), capture_output=True, text=True)
text = run.stdout + run.stderr
assert run.returncode != 0 and f"cannot listen on 127.0.0.1:{port}" in text and f"{port}-{port + 7}" in text, text
END
}

# The kernel says who asks. Root may ask everybody, so it takes root to be somebody else for a moment.
others_get_no_answer() {
    local job pid status deadline=$((SECONDS + 30))
    cp "$bin/collet-status" "$work/status" && chmod 755 "$work" "$work/status" || return 1
    "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 100000000 -c 0 >/dev/null 2>&1 &
    job=$!
    while [ $SECONDS -lt $deadline ]; do
        pid=$(pgrep -P $job | head -n 1)
        [ -n "$pid" ] && "$work/status" "$pid" >"$work/own" 2>/dev/null
        grep -q 'of 2 ranks' "$work/own" && break
        sleep 0.2
    done
    setpriv --reuid 65534 --regid 65534 --clear-groups "$work/status" "$pid" >"$work/other" 2>&1
    status=$?
    kill $job
    wait $job 2>/dev/null
    grep -q 'of 2 ranks' "$work/own" && [ $status = 2 ] && grep -q "another user's" "$work/other" &&
        ! grep -q 'rank 0' "$work/other" || { cat "$work/own" "$work/other"; return 1; }
}

# On a terminal the view takes another screen, and gives the old one back when it is interrupted.
watching_ends_as_it_began() {
    python3 - "$bin/collet-status" <<'END'
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "--watch", "1", "no communicator has this name"])
said = b""
def more():
    global said
    try:
        part = os.read(terminal, 65536)
    except OSError:
        part = b""
    said += part
    return part
signal.alarm(100)
while b"Ctrl-C ends it" not in said:
    assert more(), said
os.kill(pid, signal.SIGINT)
while more():
    pass
status = os.waitpid(pid, 0)[1]
assert status == 0 and said.startswith(b"\x1b[?1049h") and said.endswith(b"\x1b[?1049l"), (status, said)
END
}

refuses() { # words, command…
    local words=$1 output
    shift
    ! output=$("$@" 2>&1) && grep -q "$words" <<<"$output" || { echo "$output"; return 1; }
}

bad_input_is_refused() {
    local value
    for value in abc 0 70000 9400- 9400-9300 9400-70000 127.0.0.1 9400x; do
        refuses "COLLET_METRICS is '$value'" env COLLET_METRICS=$value "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1 || return 1
    done
    refuses "cannot write COLLET_METRICS=/nowhere/x" env COLLET_METRICS=/nowhere/x "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1 || return 1
    echo '{' >"$work/bad"
    refuses "is no timeline" "$bin/collet-trace" "$work/bad" && refuses "is no record" "$bin/collet-report" "$work/bad" &&
        refuses "no such call" "$bin/collet-trace" --call 99999 "$work/ring.json" &&
        refuses "cannot write COLLET_TRACE" bash -c "COLLET_TRACE=/nowhere/x $bin/all_reduce_perf --procs 2 -b 8 -e 8 -n 1 -w 0 2>&1; false" &&
        refuses "COLLET_RECORD is /nowhere/x" env COLLET_RECORD=/nowhere/x "$bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1
}

check a_trace_in_shared_memory_adds_up trace_adds_up COLLET_PROTO=Simple
check a_trace_of_lines_adds_up trace_adds_up COLLET_PROTO=LL128
check a_trace_over_tcp_adds_up trace_adds_up COLLET_TRANSPORT=tcp
check a_trace_with_a_proxy_adds_up trace_adds_up COLLET_TRANSPORT=tcp COLLET_PROXY=1
check so_does_one_with_two_threads trace_adds_up COLLET_TRANSPORT=tcp COLLET_PROXY=2 COLLET_NCHANNELS=2
check the_trace_of_an_earlier_job_is_replaced old_traces_go
check the_newest_events_are_kept few_events_are_kept
check of_many_small_calls_some_are_traced_the_same_on_all_ranks many_calls_are_sampled
check measured_and_predicted_are_laid_side_by_side overlay_shows_both
check a_record_has_every_operation_of_every_rank record_is_complete
check a_report_has_tables_and_plots report_has_tables_and_plots
check metrics_are_served_over_http metrics_are_served
check processes_show_their_ranks_and_no_client_disturbs_them processes_show_their_ranks
check metrics_are_written_to_files metrics_are_written
check a_port_that_is_taken_is_named taken_ports_are_named
if [ "$(id -u)" = 0 ] && command -v pgrep >/dev/null && setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
    check another_user_gets_no_answer others_get_no_answer
else
    skipped "another_user_gets_no_answer: only root can be another user"
fi
check a_view_that_is_interrupted_restores_the_terminal watching_ends_as_it_began
check bad_input_is_refused bad_input_is_refused
finish
