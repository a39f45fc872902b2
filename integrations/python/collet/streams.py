# SPDX-License-Identifier: Apache-2.0
"""Calls that return at once: streams, and handles of their work.

    stream = collet.Stream()
    comm.allreduce(gradient, stream=stream)     # returns at once; a thread of the C library carries it
    compute_something_else()
    stream.synchronize()                        # now gradient is the sum
"""
from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any, Optional

from ._buffers import Memory
from ._interrupt import interruptible
from ._library import SUCCESS, InvalidArgument, WorkHandle, check, library

if TYPE_CHECKING:
    from .communicator import Communicator


class Stream:
    """A queue of calls on any communicators. They are done in the order of issue, and the caller does not wait. Buffers must
    not be touched until the calls are done; the stream keeps them alive."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        check(library.collet_stream_create(ctypes.byref(handle)))
        self._handle: Optional[ctypes.c_void_p] = handle
        self._pending: deque[tuple[Work, Communicator, tuple[Memory, ...]]] = deque()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.synchronize()
        self.destroy()

    def record(self) -> Work:
        """The handle of all that was issued on the stream so far."""
        if self._handle is None:
            raise InvalidArgument(-1, "the stream was destroyed")
        handle = WorkHandle()
        check(library.collet_stream_record(self._handle, ctypes.byref(handle)))
        return Work(self, handle)

    def synchronize(self) -> None:
        """Waits until all calls issued so far are done; raises the first failure of them."""
        self.record().wait()

    def query(self) -> bool:
        """Are they done? Does not wait; raises the first failure."""
        return self.record().test()

    def destroy(self) -> None:
        """Waits until all calls are done, whether they fail or not. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(library.collet_stream_destroy(handle))
        self._pending.clear()

    def _keep(self, comm: Communicator, buffers: tuple[Memory, ...]) -> None:
        """A call was issued. Buffers of earlier calls that are done are let go."""
        self._pending.append((self.record(), comm, buffers))
        while self._pending[0][0]._is_done():
            self._pending.popleft()
            if not self._pending:
                return


class Work:
    """All calls on a stream up to a moment."""

    def __init__(self, stream: Stream, handle: WorkHandle) -> None:
        self._stream, self._handle = stream, handle

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is done; raises its failure. Ctrl-C aborts the communicators that it waits for.

        timeout: seconds of patience. False: they have passed; the calls go on."""
        with contextlib.ExitStack() as stack:
            for comm in {id(comm): comm for _, comm, _ in self._stream._pending}.values():
                stack.enter_context(interruptible(comm))
            if timeout is None:
                result = library.collet_wait(self._handle)
            else:
                result = library.collet_wait_for(self._handle, int(timeout * 1000))
        return check(result) == SUCCESS

    def test(self) -> bool:
        """Is it done? Does not wait; raises its failure."""
        done = ctypes.c_int()
        check(library.collet_test(self._handle, ctypes.byref(done)))
        return done.value != 0

    def _is_done(self) -> bool:
        done = ctypes.c_int()
        library.collet_test(self._handle, ctypes.byref(done))
        return done.value != 0
