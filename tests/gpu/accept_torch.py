#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on collet, on a GPU that several processes share:

   accept_torch.py [--seconds N] [--cpu] [--nccl FILE] [--only PART,…] [--collet-torch FOLDER]

Every check compares results with what they must be. Exit status: 0 all passed, 1 the checks that failed are listed last, 77 it does
not apply here (a word says why).

   nccl-2    backend "nccl" on collet's libnccl.so.2 in 2 processes: operations, messages, groups, streams, DDP, FSDP2
   nccl-4    the operations, messages and groups in 4 processes
   graphs    calls captured into CUDA graphs and replayed, in 2 processes
   collet    the backend of collet's own, collet_torch, with tensors on the GPU, in 2 processes, where Python has it

--cpu runs the same checks on the CPU, with gloo in the place of nccl, and says which of them need a GPU: it is there to find the
mistakes of this file.

accept_ranks.py has the options, and how ranks are started.
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import warnings

from accept_ranks import (BUILD, NOT_APPLICABLE, Checks, check_library, collet_has_made_communicators, not_applicable, parser_of, preload,
                          run_parts, say, signs_of_life, take_python_with)

HERE: argparse.Namespace  # of a rank: rank, ranks, device, backend, nccl, checks
CHECKS: list = []


# ---- the checks: each runs on every rank, and ends with an exception if something is wrong ------------------------------------


def check(*parts: str, on: str = "cpu cuda kernels"):
    """Belongs to these parts, and can be made on these devices: cuda, with torch's own kernels or without."""
    def register(function):
        CHECKS.append((function, parts, on.split()))
        return function
    return register


OPERATIONS = ("nccl-2", "nccl-4", "collet")
NCCL = ("nccl-2", "nccl-4")


def numbers(rank: int, count: int, kind=None):
    """Small whole numbers, different on each rank and in neighbouring elements: their sums and products are exact in all types."""
    return ((torch.arange(count) + rank) % 3 + 1).to(kind or torch.float32)


def ramp(rank: int, count: int, kind=None):
    return numbers(rank, count, kind).to(HERE.device)


def everybody(count: int, kind=None):
    return torch.stack([numbers(rank, count, kind) for rank in range(HERE.ranks)])


def stacked(tensors):
    return torch.stack([tensor.cpu() for tensor in tensors])


def same(got, wanted, what: str = "") -> None:
    """Numbers are made and compared on the CPU, so that torch's kernels and their compiler have no part in it."""
    got, wanted = got.cpu(), wanted.cpu()
    if got.shape != wanted.shape or not torch.equal(got.double(), wanted.double()):
        wrong = int((got.double() != wanted.double()).sum()) if got.shape == wanted.shape else -1
        HERE.checks.expect(False, f"{what}: {wrong} of {wanted.numel()} elements are wrong: {got.flatten()[:4].tolist()} … "
                                  f"instead of {wanted.flatten()[:4].tolist()} …")


def kinds():
    whole = [torch.int8, torch.uint8, torch.int32, torch.int64]
    return [torch.float32, torch.float64, torch.float16, torch.bfloat16, *whole]


def reduced(op, count: int, kind):
    values = everybody(count, kind).double()
    return {dist.ReduceOp.SUM: values.sum(0), dist.ReduceOp.PRODUCT: values.prod(0), dist.ReduceOp.MAX: values.amax(0),
            dist.ReduceOp.MIN: values.amin(0), dist.ReduceOp.AVG: values.mean(0)}[op]


@check(*OPERATIONS)
def all_reduce_of_types_and_operators():
    operators = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN]
    for kind in kinds():
        for op in operators + ([dist.ReduceOp.AVG] if kind.is_floating_point and HERE.backend != "gloo" else []):
            tensor = ramp(HERE.rank, 1003, kind)
            dist.all_reduce(tensor, op)
            same(tensor, reduced(op, 1003, kind).to(kind), f"{kind} {op}")


@check(*OPERATIONS)
def all_reduce_of_many_sizes():
    for count in (1, 2, 7, 64, 1000, 4099, 65537, 1 << 20):
        tensor = ramp(HERE.rank, count)
        dist.all_reduce(tensor)
        same(tensor, everybody(count).sum(0), f"{count} elements")


@check("nccl-2", on="cuda kernels")
def all_reduce_of_64_MB():
    tensor = ramp(HERE.rank, 1 << 24)
    dist.all_reduce(tensor)
    same(tensor, everybody(1 << 24).sum(0))


@check(*NCCL, on="cuda kernels")
def premultiplied_sum():
    tensor = ramp(HERE.rank, 4096)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    same(tensor, everybody(4096).sum(0) / 2)


