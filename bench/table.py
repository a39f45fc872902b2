#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples of many runs → one table for each collective, case and class: medians over runs in µs, and ratios.

   table.py SAMPLES FACTS [--markdown FILE] [--overview]

With --overview one table for each case (number of ranks), all collectives in it, one column for each peer: its best way.
Where collet ran with several algorithms (bench-peers.sh --candidates), a table more: what its choice loses against the best of them.

SAMPLES has lines of key=value words: round case ranks library way collective bytes us class before_ns after_ns …  (see loop.c)
FACTS has lines about the machine and the versions, repeated as they are.

The limit only moves what must move between ranks, the faster one of two ways (limit_loop.c). A library's number at its best is the least median of its default and of the ways in which its ranks were bound, whatever
way that is at each size. Ways in which it was given other settings than its defaults count in the last ratio only, which
compares collet with the strongest peer that could be had.
"""
import argparse
import collections
import os
import re
import statistics

OURS = "collet"
LIMIT = "limit"
REGISTERED = "registered"
NAMES = {"collet": "collet", "openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI", "oneccl": "oneCCL", "gloo": "Gloo"}
WIRES = {"shm": "Shared memory", "tcp": "TCP on loopback"}
CLASSES = {"near": "near", "far": "far", "one-cpu": "one CPU"}
TUNED = {"copying", "xhc"}
APART = {REGISTERED}  # has a column of its own
CHOSEN = "bound"  # the way of collet that candidates are compared with
LIMIT_LEGEND = """Limit: every rank, bound to a CPU, moves what it must at least move between ranks, all at the same time and without a
word; the faster one of reading it where others have written it, and of writing it where others need it. """
SWITCHES_LEGEND = """ Switches: involuntary ones in 1,000 calls, of the rank of collet (default) that lost its CPU most."""
LEGEND = LIMIT_LEGEND + """Registered: collet
with buffers of collet_mem_alloc(). First column of each library: its default (Intel MPI, also for oneCCL, binds all ranks, Open MPI
2 ranks to a core each; the others, and Open MPI with more ranks, bind nothing). Best: the least, at each size, of the default, ranks bound to one CPU each and ranks bound
to none; bound ranks of Open MPI yield when idle where they outnumber the CPUs. Ratio: the fastest peer ÷ collet, above 1
where collet is faster; by defaults, by bests, and by bests with Open MPI tuned too (in shared memory: bound, messages
copied twice). Runs: the fewest behind a number of the row.""" + SWITCHES_LEGEND

OVERVIEW_LEGEND = LIMIT_LEGEND + """Default, bound:
collet with ordinary buffers, its ranks left alone or bound to one CPU each. Registered: collet with buffers of
collet_mem_alloc(). A peer's number is the least of its default and its other binding. Last column: the best peer ÷ the best
of default and bound, above 1 where collet is faster. Runs: the fewest behind a number of the row.""" + SWITCHES_LEGEND
CANDIDATES_LEGEND = """Candidates: ordinary buffers, bound ranks. Regret: the time of what the planner chose ÷ the least time of an algorithm.
Predicted: of the chosen one, by its model."""


def read_samples(path):
    with open(path, encoding="utf-8") as file:
        return [dict(word.split("=", 1) for word in line.split()) for line in file]


def is_candidate(sample):
    return sample["way"].startswith("candidate")


def medians_of(samples):
    """{library: {bytes: {way: median}}} and the smallest number of runs behind a median, for each size. Candidates are left out."""
    times = collections.defaultdict(list)
    for s in samples:
        if is_candidate(s):
            continue
        times[s["library"], int(s["bytes"]), s["way"]].append(float(s["us"]))
    medians = collections.defaultdict(lambda: collections.defaultdict(dict))
    runs = {}
    for (library, size, way), values in times.items():
        medians[library][size][way] = statistics.median(values)
        runs[size] = min(runs.get(size, len(values)), len(values))
    return medians, runs


def size_text(size):
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {letter}"
    return str(size)


def time_text(us):
    if us is None:
        return "–"
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def ratio_text(peers, ours):
    peers = [us for us in peers if us is not None]
    return f"{min(peers) / ours:.2f}" if peers and ours else "–"


def switches_text(samples, size):
    """Of collet's default runs: the median of the rank that lost its CPU most, in 1,000 calls."""
    most = [
        1000 * max(map(int, s["switches"].split(","))) / int(s["iterations"])
        for s in samples
        if s["library"] == OURS and s["way"] == "default" and int(s["bytes"]) == size and "switches" in s
    ]
    return f"{statistics.median(most):.0f}" if most else "–"


