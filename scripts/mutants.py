#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Does the verifier notice when an algorithm is wrong? This script breaks src/algo on purpose, one place at a time:
#
#     allreduce_ring.c:33    k < n - 1   ──▶   k <= n - 1        a mutant
#
# and lets collet-prog --check, then test_algorithms, judge each mutant:
#
#     killed      a check failed, crashed or took too long: somebody would have noticed
#     stillborn   the mutant does not compile
#     the same    the mutant compiles to the same programs: it is listed in tests/mutants.txt, with the reason
#     SURVIVED    nobody noticed: a test is missing, or the mutant belongs into the list
#
# usage: scripts/mutants.py [--per-file N | --all] [--file NAME] [--build DIR] [--resume]      exit status 1: a mutant survived
#
# `make mutants` builds what is needed first. A few mutants per file take minutes, all of them hours. A run that was ended goes on
# where it was with --resume.

import argparse
import glob
import os
import re
import resource
import subprocess
import sys
import tempfile
import zlib

# What is replaced, and by what. A mutant differs from its source in one such place.
OPERATORS = [
    (r' \+ ', ' - '), (r' - ', ' + '), (r' \+ 1\b', ' + 2'), (r' - 1\b', ' - 2'), (r' \* 2\b', ' * 1'), (r'\b2 \* ', ''),
    (r' / 2\b', ' / 1'), (r' % 2\b', ' % 3'), (r' << ', ' >> '), (r' \^ ', ' | '), (r' & ', ' | '),
    (r' < ', ' <= '), (r' <= ', ' < '), (r' > ', ' >= '), (r' >= ', ' > '), (r' == ', ' != '), (r' != ', ' == '),
    (r' && ', ' || '), (r' \|\| ', ' && '), (r'\btrue\b', 'false'), (r'\bfalse\b', 'true'),
    (r'\bIN\(', 'OUT('), (r'\bOUT\(', 'IN('), (r'\bTMP\(', 'OUT('), (r', \.finish = true', ''), (r', \.local_at = [^,)]+', ''),
    (r', \.store = \w+\([^()]*\)', ''), (r', \.send = \w+(\([^()]*\))?', ''),
]

# Shapes for the first judge: ranks, then nodes.
SHAPES = [(n, 1) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17)] + [(4, 2), (6, 3), (8, 2), (9, 3), (12, 4), (15, 5), (16, 4)]


def code_lines(text):
    """The lines of a C file with comments blanked, so that no comment is mutated."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    return re.sub(r'/\*.*?\*/', blank, text, flags=re.S).split('\n')


def mutants_of(path):
    """All (line number, new line) of a file."""
    source = open(path).read()
    lines, found = source.split('\n'), []
    for number, code in enumerate(code_lines(source)):
        if code.lstrip().startswith('#'):
            continue
        for pattern, replacement in OPERATORS:
            for match in re.finditer(pattern, code):
                new = lines[number][:match.start()] + replacement + lines[number][match.end():]
                if new != lines[number] and (number, new) not in found:
                    found.append((number, new))
    return found


def sample(found, count):
    """`count` of them, evenly spread over the file; always the same ones."""
    if count is None or len(found) <= count:
        return found
    return [found[(2 * k + 1) * len(found) // (2 * count)] for k in range(count)]


def run(command, cpu_seconds, **more):
    """The exit status. What needs more time of a CPU is killed: a mutant may never end, and a busy machine judges like an idle one."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    return subprocess.run(command, preexec_fn=limit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more).returncode


# A mutant may ask for memory without end, too.
LIMITED = dict(os.environ, ASAN_OPTIONS='detect_leaks=0:hard_rss_limit_mb=2000')


