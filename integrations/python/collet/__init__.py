# SPDX-License-Identifier: Apache-2.0
"""collet: collective communication among processes, from Python.

    import collet, numpy
    with collet.init() as comm:                    # this process's rank of the job that a launcher started
        gradient = numpy.ones(1000, numpy.float32)
        comm.allreduce(gradient, op="avg")         # in place: every rank now has the average

Start it with `python -m collet.run -n 4 script.py`, torchrun, mpirun or srun. Buffers are numpy arrays or anything else
with the buffer protocol or DLPack (torch tensors on the CPU). Nothing is copied: the C library reads and writes them.
"""
from ._library import (Aborted, ColletError, InvalidArgument, Mismatch, RemoteError, TimeoutExpired, version)
from .communicator import Communicator, group, init, unique_id
from .streams import Stream, Work

__all__ = [
    "Aborted", "ColletError", "Communicator", "InvalidArgument", "Mismatch", "RemoteError", "Stream", "TimeoutExpired",
    "Work", "group", "init", "unique_id", "version",
]
__version__ = "0.1.0"