def limit_of(medians, size):
    return min(medians[LIMIT][size].values(), default=None)


def table_of(samples):
    """Rows of text, the first of them the heading."""
    medians, runs = medians_of(samples)
    libraries = [library for library in NAMES if library in medians]
    heading = ["bytes", LIMIT, REGISTERED]
    for library in libraries:
        heading += [NAMES[library], "best"]
    rows = [heading + ["ratio", "best", "tuned", "switches", "runs"]]
    for size in sorted(runs):
        default = {library: medians[library][size].get("default") for library in libraries}
        tuned = {
            library: min((us for way, us in medians[library][size].items() if way not in APART), default=None)
            for library in libraries
        }
        best = {
            library: min((us for way, us in medians[library][size].items() if way not in TUNED | APART), default=None)
            for library in libraries
        }
        row = [
            size_text(size),
            time_text(limit_of(medians, size)),
            time_text(medians[OURS][size].get(REGISTERED)),
        ]
        for library in libraries:
            row += [time_text(default[library]), time_text(best[library])]
        for times in (default, best, tuned):
            row.append(ratio_text([us for library, us in times.items() if library != OURS], times.get(OURS)))
        rows.append(row + [switches_text(samples, size), str(runs[size])])
    return rows


def overview_rows(samples):
    """Rows of text, the first of them the heading: every collective and size of one case."""
    peers = [library for library in NAMES if library != OURS and any(s["library"] == library for s in samples)]
    rows = [["collective", "bytes", LIMIT, "default", "bound", REGISTERED, *map(NAMES.get, peers), "best peer ÷ best ordinary", "switches", "runs"]]
    for collective in collectives_of(samples):
        chosen = [s for s in samples if s["collective"] == collective]
        medians, runs = medians_of(chosen)
        for size in sorted(runs):
            ours = medians[OURS][size]
            theirs = [best_of(medians[peer][size]) for peer in peers]
            times = [limit_of(medians, size), *(ours.get(way) for way in ("default", "bound", REGISTERED)), *theirs]
            ratio = ratio_text(theirs, best_of(ours))
            rows.append([collective, size_text(size), *map(time_text, times), ratio, switches_text(chosen, size), str(runs[size])])
    return rows


def name_of(plan):
    """Algorithm and protocol: "twoshot/Simple/1/131072/44.92" also has channels, bytes of a chunk, predicted µs."""
    return " ".join(plan.split("/")[:2])


def candidate_rows(samples):
    """Rows of text, the first of them the heading: what was chosen, and what was fastest; only the heading where nothing is to compare."""
    rows = [["collective", "bytes", "chosen", "µs", "predicted", "best", "µs", "regret", "candidates", "runs"]]
    measured = [s for s in samples if s["library"] == OURS and "plan" in s and (is_candidate(s) or s["way"] == CHOSEN)]
    for collective in collectives_of(measured):
        for size in sorted({int(s["bytes"]) for s in measured if s["collective"] == collective}):
            cell = [s for s in measured if (s["collective"], int(s["bytes"])) == (collective, size)]
            rows += candidate_row(collective, size, cell)
    return rows


def candidate_row(collective, size, cell):
    chosen = [s["plan"] for s in cell if s["way"] == CHOSEN]
    times = collections.defaultdict(list)
    for s in cell:
        times[name_of(s["plan"])].append(float(s["us"]))
    if not chosen or len(times) < 2:
        return []
    medians = {plan: statistics.median(us) for plan, us in times.items()}
    ours, best = name_of(chosen[-1]), min(medians, key=medians.get)
    runs = str(min(map(len, times.values())))
    predicted = time_text(float(chosen[-1].split("/")[4]))
    regret = f"{medians[ours] / medians[best]:.2f}"
    return [[collective, size_text(size), ours, time_text(medians[ours]), predicted, best, time_text(medians[best]), regret, str(len(times)), runs]]


