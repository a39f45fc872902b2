#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# sass.py: what ptxas makes of some kernels (sass.cu), in figures and rules. No GPU runs them.
#
#    nvcc ──▶ registers, spills, shared memory (ptxas -v); the registers also for the simulated machine
#         └─▶ cubin ──▶ nvdisasm ──▶ instructions ──▶ rules
#
# Each rule is also tried on instructions that were spoiled on purpose: a rule that cannot fail is none.
#
#    NVCC=nvcc SASS_ARCH=90 BUILD=build tests/gpu/sass.py      77: no nvcc, or no nvdisasm (the toolkit's, or PyPI's by pip)
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / os.environ.get("BUILD", "build") / "sass"
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


def compile_kernels(nvcc):
    arch = os.environ.get("SASS_ARCH", "90")
    flags = ["-cubin", f"-arch=sm_{arch}", "-std=c++17", "-O3", "-fmad=false", "-Iinclude", "-Isrc", "-Xptxas", "-v"]
    command = [nvcc, *flags, "-o", str(WORK / "sass.cubin"), "tests/gpu/sass.cu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout + done.stderr)
        sys.exit(1)
    return done.stdout + done.stderr


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


# One for the steps of each protocol, and one for the report of a failure.
def wrong_fences(lines):
    wanted = len(re.findall(r"^    X\(", (ROOT / "src/fifo/protocol.h").read_text(), re.M)) + 1
    fences = [line for line in lines if "MEMBAR" in line]
    if any(".SYS" not in line or ".SC" in line for line in fences):
        return "a fence that is not one of the system's: " + ", ".join(fences)
    return None if len(fences) == wanted else f"{len(fences)} fences, not {wanted}"


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


# Stores of 16 bytes at once are LL's, which stand beside one of 8 bytes, or lines of LL128.
def wrong_lines(lines):
    whole = 0
    for k, line in enumerate(lines):
        if "STG.E.128.STRONG.SYS" not in line:
            continue
        if any("STG.E.64.STRONG.SYS" in near for near in lines[max(0, k - 3) : k + 4]):
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


RULES = {
    "fences": (wrong_fences, lambda text: text.replace("MEMBAR.ALL.SYS", "MEMBAR.ALL.GPU", 1)),
    "no cached loads": (wrong_loads, lambda text: text.replace("LDG.E.128", "LDG.E.128.CONSTANT", 1)),
    "whole lines": (wrong_lines, lambda text: re.sub(r"BRA\.DIV|WARPSYNC\.ALL", "NOP", text)),
    "full masks": (wrong_masks, lambda text: text.replace("-0x1", "0xff").replace("VOTE.ANY", "MATCH.ANY")),
}


def main():
    nvcc = find_nvcc()
    WORK.mkdir(parents=True, exist_ok=True)
    nvdisasm = find_nvdisasm()
    table = figures(compile_kernels(nvcc))
    text = subprocess.run([nvdisasm, "-c", str(WORK / "sass.cubin")], capture_output=True, text=True, check=True).stdout
    kernels, passed, failed = instructions(text), 0, 0
    (WORK / "registers").write_text("".join(f"{name} {f['registers']}\n" for name, f in table.items()))
    print("registers  spilled  shared  fences  instructions  kernel")
    for name, lines in kernels.items():
        f = table[name]
        fences = sum("MEMBAR" in line for line in lines)
        print(f"{f['registers']:9} {f['spilled']:6} B {f['shared']:5} B {fences:7} {len(lines):13}  {name}")
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
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or not kernels


# Spoils every kernel, not only the first.
def spoil_each(text, spoil):
    return "".join(spoil(part) for part in re.split(r"(?=^\.text\.)", text, flags=re.M))


sys.exit(main())
