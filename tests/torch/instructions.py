# SPDX-License-Identifier: Apache-2.0
"""Warm calls of all_reduce of 1 KB, for `scripts/torch.sh instructions`: rank 0 runs under callgrind, which counts inside
warm_calls() of the library that WARM names."""
import ctypes
import os

import torch
import torch.distributed as dist

import collet_torch  # noqa: F401

CALLS = 200


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("collet")
    tensor = torch.zeros(256)
    call = ctypes.CFUNCTYPE(None)(lambda: dist.all_reduce(tensor))
    warm_calls = ctypes.CDLL(os.environ["WARM"]).warm_calls if dist.get_rank() == 0 else None
    for k in range(2 * CALLS):
        if warm_calls is None or k < CALLS:
            dist.all_reduce(tensor)
    if warm_calls is not None:
        warm_calls(call, CALLS)
    dist.barrier()
    dist.destroy_process_group()


main()
