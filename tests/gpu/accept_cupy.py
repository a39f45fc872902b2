#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy's NcclCommunicator on collet's libnccl.so.2, on a GPU that several ranks share:

   accept_cupy.py [--seconds N] [--cpu] [--nccl FILE] [--only PART,…]

Exit status: 0 all passed, 1 the checks that failed are listed last, 77 it does not apply here (a word says why).

   processes   2 processes, a communicator each: all of CuPy's calls, of several types and sizes; a call in a graph
   one         1 process with 2 communicators of NcclCommunicator.initAll, and 2 of a group: every call inside groupStart … groupEnd

--cpu has no GPU: numpy stands in for CuPy's arrays, and where CuPy is not installed a few lines of ctypes for its NcclCommunicator,
over the same library with COLLET_DEVICE=host. It is there to find the mistakes of this file.

accept_ranks.py has the options, and how ranks are started.
"""
from __future__ import annotations

import argparse
import ctypes
import os
import pickle
import sys
import tempfile
import time
import types

from accept_ranks import (NOT_APPLICABLE, Checks, check_library, collet_has_made_communicators, not_applicable, parser_of, preload,
                          run_parts, say, take_python_with)

HERE: argparse.Namespace  # of a process: rank, ranks, comms and streams of its ranks, stream, checks, nccl, cpu
cupy = None  # or what stands in for it
nccl = None

# ---- what stands in for CuPy on a CPU ----------------------------------------------------------------------------------------


class HostCommunicator:
    """cupy.cuda.nccl.NcclCommunicator, as far as it is used here: calls take the same arguments as NCCL's, without the communicator."""

    library = None

    def __init__(self, ndev: int, unique_id, rank: int, handle=None):
        self.handle = handle or ctypes.c_void_p()
        if handle is None:
            must("ncclCommInitRank", ctypes.byref(self.handle), ctypes.c_int(ndev), HostId.from_buffer_copy(bytes(unique_id)), ctypes.c_int(rank))

    @staticmethod
    def initAll(devices):
        handles = (ctypes.c_void_p * len(devices))()
        must("ncclCommInitAll", handles, len(devices), (ctypes.c_int * len(devices))(*devices))
        return [HostCommunicator(0, b"", 0, ctypes.c_void_p(handle)) for handle in handles]

    def asked(self, name: str) -> int:
        number = ctypes.c_int()
        must(name, self.handle, ctypes.byref(number))
        return number.value

    def size(self) -> int:
        return self.asked("ncclCommCount")

    def rank_id(self) -> int:
        return self.asked("ncclCommUserRank")

    def check_async_error(self) -> None:
        if self.asked("ncclCommGetAsyncError"):
            raise RuntimeError("ncclCommGetAsyncError says that the communicator has failed")

    def destroy(self) -> None:
        must("ncclCommDestroy", self.handle)


class HostId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class HostStream:
    ptr = 0

    def __init__(self, non_blocking: bool = False):
        del non_blocking

    def synchronize(self) -> None:
        pass


def must(name: str, *arguments) -> None:
    status = getattr(HostCommunicator.library, name)(*arguments)
    if status:
        HostCommunicator.library.ncclGetLastError.restype = ctypes.c_char_p
        raise RuntimeError(f"{name} returned {status}: {HostCommunicator.library.ncclGetLastError(None).decode()}")


def host_call(name: str, buffers: int, counts: int, numbers: int):
    """A call: buffers, a count, numbers (type, operator, root or peer), a stream; NCCL's communicator stands before the stream."""
    kinds = [ctypes.c_void_p] * buffers + [ctypes.c_size_t] * counts + [ctypes.c_int] * numbers

    def call(self, *arguments):
        values = [kind(value) for kind, value in zip(kinds, arguments)]
        must(name, *values, self.handle, ctypes.c_void_p(arguments[-1]))
    return call


def unique_id() -> tuple:
    found = HostId()
    must("ncclGetUniqueId", ctypes.byref(found))
    return tuple(bytes(found))


def stand_in(options) -> None:
    global cupy, nccl
    os.environ["COLLET_DEVICE"] = "host"
    cupy = types.SimpleNamespace(**{name: getattr(numpy, name) for name in ("asarray", "zeros")}, asnumpy=numpy.asarray,
                                 cuda=types.SimpleNamespace(Stream=HostStream))
    try:
        from cupy_backends.cuda.libs import nccl  # needs libraries of CUDA, but no GPU
    except ImportError:
        nccl = nccl_of_ctypes(options)


