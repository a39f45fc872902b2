#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# sass.py: what ptxas makes of some kernels (sass.cu, and the sums by switches), in figures and rules. No GPU runs them.
#
#    nvcc ──▶ registers, spills, shared memory (ptxas -v); the registers also for the simulated machine
#         └─▶ cubin ──▶ nvdisasm ──▶ instructions ──▶ rules
#
# Each rule is also tried on instructions that were spoiled on purpose: a rule that cannot fail is none.
#
# docs/gpu.md has the figures, and says of which nvcc they are. With this one they must be the same.
#
#    NVCC=nvcc SASS_ARCH=90 BUILD=build tests/gpu/sass.py      77: no nvcc, or no nvdisasm (the toolkit's, or PyPI's by pip)
#    tests/gpu/sass.py --update                                writes the figures into docs/gpu.md
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / os.environ.get("BUILD", "build") / "sass"
PAGE = ROOT / "docs/gpu.md"
ARCH = os.environ.get("SASS_ARCH", "90")
SOURCES = ["tests/gpu/sass.cu"] + (["src/kernels/cuda/exec_cuda_team.cu"] if int(ARCH) >= 90 else [])
MOST_REGISTERS = 128  # 512 lanes of a block fit on a multiprocessor
MOST_SPILLED_BYTES = 192  # what a lane keeps over a step, or over a rare call; none in a loop over vectors


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_nvcc():
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    return nvcc or skip("there is no nvcc")


