# SPDX-License-Identifier: Apache-2.0
"""What a collective needs to know about a Python object: address, number of elements, type.

Two doors lead to the memory of an object, without a copy:

    buffer protocol    numpy arrays, array.array, bytearray, memoryview, mmap
    DLPack             torch tensors, JAX and CuPy arrays on the CPU
"""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional

# enum collet_type, by numpy's names
TYPES = {
    "float32": 0, "float64": 1, "int32": 2, "int64": 3, "uint8": 4, "float16": 5, "bfloat16": 6, "int8": 7, "int16": 8,
    "uint16": 9, "uint32": 10, "uint64": 11, "float8_e4m3": 12, "float8_e5m2": 13,
}


class Memory(NamedTuple):
    """The memory of one buffer. `owner` keeps it alive."""

    address: Optional[int]
    count: int
    type: int
    owner: Any
    is_truth: bool = False  # its bytes are truth values


NOTHING = Memory(None, 0, TYPES["uint8"], None)


# ---- buffer protocol ----

class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's stable ABI"""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_PYBUF_WRITABLE, _PYBUF_FORMAT, _PYBUF_C_CONTIGUOUS = 0x1, 0x4, 0x38
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


class _View:
    """An open buffer. It is released when nothing refers to it any more."""

    def __init__(self, obj: Any, writable: bool) -> None:
        self.raw = _PyBuffer()
        _get_buffer(obj, ctypes.byref(self.raw),
                    _PYBUF_FORMAT | _PYBUF_C_CONTIGUOUS | (_PYBUF_WRITABLE if writable else 0))

    def __del__(self) -> None:
        if self.raw.buf is not None or self.raw.itemsize:
            _release_buffer(ctypes.byref(self.raw))


# The letters of the struct module say what an element is; their width follows from the buffer.
_KINDS = {"f": "float", "d": "float", "e": "float", "?": "uint"}
_KINDS.update({letter: "int" for letter in "bhilqn"})
_KINDS.update({letter: "uint" for letter in "BHILQNc"})


def _type_of_format(format_: str, itemsize: int) -> int:
    letter = format_.lstrip("@=<")
    name = f"{_KINDS.get(letter, '?')}{8 * itemsize}"
    if name not in TYPES:
        raise TypeError(f"has elements of format '{format_}' ({itemsize} bytes), which are no type of collet: use one of "
                        + ", ".join(TYPES))
    return TYPES[name]


def _why_refused(obj: Any, writable: bool) -> Exception:
    """Python's texts name neither the object nor the remedy. Texts here begin behind the name of the argument."""
    kind = type(obj).__name__
    try:
        view = memoryview(obj)
    except Exception as error:
        return TypeError(f"is of type {kind}, which lends no memory ({error}): pass bytearray, array.array, a numpy array or a "
                         "torch tensor")
    if writable and view.readonly:
        return BufferError(f"is of type {kind} and read-only, but the call writes to it: pass what can be written, such as "
                           "bytearray, array.array or a numpy array")
    return BufferError(f"is of type {kind} and not contiguous: pass a contiguous copy, such as numpy.ascontiguousarray(x)")


def _from_buffer(obj: Any, writable: bool) -> Memory:
    try:
        view = _View(obj, writable)
    except Exception:
        raise _why_refused(obj, writable) from None
    raw = view.raw
    format_ = raw.format.decode() if raw.format else "B"
    return Memory(raw.buf, raw.len // (raw.itemsize or 1), _type_of_format(format_, raw.itemsize), view,
                  format_.lstrip("@=<") == "?")


# ---- DLPack ----

class _DLTensor(ctypes.Structure):
    """DLTensor, the first field of DLManagedTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_DL_CPU = 1
_DL_BOOL = 6  # a byte
_DL_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", _DL_BOOL: "uint"}


def _is_contiguous(tensor: _DLTensor) -> bool:
    if not tensor.strides:
        return True
    expected = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.shape[axis] > 1 and tensor.strides[axis] != expected:
            return False
        expected *= tensor.shape[axis]
    return True


def _from_dlpack(obj: Any) -> Memory:
    if getattr(obj, "requires_grad", False):
        obj = obj.detach()  # torch hands out tensors only outside its graph
    try:
        capsule = obj.__dlpack__()
    except Exception as error:
        raise BufferError(f"is of type {type(obj).__name__} and lends no memory: {error}") from None
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if tensor.device_type != _DL_CPU:
        raise TypeError(f"is on device type {tensor.device_type} of DLPack: this package moves memory of the CPU; copy it "
                        "there first")
    if not _is_contiguous(tensor):
        raise BufferError("is not contiguous: pass a contiguous copy, such as x.contiguous()")
    name = f"{_DL_NAMES.get(tensor.code, '?')}{tensor.bits}"
    if name not in TYPES or tensor.lanes != 1:
        raise TypeError(f"has elements of type {name}, which are no type of collet: use one of " + ", ".join(TYPES))
    count = 1
    for axis in range(tensor.ndim):
        count *= tensor.shape[axis]
    return Memory((tensor.data or 0) + tensor.byte_offset, count, TYPES[name], capsule, tensor.code == _DL_BOOL)


# ---- both ----

def memory_of(name: str, obj: Any, writable: bool) -> Memory:
    """The memory of obj; None is no memory. Raises TypeError or BufferError if obj lends none; the text names the argument."""
    if obj is None:
        return NOTHING
    has_dlpack = hasattr(obj, "__dlpack__") and not hasattr(obj, "__array_interface__")
    try:
        return _from_dlpack(obj) if has_dlpack else _from_buffer(obj, writable)
    except (TypeError, BufferError) as error:
        raise type(error)(f"{name} {error}") from None
