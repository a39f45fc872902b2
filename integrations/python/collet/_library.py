# SPDX-License-Identifier: Apache-2.0
"""The C library, opened with ctypes: its functions with their argument types, and failures as exceptions.

ctypes releases Python's lock while a C function runs, so other Python threads go on during a collective.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from typing import Iterator


class ColletError(RuntimeError):
    """A call failed. `result` is the number of enum collet_result; the text says what was wrong, and the remedy."""

    def __init__(self, result: int, text: str) -> None:
        super().__init__(text)
        self.result = result


# Results (enum collet_result) that get an exception of their own. All others raise ColletError itself.
class InvalidArgument(ColletError, ValueError):
    """An argument is wrong in itself; the text names it."""


class RemoteError(ColletError):
    """Another rank died, left or failed; the text names it."""


class TimeoutExpired(ColletError, TimeoutError):
    """A wait passed its limit; the text names the ranks that it waited for."""


class Aborted(ColletError):
    """The communicator was aborted, here or on another rank."""


class Mismatch(ColletError):
    """Ranks made different calls; the text has both."""


SUCCESS, IN_PROGRESS = 0, 1
_EXCEPTIONS = {-1: InvalidArgument, -5: RemoteError, -6: TimeoutExpired, -7: Aborted, -8: Mismatch}

UNIQUE_ID_BYTES = 128
SONAME = "libcollet.so.0.1"  # of the libraries that have what is called here


class UniqueId(ctypes.Structure):
    """struct collet_unique_id"""

    _fields_ = [("bytes", ctypes.c_char * UNIQUE_ID_BYTES)]


class Config(ctypes.Structure):
    """struct collet_config"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("nonblocking", ctypes.c_int),
        ("min_channels", ctypes.c_int),
        ("max_channels", ctypes.c_int),
        ("device", ctypes.c_int),
        ("timeout_ms", ctypes.c_int),
        ("transports", ctypes.c_uint),
        ("name", ctypes.c_char_p),
        ("init_timeout_ms", ctypes.c_int),
        ("cta_policy", ctypes.c_char_p),
    ]


class WorkHandle(ctypes.Structure):
    """struct collet_work"""

    _fields_ = [("stream", ctypes.c_void_p), ("ticket", ctypes.c_uint64)]


_pointer, _size, _int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_out_pointer, _out_int = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)
_end = [_pointer, _pointer]  # comm, stream

# The argument types of each function, in the order of collet.h. All return enum collet_result.
_SIGNATURES = {
    "collet_get_version": [_out_int],
    "collet_get_unique_id": [ctypes.POINTER(UniqueId)],
    "collet_comm_init_rank_config": [_out_pointer, _int, UniqueId, _int, ctypes.POINTER(Config)],
    "collet_comm_init_from_env": [_out_pointer, ctypes.POINTER(Config)],
    "collet_comm_split": [_pointer, _int, _int, _out_pointer, ctypes.POINTER(Config)],
    "collet_comm_destroy": [_pointer],
    "collet_comm_abort": [_pointer],
    "collet_comm_count": [_pointer, _out_int],
    "collet_comm_rank": [_pointer, _out_int],
    "collet_comm_get_async_error": [_pointer, _out_int],
    "collet_comm_dump": [_pointer, _int],
    "collet_comm_plan": [_pointer, ctypes.c_char_p, _size, _int, ctypes.c_char_p, _size],
    "collet_allreduce": [_pointer, _pointer, _size, _int, _int, *_end],
    "collet_allgather": [_pointer, _pointer, _size, _int, *_end],
    "collet_reducescatter": [_pointer, _pointer, _size, _int, _int, *_end],
    "collet_alltoall": [_pointer, _pointer, _size, _int, *_end],
    "collet_allgatherv": [_pointer, _size, _pointer, _pointer, _pointer, _int, *_end],
    "collet_reducescatterv": [_pointer, _pointer, _pointer, _int, _int, *_end],
    "collet_alltoallv": [_pointer, _pointer, _pointer, _pointer, _pointer, _pointer, _int, *_end],
    "collet_broadcast": [_pointer, _pointer, _size, _int, _int, *_end],
    "collet_reduce": [_pointer, _pointer, _size, _int, _int, _int, *_end],
    "collet_gather": [_pointer, _pointer, _size, _int, _int, *_end],
    "collet_scatter": [_pointer, _pointer, _size, _int, _int, *_end],
    "collet_barrier": [*_end],
    "collet_send": [_pointer, _size, _int, _int, *_end],
    "collet_recv": [_pointer, _size, _int, _int, *_end],
    "collet_probe": [_out_int, *_end],
    "collet_group_start": [],
    "collet_group_end": [],
    "collet_stream_create": [_out_pointer],
    "collet_stream_synchronize": [_pointer],
    "collet_stream_destroy": [_pointer],
    "collet_stream_record": [_pointer, ctypes.POINTER(WorkHandle)],
    "collet_test": [WorkHandle, _out_int],
    "collet_wait": [WorkHandle],
    "collet_wait_for": [WorkHandle, _int],
}


def _candidates() -> Iterator[str]:
    """Where the library may be: LIBCOLLET_PATH, in this package as pip installed it, in the build of the checkout that this file
    is in, in the system."""
    named = os.environ.get("LIBCOLLET_PATH")
    if named:
        yield named
        return
    here = pathlib.Path(__file__).resolve()
    yield str(here.with_name("libcollet.so"))
    checkout = here.parent.parent.parent.parent
    if (checkout / "include" / "collet.h").exists():
        yield str(checkout / "build" / "lib" / "libcollet.so")
    yield SONAME


def _open() -> ctypes.CDLL:
    tried = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        for function, arguments in _SIGNATURES.items():
            getattr(library, function).argtypes = arguments
        library.collet_last_error.restype = ctypes.c_char_p
        library.collet_last_error.argtypes = [_pointer]
        return library
    raise ImportError(
        "libcollet.so was not found; run `make` in the checkout and `pip install` again, or `make install` and let the loader "
        "find it (LD_LIBRARY_PATH), or set LIBCOLLET_PATH to its path. "
        "Tried: " + "; ".join(tried))


library = _open()


# Names in the library's texts, which are those of C, and what a program in Python has instead.
WORDS = {
    "COLLET_TIMEOUT or config.timeout_ms": "COLLET_TIMEOUT, or timeout= of collet.init() or Communicator(),",
    "(COLLET_INIT_TIMEOUT)": "(COLLET_INIT_TIMEOUT or init_timeout=)",
}


def check(result: int, words: dict[str, str] = WORDS) -> int:
    """Passes SUCCESS and IN_PROGRESS on; raises the exception of a failure, with the library's text in the program's words."""
    if result >= 0:
        return result
    text = library.collet_last_error(None).decode(errors="replace")
    for name_in_c, name in words.items():
        text = text.replace(name_in_c, name)
    raise _EXCEPTIONS.get(result, ColletError)(result, text)


def version() -> tuple[int, int, int]:
    """The version of the C library."""
    number = ctypes.c_int()
    check(library.collet_get_version(ctypes.byref(number)))
    return number.value // 10000, number.value // 100 % 100, number.value % 100