@check(*OPERATIONS)
def all_gather_of_tensors_and_lists():
    count = 5001
    whole = torch.empty(HERE.ranks * count, device=HERE.device)
    dist.all_gather_into_tensor(whole, ramp(HERE.rank, count))
    same(whole, everybody(count).flatten(), "tensor")
    parts = [torch.empty(count, device=HERE.device) for _ in range(HERE.ranks)]
    dist.all_gather(parts, ramp(HERE.rank, count))
    same(stacked(parts), everybody(count), "list")


@check(*OPERATIONS)
def all_gather_in_place():
    count = 4096
    whole = torch.empty(HERE.ranks * count, device=HERE.device)
    mine = whole[HERE.rank * count:(HERE.rank + 1) * count]
    mine.copy_(ramp(HERE.rank, count))
    dist.all_gather_into_tensor(whole, mine)
    same(whole, everybody(count).flatten())


@check(*NCCL, on="cuda kernels")
def all_gather_of_uneven_tensors():
    parts = [torch.empty(100 * (rank + 1), device=HERE.device) for rank in range(HERE.ranks)]
    dist.all_gather(parts, ramp(HERE.rank, 100 * (HERE.rank + 1)))
    for rank, part in enumerate(parts):
        same(part, numbers(rank, 100 * (rank + 1)), f"of rank {rank}")


@check(*OPERATIONS)
def reduce_scatter_of_tensors_and_lists():
    count = 3001
    wanted = everybody(HERE.ranks * count).sum(0)[HERE.rank * count:(HERE.rank + 1) * count]
    mine = torch.empty(count, device=HERE.device)
    dist.reduce_scatter_tensor(mine, ramp(HERE.rank, HERE.ranks * count))
    same(mine, wanted, "tensor")
    dist.reduce_scatter(mine, list(ramp(HERE.rank, HERE.ranks * count).chunk(HERE.ranks)))
    same(mine, wanted, "list")


@check(*OPERATIONS)
def all_to_all_of_even_blocks():
    me, ranks, count = HERE.rank, HERE.ranks, 2500
    got = torch.empty(ranks * count, device=HERE.device)
    dist.all_to_all_single(got, ramp(me, ranks * count))
    same(got, torch.cat([numbers(rank, ranks * count)[me * count:(me + 1) * count] for rank in range(ranks)]))


@check(*OPERATIONS)
def all_to_all_of_uneven_blocks():
    me, ranks = HERE.rank, HERE.ranks
    send, receive = [100 * (rank + me + 1) for rank in range(ranks)], [100 * (me + rank + 1) for rank in range(ranks)]
    got = torch.empty(sum(receive), device=HERE.device)
    blocks = torch.cat([numbers(me + to, count) for to, count in enumerate(send)])
    dist.all_to_all_single(got, blocks.to(HERE.device), receive, send)
    same(got, torch.cat([numbers(source + me, count) for source, count in enumerate(receive)]))


@check(*NCCL, on="cuda kernels")
@check("collet", on="kernels")  # which puts them in a row
def all_to_all_of_lists():
    got = [torch.empty(700, device=HERE.device) for _ in range(HERE.ranks)]
    dist.all_to_all(got, [ramp(HERE.rank + to, 700) for to in range(HERE.ranks)])
    same(stacked(got), torch.stack([numbers(source + HERE.rank, 700) for source in range(HERE.ranks)]))


@check(*OPERATIONS)
def broadcast_and_reduce_with_every_root():
    for root in range(HERE.ranks):
        tensor = ramp(HERE.rank, 6000)
        dist.broadcast(tensor, root)
        same(tensor, numbers(root, 6000), f"broadcast of {root}")
        tensor = ramp(HERE.rank, 6000)
        dist.reduce(tensor, root)
        if HERE.rank == root:
            same(tensor, everybody(6000).sum(0), f"reduce to {root}")


@check(*OPERATIONS)
def gather_and_scatter():
    last = HERE.ranks - 1
    parts = [torch.empty(900, device=HERE.device) for _ in range(HERE.ranks)] if HERE.rank == last else None
    dist.gather(ramp(HERE.rank, 900), parts, dst=last)
    if parts is not None:
        same(stacked(parts), everybody(900), "gather")
    mine = torch.empty(900, device=HERE.device)
    parts = list(everybody(900).flatten().to(HERE.device).chunk(HERE.ranks))
    dist.scatter(mine, parts if HERE.rank == last else None, src=last)
    same(mine, numbers(HERE.rank, 900), "scatter")


