# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.distributed in pure Python: the operations that torch 1.13 lets it have, and DDP."""
from __future__ import annotations

import torch
import torch.distributed as dist

import collet.c10d  # noqa: F401


def operations(rank: int, n: int) -> None:
    tensor = torch.full((3, 2), float(rank)).t()
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    assert (tensor == n - 1).all()
    dist.broadcast(tensor.fill_(rank), 1)
    assert (tensor == 1).all()
    gathered = [torch.empty(2) for _ in range(n)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    assert [int(t[0]) for t in gathered] == list(range(n))
    own = torch.empty(2)
    dist.reduce_scatter(own, list(torch.arange(2.0 * n).chunk(n)))
    assert torch.equal(own, n * torch.arange(2.0 * rank, 2.0 * rank + 2))
    if rank == 0:
        dist.send(own, 1)
    elif rank == 1:
        dist.recv(own, 0)
        assert own.tolist() == [0, n]


def weights_stay_equal(rank: int, n: int) -> None:
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 10))
    for _ in range(3):
        model.zero_grad()
        model(torch.randn(4, 20)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    mine = next(model.parameters()).detach().clone()
    dist.broadcast(mine, 0)
    assert torch.equal(mine, next(model.parameters()))


dist.init_process_group("collet_python")
operations(dist.get_rank(), dist.get_world_size())
weights_stay_equal(dist.get_rank(), dist.get_world_size())
dist.barrier()
if dist.get_rank() == 0:
    print("2 passed, 0 failed")
