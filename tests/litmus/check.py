#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check.py FILE …: litmus tests under the memory model of PTX, exhaustively: every execution that its axioms allow is looked at.
# Each test must hold, and each of its mutants must fail. FILE.h: each access that this source has must be in some test.
#
#    test NAME                     what is claimed
#      gpu 0 block 0               lanes that follow are in this block
#        lane 0: OP; OP; …         st[.weak] X V   st.relaxed.SCOPE X V   st.release.SCOPE X V   ld… X -> R
#                                  wait… X V (a load, until it gets V)   fence.acq_rel.SCOPE   bar (of all lanes of the block)
#      never R=V S=V               no execution ends so
#      mutant FROM -> TO           the same test, in which each FROM is TO, must fail; "-": nothing
#      holds FROM -> TO            … must hold as well: what FROM has more is not needed
#
# A test holds if in no execution the loads get what is in `never`, two lanes race for memory by a weak access, or a lane waits for
# ever: its wait wants another value than the last one there.
#
# The model (PTX ISA, "Memory Consistency Model"; weak, relaxed, acquire, release, acq_rel; scopes; barriers; one proxy):
#
#    sync       a release pattern (a release, or a fence and then a strong store) whose store is read by an acquire pattern; bar
#    causality  base = (po ∪ sync)⁺; causality = base ∪ observed;base
#    axioms     coherence, causality, coherence per location, nothing out of thin air
#
# A store behind a wait depends on it: no lane stores what it would store only if it had waited in vain.
import itertools
import re
import sys

SCOPES = {"cta": 0, "gpu": 1, "sys": 2}


class Event:
    def __init__(self, lane, place, text):
        words = text.split()
        name, *modes = words[0].split(".")
        self.lane, self.place, self.text = lane, place, text
        self.kind = {"st": "W", "ld": "R", "wait": "R", "fence": "F", "bar": "B", "init": "W"}[name]
        self.waits = name == "wait"
        self.order = modes[0] if modes else "weak"
        self.scope = SCOPES[modes[1]] if len(modes) > 1 else 2 if name == "init" else -1
        self.location = words[1] if len(words) > 1 else None
        self.value = words[2] if self.kind == "W" or self.waits else None  # a wait's: the one that it wants
        self.register = words[3] if name == "ld" else None

    def strong(self):
        return self.order != "weak"

    # Is the other one in the scope of this one?
    def reaches(self, other):
        mine, theirs = self.place, other.place
        return self.scope == 2 or mine[: 2 - self.scope] == theirs[: 2 - self.scope]


def morally_strong(a, b):
    return a.lane == b.lane or (a.strong() and b.strong() and a.reaches(b) and b.reaches(a))


class Test:
    def __init__(self, lines):
        self.lines, self.name, self.mutants, self.holds = lines, lines[0][5:].strip(), [], []
        self.lanes, self.places, self.never, place = [], [], None, None
        for line in lines[1:]:
            words = line.split()
            if words[0] == "gpu":
                place = (int(words[1]), int(words[3]))
            elif words[0] == "lane":
                texts = [t.strip() for t in line.split(":", 1)[1].split(";") if t.strip() not in ("", "-")]
                self.places.append(place)
                self.lanes.append([Event(len(self.lanes), place, text) for text in texts])
            elif words[0] == "never":
                self.never = dict(word.split("=") for word in words[1:])
            elif words[0] in ("mutant", "holds"):
                (self.mutants if words[0] == "mutant" else self.holds).append(line.strip()[len(words[0]) + 1 :].split(" -> "))

    def mutated(self, change):
        body = [l for l in self.lines if l.split()[0] not in ("mutant", "holds")]
        new = [l.replace(change[0], change[1] if change[1] != "-" else "") for l in body]
        if new == body:
            sys.exit(f"{self.name}: {change[0]} is not in it")
        return Test([self.lines[0]] + new[1:])


# ---- which parts of the lanes are run: any wait may be in vain ----


