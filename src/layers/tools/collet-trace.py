#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# collet-trace: says what a trace shows: the critical path of a call, and the rank that holds it up; lays it beside a
# prediction.
#
#     files of COLLET_TRACE, one per host ──┐
#                                           ├──▶ one call, from 0 µs on ──▶ a table, and with -o one file for ui.perfetto.dev
#     file of collet-sim --timeline ────────┘
#
# The critical path: from the bar that ends last back to the first, from each bar to what it waited for: the bar before it in
# its own track, or the step that sent what it received, whichever ended later.
import argparse
import collections
import json
import os
import sys

VERSION = "@VERSION@"

# @OPTIONS@


def fail(text):
    sys.exit("collet-trace: " + text)


def load(path):
    try:
        with open(path) as file:
            return json.load(file)["traceEvents"]
    except (OSError, ValueError, KeyError) as error:
        fail(f"{path} is no timeline: {getattr(error, 'strerror', None) or error}")


class Step:
    """A bar of a step, with the messages that it sends and receives."""

    def __init__(self, event, rank):
        self.rank, self.track = rank, event["tid"]
        self.begin, self.end = event["ts"], event["ts"] + event["dur"]
        self.event, self.receives, self.before, self.cause = event, [], None, None


def ranks_of(events):
    """The communicator and the rank of each process of a file."""
    names = [e for e in events if e["ph"] == "M" and e["name"] == "process_name"]
    return {e["pid"]: (e["args"].get("communicator", ""), e["args"]["rank"]) for e in names}


def calls_of(events, ranks):
    """The calls in which all ranks of the communicator have steps, each as (communicator, collective, number)."""
    seen, members = collections.defaultdict(set), collections.defaultdict(set)
    for comm, rank in ranks.values():
        members[comm].add(rank)
    for e in events:
        if e.get("cat") == "step" and e["pid"] in ranks:
            comm, rank = ranks[e["pid"]]
            seen[comm, e["args"].get("call", ""), e["args"].get("seq", 0)].add(rank)
    return [call for call, those in seen.items() if those == members[call[0]]]


def steps_of(events, ranks, call):
    """The steps of a call in the order of time, joined by messages and by tracks."""
    steps, waits, at_begin, at_end = [], [], {}, {}
    for e in events:
        if e["ph"] != "X" or e["pid"] not in ranks or ranks[e["pid"]][0] != call[0]:
            continue
        if (e["args"].get("call", ""), e["args"].get("seq", 0)) != call[1:]:
            continue
        if e["cat"] == "wait":
            waits.append(e)
        elif e["cat"] == "step":
            step = Step(e, ranks[e["pid"]][1])
            steps.append(step)
            at_begin[e["pid"], e["tid"], e["ts"]] = step
            at_end[e["pid"], e["tid"], round(step.end, 3)] = step
    join_messages(events, steps, at_begin, at_end)
    steps.sort(key=lambda step: step.begin)
    last = {}
    for step in steps:
        step.before = last.get((step.rank, step.track))
        last[step.rank, step.track] = step
    return steps, waits


def join_messages(events, steps, at_begin, at_end):
    """Joins each step with those whose messages it receives. An arrow of a measured message begins where its step begins, and ends where
    the receiving step ends. An arrow of a predicted message begins where its step ends, and ends where the receiving step begins."""
    ends = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in "sf" and e.get("cat") == "message":
            at = e["pid"], e["tid"], e["ts"]
            step = at_begin.get(at) or at_end.get((e["pid"], e["tid"], round(e["ts"], 3)))
            if step is not None:
                ends[e["id"]][e["ph"]] = step
    for pair in ends.values():
        if len(pair) == 2:
            pair["f"].receives.append(pair["s"])


def critical_path(steps):
    path, step = [], max(steps, key=lambda step: step.end)
    while step is not None and step not in path:
        path.append(step)
        causes = [cause for cause in step.receives + [step.before] if cause is not None and cause.begin < step.begin]
        step = max(causes, key=lambda cause: cause.end, default=None)
    return path[::-1]


def share_of(path, start, numbers):
    """How long each rank held the call up. A step on the critical path counts from the end of the step before it. The first step counts
    from the moment when the first rank entered."""
    share, end = dict.fromkeys(numbers, 0.0), start
    for step in path:
        share[step.rank] += max(0.0, step.end - end)
        end = max(end, step.end)
    return share


