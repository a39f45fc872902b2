#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples of many runs → one table for each collective, case and class: medians over runs in µs, and ratios.

   table.py SAMPLES FACTS [--markdown FILE] [--overview]

With --overview one table for each case (number of ranks), all collectives in it, one column for each peer: its best way.

SAMPLES has lines of key=value words: round case ranks library way collective bytes us class before_ns after_ns …  (see loop.c)
FACTS has lines about the machine and the versions, repeated as they are.

The limit is a bare copy of the bytes that must move (copy_loop.c). A library's number at its best is the least median of its default and of the ways in which its ranks were bound, whatever
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
NAMES = {"collet": "collet", "openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI", "gloo": "Gloo"}
WIRES = {"shm": "Shared memory", "tcp": "TCP on loopback"}
CLASSES = {"near": "near", "far": "far", "one-cpu": "one CPU"}
TUNED = {"copying"}
APART = {REGISTERED}  # has a column of its own
LEGEND = """Limit: every rank copies what it must at least get from other ranks, all at the same time. Registered: collet
with buffers of collet_mem_alloc(). First column of each library: its default (Intel MPI binds all ranks, Open MPI
2 ranks to a core each; the others, and Open MPI with more ranks, bind nothing). Best: the least, at each size, of the default, ranks bound to one CPU each and ranks bound
to none; bound ranks of Open MPI yield when idle where they outnumber the CPUs. Ratio: the fastest peer ÷ collet, above 1
where collet is faster; by defaults, by bests, and by bests with Open MPI tuned too (in shared memory: bound, messages
copied twice). Runs: the fewest behind a number of the row."""

OVERVIEW_LEGEND = """Limit: every rank copies what it must at least get from other ranks, all at the same time. Default, bound:
collet with ordinary buffers, its ranks left alone or bound to one CPU each. Registered: collet with buffers of
collet_mem_alloc(). A peer's number is the least of its default and its other binding. Last column: the best peer ÷ the best
of default and bound, above 1 where collet is faster. Runs: the fewest behind a number of the row."""


def read_samples(path):
    with open(path, encoding="utf-8") as file:
        return [dict(word.split("=", 1) for word in line.split()) for line in file]


def medians_of(samples):
    """{library: {bytes: {way: median}}} and the smallest number of runs behind a median, for each size."""
    times = collections.defaultdict(list)
    for s in samples:
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


def table_of(samples):
    """Rows of text, the first of them the heading."""
    medians, runs = medians_of(samples)
    libraries = [library for library in NAMES if library in medians]
    heading = ["bytes", LIMIT, REGISTERED]
    for library in libraries:
        heading += [NAMES[library], "best"]
    rows = [heading + ["ratio", "best", "tuned", "runs"]]
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
            time_text(medians[LIMIT][size].get("default")),
            time_text(medians[OURS][size].get(REGISTERED)),
        ]
        for library in libraries:
            row += [time_text(default[library]), time_text(best[library])]
        for times in (default, best, tuned):
            row.append(ratio_text([us for library, us in times.items() if library != OURS], times.get(OURS)))
        rows.append(row + [str(runs[size])])
    return rows


def overview_rows(samples):
    """Rows of text, the first of them the heading: every collective and size of one case."""
    peers = [library for library in NAMES if library != OURS and any(s["library"] == library for s in samples)]
    rows = [["collective", "bytes", LIMIT, "default", "bound", REGISTERED, *map(NAMES.get, peers), "best peer ÷ best ordinary", "runs"]]
    for collective in collectives_of(samples):
        medians, runs = medians_of([s for s in samples if s["collective"] == collective])
        for size in sorted(runs):
            ours = medians[OURS][size]
            theirs = [best_of(medians[peer][size]) for peer in peers]
            times = [medians[LIMIT][size].get("default"), *(ours.get(way) for way in ("default", "bound", REGISTERED)), *theirs]
            ratio = ratio_text(theirs, best_of(ours))
            rows.append([collective, size_text(size), *map(time_text, times), ratio, str(runs[size])])
    return rows


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
