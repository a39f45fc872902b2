# SPDX-License-Identifier: Apache-2.0
"""Calls that torch's _coalescing_manager makes as one, for both backends."""
from __future__ import annotations

import inspect
import unittest
from typing import Any, ContextManager, Optional

import torch
import torch.distributed as dist


def manager(device: Optional[torch.device]) -> ContextManager[Any]:
    made = dist.distributed_c10d._coalescing_manager
    if "async_ops" not in inspect.signature(made).parameters:
        raise unittest.SkipTest("torch 1.13 and 2.0 have another manager, which has no Work of its own")
    return made(device=device, async_ops=True)


def calls_in_one(rank: int, n: int) -> None:
    for device in (None, torch.device("cpu")):
        sums = [torch.full((k + 1,), float(rank)) for k in range(3)]
        wholes, owns = [torch.empty(n), torch.empty(2 * n)], [torch.empty(1), torch.empty(2)]
        calls = [
            lambda: [dist.all_reduce(tensor) for tensor in sums],
            lambda: [dist.all_gather_into_tensor(whole, torch.full((k + 1,), float(rank))) for k, whole in enumerate(wholes)],
            lambda: [dist.reduce_scatter_tensor(own, whole) for own, whole in zip(owns, wholes)],
        ]
        for call in calls:
            with manager(device) as works:
                call()
            works.wait()
        assert all((tensor == sum(range(n))).all() for tensor in sums), sums
        assert wholes[1].tolist() == [r for r in range(n) for _ in range(2)], wholes
        assert all((own == n * rank).all() for own in owns), owns
