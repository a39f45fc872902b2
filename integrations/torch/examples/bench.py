# SPDX-License-Identifier: Apache-2.0
"""Times of torch.distributed on gloo and on collet, side by side: a call on one, then the same call on the other, many times;
medians, of rank 0. The table is Markdown.

    python3 -m collet.run -n 2 integrations/torch/examples/bench.py
"""
from __future__ import annotations

import os
import statistics
import time
from typing import Callable, Optional

import torch
import torch.distributed as dist

import collet_torch  # noqa: F401

BACKENDS = ("gloo", "collet")
SIZES = (("1 KB", 1 << 8, 300), ("64 KB", 1 << 14, 200), ("1 MB", 1 << 18, 60), ("25 MB", 25 << 18, 8))  # floats, rounds
# How many times faster than gloo an all_reduce of each size is to be.
AIMS = {"shm": (5, 3, 3, 2), "tcp": (2, 2, 2, 1)}.get(os.environ.get("COLLET_TRANSPORT", ""), (0, 0, 0, 0))


def time_of(call: Callable[[], object]) -> float:
    dist.barrier()
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, Optional[float]]:
    times: dict[str, list[float]] = {backend: [] for backend in calls}
    for backend in list(calls):
        try:
            calls[backend]()  # connections are made; gloo of torch 1.13 refuses some operations
        except RuntimeError:
            del calls[backend]
    for _ in range(rounds):
        for backend, call in calls.items():
            times[backend].append(time_of(call))
    return {backend: statistics.median(list_) if list_ else None for backend, list_ in times.items()}


def collectives(groups: dict[str, dist.ProcessGroup]) -> None:
    n = dist.get_world_size()
    for (name, count, rounds), aim in zip(SIZES, AIMS):
        tensor = torch.ones(count)
        report(f"all_reduce of {name}", {b: lambda g=g: dist.all_reduce(tensor, group=g) for b, g in groups.items()}, rounds, aim)
    whole, block = torch.ones(n << 18), torch.ones(1 << 18)
    blocks = list(torch.empty(n << 18).chunk(n))
    report("all_gather of 1 MB per rank",
           {b: lambda g=g: dist.all_gather(blocks, block, group=g) for b, g in groups.items()}, 60)
    report("reduce_scatter of 1 MB per rank",
           {b: lambda g=g: dist.reduce_scatter_tensor(block, whole, group=g) for b, g in groups.items()}, 60)
    received = torch.empty_like(whole)
    report("all_to_all_single of 1 MB per pair",
           {b: lambda g=g: dist.all_to_all_single(received, whole, group=g) for b, g in groups.items()}, 60)


def steps(groups: dict[str, dist.ProcessGroup]) -> None:
    """A model with many weights and little to compute: 4 million floats, a batch of 1."""
    def step_of(group: dist.ProcessGroup) -> Callable[[], object]:
        layers = [torch.nn.Linear(1024, 1024) for _ in range(4)]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group)
        batch = torch.randn(1, 1024)
        return lambda: model(batch).sum().backward()

    report("DDP: forward and backward of 4 M weights", {b: step_of(g) for b, g in groups.items()}, 30)


def report(name: str, calls: dict[str, Callable[[], object]], rounds: int, aim: int = 0) -> None:
    found = dict.fromkeys(BACKENDS)
    found.update(medians(calls, rounds))
    if dist.get_rank() == 0:
        cells = [f"{found[b] * 1e6:,.0f}" if found[b] is not None else "refused" for b in BACKENDS]
        cells.append(f"{found['gloo'] / found['collet']:.1f} ×" if None not in found.values() else "")
        cells.append(f"≥ {aim} ×" if aim else "")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    if dist.get_rank() == 0:
        over = os.environ.get("COLLET_TRANSPORT", "any transport")
        print(f"| µs, {dist.get_world_size()} ranks | gloo over tcp | collet over {over} | gloo ÷ collet | aim |\n|---|--:|--:|--:|--:|")
    collectives(groups)
    steps(groups)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