def describe(name, call, steps, waits, ranks):
    start = min(step.begin for step in steps)
    path = critical_path(steps)
    numbers = sorted({step.rank for step in steps})
    share = share_of(path, start, numbers)
    total = max(step.end for step in steps) - start
    print(f"# {name}: {call[1]} {call[2]}".rstrip(" 0"), f"{total:.2f} us, {len(steps)} steps, {len(path)} of them critical")
    print(f"#{'rank':>5} {'enters':>10} {'leaves':>10} {'in steps':>10} {'waits':>10} {'critical':>10}   (us)")
    for rank in numbers:
        mine = [step for step in steps if step.rank == rank]
        waited = sum(e["dur"] for e in waits if ranks[e["pid"]][1] == rank)
        print(f"{rank:6} {min(s.begin for s in mine) - start:10.2f} {max(s.end for s in mine) - start:10.2f}"
              f" {sum(s.end - s.begin for s in mine):10.2f} {waited:10.2f} {share[rank]:10.2f}")
    slowest = max(numbers, key=lambda rank: share[rank])
    print(f"# the slowest is rank {slowest}: {100 * share[slowest] / total if total else 0:.0f} % of the critical path")
    return start, path, slowest


def shifted(events, keep, start, first_process, label, ranks, path, slowest):
    """The events of one call from 0 µs on, as processes first_process + rank."""
    critical = {id(step.event) for step in path}
    out = []
    for rank in sorted({rank for comm, rank in ranks.values()}):
        name = f"{label}: rank {rank}" + (" (slowest)" if rank == slowest else "")
        out.append({"ph": "M", "name": "process_name", "pid": first_process + rank, "tid": 0, "args": {"name": name}})
    for e in events:
        if e["ph"] not in "Xsf" or not keep(e):
            continue
        copy = dict(e, pid=first_process + ranks[e["pid"]][1], ts=e["ts"] - start)
        if e["ph"] != "X":
            copy["id"] = label + e["id"]
        elif id(e) in critical:
            copy.update(cname="terrible", args=dict(e["args"], critical=1))
        out.append(copy)
    return out


def whole_arrows(events):
    """The events without those arrows that have lost an end."""
    ends = collections.Counter(e["id"] for e in events if e["ph"] in "sf")
    return [e for e in events if e["ph"] not in "sf" or ends[e["id"]] == 2]


def show(label, events, first_process, number):
    ranks = ranks_of(events)
    calls = calls_of(events, ranks)
    if number is not None:
        calls = [call for call in calls if call[2] == number]
    if not calls:
        fail(f"the {label} trace has no such call of which every rank has steps")
    call = max(calls, key=lambda call: call[2])
    steps, waits = steps_of(events, ranks, call)
    start, path, slowest = describe(label, call, steps, waits, ranks)
    end = max(step.end for step in steps)
    mine = {pid: who for pid, who in ranks.items() if who[0] == call[0]}

    def keep(e):
        return e["pid"] in mine and start <= e["ts"] <= end and e.get("args", {}).get("seq", call[2]) == call[2]

    return shifted(events, keep, start, first_process, label, mine, path, slowest)


def write(path, output, timeline):
    if path == "-":
        json.dump(timeline, output)
        return
    try:
        with open(path, "w") as file:
            json.dump(timeline, file)
    except OSError as error:
        fail(f"--output: cannot write {path}: {error.strerror}")
    print(f"collet-trace: wrote {path}", file=sys.stderr)


def main():
    parser = Options(
        prog="collet-trace", add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="collet-trace [options] FILE...",
        description="FILE is what COLLET_TRACE wrote, one file per host. The newest call of which every rank has steps is shown.")
    parser.add_argument("-h", "--help", action="help", help="this text")
    parser.add_argument("--version", action="version", version=f"collet-trace (collet) {VERSION}", help="the version of collet")
    parser.add_argument("--overlay", metavar="PREDICTED", help="lay it beside this file of collet-sim --timeline")
    parser.add_argument("--call", metavar="N", type=int, help="the call with this number")
    parser.add_argument("--output", "-o", metavar="FILE", help="write both as one file for ui.perfetto.dev; critical steps are red; "
                        "-: to standard output, and the table to standard error")
    parser.add_argument("files", metavar="FILE", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.files:
        parser.error("name a FILE")
    output = sys.stdout
    if options.output == "-":
        sys.stdout = sys.stderr  # The table goes to standard error.
    measured = [event for path in options.files for event in load(path)]
    events = show("measured", measured, 0, options.call)
    if options.overlay:
        events += show("predicted", load(options.overlay), 1000000, None)
    if options.output:
        write(options.output, output, {"displayTimeUnit": "ns", "traceEvents": whole_arrows(events)})


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)
