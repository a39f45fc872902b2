# SPDX-License-Identifier: Apache-2.0
"""Communicators: an ordered set of processes that call collectives together."""
from __future__ import annotations

import contextlib
import ctypes
import math
import operator
import threading
from typing import Any, Iterator, Optional, Sequence

from ._buffers import Memory, memory_of
from ._interrupt import interruptible
from ._library import UNIQUE_ID_BYTES, WORDS, Config, InvalidArgument, UniqueId, check, library
from .streams import Stream

# enum collet_op
OPS = {"sum": 0, "prod": 1, "min": 2, "max": 3, "avg": 4, "band": 5, "bor": 6, "bxor": 7}


def _op(name: str, memory: Memory) -> int:
    """Of truth values, a sum is `or` and a product is `and`."""
    if name not in OPS:
        raise InvalidArgument(-1, f"op is '{name}': use one of " + ", ".join(OPS))
    if memory.is_truth and name == "avg":
        raise InvalidArgument(-1, "op is 'avg', but truth values have no average")
    return OPS[{"sum": "max", "prod": "min"}.get(name, name) if memory.is_truth else name]


def _whole(name: str, value: Any) -> int:
    """A number that C's int can hold. ctypes would cut off a larger one."""
    with contextlib.suppress(TypeError):
        if abs(operator.index(value)) < 1 << 31:
            return operator.index(value)
    raise InvalidArgument(-1, f"{name} is {value!r}: a whole number is needed, which fits 32 bits")


def unique_id() -> bytes:
    """Makes an id for one new communicator, and a meeting point for its ranks in this process. Hand the bytes to every
    rank by a channel that you trust: a process that knows them can join."""
    id_ = UniqueId()
    check(library.collet_get_unique_id(ctypes.byref(id_)))
    return ctypes.string_at(ctypes.byref(id_), UNIQUE_ID_BYTES)


def init(*, timeout: float = 0, init_timeout: float = 0, name: str = "") -> Communicator:
    """This process's rank of the job that a launcher describes in the environment (torchrun, mpirun, srun,
    `python -m collet.run`). Without a launcher: a communicator of one rank.

    timeout: seconds without progress after which a call fails; 0: COLLET_TIMEOUT, by default 30 minutes.
    init_timeout: seconds to wait for all ranks; 0: COLLET_INIT_TIMEOUT, by default 10 minutes.
    name: is shown in logs and dumps."""
    handle, config = ctypes.c_void_p(), _config(timeout, init_timeout, name)
    check(library.collet_comm_init_from_env(ctypes.byref(handle), ctypes.byref(config)))
    return Communicator._of(handle)


def _ms(seconds: float) -> int:
    """0 has a meaning of its own, and C's int an end."""
    return min(math.ceil(seconds * 1000), (1 << 31) - 1)


def _config(timeout: float, init_timeout: float, name: str) -> Config:
    return Config(size=ctypes.sizeof(Config), timeout_ms=_ms(timeout), name=name.encode() or None,
                  init_timeout_ms=_ms(init_timeout))


class _Group(threading.local):
    """The open group of a thread: what its calls need until it ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.calls: list[tuple[Communicator, tuple[Memory, ...], Optional[Stream]]] = []


_group = _Group()


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Calls inside run together when the outermost group ends. A send and a receive that wait for each other need this.
    If the body raises, nothing of the group runs, and the communicators in it are aborted: other ranks wait for them."""
    check(library.collet_group_start())
    _group.depth += 1
    try:
        yield
    except BaseException:
        for comm, _, _ in _group.calls:
            comm.abort()
        library.collet_group_end()
        raise
    else:
        with contextlib.ExitStack() as stack:
            for comm, _, _ in _group.calls:
                stack.enter_context(interruptible(comm))
            result = library.collet_group_end()
        check(result)
        for comm, keep, stream in _group.calls if _group.depth == 1 else []:
            if stream is not None:
                stream._keep(comm, keep)
    finally:
        _group.depth -= 1
        if _group.depth == 0:
            _group.calls.clear()


