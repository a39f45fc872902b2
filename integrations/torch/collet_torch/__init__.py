# SPDX-License-Identifier: Apache-2.0
"""collet as a backend of torch.distributed:

    import torch.distributed as dist, collet_torch
    dist.init_process_group("collet")

docs/pytorch.md has the rest.
"""
from __future__ import annotations

import ctypes
import functools
import inspect
import os
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

# The compiled file asks for the library by its name, and takes the copy in this folder, or what goes by that name already.
if "LIBCOLLET_PATH" in os.environ:
    ctypes.CDLL(os.environ["LIBCOLLET_PATH"])

from . import _backend  # noqa: E402

use_memory = _backend.use_memory  # from now on, tensors of 1 MiB and more lie in memory of collet_mem_alloc()


def _default_group() -> Optional[Any]:
    """The default group, or what does its work on the CPU; None while there is none."""
    world = dist.group.WORLD
    if world is None or not hasattr(world, "_get_backend"):  # torch 1.13 has no backends inside a group
        return world
    cpu = torch.device("cpu")
    return world._get_backend(cpu) if cpu in world._device_types else None


def _create(options: Any, _: Any) -> Any:
    ranks = list(options.global_ranks_in_group)  # of the default group: none
    return _backend.create(options.store, options.group_rank, options.group_size, options.timeout,
                           f"torch {options.group_id or 'default'}", _default_group() if ranks else None, ranks)


def _register() -> None:
    """torch 2 asks which devices a backend serves; torch 1.13 does not know the question."""
    knows_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
    devices = {"devices": ["cpu", "cuda"]} if knows_devices else {}
    dist.Backend.register_backend("collet", _create, extended_api=True, **devices)


def _serve_monitored_barrier() -> None:
    """Some releases refuse monitored_barrier() to all backends but gloo, by name. For groups of collet it is served here."""
    refusing = dist.monitored_barrier

    @functools.wraps(refusing)
    def monitored_barrier(group: Any = None, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        if dist.distributed_c10d._rank_not_in_group(group) or dist.get_backend(group) != "collet":
            refusing(group, timeout, wait_all_ranks)
            return
        limit = {} if timeout is None else {"timeout": timeout}
        (group or dist.group.WORLD).monitored_barrier(wait_all_ranks=wait_all_ranks, **limit)

    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier


_register()
_serve_monitored_barrier()
if os.environ.get("COLLET_TORCH_MEMORY", "0") != "0":
    use_memory()