class Judge:
    def __init__(self, build, scratch):
        self.build, self.scratch = build, scratch
        self.flags = ['-std=gnu11', '-D_GNU_SOURCE=', '-O1', '-g', '-Iinclude', '-Isrc', '-Itests', '-fsanitize=address']
        self.libs = [f'{build}/lib/libcollet-forecast.a', f'{build}/lib/libcollet-internal.a']
        self.libs += os.environ['LIBS'].split()
        names = subprocess.run([f'{build}/bin/collet-prog', '--list'], capture_output=True, text=True, check=True)
        self.algorithms = [line.split()[0] for line in names.stdout.splitlines() if line and not line[0].isspace()]

    def path(self, name):
        return os.path.join(self.scratch, name)

    def compile(self, path, text):
        """Compiles the mutant and links the judges with it; the libraries keep the right version of all other files."""
        source = self.path(os.path.basename(path))
        open(source, 'w').write(text)
        return run(['gcc', *self.flags, '-I' + os.path.dirname(path), '-c', source, '-o', self.path('mutant.o')], 60) == 0

    def link(self, name, objects):
        """A mutant that compiles links, too: if not, the judge is at fault."""
        if 0 != run(['gcc', '-fsanitize=address', '-o', self.path(name), self.path('mutant.o'), *objects, *self.libs,
                        *(['-lcmocka'] if name != 'prog' else [])], 60):
            sys.exit(f'mutants.py: {name} of the judge does not link with {self.path("mutant.o")}')

    def survives_prog(self):
        """Every algorithm, on every shape of the list that it takes."""
        objects = [f'{self.build}/obj/src/layers/tools/collet-prog.o']
        objects += [f'{self.build}/obj/src/layers/tools/{room}/{name}' for room in ('common', 'prog')
                    for name in sorted(os.listdir(f'{self.build}/obj/src/layers/tools/{room}')) if name.endswith('.o')]
        self.link('prog', objects)
        for algorithm in self.affected():
            for ranks, nodes in SHAPES:
                command = [self.path('prog'), '--check', algorithm, str(ranks), '--nodes', str(nodes)]
                if run(command, 10, env=LIMITED) not in (0, 2):  # 2: the algorithm does not take the shape
                    return False
        return True

    def affected(self):
        """The algorithm itself, or those that include what the file offers."""
        def includes(algorithm):
            made_from = glob.glob(f'{self.build}/obj/src/algo/**/{algorithm}.d', recursive=True)  # none: it has no file of its own
            return any(f'/{self.name}.h' in open(path).read() for path in made_from)
        return [a for a in self.algorithms if a == self.name or (self.shared and includes(a))]

    def survives_tests(self):
        objects = [f'{self.build}/obj/tests/layers/verifier/test_algorithms.o']
        objects += [f'{self.build}/obj/tests/common/{name}' for name in sorted(os.listdir(f'{self.build}/obj/tests/common')) if name.endswith('.o')]
        self.link('tests', objects)
        chosen = {} if self.shared else {'ALGORITHM': self.name}
        return run([self.path('tests')], 1200, env=dict(LIMITED, COLLET_TEST_LEVEL='normal', **chosen)) == 0

    def must_pass(self, path):
        """A judge that kills what is right says nothing."""
        if self.judge(path, open(path).read()) != 'SURVIVED':
            sys.exit(f'mutants.py: {path} as it is does not pass')

    def judge(self, path, text):
        self.name = os.path.basename(path)[:-2]
        self.shared = self.name not in self.algorithms
        if not self.compile(path, text):
            return 'stillborn'
        return 'SURVIVED' if self.survives_prog() and self.survives_tests() else 'killed'


class Record:
    """The verdicts of the last run, a line each: verdict, file, source's checksum, line, mutated line. What survived is judged again."""
    def __init__(self, path, resume):
        self.verdicts = {}
        if resume and os.path.exists(path):
            lines = (line.rstrip('\n').split('\t', 1) for line in open(path))
            self.verdicts = {key: verdict for verdict, key in lines if verdict != 'SURVIVED'}
        self.file = open(path, 'a' if resume else 'w')

    def verdict(self, key, judge):
        if key not in self.verdicts:
            self.verdicts[key] = judge()
            print(self.verdicts[key], key, sep='\t', file=self.file, flush=True)
        return self.verdicts[key]


def read_known():
    """(file, mutated line) of mutants that make the same programs."""
    known = set()
    for line in open('tests/mutants.txt'):
        if line.strip() and not line.startswith('#') and not line.startswith(' '):
            name, text = line.rstrip('\n').split(': ', 1)
            known.add((name, text.strip()))
    return known


def main():
    parser = argparse.ArgumentParser(description='Breaks src/algo on purpose and reports what no check notices.')
    parser.add_argument('--per-file', type=int, default=5, metavar='N', help='mutants per file; 5 unless given')
    parser.add_argument('--all', action='store_true', help='every mutant of every file')
    parser.add_argument('--file', metavar='NAME', help='only this file of src/algo')
    parser.add_argument('--build', default='build', metavar='DIR', help='where the libraries and programs are; build unless given')
    parser.add_argument('--resume', action='store_true', help='not again what the last run has judged (DIR/mutants.record)')
    options = parser.parse_args()
    record = Record(os.path.join(options.build, 'mutants.record'), options.resume)
    known, totals, survivors = read_known(), {}, []
    print(f'{"file":26} {"mutants":>8} {"killed":>8} {"stillborn":>10} {"the same":>9} {"SURVIVED":>9}')
    with tempfile.TemporaryDirectory() as scratch:
        judge = Judge(options.build, scratch)
        judge.must_pass('src/algo/allreduce_ring.c')
        for path in sorted(glob.glob('src/algo/**/*.c', recursive=True), key=os.path.basename):
            name, counts = os.path.basename(path), {}
            if options.file and name != options.file:
                continue
            source = open(path).read()
            lines, checksum = source.split('\n'), zlib.crc32(source.encode())
            for number, new in sample(mutants_of(path), None if options.all else options.per_file):
                if (name, new.strip()) in known:
                    verdict = 'the same'
                else:
                    mutant = '\n'.join(lines[:number] + [new] + lines[number + 1:])
                    key = f'{name} {checksum:08x} {number + 1} {new.strip()}'
                    verdict = record.verdict(key, lambda: judge.judge(path, mutant))
                counts[verdict] = counts.get(verdict, 0) + 1
                totals[verdict] = totals.get(verdict, 0) + 1
                if verdict == 'SURVIVED':
                    survivors.append((name, number + 1, lines[number].strip(), new.strip()))
            print_row(name, counts)
    print_row('all', totals)
    for name, number, old, new in survivors:
        print(f'\n{name}:{number} survived\n  -  {old}\n  +  {new}')
    return 1 if survivors else 0


def print_row(name, counts):
    print(f'{name:26} {sum(counts.values()):8} {counts.get("killed", 0):8} {counts.get("stillborn", 0):10} {counts.get("the same", 0):9} '
          f'{counts.get("SURVIVED", 0):9}', flush=True)


if __name__ == '__main__':
    sys.exit(main())
