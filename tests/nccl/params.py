# SPDX-License-Identifier: Apache-2.0
#
# NCCL's parameters by name: values of variables, in all the ways that a program may ask for them.
import ctypes
import os
import sys

INVALID = 4


def expect(is_so, what):
    if not is_so:
        sys.exit("not so: " + what)


def main(path):
    os.environ.update(NCCL_IB_TIMEOUT="22", NCCL_IB_RETRY_CNT="15", COLLET_SECRET="hunter2")
    nccl = ctypes.CDLL(path)
    handle, text, length = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_int()
    expect(nccl.ncclParamBind(ctypes.byref(handle), b"NCCL_IB_TIMEOUT") == 0, "a key is found")
    for name, kind in ("I8", ctypes.c_int8), ("I16", ctypes.c_int16), ("I32", ctypes.c_int32), ("I64", ctypes.c_int64), ("U8", ctypes.c_uint8), ("U16", ctypes.c_uint16), ("U32", ctypes.c_uint32), ("U64", ctypes.c_uint64):
        number = kind()
        expect(nccl["ncclParamGet" + name](handle, ctypes.byref(number)) == 0 and number.value == 22, name + " is 22")
    expect(nccl.ncclParamGetStr(handle, ctypes.byref(text)) == 0 and text.value == b"22", "the text is 22")
    raw = ctypes.c_int64()
    expect(nccl.ncclParamGet(handle, ctypes.byref(raw), 8, ctypes.byref(length)) == 0 and raw.value == 22 and length.value == 8, "the raw form is 22")
    expect(nccl.ncclParamGet(handle, ctypes.byref(raw), 4, ctypes.byref(length)) == INVALID and length.value == 8, "8 bytes are needed")

    def of(key):
        expect(nccl.ncclParamGetParameter(key, ctypes.byref(text), ctypes.byref(length)) == 0 and len(text.value) == length.value, "there is " + key.decode())
        return text.value

    expect(of(b"COLLET_IB_TIMEOUT") == b"22" and of(b"NCCL_IB_RETRY_CNT") == b"7", "a value that is too large is the most")
    expect(of(b"COLLET_SECRET") == b"(hidden)", "a secret stays one")
    expect(nccl.ncclParamBind(ctypes.byref(handle), b"NCCL_BUFFSIZE") == 0 and of(b"NCCL_BUFFSIZE") == b"0", "an unset one has its default")
    small = ctypes.c_int8()
    os.environ["NCCL_BUFFSIZE"] = "1M"
    expect(nccl.ncclParamGetI8(handle, ctypes.byref(small)) == INVALID, "a million is no int8_t")
    expect(of(b"NCCL_BUFFSIZE") == b"1048576", "the environment of now counts")
    for key in b"NCCL_NO_SUCH", None:
        expect(nccl.ncclParamBind(ctypes.byref(handle), key) == INVALID, "an unknown key is refused")
    expect(nccl.ncclParamGetI32(None, ctypes.byref(raw)) == INVALID and nccl.ncclParamGetStr(None, None) == INVALID, "NULL is refused")
    table, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_int()
    expect(nccl.ncclParamGetAllParameterKeys(ctypes.byref(table), ctypes.byref(count)) == 0, "there are keys")
    keys = {table[k] for k in range(count.value)}
    expect({b"NCCL_ALGO", b"COLLET_ALGO", b"NCCL_BUFFSIZE"} <= keys and len(keys) == count.value > 90, "the keys are there once")
    nccl.ncclParamDumpAll()


main(sys.argv[1])
