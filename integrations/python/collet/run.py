# SPDX-License-Identifier: Apache-2.0
"""A launcher for one host:  python -m collet.run -n 4 script.py [arguments]

Starts n processes of the script with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun does. When one
fails, the others get 5 seconds to end by themselves, and are then terminated. The exit status is that of the first that
failed. After Ctrl-C all of them get 5 seconds, and the exit status is 130.
"""
from __future__ import annotations

import argparse
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from typing import Optional

from ._options import Options

GRACE_SECONDS = 5.0


def free_port() -> int:
    """A port of this host that nobody listens on now. Ranks meet two ports above MASTER_PORT (docs/clusters.md). The kernel would give a
    port from the range that it also takes for connections, so another program might have it a moment later."""
    for port in random.sample(range(20000, 29400), 100):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 2))
            except OSError:
                continue
            return port
    raise SystemExit("collet.run: no free port was found; set MASTER_PORT")


def start(options: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    environment = dict(os.environ, WORLD_SIZE=str(options.n), LOCAL_WORLD_SIZE=str(options.n))
    environment.setdefault("MASTER_ADDR", "127.0.0.1")
    if "MASTER_PORT" not in environment:
        environment["MASTER_PORT"] = str(free_port())
    command = [sys.executable, *(["-m"] if options.module else []), options.script, *options.arguments]
    return [subprocess.Popen(command, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
            for rank in range(options.n)]


def wait(processes: list[subprocess.Popen[bytes]], status: int = 0) -> int:
    """Waits for all; returns the status of the one that failed first. A thread per process tells of its end.

    status: not 0: the job has failed already, and has little time left."""
    ended: queue.Queue[tuple[int, int]] = queue.Queue()
    for rank, process in enumerate(processes):
        threading.Thread(target=lambda r=rank, p=process: ended.put((r, p.wait())), daemon=True).start()
    patience = [GRACE_SECONDS, GRACE_SECONDS]
    cause = ""
    for _ in processes:
        rank, returned = _next(ended, processes, patience if status else None)
        if returned and not status:
            status = returned if returned > 0 else 128 - returned  # as a shell counts signals
            cause = f"collet.run: rank {rank} ended first, with status {status}{_signal_name(returned)}"
    if cause:
        print(cause, file=sys.stderr)  # below what the others had to say
    return status


def _signal_name(returned: int) -> str:
    return f" ({signal.strsignal(-returned)})" if returned < 0 else ""


def _next(ended: queue.Queue[tuple[int, int]], processes: list[subprocess.Popen[bytes]],
          patience: Optional[list[float]]) -> tuple[int, int]:
    """The next end. After a failure the others get SIGTERM when their first patience is over, then SIGKILL."""
    while patience:
        try:
            return ended.get(timeout=patience[0])
        except queue.Empty:
            patience.pop(0)
            for process in processes:
                process.terminate() if patience else process.kill()
    return ended.get()


def main() -> int:
    parser = Options(prog="python -m collet.run", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("-n", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("-m", "--module", action="store_true", help="script is the name of a module")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one process")
    processes = start(options)
    try:
        return wait(processes)
    except KeyboardInterrupt:
        for process in processes:
            process.send_signal(signal.SIGINT)  # the terminal has sent one too; a second does no harm
        return wait(processes, 130)


if __name__ == "__main__":
    sys.exit(main())