def nccl_of_ctypes(options):
    HostCommunicator.library = ctypes.CDLL(options.nccl)
    for name, *shape in (("allReduce", 2, 1, 2), ("reduce", 2, 1, 3), ("broadcast", 2, 1, 2), ("bcast", 1, 1, 2), ("reduceScatter", 2, 1, 2),
                         ("allGather", 2, 1, 1), ("send", 1, 1, 2), ("recv", 1, 1, 2)):
        setattr(HostCommunicator, name, host_call("nccl" + name[0].upper() + name[1:], *shape))
    names = ["INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT16", "FLOAT32", "FLOAT64"]
    constants = {f"NCCL_{name}": i for i, name in enumerate(names)} | {f"NCCL_{name}": i for i, name in enumerate(["SUM", "PROD", "MAX", "MIN"])}
    return types.SimpleNamespace(NcclCommunicator=HostCommunicator, get_unique_id=unique_id, groupStart=lambda: must("ncclGroupStart"),
                                 groupEnd=lambda: must("ncclGroupEnd"), **constants)


def address(array) -> int:
    return array.ctypes.data if HERE.cpu else array.data.ptr


# ---- calls and what must come of them ----------------------------------------------------------------------------------------

KINDS = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64"]


def ramp(rank: int, count: int, kind: str = "float32"):
    """Small whole numbers, different on each rank and in neighbouring elements: their sums and products are exact in all types.
    They are copied to the GPU, so that CuPy need not compile anything."""
    return cupy.asarray(((numpy.arange(count) + rank) % 3 + 1).astype(kind))


def everybody(count: int, kind: str = "float32"):
    return numpy.stack([(numpy.arange(count) + rank) % 3 + 1 for rank in range(HERE.ranks)]).astype(kind)


def same(got, wanted, what: str) -> None:
    got = cupy.asnumpy(got)
    wrong = int((got != wanted).sum())
    HERE.checks.expect(wrong == 0, f"{what}: {wrong} of {wanted.size} elements are wrong: {got[:4]} … instead of {wanted[:4]} …")


def type_of(kind: str) -> int:
    return getattr(nccl, f"NCCL_{kind.upper()}")


def on_all(count_in, count_out, kind: str, call):
    """call(comm, rank, in, out) for each rank that this process is: one by itself, several inside a group. Returns {rank: out}."""
    buffers = {rank: (ramp(rank, count_in(rank), kind), cupy.zeros(count_out(rank), kind)) for rank in HERE.comms}
    synchronize()
    if len(buffers) > 1:
        nccl.groupStart()
    for rank, (given, got) in buffers.items():
        HERE.stream = HERE.streams[rank]  # ranks that share a stream would wait for each other
        call(HERE.comms[rank], rank, given, got)
    if len(buffers) > 1:
        nccl.groupEnd()
    synchronize()
    return {rank: got for rank, (given, got) in buffers.items()}


def synchronize() -> None:
    if not HERE.cpu:
        cupy.cuda.Device().synchronize()


def library_is_of_collet() -> str:
    version = f", for {nccl.__name__} version {nccl.get_version()}" if hasattr(nccl, "get_version") else ", called by ctypes"
    return check_library(HERE.nccl) + version


def all_reduce_of_types_and_operators() -> None:
    whole = {"SUM": "sum", "PROD": "prod", "MAX": "max", "MIN": "min"}
    for kind in KINDS:
        for name, function in whole.items():
            got = on_all(lambda _: 1003, lambda _: 1003, kind, lambda comm, _, given, out, name=name, kind=kind: comm.allReduce(
                address(given), address(out), 1003, type_of(kind), getattr(nccl, f"NCCL_{name}"), HERE.stream.ptr))
            for out in got.values():
                same(out, getattr(everybody(1003, kind), function)(0).astype(kind), f"{kind} {name}")


def all_reduce_of_many_sizes() -> None:
    for count in (1, 2, 7, 1000, 4099, 65537, 1 << 20, 1 << 22):
        got = on_all(lambda _, n=count: n, lambda _, n=count: n, "float32", lambda comm, _, given, out, n=count: comm.allReduce(
            address(given), address(out), n, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, HERE.stream.ptr))
        for out in got.values():
            same(out, everybody(count).sum(0), f"{count} elements")


