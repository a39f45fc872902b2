#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# collet-report: makes tables and plots of what COLLET_RECORD wrote.
#
#     lines of all ranks ──▶ operations: those of one communicator with one number ──▶ sizes and times, histogram, stragglers
#
# An operation takes from when its last rank entered to when its last rank left: before that, ranks waited for one that was late.
# How much later the last rank entered than the first is its spread.
import argparse
import collections
import contextlib
import csv
import json
import math
import os
import shutil
import subprocess
import sys

VERSION = "@VERSION@"

# @OPTIONS@


def fail(text):
    sys.exit("collet-report: " + text)


def load_file(path):
    """The operations of a file. A line that cannot be read is left out: it may have been cut when the disk was full."""
    lines, bad, why = [], 0, ""
    with open(path, errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                if line.strip():
                    lines.append(json.loads(line))
            except ValueError as error:
                bad, why = bad + 1, why or f"line {number}: {error}"
    if bad and not lines:
        fail(f"{path} is no record: {why}")
    if bad:
        print(f"collet-report: {path}: {bad} line{'s' if bad > 1 else ''} left out, no operation{'s' if bad > 1 else ''}: {why}",
              file=sys.stderr)
    return lines


def load(paths):
    lines = []
    for path in paths:
        try:
            lines += load_file(path)
        except OSError as error:
            fail(f"{path} is no record: {error.strerror}")
    if not lines:
        fail("there is no operation in " + " ".join(paths))
    return lines


class Operation:
    """A collective on all ranks, or a message on one of them."""

    def __init__(self, lines):
        first, last = min(lines, key=lambda l: l["began_ns"]), max(lines, key=lambda l: l["began_ns"])
        self.kind = tuple(last[key] for key in ("collective", "bytes", "algorithm", "protocol", "channels", "transport"))
        self.lines, self.late = lines, last["rank"]
        self.spread_us = (last["began_ns"] - first["began_ns"]) / 1000
        alone = len(lines) == 1
        self.us = last["time_us"] if alone else max(0, max(l["ended_ns"] for l in lines) - last["began_ns"]) / 1000
        self.bus_factor = last["busbw"] / last["algbw"] if last.get("busbw") and last["algbw"] else 0


def operations_of(lines):
    groups = collections.defaultdict(list)
    for line in lines:
        message = "peer" in line
        groups[line["communicator"], line["collective"], line["seq"], (line["rank"], line["peer"]) if message else None].append(line)
    return [Operation(group) for group in groups.values() if "peer" in group[0] or len(group) == group[0]["nranks"]]


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def sizes_of(operations):
    """A row for each kind of operation: its words, the number of operations, median and 99th percentile in µs, GB/s, spread in µs."""
    kinds = collections.defaultdict(list)
    for operation in operations:
        kinds[operation.kind].append(operation)
    for kind, those in sorted(kinds.items()):
        us = [operation.us for operation in those]
        median = quantile(us, 0.5)
        busbw = kind[1] * those[0].bus_factor / median / 1000 if median else 0
        yield *kind, len(those), median, quantile(us, 0.99), busbw, quantile([o.spread_us for o in those], 0.5)


def print_sizes(operations):
    print(f"# {'collective':<14}{'bytes':>12}  {'algorithm':<10}{'protocol':<9}{'ch':>3} {'via':<8}{'number':>8}"
          f"{'median':>11}{'p99':>11}{'busbw':>9}{'spread':>11}")
    print(f"# {'':<14}{'':>12}  {'':<10}{'':<9}{'':>3} {'':<8}{'':>8}{'(us)':>11}{'(us)':>11}{'(GB/s)':>9}{'(us)':>11}")
    for collective, size, algorithm, protocol, channels, via, number, median, p99, busbw, spread in sizes_of(operations):
        print(f"  {collective:<14}{size:>12}  {algorithm:<10}{protocol:<9}{channels:>3} {via:<8}{number:>8}"
              f"{median:>11.2f}{p99:>11.2f}{busbw:>9.3f}{spread:>11.2f}")


def print_csv(operations):
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow("collective bytes algorithm protocol channels via number median_us p99_us busbw spread_us".split())
    writer.writerows([f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row] for row in sizes_of(operations))


def stragglers_of(operations):
    """A row for each rank, the worst first: how often the rank was the last to enter, and how long all others waited for it then."""
    last, waited = collections.Counter(), collections.Counter()
    for operation in operations:
        if len(operation.lines) > 1:
            last[operation.late] += 1
            waited[operation.late] += operation.spread_us
    return [(rank, last[rank], us) for rank, us in waited.most_common()]


def print_stragglers(operations):
    stragglers = stragglers_of(operations)
    if not stragglers:
        return
    print(f"\n# {'rank':>4}{'last to enter':>15}{'others waited':>15}   (times, us)")
    for rank, times, us in stragglers:
        print(f"  {rank:>4}{times:>15}{us:>15.1f}")


def histogram_of(operations):
    """Counts the operations of each collective, per eighth of an octave of time."""
    bins = collections.defaultdict(collections.Counter)
    for operation in operations:
        if operation.us > 0:
            bins[operation.kind[0]][round(math.log2(operation.us) * 8) / 8] += 1
    return bins


def gnuplot(script):
    result = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True)
    if result.returncode:
        fail("gnuplot: " + result.stderr.strip())