def best_of(ways):
    return min((us for way, us in ways.items() if way not in TUNED | APART), default=None)


def case_title(case, samples, cpus):
    crowd = f" on {cpus} CPUs" if int(samples[0]["ranks"]) > cpus else ""
    return f"{WIRES.get(case.rstrip('0123456789'), case)}, {samples[0]['ranks']} ranks{crowd}"


def round_trip_text(samples):
    trips = [float(s[key]) for s in samples for key in ("before_ns", "after_ns")]
    return f" (median round trip of a line {statistics.median(trips):.0f} ns)"


def title_of(case, name, samples, cpus):
    return f"{case_title(case, samples, cpus)}, {CLASSES[name]}{'' if name == 'one-cpu' else round_trip_text(samples)}"


def overview_tables(samples, cpus):
    """(title, rows) of each case."""
    for case in cases_of(samples):
        for name in CLASSES if near_or_far(cpus) else [None]:
            chosen = [s for s in samples if s["case"] == case and name in (s["class"], None)]
            if chosen:
                title = title_of(case, name, chosen, cpus) if name else case_title(case, chosen, cpus) + round_trip_text(chosen)
                yield title, overview_rows(chosen)


def candidate_tables(samples, cpus):
    """(title, rows) of each case in which collet ran with several algorithms."""
    for case in cases_of(samples):
        chosen = [s for s in samples if s["case"] == case]
        if any(map(is_candidate, chosen)):
            yield "candidates: " + case_title(case, chosen, cpus), candidate_rows(chosen)


def near_or_far(cpus):
    """Whether the class says something of the whole machine: two CPUs are near or far. Of more, some are near and some are far."""
    return cpus <= 2


def usable(sample, overview, cpus):
    return sample["class"] in CLASSES or (overview and not near_or_far(cpus) and sample["class"] != "busy")


def detailed_tables(samples, cpus):
    """(title, rows) of each collective, case and class."""
    for collective in collectives_of(samples):
        for case in cases_of(samples):
            for name in CLASSES:
                chosen = [s for s in samples if (s["collective"], s["case"], s["class"]) == (collective, case, name)]
                if chosen:
                    yield f"{collective}: {title_of(case, name, chosen, cpus)}", table_of(chosen)


def as_text(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]


def as_markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|" + "---:|" * len(rows[0])] + lines[1:]


def collectives_of(samples):
    """In the order in which they were measured."""
    return list(dict.fromkeys(s["collective"] for s in samples))


def cases_of(samples):
    return list(dict.fromkeys(s["case"] for s in samples))


def cpus_of(facts):
    """Of the machine that measured; this one's if the facts do not say."""
    found = re.search(r"(\d+) CPUs", " ".join(facts))
    return int(found[1]) if found else os.cpu_count()


def report(samples, facts, heading, layout, overview):
    lines = [*facts, "Collectives of float32, medians over runs in µs.", ""]
    cpus = cpus_of(facts)
    total, samples = len(samples), [s for s in samples if usable(s, overview, cpus)]
    for title, rows in (overview_tables if overview else detailed_tables)(samples, cpus):
        lines += [heading + title, "", *layout(rows), ""]
    legend = OVERVIEW_LEGEND if overview else LEGEND
    candidates = list(candidate_tables(samples, cpus))
    for title, rows in candidates:
        lines += [heading + title, "", *layout(rows), ""]
    legend += " " + CANDIDATES_LEGEND if candidates else ""
    lines += [legend.replace("\n", " "), f"Dropped: {total - len(samples)} of {total} samples (busy CPUs; near turning far)."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("samples")
    parser.add_argument("facts")
    parser.add_argument("--markdown")
    parser.add_argument("--overview", action="store_true")
    arguments = parser.parse_args()
    samples = read_samples(arguments.samples)
    with open(arguments.facts, encoding="utf-8") as file:
        facts = file.read().splitlines()
    if not samples:
        raise SystemExit("no samples: every run failed")
    print(report(samples, facts, "", as_text, arguments.overview))
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(report(samples, [fact + "  " for fact in facts], "### ", as_markdown, arguments.overview) + "\n")


if __name__ == "__main__":
    main()