def reduce_with_every_root() -> None:
    for root in range(HERE.ranks):
        got = on_all(lambda _: 6000, lambda _: 6000, "float32", lambda comm, _, given, out, root=root: comm.reduce(
            address(given), address(out), 6000, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, root, HERE.stream.ptr))
        if root in got:
            same(got[root], everybody(6000).sum(0), f"root {root}")


def broadcast_with_every_root() -> None:
    for root in range(HERE.ranks):
        got = on_all(lambda _: 6000, lambda _: 6000, "float32", lambda comm, _, given, out, root=root: comm.broadcast(
            address(given), address(out), 6000, nccl.NCCL_FLOAT32, root, HERE.stream.ptr))
        for out in got.values():
            same(out, everybody(6000)[root], f"broadcast, root {root}")

        def in_place(comm, rank, given, out, root=root):
            out[:] = given
            synchronize()
            comm.bcast(address(out), 6000, nccl.NCCL_FLOAT32, root, HERE.stream.ptr)
        for out in on_all(lambda _: 6000, lambda _: 6000, "float32", in_place).values():
            same(out, everybody(6000)[root], f"bcast, root {root}")


def all_gather() -> None:
    for count in (1, 5001, 300000):
        got = on_all(lambda _, n=count: n, lambda _, n=count: n * HERE.ranks, "float32", lambda comm, _, given, out, n=count: comm.allGather(
            address(given), address(out), n, nccl.NCCL_FLOAT32, HERE.stream.ptr))
        for out in got.values():
            same(out, everybody(count).ravel(), f"{count} elements")


def reduce_scatter() -> None:
    for count in (1, 5001, 300000):
        whole = everybody(count * HERE.ranks).sum(0)
        got = on_all(lambda _, n=count: n * HERE.ranks, lambda _, n=count: n, "float32", lambda comm, _, given, out, n=count: comm.reduceScatter(
            address(given), address(out), n, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, HERE.stream.ptr))
        for rank, out in got.items():
            same(out, whole[rank * count:(rank + 1) * count], f"{count} elements")


def messages_around_a_ring() -> None:
    """Each rank sends and receives inside a group."""
    for count in (1, 4097, 1 << 20):
        def both(comm, rank, given, out, n=count):
            nccl.groupStart()
            comm.send(address(given), n, nccl.NCCL_FLOAT32, (rank + 1) % HERE.ranks, HERE.stream.ptr)
            comm.recv(address(out), n, nccl.NCCL_FLOAT32, (rank - 1) % HERE.ranks, HERE.stream.ptr)
            nccl.groupEnd()
        for rank, out in on_all(lambda _, n=count: n, lambda _, n=count: n, "float32", both).items():
            same(out, everybody(count)[(rank - 1) % HERE.ranks], f"{count} elements")


def all_to_all_of_messages() -> None:
    count, ranks = 3000, HERE.ranks

    def exchange(comm, rank, given, out):
        nccl.groupStart()
        for peer in range(ranks):
            comm.send(address(given[peer * count:]), count, nccl.NCCL_FLOAT32, peer, HERE.stream.ptr)
            comm.recv(address(out[peer * count:]), count, nccl.NCCL_FLOAT32, peer, HERE.stream.ptr)
        nccl.groupEnd()
    sent = everybody(count * ranks)
    for rank, out in on_all(lambda _: count * ranks, lambda _: count * ranks, "float32", exchange).items():
        same(out, numpy.concatenate([sent[peer][rank * count:(rank + 1) * count] for peer in range(ranks)]), "blocks")


def several_calls_in_a_group() -> None:
    for rank in HERE.comms:
        HERE.comms[rank].check_async_error()

    def three(comm, rank, given, out):
        nccl.groupStart()
        for begin in (0, 100, 3000):
            comm.allReduce(address(given[begin:]), address(out[begin:]), 100, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, HERE.stream.ptr)
        nccl.groupEnd()
    for out in on_all(lambda _: 4000, lambda _: 4000, "float32", three).values():
        wanted = numpy.zeros(4000, numpy.float32)
        for begin in (0, 100, 3000):
            wanted[begin:begin + 100] = everybody(4000).sum(0)[begin:begin + 100]
        same(out, wanted, "three pieces")


