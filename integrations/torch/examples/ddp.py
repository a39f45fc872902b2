# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with DistributedDataParallel on gloo and on collet, and compares: the weights bit by bit, and the time
of a step.

    python3 -m collet.run -n 2 integrations/torch/examples/ddp.py

With 2 ranks, a sum of gradients has one order: a + b. So the two backends must agree in every bit. With more ranks, a sum of
floats depends on the order of its terms, and the backends differ in it; the ranks of one backend still agree.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

import collet_torch  # noqa: F401

STEPS = 30


def train(group: dist.ProcessGroup) -> tuple[list[torch.Tensor], float]:
    """The weights after STEPS steps, and the median time of a step in seconds."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    torch.manual_seed(100 + dist.get_rank())  # each rank has data of its own
    times = []
    for _ in range(STEPS):
        batch = torch.randn(16, 512)
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return [parameter.detach() for parameter in model.parameters()], statistics.median(times)


def main() -> int:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    weights, seconds = {}, {}
    for backend in ("gloo", "collet"):
        weights[backend], seconds[backend] = train(dist.new_group(backend=backend))
    equal = all(torch.equal(a, b) for a, b in zip(weights["gloo"], weights["collet"]))
    if dist.get_rank() == 0:
        print(f"torch {torch.__version__}, {dist.get_world_size()} processes, {STEPS} steps of DDP")
        for backend, time_of_step in seconds.items():
            print(f"{backend:8} {time_of_step * 1000:8.2f} ms per step")
        print("weights are bitwise equal" if equal else "weights differ")
    dist.barrier()
    dist.destroy_process_group()
    return 0 if equal or int(os.environ["WORLD_SIZE"]) > 2 else 1


if __name__ == "__main__":
    sys.exit(main())
