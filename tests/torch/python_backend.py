# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.distributed in pure Python. Every rank of a job of 3 runs the cases in the same order."""
from __future__ import annotations

import contextlib
import os
import sys
import unittest
from datetime import timedelta
from typing import Callable, Iterator

import torch
import torch.distributed as dist

import collet.c10d  # noqa: F401

from coalescing import calls_in_one

CASES: list[Callable[[int, int], None]] = []


def case(function: Callable[[int, int], None]) -> Callable[[int, int], None]:
    CASES.append(function)
    return function


@contextlib.contextmanager
def fails_with(*words: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        for word in words:
            assert word in str(error), f"'{word}' is not in: {error}"
        return
    raise AssertionError(f"no failure, but {words} was expected")


@case
def tensors_are_reduced_and_broadcast(rank: int, n: int) -> None:
    tensor = torch.full((3, 2), float(rank)).t()
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    assert (tensor == n - 1).all()
    dist.broadcast(tensor.fill_(rank), 1)
    assert (tensor == 1).all()
    total = torch.full((2,), rank + 1)
    dist.reduce(total, 2)
    assert total.tolist() == [sum(range(1, n + 1)) if rank == 2 else rank + 1] * 2


@case
def lists_of_blocks_are_gathered_and_scattered(rank: int, n: int) -> None:
    gathered = [torch.empty(2) for _ in range(n)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    assert [int(t[0]) for t in gathered] == list(range(n))
    own = torch.empty(2)
    dist.reduce_scatter(own, list(torch.arange(2.0 * n).chunk(n)))
    assert torch.equal(own, n * torch.arange(2.0 * rank, 2.0 * rank + 2))
    at_root = [torch.empty(1, dtype=torch.int32) for _ in range(n)] if rank == 1 else None
    dist.gather(torch.tensor([10 * rank], dtype=torch.int32), at_root, 1)
    assert rank != 1 or [int(t) for t in at_root] == [10 * r for r in range(n)]
    mine = torch.empty(1, dtype=torch.int32)
    dist.scatter(mine, at_root, 1)
    assert mine.tolist() == [10 * rank]


@case
def blocks_differ_in_size(rank: int, n: int) -> None:
    gathered = [torch.empty(r, 2) for r in range(n)]
    dist.all_gather(gathered, torch.full((rank, 2), float(rank)))
    assert all((gathered[r] == r).all() for r in range(n))
    own = torch.empty(rank + 1)
    dist.reduce_scatter(own, [torch.full((r + 1,), float(r)) for r in range(n)])
    assert own.tolist() == [n * rank] * (rank + 1)
    received = [torch.empty(r + 1, rank + 1) for r in range(n)]
    dist.all_to_all(received, [torch.full((rank + 1, r + 1), 10.0 * rank + r) for r in range(n)])
    assert all((received[r] == 10.0 * r + rank).all() for r in range(n))


@case
def one_tensor_has_all_blocks(rank: int, n: int) -> None:
    whole = torch.empty(2 * n)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    assert whole.tolist() == [r for r in range(n) for _ in range(2)]
    own = torch.empty(2)
    dist.reduce_scatter_tensor(own, whole)
    assert own.tolist() == [n * rank] * 2
    sent, received = torch.arange(float(n)).repeat_interleave(rank + 1), torch.empty(sum(range(1, n + 1)))
    dist.all_to_all_single(received, sent, [r + 1 for r in range(n)], [rank + 1] * n)
    assert (received == rank).all()


@case
def several_calls_are_made_as_one(rank: int, n: int) -> None:
    calls_in_one(rank, n)


@case
def messages_travel(rank: int, n: int) -> None:
    tensor = torch.full((2,), float(rank))
    if rank == 0:
        dist.send(tensor, 1)
    elif rank == 1:
        dist.recv(tensor, 0)
        assert tensor.tolist() == [0, 0]


@case
def a_group_has_some_of_the_ranks(rank: int, n: int) -> None:
    ends = dist.new_group([0, n - 1])
    if rank in (0, n - 1):
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=ends)
        assert tensor.tolist() == [2]


@case
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


@case
def a_layer_is_cut_among_ranks(rank: int, n: int) -> None:
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    except ImportError:
        raise unittest.SkipTest("this torch has no device mesh, or hides DTensor") from None
    mesh = init_device_mesh("cpu", (n,))
    rows = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
    assert rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local().flatten().tolist() == list(range(12))


@case
def splits_that_do_not_fit_are_told_in_torch_s_words(rank: int, n: int) -> None:
    with fails_with("input_split_sizes is [1, 1, 2]", "3 rows"):
        dist.all_to_all_single(torch.empty(3), torch.ones(3), [1, 1, 1], [1, 1, 2])
    group, sent = dist.new_group([0, 1]), torch.ones(3 if rank == 0 else 2, 5)
    if rank < 2:
        with fails_with("all_to_all_single", "rank 0 sends 10 float to rank 1 (input_split_sizes[1])", "5 (output_split_sizes[0])"):
            dist.all_to_all_single(torch.empty(2, 5), sent, [1, 1], [1, 2] if rank == 0 else [1, 1], group=group)
            dist.barrier(group)


@case
def a_timeout_names_the_argument_that_sets_it(rank: int, n: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        with fails_with("timeout= of init_process_group() or new_group()"):
            dist.barrier(group)


def main() -> int:
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("collet_python", timeout=timedelta(seconds=60))
    skipped = 0
    for function in CASES:
        try:
            function(rank, n)
        except unittest.SkipTest:
            skipped += 1
        dist.barrier()
    if rank == 0:
        print(f"{len(CASES) - skipped} passed, 0 failed, {skipped} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