def find_nvdisasm():
    found = subprocess.run(["tests/common/cuda_tool.sh", "nvdisasm", str(WORK)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else skip(found.stdout.strip())


# ---- figures and instructions ----


# A cubin per source. What ptxas says of them.
def compile_kernels(nvcc):
    flags = ["-cubin", f"-arch=sm_{ARCH}", "-std=c++17", "-O3", "-fmad=false", "-Iinclude", "-Isrc", "-Xptxas", "-v"]
    said = ""
    for source in SOURCES:
        command = [nvcc, *flags, "-o", str(cubin_of(source)), source]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        said += done.stdout + done.stderr
        if done.returncode != 0:
            print(said)
            sys.exit(1)
    return said


def cubin_of(source):
    return WORK / pathlib.Path(source).with_suffix(".cubin").name


def disassemble(nvdisasm):
    texts = (subprocess.run([nvdisasm, "-c", cubin_of(s)], capture_output=True, text=True, check=True).stdout for s in SOURCES)
    return "".join(texts)


# By kernel: registers, bytes spilled, bytes of shared memory.
def figures(log):
    found, kernel = {}, None
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = match[1]
        elif kernel and (match := re.search(r"(\d+) bytes spill stores", line)):  # its own, then its functions'
            spilled = found.setdefault(kernel, {"spilled": 0})
            spilled["spilled"] = max(spilled["spilled"], int(match[1]))
        elif kernel and (match := re.search(r"Used (\d+) registers.*?(?:(\d+) bytes smem|$)", line)):
            found[kernel].update(registers=int(match[1]), shared=int(match[2] or 0))
    return found


# By kernel: its instructions and labels, one a line.
def instructions(text):
    kernels, lines = {}, None
    for line in text.splitlines():
        if match := re.match(r"\.text\.(\w+):", line):
            lines = kernels.setdefault(match[1], [])
        elif line.startswith(".section"):
            lines = None
        elif lines is not None and (match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;|(\.L_x_\d+:)", line)):
            lines.append(match[1] or match[2])
    return kernels


# ---- rules: what is wrong, or None ----

PROTOCOLS = len(re.findall(r"^    X\(", (ROOT / "src/fifo/protocol.h").read_text(), re.M))


# fence.proxy.alias is two that stand for one: for GPUs whose memory is reached alike by both addresses, and for others.
def aliases_of(lines):
    return sum("MEMBAR.SC.SYS" in line for line in lines)


def fences_of(lines):
    return [line for line in lines if "MEMBAR" in line and "MEMBAR.SC" not in line]


# One for the steps of each protocol, and one for the report of a failure.
def wrong_fences(lines):
    fences = fences_of(lines)
    if any(".SYS" not in line for line in fences):
        return "a fence that is not one of the system's: " + ", ".join(fences)
    return None if len(fences) == PROTOCOLS + 1 else f"{len(fences)} fences, not {PROTOCOLS + 1}"


# In sums by switches, which are steps of plain payload, one before the loads and one behind the stores.
def wrong_aliases(lines):
    wanted = 2 if any("LDGMC" in line for line in lines) else 0
    return None if aliases_of(lines) == wanted else f"{aliases_of(lines)} fences between addresses of one memory, not {wanted}"


def spoil_aliases(text):
    return text.replace("MEMBAR.SC.SYS", "NOP") if "LDGMC" in text else text.replace("MEMBAR.ALL.SYS", "MEMBAR.SC.SYS", 1)


def wrong_loads(lines):
    return next((f"a load through the constant cache: {line}" for line in lines if re.search(r"\bLDG?\.\S*CONSTANT", line)), None)


# Does the warp come together right before this line? Labels and what is no branch may stand between.
def converges(lines, k):
    before = [line for line in lines[max(0, k - 8) : k] if not line.startswith(".L")]
    for line in reversed(before):
        if "BRA.DIV" in line or "WARPSYNC.ALL" in line:
            return True
        if re.search(r"\b(BRA|BSYNC|EXIT|RET|CALL)\b", line):
            return False
    return False


# Stores of 16 bytes at once are LL's, which stand beside one of 8 bytes, sums that a switch has made, or lines of LL128.
def wrong_lines(lines):
    whole = 0
    for k, line in enumerate(lines):
        if "STG.E.128.STRONG.SYS" not in line:
            continue
        if any("STG.E.64.STRONG.SYS" in near for near in lines[max(0, k - 3) : k + 4]):
            continue
        if any("LDGMC" in near for near in lines[max(0, k - 500) : k]):
            continue
        if not converges(lines, k):
            return f"a line of LL128 is stored by lanes that have not come together: {line}"
        whole += 1
    return None if whole > 0 else "no line of LL128 is stored"


def wrong_masks(lines):
    for k, line in enumerate(lines):
        if re.search(r"\b(MATCH|REDUX)\b", line):
            return f"lanes look for each other: {line}"
        if match := re.search(r"WARPSYNC(?:\.COLLECTIVE)? (R\d+)", line):
            said = (l for l in reversed(lines[:k]) if re.search(rf"\b{match[1]},", l))
            sets = next((l for l in said if "ST" not in l.split()[0] and "WARPSYNC" not in l), "") # readers of it set nothing
            if "-0x1" not in sets and "0xffffffff" not in sets:
                return f"a mask that is not of the whole warp: {sets}"
    return None


# What is longer than a byte is copied by words, and loads of several come before the first store. Here each load waits for a store.
BYTES_IN_TURN, BYTES_NEAR = 6, 48


def bytes_in_turn(lines):
    found = [(k, m[1]) for k, line in enumerate(lines) if (m := re.search(r"\b(LD|ST)\w?\.(?:\S+\.)?[US]8\b", line))]
    for n in range(len(found) - BYTES_IN_TURN + 1):
        run = found[n : n + BYTES_IN_TURN]
        if run[-1][0] - run[0][0] < BYTES_NEAR and all(a[1] != b[1] for a, b in zip(run, run[1:])):
            return f"bytes are copied one by one: {lines[run[0][0]]}"
    return None


def spoil_bytes(text):
    pair = "\n        /*0000*/                   LDG.E.U8 R0, [R2.64] ;\n        /*0010*/                   STS.U8 [R4], R0 ;"
    return re.sub(r"\n\s+/\*[0-9a-f]+\*/[^\n]*;[^\n]*", lambda first: first[0] + 3 * pair, text, count=1)


# Loops: from the line to which a branch leads back, to that branch.
def loops_of(lines):
    at = {line[:-1]: k for k, line in enumerate(lines) if line.startswith(".L")}
    branches = ((k, re.search(r"\bBRA\S*.*?(\.L_x_\d+)", line)) for k, line in enumerate(lines))
    return [(at.get(target[1], k), k) for k, target in branches if target and at.get(target[1], k) < k]


# By line: is it in a loop?
def in_loops(lines):
    inside = [False] * len(lines)
    for first, behind in loops_of(lines):
        inside[first:behind] = [True] * (behind - first)
    return inside


# LD and ST without a letter behind are for an address of any memory: they take longer, and the compiler may not move others past them.
def generic_in_loops(lines):
    found = (line for line, inside in zip(lines, in_loops(lines)) if inside and re.search(r"\b(LD|ST)\.E\b", line))
    return next((f"in a loop, an access to memory of which nobody says what it is: {line}" for line in found), None)


# A lane that loads vectors in a loop has all that it needs there in registers.
def spills_in_copies(lines):
    loops = loops_of(lines)
    for k, line in enumerate(lines):
        around = [loop for loop in loops if loop[0] <= k < loop[1]]
        if not re.search(r"\bLDG\.E\.128 ", line) or not around:
            continue
        first, behind = min(around, key=lambda loop: loop[1] - loop[0])
        if spill := next((l for l in lines[first:behind] if re.search(r"\b(LDL|STL)\b", l)), None):
            return f"in a loop that loads vectors, a register is spilled: {spill}"
    return None


def spoil_copies(text):
    return re.sub(r"(\n\s+/\*[0-9a-f]+\*/\s+)((?:@\S+ )?LDG\.E\.128 )", r"\1LDL R0, [R1] ;\1\2", text)


RULES = {
    "fences": (wrong_fences, lambda text: text.replace("MEMBAR.ALL.SYS", "MEMBAR.ALL.GPU", 1)),
    "aliases": (wrong_aliases, spoil_aliases),
    "no cached loads": (wrong_loads, lambda text: text.replace("LDG.E.128", "LDG.E.128.CONSTANT", 1)),
    "whole lines": (wrong_lines, lambda text: re.sub(r"BRA\.DIV|WARPSYNC\.ALL", "NOP", text)),
    "copies by words": (bytes_in_turn, spoil_bytes),
    "copies in registers": (spills_in_copies, spoil_copies),
    "known memory": (generic_in_loops, lambda text: re.sub(r"\bLDS\b", "LD.E", text)),
    "full masks": (wrong_masks, lambda text: text.replace("-0x1", "0xff").replace("VOTE.ANY", "MATCH.ANY")),
}


# ---- the page ----


def enum_names(enum):
    body = re.search(rf"^enum collet_{enum} {{(.*?)^}}", (ROOT / "include/collet.h").read_text(), re.M | re.S)[1]
    return re.findall(r"^    COLLET_(\w+) = \d+", body, re.M)


# run_launch<reduction<…>> by its arguments, as include/collet.h calls them.
def name_of(kernel):
    part = re.match(r"_Z10run_launchI\d+([a-z_]+)(?:ILi(\d+)E(?:Li(\d+)E)?)?", kernel)
    said = [enum_names(enum)[int(k)] for enum, k in (("type", part[2]), ("op", part[3])) if k is not None]
    return part[1] + (f"<{', '.join(said)}>" if said else "")


def table_of(kernels, table):
    rows = ["| kernel | registers | spilled | shared memory | fences | `fence.proxy.alias` |", "|---|---:|---:|---:|---:|---:|"]
    for name, lines in sorted(kernels.items(), key=lambda item: name_of(item[0])):
        f = table[name]
        rows.append(f"| `{name_of(name)}` | {f['registers']} | {f['spilled']} B | {f['shared']} B | {len(fences_of(lines))} | {aliases_of(lines)} |")
    return "\n".join(rows) + "\n"


# What the page has under the mark, if it is of this nvcc and architecture.
def compare_page(nvcc, rows, update):
    release = re.search(r"V(\d+\.\d+\.\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout)[1]
    page = PAGE.read_text()
    mark = re.search(r"<!-- make sass-lint: nvcc (\S+), sm_(\S+) -->\n((?:\|.*\n)*)", page)
    if update:
        PAGE.write_text(page.replace(mark[0], f"<!-- make sass-lint: nvcc {release}, sm_{ARCH} -->\n{rows}"))
    elif (mark[1], mark[2]) != (release, ARCH):
        print(f"not compared: the figures of docs/gpu.md are of nvcc {mark[1]} and sm_{mark[2]}, these of nvcc {release} and sm_{ARCH}")
    elif mark[3] != rows:
        print("FAIL  docs/gpu.md has other figures: tests/gpu/sass.py --update")
        return False
    else:
        print("ok    docs/gpu.md has these figures")
    return True


def main():
    nvcc = find_nvcc()
    WORK.mkdir(parents=True, exist_ok=True)
    nvdisasm = find_nvdisasm()
    table = figures(compile_kernels(nvcc))
    text = disassemble(nvdisasm)
    kernels, passed, failed = instructions(text), 0, 0
    (WORK / "registers").write_text("".join(f"{name} {f['registers']}\n" for name, f in table.items()))
    rows = table_of(kernels, table)
    print(rows)
    for name, lines in kernels.items():
        f = table[name]
        wrong = [rule(lines) for rule, _ in RULES.values()]
        wrong.append(None if f["registers"] <= MOST_REGISTERS else f"more than {MOST_REGISTERS} registers")
        wrong.append(None if f["spilled"] <= MOST_SPILLED_BYTES else f"more than {MOST_SPILLED_BYTES} bytes spilled")
        for why in filter(None, wrong):
            print(f"FAIL  {name}: {why}")
        failed, passed = failed + sum(w is not None for w in wrong), passed + sum(w is None for w in wrong)
    for what, (rule, spoil) in RULES.items():
        notices = kernels and all(rule(lines) for lines in instructions(spoil_each(text, spoil)).values())
        passed, failed = passed + bool(notices), failed + (not notices)
        print(f"{'ok   ' if notices else 'FAIL '} the rule of {what} can fail")
    same = compare_page(nvcc, rows, "--update" in sys.argv)
    passed, failed = passed + same, failed + (not same)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or not kernels


# Spoils every kernel, not only the first.
def spoil_each(text, spoil):
    return "".join(spoil(part) for part in re.split(r"(?=^\.text\.)", text, flags=re.M))


sys.exit(main())