def runs(test):
    waits = [[None] + [e for e in lane if e.waits] for lane in test.lanes]
    for stuck in itertools.product(*waits):
        lanes = [lane[: lane.index(end)] if end else lane for lane, end in zip(test.lanes, stuck)]
        while True:  # nobody passes a barrier that another lane of its block does not come to
            passed = {}  # barriers by block
            for place, lane in zip(test.places, lanes):
                n = sum(e.kind == "B" for e in lane)
                passed[place] = min(n, passed.get(place, n))
            cut = [up_to_barrier(lane, passed[place]) for place, lane in zip(test.places, lanes)]
            if cut == lanes:
                break
            lanes = cut
        if all(end is None or len(lane) == test.lanes[k].index(end) for k, (lane, end) in enumerate(zip(lanes, stuck))):
            yield lanes, [end for end in stuck if end]


# Before its n-th barrier, counted from 0.
def up_to_barrier(lane, n):
    for k, event in enumerate(lane):
        if event.kind == "B":
            if n == 0:
                return lane[:k]
            n -= 1
    return lane


# ---- relations: sets of pairs of indices ----


def closure(pairs, n):
    after = [set() for _ in range(n)]
    for a, b in pairs:
        after[a].add(b)
    for k in range(n):
        for a in range(n):
            if k in after[a]:
                after[a] |= after[k]
    return {(a, b) for a in range(n) for b in after[a]}


def acyclic(pairs, n):
    return all(a != b for a, b in closure(pairs, n))


def join(r, s):
    after = {}
    for b, c in s:
        after.setdefault(b, []).append(c)
    return {(a, c) for a, b in r for c in after.get(b, ())}


class Execution:
    def __init__(self, events, po, barriers, source, order):
        self.events, self.source, n = events, source, len(events)
        self.rf = {(w, r) for r, w in source.items()}
        self.co = {(a, b) for line in order for k, a in enumerate(line) for b in line[k + 1 :]}
        self.po, self.barriers, self.n = po, barriers, n
        self.observed = {(w, r) for w, r in self.rf if morally_strong(events[w], events[r])}
        self.base = closure(po | barriers | self.synchronizes(), n)
        self.causality = self.base | join(self.observed, self.base)
        self.com = self.rf | self.co | {(r, later) for r, w in source.items() for first, later in self.co if first == w}

    # For a store: the operations that release with it; for a load: those that acquire with it.
    def partners(self, k, order, other):
        mine, found = self.events[k], set()
        if mine.order == order:
            found.add(k)
        for a, b in self.po:
            if (a if order == "acquire" else b) != k:
                continue
            e = self.events[b if order == "acquire" else a]
            fence = e.kind == "F" and mine.strong()
            same = e.kind == other and e.order == order and e.location == mine.location and mine.strong()
            if fence or same:
                found.add(b if order == "acquire" else a)
        return found

    def synchronizes(self):
        pairs = set()
        for w, r in self.observed:
            for a in self.partners(w, "release", "W"):
                for b in self.partners(r, "acquire", "R"):
                    if morally_strong(self.events[a], self.events[b]):
                        pairs.add((a, b))
        return pairs

    def allowed(self):
        e, n = self.events, self.n
        if any(e[a].kind == e[b].kind == "W" and e[a].location == e[b].location and (b, a) in self.co for a, b in self.causality):
            return False  # coherence
        if any((b, a) in self.causality for a, b in self.com):
            return False  # causality
        strong = {(a, b) for a, b in self.com if morally_strong(e[a], e[b])}
        if not acyclic(strong | {(a, b) for a, b in self.po if e[a].location == e[b].location is not None}, n):
            return False  # coherence per location
        behind = {(a, b) for a, b in self.po if e[a].waits}
        behind |= join(join(behind, self.barriers), self.po)
        return acyclic(self.rf | behind, n)  # nothing out of thin air

    def race(self):
        for a, b in itertools.combinations(range(self.n), 2):
            x, y = self.events[a], self.events[b]
            conflict = x.location is not None and x.location == y.location and "W" in (x.kind, y.kind) and x.lane != y.lane
            if conflict and not morally_strong(x, y) and (a, b) not in self.base and (b, a) not in self.base:
                return f"race: {x.text} / {y.text}"
        return None


