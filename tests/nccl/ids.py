# SPDX-License-Identifier: Apache-2.0
#
# As vLLM does it: NCCL's functions from Python by ctypes, among them one that takes an id of 128 bytes by value. Four processes
# on host memory meet and add up.
import ctypes
import os
import sys

RANKS = 4


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def load(path):
    nccl = ctypes.CDLL(path)
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclGetLastError.argtypes = [ctypes.c_void_p]
    nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t, ctypes.c_int, ctypes.c_int] + [ctypes.c_void_p] * 2
    nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    return nccl


def ok(nccl, result):
    if result != 0:
        sys.exit(f"{nccl.ncclGetErrorString(result)}: {nccl.ncclGetLastError(None)}")


def run(nccl, rank, unique):
    comm = ctypes.c_void_p()
    ok(nccl, nccl.ncclCommInitRank(ctypes.byref(comm), RANKS, unique, rank))
    values = (ctypes.c_float * 3)(rank, 1, 2)
    ok(nccl, nccl.ncclAllReduce(values, values, 3, 7, 0, comm, None))
    ok(nccl, nccl.ncclCommDestroy(comm))
    return list(values) == [6, 4, 8]


def main():
    nccl = load(sys.argv[1])
    version = ctypes.c_int()
    ok(nccl, nccl.ncclGetVersion(ctypes.byref(version)))
    text = str(version.value)
    if (text[0], text[1:3].lstrip("0"), text[3:].lstrip("0")) != ("2", "28", "9"):
        sys.exit(f"version {text}")
    unique = Id()
    ok(nccl, nccl.ncclGetUniqueId(ctypes.byref(unique)))
    children = []
    for rank in range(1, RANKS):
        child = os.fork()
        if child == 0:
            os._exit(0 if run(load(sys.argv[1]), rank, unique) else 1)
        children.append(child)
    good = run(nccl, 0, unique)
    good = all(os.waitpid(child, 0)[1] == 0 for child in children) and good
    sys.exit(0 if good else "wrong sums")


main()