@check(*OPERATIONS)
def send_and_receive_between_neighbours():
    """Pairs: the even rank sends first. A group of an odd number of ranks leaves the last one out."""
    partner = HERE.rank ^ 1
    for count in (1, 5000, 300000):
        got = torch.empty(count, device=HERE.device)
        if partner >= HERE.ranks:
            continue
        if HERE.rank < partner:
            dist.send(ramp(HERE.rank, count), partner)
            dist.recv(got, partner)
        else:
            dist.recv(got, partner)
            dist.send(ramp(HERE.rank, count), partner)
        same(got, numbers(partner, count), f"{count} elements")


@check(*NCCL)
def batched_messages_around_a_ring():
    right, left = (HERE.rank + 1) % HERE.ranks, (HERE.rank - 1) % HERE.ranks
    for count in (1, 100000):
        got = torch.empty(count, device=HERE.device)
        messages = [dist.P2POp(dist.isend, ramp(HERE.rank, count), right), dist.P2POp(dist.irecv, got, left)]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        same(got, numbers(left, count), f"{count} elements")


@check(*NCCL, on="cuda kernels")
def coalesced_calls():
    tensors = [ramp(HERE.rank, 100 * (i + 1)) for i in range(8)]
    with dist._coalescing_manager(device=HERE.device, async_ops=True) as calls:
        for tensor in tensors:
            dist.all_reduce(tensor)
    calls.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, everybody(100 * (i + 1)).sum(0), f"call {i}")


@check(*OPERATIONS)
def many_calls_under_way():
    tensors = [ramp(HERE.rank + i, 1000 + i) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.stack([numbers(rank + i, 1000 + i) for rank in range(HERE.ranks)]).sum(0), f"call {i}")


@check(*OPERATIONS, on="cpu kernels")
def objects():
    everything = [None] * HERE.ranks
    dist.all_gather_object(everything, {"rank": HERE.rank})
    HERE.checks.expect(everything == [{"rank": rank} for rank in range(HERE.ranks)], str(everything))
    box = [("from", 0) if HERE.rank == 0 else None]
    dist.broadcast_object_list(box, src=0, device=HERE.device)
    HERE.checks.expect(box == [("from", 0)], str(box))


@check(*OPERATIONS, on="cpu kernels")
def barriers():
    for _ in range(3):
        dist.barrier()


@check(*OPERATIONS)
def groups_of_some_ranks():
    lower, upper = list(range((HERE.ranks + 1) // 2)), list(range((HERE.ranks + 1) // 2, HERE.ranks))
    groups = {tuple(ranks): dist.new_group(ranks) for ranks in (lower, upper, list(range(HERE.ranks)))}
    for ranks, group in groups.items():
        if HERE.rank in ranks:
            tensor = ramp(HERE.rank, 2000)
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.stack([numbers(rank, 2000) for rank in ranks]).sum(0), f"ranks {ranks}")
    for ranks, group in groups.items():
        if HERE.rank in ranks:
            dist.destroy_process_group(group)


@check(*NCCL, on="cuda kernels")
def split_group():
    group = dist.split_group(split_ranks=[list(range(HERE.ranks))])
    tensor = ramp(HERE.rank, 2000)
    dist.all_reduce(tensor, group=group)
    same(tensor, everybody(2000).sum(0))


@check(*NCCL, on="cuda kernels")
def several_communicators_on_several_streams():
    groups = [dist.new_group(list(range(HERE.ranks))) for _ in range(3)]
    streams = [torch.cuda.Stream() for _ in groups]
    given = [ramp(HERE.rank + i, 50000) for i in range(len(groups))]
    got = [[torch.empty_like(tensor) for _ in range(5)] for tensor in given]
    torch.cuda.synchronize()
    for step in range(5):
        for i, group in enumerate(groups):
            with torch.cuda.stream(streams[i]):
                got[i][step].copy_(given[i])
                dist.all_reduce(got[i][step], group=group)
    torch.cuda.synchronize()
    for i, results in enumerate(got):
        wanted = torch.stack([numbers(rank + i, 50000) for rank in range(HERE.ranks)]).sum(0)
        for step, tensor in enumerate(results):
            same(tensor, wanted, f"communicator {i}, call {step}")


@check("nccl-2", on="cpu kernels")
def device_mesh():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh(HERE.device.type, (HERE.ranks,))
    whole = torch.arange(64.0, device=HERE.device).view(8, 8)
    shards = distribute_tensor(whole, mesh, [Shard(0)])
    same(shards.redistribute(mesh, [Replicate()]).to_local(), whole, "all-gathered")
    same((shards * 2).redistribute(mesh, [Shard(1)]).full_tensor(), whole * 2, "exchanged")


# ---- training: the same losses as one process that sees all samples ----------------------------------------------------------


def small_model():
    torch.manual_seed(7)
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)]
    return torch.nn.Sequential(*layers).to(HERE.device)