# ---- all executions of a run ----


def executions(lanes):
    events = [e for lane in lanes for e in lane]
    locations = sorted({e.location for e in events if e.location})
    index = {id(e): k for k, e in enumerate(events)}
    po = {(index[id(a)], index[id(b)]) for lane in lanes for i, a in enumerate(lane) for b in lane[i + 1 :]}
    nth, barriers = {}, set()
    for lane in lanes:
        for k, e in enumerate(e for e in lane if e.kind == "B"):
            nth.setdefault((e.place, k), []).append(index[id(e)])
    for group in nth.values():
        barriers |= {(a, b) for a in group for b in group if a != b}
    first = len(events)
    events = events + [Event(-1 - k, (0, 0), f"init.relaxed {l} 0") for k, l in enumerate(locations)]
    po = po | {(k, e) for k in range(first, len(events)) for e in range(first)}
    writes = {l: [k for k, e in enumerate(events) if e.kind == "W" and e.location == l] for l in locations}
    reads = [k for k, e in enumerate(events) if e.kind == "R"]
    choices = [[w for w in writes[events[r].location] if not events[r].waits or events[w].value == events[r].value] for r in reads]
    orders = [[(w[-1],) + p for p in itertools.permutations(w[:-1])] for w in writes.values()]
    for sources in itertools.product(*choices):
        for order in itertools.product(*orders):
            execution = Execution(events, po, barriers, dict(zip(reads, sources)), order)
            if execution.allowed():
                yield execution, dict(zip(writes, order))


def judge(test, lanes, stuck, execution, order):
    events = execution.events
    if stuck:  # does none of them go on?
        last = {location: events[line[-1]].value for location, line in order.items()}
        return f"for ever: {stuck[0].text}" if all(last.get(w.location, "0") != w.value for w in stuck) else None
    got = {events[r].register: events[w].value for r, w in execution.source.items()}
    if test.never is not None and all(got.get(r) == v for r, v in test.never.items()):
        return "it ends with " + " ".join(f"{r}={v}" for r, v in test.never.items())
    return execution.race()


# How many executions there are, and what is wrong with one of them (None: nothing).
def explore(test):
    n, wrong = 0, None
    for lanes, stuck in runs(test):
        for execution, order in executions(lanes):
            n += 1
            wrong = wrong or judge(test, lanes, stuck, execution, order)
    return n, wrong


# ---- files ----


def read_tests(path):
    tests, lines = [], []
    for line in open(path):
        line = line.rstrip()
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.startswith("test "):
            lines = [line]
            tests.append(lines)
        else:
            lines.append(line)
    return [Test(lines) for lines in tests]


# Those that say an order and a scope: "ld.acquire.sys". A wait is a load.
def accesses(path):
    return {found.replace("wait", "ld") for found in re.findall(r"\b(?:ld|st|wait|fence)\.[a-z_]+\.(?:cta|gpu|sys)\b", open(path).read())}


def main(arguments):
    passed = failed = 0
    sources, paths = [a for a in arguments if a.endswith(".h")], [a for a in arguments if not a.endswith(".h")]

    def report(good, text):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(("ok     " if good else "NOT OK ") + text, flush=True)

    for test in [t for path in paths for t in read_tests(path)]:
        n, wrong = explore(test)
        report(n > 0 and wrong is None, f"{test.name}: {wrong or f'{n} executions'}")
        for change in test.holds:
            n, wrong = explore(test.mutated(change))
            report(n > 0 and wrong is None, f"   {change[0]} -> {change[1]} holds too: {wrong or f'{n} executions'}")
        for change in test.mutants:
            n, wrong = explore(test.mutated(change))
            report(wrong is not None, f"   {change[0]} -> {change[1]} fails: {wrong}")
    tested = set().union(*map(accesses, paths))
    for source in sources:
        missing = accesses(source) - tested
        report(not missing, f"{source}: " + (f"no test has {', '.join(sorted(missing))}" if missing else "each access is in a test"))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main(sys.argv[1:]))