class Communicator:
    """One rank of a communicator. Use it in a `with` statement, or call destroy() once.

    Every rank calls the same collective with the same number of elements. A receive buffer that is left out, or None,
    means in place: the result replaces the input. After Ctrl-C in a call, the communicator is aborted on all ranks."""

    _words = WORDS  # for the texts of failures

    def __init__(self, id_: bytes, nranks: int, rank: int, *, timeout: float = 0, init_timeout: float = 0,
                 name: str = "") -> None:
        """Rank `rank` of `nranks` that share an id of unique_id(). Blocks until all ranks have come. Options as for init()."""
        if len(id_) != UNIQUE_ID_BYTES:
            raise InvalidArgument(-1, f"the id has {len(id_)} bytes: pass what unique_id() returned, {UNIQUE_ID_BYTES}")
        unique, config, handle = UniqueId(), _config(timeout, init_timeout, name), ctypes.c_void_p()
        ctypes.memmove(ctypes.byref(unique), id_, UNIQUE_ID_BYTES)
        check(library.collet_comm_init_rank_config(ctypes.byref(handle), nranks, unique, rank, ctypes.byref(config)), self._words)
        self._adopt(handle)

    @classmethod
    def _of(cls, handle: ctypes.c_void_p) -> Communicator:
        comm = cls.__new__(cls)
        comm._adopt(handle)
        return comm

    def _adopt(self, handle: ctypes.c_void_p) -> None:
        self._handle: Optional[ctypes.c_void_p] = handle
        nranks, rank = ctypes.c_int(), ctypes.c_int()
        check(library.collet_comm_count(handle, ctypes.byref(nranks)))
        check(library.collet_comm_rank(handle, ctypes.byref(rank)))
        self.nranks: int = nranks.value
        self.rank: int = rank.value

    def __repr__(self) -> str:
        return f"<collet.Communicator: rank {self.rank} of {self.nranks}>"

    def split(self, color: Optional[int], key: int = 0) -> Optional[Communicator]:
        """A new communicator of the ranks that pass the same color, 0 or more, in the order of key. Every rank calls it; a
        rank that passes None is in no new communicator, and gets None."""
        if _group.depth > 0:
            raise InvalidArgument(-1, "split() cannot be called inside collet.group()")
        handle = ctypes.c_void_p()
        color_in_c = -1 if color is None else _whole("color", color)
        self._call("collet_comm_split", color_in_c, _whole("key", key), ctypes.byref(handle), None, comm_first=True)
        return None if color is None else Communicator._of(handle)

    # ---- life ----

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.destroy()
        else:
            self.abort()  # the other ranks must not wait for a rank that left by an exception

    def destroy(self) -> None:
        """Ends this rank. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(library.collet_comm_destroy(handle))

    def abort(self) -> None:
        """Ends the communicator at once: calls in progress raise Aborted, here and on the other ranks."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(library.collet_comm_abort(handle))

    def _interrupt(self) -> None:
        with contextlib.suppress(Exception):
            self.abort()

    # ---- calls ----

    def _call(self, function: str, *arguments: Any, keep: tuple[Memory, ...] = (), stream: Optional[Stream] = None,
              comm_first: bool = False) -> None:
        if self._handle is None:
            raise InvalidArgument(-1, "the communicator was destroyed or aborted")
        if _group.depth > 0:  # the call returns before it has run
            _group.calls.append((self, keep, stream))
        with interruptible(self):
            result = (getattr(library, function)(self._handle, *arguments) if comm_first else
                      getattr(library, function)(*arguments, self._handle, stream._handle if stream else None))
        check(result, self._words)
        if stream is not None and _group.depth == 0:
            stream._keep(self, keep)

    def _buffers(self, send: Any, recv: Any) -> tuple[Memory, Memory]:
        source = memory_of("send", send, writable=recv is None)
        target = source if recv is None else memory_of("recv", recv, writable=True)
        if source.type != target.type:
            raise InvalidArgument(-1, "send and recv have elements of different types")
        return source, target

    def _blocks(self, small: Memory, large: Memory, names: str) -> None:
        if large.count != small.count * self.nranks:
            raise InvalidArgument(-1, f"{names}: the large buffer has {large.count} elements, the small one "
                                  f"{small.count}: it needs {self.nranks} times as many")

    def allreduce(self, send: Any, recv: Any = None, *, op: str = "sum", stream: Optional[Stream] = None) -> None:
        """recv[i] = op over all ranks of send[i], on every rank."""
        source, target = self._buffers(send, recv)
        self._equal(source, target)
        self._call("collet_allreduce", source.address, target.address, source.count, source.type, _op(op, source),
                   keep=(source, target), stream=stream)

    def allgather(self, send: Any, recv: Any, *, stream: Optional[Stream] = None) -> None:
        """recv = the send buffers of all ranks, one behind another, on every rank."""
        source, target = self._buffers(send, recv)
        self._blocks(source, target, "allgather(send, recv)")
        self._call("collet_allgather", source.address, target.address, source.count, source.type,
                   keep=(source, target), stream=stream)

    def reducescatter(self, send: Any, recv: Any, *, op: str = "sum", stream: Optional[Stream] = None) -> None:
        """recv on rank r = op over all ranks of block r of send; send has one block per rank."""
        source, target = self._buffers(send, recv)
        self._blocks(target, source, "reducescatter(send, recv)")
        self._call("collet_reducescatter", source.address, target.address, target.count, source.type, _op(op, source),
                   keep=(source, target), stream=stream)

    def alltoall(self, send: Any, recv: Any, *, stream: Optional[Stream] = None) -> None:
        """Block s of recv on rank r = block r of send on rank s. Both have one block per rank; not in place."""
        source, target = self._buffers(send, recv)
        self._equal(source, target)
        if source.count % self.nranks:
            raise InvalidArgument(-1, f"alltoall: {source.count} elements are not {self.nranks} equal blocks")
        self._call("collet_alltoall", source.address, target.address, source.count // self.nranks, source.type,
                   keep=(source, target), stream=stream)

    def allgatherv(self, send: Any, recv: Any, counts: Sequence[int], *, stream: Optional[Stream] = None) -> None:
        """Like allgather, but rank r sends counts[r] elements. All ranks pass the same counts."""
        source, target = self._buffers(send, recv)
        self._call("collet_allgatherv", source.address, source.count, target.address,
                   self._counts(counts, target, "counts"), None, source.type, keep=(source, target), stream=stream)

    def reducescatterv(self, send: Any, recv: Any, counts: Sequence[int], *, op: str = "sum",
                       stream: Optional[Stream] = None) -> None:
        """Like reducescatter, but rank r receives counts[r] elements. All ranks pass the same counts."""
        source, target = self._buffers(send, recv)
        numbers = self._counts(counts, source, "counts")
        if numbers[self.rank] != target.count:
            raise InvalidArgument(-1, f"counts[{self.rank}] is {numbers[self.rank]}, but recv has {target.count} elements")
        self._call("collet_reducescatterv", source.address, target.address, numbers, source.type, _op(op, source),
                   keep=(source, target), stream=stream)

    def alltoallv(self, send: Any, sendcounts: Sequence[int], recv: Any, recvcounts: Sequence[int], *,
                  stream: Optional[Stream] = None) -> None:
        """Sends sendcounts[r] elements to rank r and receives recvcounts[r] from it; blocks lie one behind another."""
        source, target = self._buffers(send, recv)
        self._call("collet_alltoallv", source.address, self._counts(sendcounts, source, "sendcounts"), None,
                   target.address, self._counts(recvcounts, target, "recvcounts"), None, source.type,
                   keep=(source, target), stream=stream)

    def _counts(self, counts: Sequence[int], memory: Memory, name: str) -> Any:
        try:
            numbers = [operator.index(count) for count in counts]
        except TypeError:
            raise InvalidArgument(-1, f"{name} are {counts!r}: a list of {self.nranks} whole numbers is needed") from None
        if len(numbers) != self.nranks or min(numbers) < 0 or sum(numbers) != memory.count:
            raise InvalidArgument(-1, f"{name} are {numbers}: {self.nranks} numbers are needed, which add up to the "
                                  f"{memory.count} elements of the buffer")
        return (ctypes.c_size_t * self.nranks)(*numbers)

    def broadcast(self, buffer: Any, *, root: int = 0, stream: Optional[Stream] = None) -> None:
        """buffer = the buffer of rank root, on every rank."""
        memory = memory_of("buffer", buffer, writable=self.rank != root)
        self._call("collet_broadcast", memory.address, memory.address, memory.count, memory.type, _whole("root", root),
                   keep=(memory,), stream=stream)

    def reduce(self, send: Any, recv: Any = None, *, op: str = "sum", root: int = 0,
               stream: Optional[Stream] = None) -> None:
        """recv on rank root = op over all ranks of send. Other ranks pass no recv, and their send stays as it is."""
        source = memory_of("send", send, writable=recv is None and self.rank == root)
        target = source if recv is None else memory_of("recv", recv, writable=True)
        if self.rank == root:
            self._equal(source, target)
        self._call("collet_reduce", source.address, target.address, source.count, source.type, _op(op, source),
                   _whole("root", root), keep=(source, target), stream=stream)

    def send(self, buffer: Any, peer: int, *, stream: Optional[Stream] = None) -> None:
        """Sends buffer to rank peer, which calls recv with as many bytes."""
        memory = memory_of("buffer", buffer, writable=False)
        self._call("collet_send", memory.address, memory.count, memory.type, _whole("peer", peer),
                   keep=(memory,), stream=stream)

    def recv(self, buffer: Any, peer: int, *, stream: Optional[Stream] = None) -> None:
        """Receives from rank peer into buffer."""
        memory = memory_of("buffer", buffer, writable=True)
        self._call("collet_recv", memory.address, memory.count, memory.type, _whole("peer", peer),
                   keep=(memory,), stream=stream)

    def probe(self) -> int:
        """Waits until a message has come from a rank that this one does not receive from yet; returns the rank."""
        peer = ctypes.c_int()
        self._call("collet_probe", ctypes.byref(peer))
        return peer.value

    def gather(self, send: Any, recv: Any = None, *, root: int = 0, stream: Optional[Stream] = None) -> None:
        """recv on rank root = the send buffers of all ranks, one behind another. Other ranks pass no recv."""
        source, target = memory_of("send", send, writable=False), memory_of("recv", recv, writable=True)
        if self.rank == root:
            self._blocks(source, target, "gather(send, recv)")
        self._call("collet_gather", source.address, target.address, source.count, source.type, _whole("root", root),
                   keep=(source, target), stream=stream)

    def scatter(self, send: Any, recv: Any, *, root: int = 0, stream: Optional[Stream] = None) -> None:
        """recv on rank r = block r of send on rank root. Other ranks pass None for send."""
        source, target = memory_of("send", send, writable=False), memory_of("recv", recv, writable=True)
        if self.rank == root:
            self._blocks(target, source, "scatter(send, recv)")
        self._call("collet_scatter", source.address, target.address, target.count, target.type, _whole("root", root),
                   keep=(source, target), stream=stream)

    def barrier(self, *, stream: Optional[Stream] = None) -> None:
        """Returns when every rank has called it."""
        self._call("collet_barrier", keep=(), stream=stream)

    @staticmethod
    def _equal(source: Memory, target: Memory) -> None:
        if source.count != target.count:
            raise InvalidArgument(-1, f"send has {source.count} elements, recv {target.count}: equally many are "
                                  "needed")

    # ---- questions ----

    def plan(self, collective: str, count: int, type_: int = 0) -> str:
        """How a collective of count elements would be run, and its predicted time."""
        text = ctypes.create_string_buffer(256)
        check(library.collet_comm_plan(self._handle, collective.encode(), count, type_, text, len(text)))
        return text.value.decode()

    def dump(self, fd: int = 2) -> None:
        """Prints to a file descriptor what the communicator's calls wait for; any thread may ask."""
        check(library.collet_comm_dump(self._handle, fd))