def samples():
    dice = torch.Generator().manual_seed(11)
    return [(torch.randn(16 * HERE.ranks, 64, generator=dice).to(HERE.device),
             torch.randint(8, (16 * HERE.ranks,), generator=dice).to(HERE.device)) for _ in range(4)]


def losses_of(model, share: slice, steps: int = 12) -> list:
    """Each step's loss, averaged over ranks if the share is not the whole."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    batches, losses = samples(), []
    for step in range(steps):
        inputs, classes = batches[step % len(batches)]
        loss = torch.nn.functional.cross_entropy(model(inputs[share]), classes[share])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if share != slice(None):
            dist.all_reduce(mean)
            mean /= HERE.ranks
        losses.append(float(mean))
    return losses


def trains_as_alone(parallel) -> str:
    mine = slice(16 * HERE.rank, 16 * (HERE.rank + 1))
    alone, together = losses_of(small_model(), slice(None)), losses_of(parallel(small_model()), mine)
    worst = max(abs(a - b) for a, b in zip(alone, together))
    HERE.checks.expect(worst < 1e-4, f"losses differ by {worst}: {together} instead of {alone}")
    HERE.checks.expect(together[-1] < together[0], f"the loss does not fall: {together}")
    return f"loss {together[0]:.4f} to {together[-1]:.4f}, at most {worst:.1e} from that of one process"


@check("nccl-2", "collet", on="cpu kernels")
def distributed_data_parallel():
    on = {"device_ids": [HERE.device.index]} if HERE.device.type == "cuda" else {}
    return trains_as_alone(lambda model: torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.1, **on))


@check("nccl-2", on="cpu kernels")
def fully_sharded_data_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(HERE.device.type, (HERE.ranks,))

    def sharded(model):
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    return trains_as_alone(sharded)


# ---- CUDA graphs -----------------------------------------------------------------------------------------------------------


def meet() -> None:
    """A barrier without a kernel of torch."""
    tensor = ramp(0, 1)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()


def captured(call, mode: str = "thread_local"):
    """A graph of the call, which runs some times before: communicators and memory are made then."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    meet()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        call()
    return graph


def replays(count: int, times: int, mode: str = "thread_local") -> str:
    given, got = ramp(HERE.rank, count), torch.empty(count, device=HERE.device)

    def call():
        got.copy_(given)
        dist.all_reduce(got)
    graph = captured(call, mode)
    begin = time.monotonic()
    for i in range(times):
        given.copy_(ramp(HERE.rank + i, count))
        graph.replay()
        if i % 50 == 0 or i == times - 1:
            same(got, torch.stack([numbers(rank + i, count) for rank in range(HERE.ranks)]).sum(0), f"replay {i}")
    torch.cuda.synchronize()
    return f"{times} replays, {1e6 * (time.monotonic() - begin) / times:.0f} µs each"


@check("graphs", on="cuda kernels")
def graph_of_a_small_all_reduce():
    return replays(1024, 200)


@check("graphs", on="cuda kernels")
def graph_of_an_all_reduce_of_4_MB():
    return replays(1 << 20, 100)


@check("graphs", on="cuda kernels")
def graph_captured_in_global_mode():
    """torch's default: an unsafe call of any thread of the process spoils the capture."""
    return replays(1024, 50, "global")


@check("graphs", on="cuda kernels")
def graph_of_several_calls():
    count, ranks = 2048, HERE.ranks
    given = ramp(HERE.rank, count)
    whole, mine = torch.empty(ranks * count, device=HERE.device), torch.empty(count, device=HERE.device)

    def call():
        dist.all_gather_into_tensor(whole, given)
        dist.reduce_scatter_tensor(mine, whole)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
    graph = captured(call)
    for i in range(20):
        given.copy_(ramp(HERE.rank + i, count))
        graph.replay()
        gathered = torch.stack([numbers(rank + i, count) for rank in range(ranks)])
        same(whole, gathered.flatten(), f"replay {i}, all_gather")
        same(mine, (gathered * ranks).amax(0), f"replay {i}, reduce_scatter and all_reduce")