def block_of(rows):
    return "\n".join(" ".join(f"{value:.6g}" for value in row) for row in rows) + "\ne\n"


def heading(path, title, x, y):
    return (f"set terminal svg size 800,500\nset output '{path}'\nset title '{title}'\nset grid\n"
            f"set xlabel '{x}'\nset ylabel '{y}'\n")


def plot(path, title, x, y, series, style):
    names = sorted(series)
    script = heading(path, title, x, y) + "set logscale x 2\nset key outside\n"
    if style == "linespoints":
        script += "set logscale y 10\n"
    else:
        script += "set style fill solid 0.5\nset yrange [0:*]\n"
    script += "plot " + ", ".join(f"'-' with {style} title '{name}'" for name in names) + "\n"
    gnuplot(script + "".join(block_of(series[name]) for name in names))


PLACES = 32  # Maximum number of ranks in the plot of stragglers.


def plot_stragglers(path, stragglers):
    """Plots a bar per rank, the worst first. Above the bar stands how often the rank was the last."""
    worst = [row for row in stragglers if row[2] > 0][:PLACES]
    if not worst:
        return
    script = heading(path, "how long others waited for the rank that came last", "rank", "ms")
    script += "set style fill solid 0.5\nset boxwidth 0.8\nset yrange [0:*]\nset xrange [-0.6:*]\nset key off\n"
    script += "set xtics (" + ", ".join(f"'{rank}' {place}" for place, (rank, times, us) in enumerate(worst)) + ")\n"
    script += "plot '-' with boxes, '-' with labels offset 0,0.6\n"
    script += block_of((place, us / 1000) for place, (rank, times, us) in enumerate(worst))
    script += "".join(f"{place} {us / 1000:.6g} {times}x\n" for place, (rank, times, us) in enumerate(worst)) + "e\n"
    gnuplot(script)


def plot_all(operations, folder):
    if shutil.which("gnuplot") is None:
        fail("--plots needs gnuplot")
    os.makedirs(folder, exist_ok=True)
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for operation in operations:
        if operation.kind[1] > 0 and operation.us > 0:
            times[" ".join(operation.kind[k] for k in (0, 2, 3))][operation.kind[1]].append(operation.us)
    sizes = {name: sorted((size, quantile(us, 0.5)) for size, us in of.items()) for name, of in times.items()}
    plot(os.path.join(folder, "sizes.svg"), "time by size (median)", "bytes", "us", sizes, "linespoints")
    bins = {name: sorted((2.0 ** octave, number) for octave, number in of.items()) for name, of in histogram_of(operations).items()}
    plot(os.path.join(folder, "times.svg"), "how many operations took how long", "us", "operations", bins, "boxes")
    plot_stragglers(os.path.join(folder, "stragglers.svg"), stragglers_of(operations))


@contextlib.contextmanager
def output_of(path):
    """Inside this context, output goes to the file. None or "-": to standard output."""
    if path in (None, "-"):
        yield
        return
    try:
        with open(path, "w") as file, contextlib.redirect_stdout(file):
            yield
    except OSError as error:
        fail(f"--output: cannot write {path}: {error.strerror}")
    print(f"collet-report: wrote {path}", file=sys.stderr)


def main():
    parser = Options(
        prog="collet-report", add_help=False, usage="collet-report [options] FILE...",
        description="FILE is what COLLET_RECORD wrote, on one host or several.")
    parser.add_argument("-h", "--help", action="help", help="this text")
    parser.add_argument("--version", action="version", version=f"collet-report (collet) {VERSION}", help="the version of collet")
    parser.add_argument("--csv", action="store_true", help="the first table as CSV, and no other")
    parser.add_argument("--output", "-o", metavar="FILE", help="what is printed goes there; - is standard output")
    parser.add_argument("--plots", metavar="FOLDER", help="write sizes.svg, times.svg and stragglers.svg there (needs gnuplot)")
    parser.add_argument("files", metavar="FILE", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.files:
        parser.error("name a FILE")
    operations = operations_of(load(options.files))
    if not operations:
        fail("no operation has the lines of all its ranks")
    with output_of(options.output):
        if options.csv:
            print_csv(operations)
        else:
            print_sizes(operations)
            print_stragglers(operations)
    if options.plots:
        plot_all(operations, options.plots)
        print(f"collet-report: wrote {options.plots}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)