def graph_of_an_all_reduce() -> str:
    """Captured once, replayed with other numbers. One process is one rank here."""
    (rank, comm), = HERE.comms.items()
    given, got = ramp(rank, 5000), cupy.zeros(5000, "float32")
    synchronize()

    def call():
        comm.allReduce(address(given), address(got), 5000, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, HERE.stream.ptr)
    call()
    HERE.stream.synchronize()
    HERE.stream.begin_capture()
    call()
    graph = HERE.stream.end_capture()
    begin = time.monotonic()
    for i in range(100):
        given[:] = ramp(rank + i, 5000)
        synchronize()
        graph.launch(HERE.stream)
        HERE.stream.synchronize()
        same(got, numpy.stack([(numpy.arange(5000) + peer + i) % 3 + 1 for peer in range(HERE.ranks)]).sum(0), f"replay {i}")
    return f"100 replays, {1e4 * (time.monotonic() - begin):.0f} µs each with its check"


def communicators_know_themselves() -> None:
    for rank, comm in HERE.comms.items():
        HERE.checks.expect((comm.rank_id(), comm.size()) == (rank, HERE.ranks), f"rank {rank} of {HERE.ranks} is {comm.rank_id()} of {comm.size()}")
        comm.check_async_error()


CALLS = [communicators_know_themselves, all_reduce_of_types_and_operators, all_reduce_of_many_sizes, reduce_with_every_root,
         broadcast_with_every_root, all_gather, reduce_scatter, messages_around_a_ring, all_to_all_of_messages, several_calls_in_a_group]


# ---- one rank, or two in one process ---------------------------------------------------------------------------------------------


def destroy() -> None:
    for comm in HERE.comms.values():
        comm.destroy()
    HERE.comms = {}


def exchanged_id():
    """Rank 0's id, by way of a file. It is a tuple of numbers in older releases of CuPy, and bytes in newer ones."""
    if HERE.rank == 0:
        with open(HERE.meeting + ".new", "wb") as file:
            pickle.dump(nccl.get_unique_id(), file)
        os.rename(HERE.meeting + ".new", HERE.meeting)
    while not os.path.exists(HERE.meeting):
        time.sleep(0.01)
    with open(HERE.meeting, "rb") as file:
        return pickle.load(file)


def communicator_of_a_process() -> None:
    HERE.comms = {HERE.rank: nccl.NcclCommunicator(HERE.ranks, exchanged_id(), HERE.rank)}


def communicators_of_init_all() -> None:
    HERE.comms = dict(enumerate(nccl.NcclCommunicator.initAll([0] * HERE.ranks)))


def communicators_of_a_group() -> None:
    unique = nccl.get_unique_id()
    nccl.groupStart()
    HERE.comms = {rank: nccl.NcclCommunicator(HERE.ranks, unique, rank) for rank in range(HERE.ranks)}
    nccl.groupEnd()


def be_rank(options, meetings: str, part: str, rank: int) -> int:
    global HERE, cupy, nccl
    os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"  # else initAll refuses a GPU that is listed twice
    HERE = argparse.Namespace(rank=rank, ranks=2, comms={}, cpu=options.cpu, nccl=options.nccl, meeting=f"{meetings}/{part}")
    HERE.checks = Checks(synchronize)
    if options.cpu:
        stand_in(options)
    else:
        import cupy
        from cupy.cuda import nccl
        if part == "processes":
            cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    HERE.streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(HERE.ranks)]
    graph = [] if options.cpu else [graph_of_an_all_reduce]
    if part == "processes":
        return HERE.checks.run([library_is_of_collet, communicator_of_a_process, *CALLS, *graph, collet_has_made_communicators, destroy])
    return HERE.checks.run([library_is_of_collet, communicators_of_init_all, *CALLS, collet_has_made_communicators, destroy,
                            communicators_of_a_group, *CALLS[:3], destroy])


def main() -> int:
    global numpy
    options = parser_of(__doc__, 30).parse_args()
    why = not_applicable(options) or take_python_with("numpy" if options.cpu else "cupy")
    if why:
        print(f"not applicable: {why}")
        return NOT_APPLICABLE
    preload(options)
    import numpy
    say(f"Python {sys.version.split()[0]}, {'numpy in place of CuPy, on the CPU' if options.cpu else 'CuPy, on a GPU'}, {options.nccl}")
    with tempfile.TemporaryDirectory() as meetings:
        return run_parts(options, [("processes", 2), ("one", 1)], lambda part, rank, *_: be_rank(options, meetings, part, rank))


if __name__ == "__main__":
    sys.exit(main())
