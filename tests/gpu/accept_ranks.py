# SPDX-License-Identifier: Apache-2.0
"""What accept_torch.py, accept_cupy.py and accept_jax.py share: processes that are ranks, and a parent that reads what they say.

   parent ──▶ itself again, with collet's libnccl.so.2 preloaded
     └─▶ for each part forks its ranks ──▶ reads their lines, says every 2 s who does what, ends what is late

A rank says "BEGIN check" and "END check ok …" or "END check FAILED …", a line each, "DONE" behind the last, and ends with 0 if all
passed; all else that it prints is passed on. Nothing of CUDA may be called before the fork.
"""
from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import glob
import importlib.util
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import Callable

START = time.monotonic()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
NOT_APPLICABLE = 77
SPEAK_SECONDS = 2.0
GRACE_SECONDS = 4.0  # kept for saying what failed


def say(text: str) -> None:
    print(f"{time.monotonic() - START:6.1f} s  {text}", flush=True)


# ---- one rank ----------------------------------------------------------------------------------------------------------------


class Checks:
    """The checks of one rank, one after the other."""

    def __init__(self, synchronize: Callable[[], object]):
        self.synchronize, self.wrong, self.failed = synchronize, [], False

    def expect(self, truth: bool, text: str) -> None:
        """What is wrong is noted, and the check goes on: other ranks wait for its calls."""
        if not truth:
            self.wrong.append(text)

    def attempt(self, check: Callable[[], object], name: str = "") -> bool:
        """False after an error of CUDA or of the library: the rest makes no sense then, and peers would wait."""
        name, begin, self.wrong = name or check.__name__, time.monotonic(), []
        print(f"BEGIN {name}", flush=True)
        try:
            note = check()
            self.synchronize()
        except Exception as error:  # any: it is a failure of the check
            self.failed = True
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = " / ".join(str(error).split("\n")[:6])[:600]
            print(f"END {name} FAILED {type(error).__name__} at {os.path.basename(where.filename)}:{where.lineno}: {text}", flush=True)
            return False
        self.failed |= bool(self.wrong)
        took = f"{time.monotonic() - begin:.2f} s"
        print(f"END {name} FAILED {took} {self.wrong[0]}" if self.wrong else f"END {name} ok {took} {note or ''}", flush=True)
        return True

    def run(self, checks) -> int:
        """The exit status of the rank."""
        faulthandler.register(signal.SIGUSR1, all_threads=False)  # the parent asks so where a late rank is
        if not all(self.attempt(check) for check in checks):
            return 1
        print("DONE", flush=True)
        return 1 if self.failed else 0


class LoadedFrom(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def library_of(symbol: str) -> str:
    """The file whose function a program gets by this name, and so do the libraries that it loads."""
    found = LoadedFrom()
    function = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p)
    ctypes.CDLL(None).dladdr(function, ctypes.byref(found))
    return os.path.realpath(found.file.decode())


def check_library(nccl: str) -> str:
    """ncclAllReduce is collet's: the wheels open NVIDIA's library by its path as well, so that both are mapped."""
    library = library_of("ncclAllReduce")
    if library != os.path.realpath(nccl):
        raise AssertionError(f"ncclAllReduce is of {library}, not of {nccl}")
    return f"ncclAllReduce is of {library}"


def collet_has_made_communicators() -> str:
    """Its log of this process says so: the library that was checked above is the one that has done the work."""
    path = log_file(str(os.getpid()))
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as log:
        lines = sum(" INIT " in line for line in log)
        if lines:
            return f"{lines} lines of its log"
    raise AssertionError("collet's log of this process says nothing of a communicator: another library has done the work")


def log_file(process: str) -> str:
    return os.path.join(os.environ["ACCEPT_LOGS"], f"collet.{process}")


# ---- the parent: starts ranks, reads what they say, ends what is late --------------------------------------------------------


