# SPDX-License-Identifier: Apache-2.0
"""collet as a backend of torch.distributed, for tensors on the CPU:

    import torch.distributed as dist, collet_torch
    dist.init_process_group("collet")

docs/pytorch.md has the rest.
"""
import inspect

import torch
import torch.distributed as dist

from . import _backend

use_memory = _backend.use_memory  # from now on, tensors of 1 MiB and more lie in memory of collet_mem_alloc()


def _register() -> None:
    """torch 2 asks which devices a backend serves; torch 1.13 does not know the question."""
    knows_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend("collet", _backend.create, **({"devices": ["cpu"]} if knows_devices else {}))


_register()
