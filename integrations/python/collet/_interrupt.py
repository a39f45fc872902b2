# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a wait.

Python runs its signal handlers between two bytecodes, so it would run them only after the C call. But the C part of its
handler writes a byte to a file descriptor at once (signal.set_wakeup_fd). A thread here reads that descriptor, and aborts the
communicators that the main thread waits in. The wait ends, and Python raises KeyboardInterrupt.

    main thread     comm.allreduce() ─ waits in C ───────────────┐ ABORTED ─▶ KeyboardInterrupt
    Ctrl-C          └─▶ byte ─▶ this thread ─▶ collet_comm_abort ┘
"""
from __future__ import annotations

import contextlib
import signal
import socket
import threading
from typing import Any, Iterator

_waiting: list[Any] = []  # communicators that the main thread waits in, innermost last
_started = False


def _serve(reader: socket.socket) -> None:
    while True:
        numbers = reader.recv(64)
        if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            for comm in list(_waiting):
                comm._interrupt()


def _start() -> None:
    """Once per process. A program that uses the wake-up descriptor itself (asyncio) keeps it; its waits end as the C library
    says."""
    global _started
    _started = True
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if previous != -1:
        signal.set_wakeup_fd(previous)
        return
    _start.writer = writer  # type: ignore[attr-defined]  # it stays open as long as the process
    threading.Thread(target=_serve, args=(reader,), name="collet-interrupt", daemon=True).start()


@contextlib.contextmanager
def interruptible(comm: Any) -> Iterator[None]:
    """While the body waits in comm, Ctrl-C aborts comm. Only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _started:
        _start()
    _waiting.append(comm)
    try:
        yield
    finally:
        _waiting.pop()