class Rank:
    """A forked rank: its process, what it prints, and what it is doing."""

    def __init__(self, number: int, body):
        self.number, self.doing, self.since, self.text = number, "starting", time.monotonic(), b""
        self.status, self.done = None, False
        self.pipe, theirs = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            with contextlib.suppress(OSError):
                os.close(self.pipe)
            os.dup2(theirs, 1)
            os.dup2(theirs, 2)
            status = 1
            try:
                status = body()
            except BaseException:  # it ends here, whatever it was
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(theirs)

    def read(self) -> list:
        """Whole lines; at the end, what is left."""
        some = os.read(self.pipe, 65536)
        if not some:
            os.close(self.pipe)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
            self.text += b"\n" if self.text else b""
        *lines, self.text = (self.text + some).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def end(self) -> None:
        for number, patience in ((signal.SIGUSR1, 0.3), (signal.SIGKILL, 0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, number)
            time.sleep(patience)


class Part:
    """One part: its ranks and what became of each check."""

    def __init__(self, name: str, ranks: int, deadline: float, body):
        self.name, self.deadline, self.failures, self.passed, self.spoke = name, deadline, [], 0, time.monotonic()
        say(f"{name}: {ranks} processes, {deadline - time.monotonic():.0f} s left")
        self.ranks = [Rank(number, lambda number=number: body(number)) for number in range(ranks)]

    def tell(self, text: str) -> None:
        self.spoke = time.monotonic()
        say(f"{self.name}: {text}")

    def hear(self, rank: Rank, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "BEGIN":
            rank.doing, rank.since = rest, time.monotonic()
        elif word == "END":
            rank.doing, rank.since = f"behind {rest.split()[0]}", time.monotonic()
            if " FAILED " in rest:
                self.failures.append(f"{self.name}, rank {rank.number}: {rest}")
            elif rank.number == 0:
                self.passed += 1
            if rank.number == 0 or " FAILED " in rest:
                self.tell(f"{'' if rank.number == 0 else f'rank {rank.number}: '}{rest}")
        elif word == "DONE":
            rank.done = True
        elif line.strip():
            self.tell(f"rank {rank.number} | {line[:300]}")

    def say_who_does_what(self) -> None:
        now = time.monotonic()
        doing = [f"rank {r.number} {r.doing} for {now - r.since:.0f} s" for r in self.ranks if r.status is None]
        self.tell(", ".join(doing))

    def stop(self, why: str) -> None:
        for rank in self.ranks:
            if rank.status is None:
                self.failures.append(f"{self.name}, rank {rank.number}: {rank.doing}: {why}")
                rank.end()
        self.deadline = time.monotonic() + GRACE_SECONDS  # to read what they still said

    def run(self) -> None:
        stopped = 0.0
        while any(rank.status is None for rank in self.ranks):
            ready, _, _ = select.select([r.pipe for r in self.ranks if r.status is None], [], [], 0.2)
            for rank in [r for r in self.ranks if r.status is None and r.pipe in ready]:
                for line in rank.read():
                    self.hear(rank, line)
            now = time.monotonic()
            if now - self.spoke >= SPEAK_SECONDS and not stopped:
                self.say_who_does_what()
            lame = [r for r in self.ranks if r.status not in (None, 0) and not r.done]
            if not stopped and (now > self.deadline or (lame and now > lame[0].since + 3)):
                stopped = now
                self.stop(f"stopped, as rank {lame[0].number} has ended" if lame else "stopped, as the time is up")
            if stopped and now > stopped + GRACE_SECONDS:
                break
        for rank in self.ranks:
            if rank.status and not any(f", rank {rank.number}:" in failure for failure in self.failures):
                self.failures.append(f"{self.name}, rank {rank.number}: {rank.doing}: it ended with status {rank.status}")


# Below the ports that the kernel takes for connections: of those, another program might have one a moment later.
def free_port() -> int:
    for port in random.sample(range(20000, 29400), 100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit("no port is free")


@contextlib.contextmanager
def signs_of_life(text: str):
    """A line every two seconds meanwhile. The thread has ended before anything is forked."""
    done = threading.Event()

    def speak():
        while not done.wait(SPEAK_SECONDS - 0.2):
            say(text)
    thread = threading.Thread(target=speak)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def parser_of(text: str, seconds: float) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--nccl", default=os.path.join(BUILD, "lib", "libnccl.so.2"))
    parser.add_argument("--only", default="", help="names of parts, with commas")
    return parser


def not_applicable(options: argparse.Namespace) -> str:
    simulated = "GPUSIM_GPUS" in os.environ
    if not options.cpu and not simulated and not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"))):
        return "there is no NVIDIA GPU"
    if not os.path.exists(options.nccl):
        return f"there is no {options.nccl}; --nccl names collet's libnccl.so.2"
    return ""


def take_python_with(module: str) -> str:
    """This program again, in a Python that has the module: PYTHON, those in PATH, and those that images of GPU machines keep in /opt.
    Says why not if there is none."""
    if importlib.util.find_spec(module):
        return ""
    pythons = [os.environ.get("PYTHON", ""), shutil.which("python3"), shutil.which("python"), "/usr/bin/python3",
               *glob.glob("/opt/*/bin/python3"), *glob.glob("/opt/*/*/bin/python3"), *glob.glob("/opt/*/.venv/bin/python3")]
    ask = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
    for python in dict.fromkeys(filter(None, pythons)):
        if os.path.exists(python) and subprocess.run([python, "-c", ask], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            os.execv(python, [python, *sys.argv])
    return f"no Python here has {module}: PYTHON names one that has it"


def preload(options: argparse.Namespace) -> None:
    """This program again, with collet's library ahead of all others. The wheels of torch have a DT_RPATH, which comes before
    LD_LIBRARY_PATH. The folder is in that as well, for collet_torch, which needs libcollet.so."""
    path = os.path.realpath(options.nccl)
    if path not in os.environ.get("LD_PRELOAD", "").split(":"):
        for name, first in (("LD_PRELOAD", path), ("LD_LIBRARY_PATH", os.path.dirname(path))):
            others = os.environ.get(name, "")
            os.environ[name] = first + (":" + others if others else "")
        os.execv(sys.executable, [sys.executable, *sys.argv])


def run_parts(options: argparse.Namespace, parts, body) -> int:
    """parts: (name, ranks). body(name, rank, ranks, port) is a rank's, and returns its exit status. Returns that of the program."""
    with tempfile.TemporaryDirectory() as logs:
        os.environ.update(ACCEPT_LOGS=logs, COLLET_DEBUG="INFO", COLLET_DEBUG_SUBSYS="INIT", COLLET_DEBUG_FILE=f"{logs}/collet.%p")
        return run_all(options, parts, body)


def say_warnings(name: str) -> None:
    """Those of collet, which lie in its log, each once."""
    seen = set()
    for path in glob.glob(log_file("*")):
        with open(path, encoding="utf-8", errors="replace") as log:
            seen |= {line.split(" ", 1)[-1].strip() for line in log if " WARN " in line}
        os.unlink(path)
    for warning in sorted(seen)[:20]:
        say(f"{name}: {warning[:300]}")


def run_all(options: argparse.Namespace, parts, body) -> int:
    end = START + options.seconds - GRACE_SECONDS
    failures, passed = [], 0
    for name, ranks in parts:
        if options.only and name not in options.only.split(","):
            continue
        if end - time.monotonic() < 3:
            failures.append(f"{name}: not run, as the time is up")
            continue
        port = free_port()
        part = Part(name, ranks, end, lambda rank: body(name, rank, ranks, port))
        part.run()
        say_warnings(name)
        failures += part.failures
        passed += part.passed
    say(f"{passed} checks passed, {len(failures)} failed" + "".join(f"\n  FAILED {failure}" for failure in failures))
    return 1 if failures or not passed else 0