@check("graphs", on="cuda kernels")
def two_graphs_and_calls_between_them():
    first, second = ramp(HERE.rank, 512), ramp(HERE.rank, 3000)
    group = dist.new_group(list(range(HERE.ranks)))
    graphs = [captured(lambda: dist.all_reduce(first, dist.ReduceOp.MAX)),
              captured(lambda: dist.all_reduce(second, dist.ReduceOp.MIN, group=group))]
    for i in range(10):
        first.copy_(ramp(HERE.rank + i, 512))
        second.copy_(ramp(HERE.rank + i, 3000))
        plain = ramp(HERE.rank + i, 777)
        graphs[0].replay()
        dist.all_reduce(plain)
        graphs[1].replay()
        same(first, torch.stack([numbers(rank + i, 512) for rank in range(HERE.ranks)]).amax(0), "first")
        same(second, torch.stack([numbers(rank + i, 3000) for rank in range(HERE.ranks)]).amin(0), "second")
        same(plain, torch.stack([numbers(rank + i, 777) for rank in range(HERE.ranks)]).sum(0), "between")


# ---- one rank ----------------------------------------------------------------------------------------------------------------


def backend_of(options, part: str) -> str:
    return "collet" if part == "collet" else "gloo" if options.cpu else "nccl"


def init_process_group() -> None:
    if HERE.backend == "collet":
        import collet_torch  # noqa: F401  makes the backend known
    device = {"device_id": HERE.device} if HERE.backend == "nccl" else {}
    dist.init_process_group(HERE.backend, rank=HERE.rank, world_size=HERE.ranks, **device)


def nccl_is_of_collet() -> str:
    version = f", which torch calls {torch.cuda.nccl.version()}" if dist.is_nccl_available() else ""
    return check_library(HERE.nccl) + version


def synchronize() -> None:
    if HERE.device.type == "cuda":
        torch.cuda.synchronize()


def be_rank(options, part: str, rank: int, ranks: int, port: int) -> int:
    global HERE
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    warnings.simplefilter("ignore")
    device = torch.device("cpu") if options.cpu else torch.device("cuda", rank % torch.cuda.device_count())
    if not options.cpu:
        torch.cuda.set_device(device)
    HERE = argparse.Namespace(rank=rank, ranks=ranks, device=device, backend=backend_of(options, part), nccl=options.nccl,
                              checks=Checks(synchronize))
    can = "cpu" if options.cpu else "cuda" if options.no_kernels else "kernels"
    mine = [function for function, parts, on in CHECKS if part in parts and can in on]
    speaks = [] if HERE.backend == "gloo" else [collet_has_made_communicators]
    return HERE.checks.run([nccl_is_of_collet, init_process_group, *mine, *speaks, dist.destroy_process_group])


# ---- the parent --------------------------------------------------------------------------------------------------------------


def import_torch(options) -> None:
    global torch, dist
    sys.path.append(options.collet_torch)
    with signs_of_life("importing torch"):
        import torch
        import torch.distributed as dist
        if is_new():  # what ranks need is imported once
            import torch._dynamo
            import torch.distributed.fsdp
            import torch.distributed.tensor  # noqa: F401
    torch.set_num_threads(1)
    say(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {'on the CPU' if options.cpu else 'on GPUs'}, {options.nccl}")


def is_new() -> bool:
    return tuple(int(number) for number in torch.__version__.split(".")[:2]) >= (2, 6)


def parts_to_run(options) -> list:
    parts = [("nccl-2", 2), ("graphs", 2), ("nccl-4", 4), ("collet", 2)]
    if options.cpu:
        parts.remove(("graphs", 2))
        tried = {function for function, _, on in CHECKS if "cpu" in on}
        say("not on a CPU: " + ", ".join(function.__name__ for function, _, _ in CHECKS if function not in tried))
    if not is_new():
        parts = [("collet", 2)]
        say("not run: all parts but collet: torch 2.6 or later is needed")
    if importlib.util.find_spec("collet_torch") is None:
        parts.remove(("collet", 2))
        say(f"not run: part collet: there is no collet_torch for this Python in {options.collet_torch}; scripts/torch.sh build makes it")
    return parts


def main() -> int:
    parser = parser_of(__doc__, 40)
    parser.add_argument("--collet-torch", default=os.path.join(BUILD, "torch"), help="the folder that collet_torch is in")
    parser.add_argument("--no-kernels", action="store_true", help="only what needs no kernels of torch: on a simulated GPU")
    options = parser.parse_args()
    why = not_applicable(options) or take_python_with("torch")
    if why:
        print(f"not applicable: {why}")
        return NOT_APPLICABLE
    preload(options)
    import_torch(options)
    parts = parts_to_run(options)
    if not parts:
        print("not applicable: no part can run here")
        return NOT_APPLICABLE
    return run_parts(options, parts, lambda *rank: be_rank(options, *rank))


if __name__ == "__main__":
    sys.exit(main())
