# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own tests do not ask of a backend. Every rank of a job of 3 runs the cases in the same order: those that are named, or
all."""
from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import os
import signal
import sys
import threading
import unittest
from datetime import timedelta
from typing import Callable, Iterator

import torch
import torch.distributed as dist

import collet_torch  # noqa: F401

from coalescing import calls_in_one

CASES: list[Callable[[int, int], None]] = []


def case(function: Callable[[int, int], None]) -> Callable[[int, int], None]:
    CASES.append(function)
    return function


@contextlib.contextmanager
def fails_with(*words: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        for word in words:
            assert word in str(error), f"'{word}' is not in: {error}"
        return
    raise AssertionError(f"no failure, but {words} was expected")


@case
def tensors_that_are_not_contiguous_are_reduced_in_place(rank: int, n: int) -> None:
    whole = torch.full((4, 6), float(rank))
    dist.all_reduce(whole.t()[1:3])
    expected = torch.full((4, 6), float(rank))
    expected[:, 1:3] = sum(range(n))
    assert torch.equal(whole, expected)


@case
def every_type_and_operator_is_right(rank: int, n: int) -> None:
    types = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
             torch.uint8]
    for dtype in types:
        for op, expected in ((dist.ReduceOp.SUM, 6), (dist.ReduceOp.PRODUCT, 6), (dist.ReduceOp.MIN, 1),
                             (dist.ReduceOp.MAX, 3)):
            tensor = torch.full((5,), rank + 1, dtype=dtype)
            dist.all_reduce(tensor, op)
            assert torch.equal(tensor, torch.full((5,), expected, dtype=dtype)), (dtype, op)
    bits = torch.tensor([1 << rank, 7], dtype=torch.int32)
    dist.all_reduce(bits, dist.ReduceOp.BXOR)
    assert bits.tolist() == [7, 7]
    truth = torch.tensor([rank == 0, False, True])
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False, True]


@case
def types_of_newer_releases_are_reduced(rank: int, n: int) -> None:
    for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"):
        dtype = getattr(torch, name, None)
        if dtype is not None:
            tensor = torch.ones(5).to(dtype)
            dist.all_reduce(tensor)
            assert tensor.to(torch.float32).tolist() == [n] * 5, (name, tensor)


@case
def tensors_without_elements_or_dimensions_travel(rank: int, n: int) -> None:
    empty, blocks = torch.empty(0), [torch.empty(0) for _ in range(n)]
    dist.all_reduce(empty)
    dist.broadcast(empty, 1)
    dist.all_gather(blocks, empty)
    dist.reduce_scatter(empty, blocks)
    dist.all_to_all_single(empty, empty.clone())
    dist.all_to_all_single(empty, empty.clone(), [0] * n, [0] * n)
    if rank < 2:
        dist.send(empty, 1) if rank == 0 else dist.recv(empty, 0)
    number, numbers = torch.tensor(float(rank)), [torch.tensor(-1.0) for _ in range(n)]
    dist.all_gather(numbers, number)
    assert [float(x) for x in numbers] == list(range(n))
    dist.all_reduce(number)
    assert float(number) == sum(range(n))


@case
def objects_travel(rank: int, n: int) -> None:
    mine, everybodys = {"rank": rank, "text": "x" * 1000 * rank}, [None] * n
    dist.all_gather_object(everybodys, mine)
    assert [o["rank"] for o in everybodys] == list(range(n)) and len(everybodys[n - 1]["text"]) == 1000 * (n - 1)
    words = ["a", "bb"] if rank == 1 else [None, None]
    dist.broadcast_object_list(words, 1)
    assert words == ["a", "bb"]
    own = [None]
    dist.scatter_object_list(own, list(range(n)) if rank == 0 else None)
    gathered = [None] * n if rank == 0 else None
    dist.gather_object(own[0], gathered)
    assert gathered in (None, list(range(n)))


@case
def gradients_flow_through_collectives(rank: int, n: int) -> None:
    import torch.distributed.nn.functional as functions
    weight = torch.full((3,), rank + 1.0, requires_grad=True)
    (functions.all_reduce(weight) * (rank + 1)).sum().backward()
    assert weight.grad.tolist() == [n * (n + 1) / 2] * 3
    weight.grad = None
    torch.stack(functions.all_gather(weight)).sum().backward()
    assert weight.grad.tolist() == [n] * 3


@case
def a_large_exchange_of_messages_needs_no_order(rank: int, n: int) -> None:
    sent, received = torch.full((3 << 20,), float(rank)), [torch.empty(3 << 20) for _ in range(n)]
    ops = [dist.P2POp(dist.isend, sent, peer) for peer in range(n) if peer != rank]
    ops += [dist.P2POp(dist.irecv, received[peer], peer) for peer in range(n) if peer != rank]
    for request in dist.batch_isend_irecv(ops):
        request.wait()
    assert all((received[peer] == peer).all() for peer in range(n) if peer != rank)


@case
def messages_of_any_source_tell_where_they_come_from(rank: int, n: int) -> None:
    if rank > 0:
        dist.send(torch.full((1 << 20,), float(rank)), 0)
        return
    got = [torch.empty(1 << 20) for _ in range(1, n)]
    sources = [dist.recv(tensor) for tensor in got]
    assert sorted(sources) == list(range(1, n)), sources
    assert all((tensor == source).all() for tensor, source in zip(got, sources))


@case
def lists_of_different_sizes_are_exchanged(rank: int, n: int) -> None:
    sent = [torch.full((rank + 1, peer + 1), 10.0 * rank + peer) for peer in range(n)]
    received = [torch.empty(peer + 1, rank + 1) for peer in range(n)]
    dist.all_to_all(received, sent)
    assert all((received[peer] == 10.0 * peer + rank).all() for peer in range(n))
    for splits in ([1] * (n - 1), [n + 1] + [1] * (n - 1), [n + 1, -1] + [0] * (n - 2)):
        with fails_with("output_split_sizes is [" + ", ".join(map(str, splits))):
            dist.all_to_all_single(torch.empty(n), torch.ones(n), splits, [1] * n)


@case
def splits_of_two_ranks_that_contradict_are_told_in_elements(rank: int, n: int) -> None:
    group, sent = dist.new_group([0, 1]), torch.ones(3 if rank == 0 else 2, 5)
    if rank < 2:
        with fails_with("all_to_all_single", "rank 0 sends 10 float to rank 1 (input_split_sizes[1])", "5 (output_split_sizes[0])"):
            dist.all_to_all_single(torch.empty(2, 5), sent, [1, 1], [1, 2] if rank == 0 else [1, 1], group=group)
            dist.barrier(group)


@case
def blocks_of_different_sizes_are_gathered_and_scattered(rank: int, n: int) -> None:
    for dtype in (torch.float32, torch.cfloat):
        gathered = [torch.empty(r, 2, dtype=dtype) for r in range(n)]
        dist.all_gather(gathered, torch.full((rank, 2), float(rank), dtype=dtype))
        assert all((gathered[r] == r).all() for r in range(n))
    own = torch.empty(rank + 1)
    dist.reduce_scatter(own, [torch.full((r + 1,), float(r)) for r in range(n)])
    assert own.tolist() == [n * rank] * (rank + 1)
    with fails_with(f"tensor {rank} of the list"):
        dist.all_gather(gathered, torch.empty(rank + 1, 2, dtype=torch.cfloat))


@case
def several_calls_are_made_as_one(rank: int, n: int) -> None:
    calls_in_one(rank, n)


@case
def blocks_are_reduced_and_scattered(rank: int, n: int) -> None:
    whole, own = torch.arange(2.0 * n), torch.empty(2)
    dist.reduce_scatter_tensor(own, whole)
    assert torch.equal(own, n * torch.arange(2.0 * rank, 2.0 * rank + 2))
    dist.reduce_scatter(own, list(whole.chunk(n)), op=dist.ReduceOp.AVG)
    assert torch.equal(own, torch.arange(2.0 * rank, 2.0 * rank + 2))


@case
def an_operation_that_is_dropped_is_done_nevertheless(rank: int, n: int) -> None:
    tensors = [torch.full((100, 2), float(rank)).t() for _ in range(20)]
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    assert all((tensor == sum(range(n))).all() for tensor in tensors)


@case
def a_future_is_completed_without_a_waiter(rank: int, n: int) -> None:
    tensor = torch.ones(1000)
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0].sum().item())
    assert future.wait() == 1000.0 * n


@case
def a_callback_may_destroy_its_group(rank: int, n: int) -> None:
    groups, destroyed = [dist.new_group()], threading.Event()

    def destroy(_: object) -> None:
        dist.destroy_process_group(groups.pop())
        destroyed.set()

    tensors = [torch.ones(1 << 20) for _ in range(2)]
    futures = [dist.all_reduce(tensor, group=groups[0], async_op=True).get_future() for tensor in tensors]
    futures[0].then(destroy)
    assert destroyed.wait(60)
    assert all((tensor == n).all() for tensor in tensors)


@case
def a_sparse_tensor_is_refused_in_words(rank: int, n: int) -> None:
    with fails_with("sparse", "dense"):
        dist.all_reduce(torch.eye(3).to_sparse())


@case
def complex_numbers_travel_but_have_no_largest_one(rank: int, n: int) -> None:
    tensor = torch.full((2,), complex(rank, 1))
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((2,), complex(sum(range(n)), n)))
    with fails_with("ComplexFloat"):
        dist.reduce_scatter_tensor(torch.empty(1, dtype=torch.cfloat), torch.ones(n, dtype=torch.cfloat))


@case
def a_tag_that_does_not_match_is_told_in_words(rank: int, n: int) -> None:
    if rank == 0:
        dist.send(torch.zeros(2), 1, tag=3)
    elif rank == 1:
        with fails_with("tag 3", "tag 4", "in the order"):
            dist.recv(torch.zeros(2), 0, tag=4)
    dist.barrier()


@case
def counts_that_differ_fail_with_both_in_the_text(rank: int, n: int) -> None:
    group = dist.new_group()
    with fails_with("4 float", "5 float"):
        dist.all_reduce(torch.ones(5 if rank == 1 else 4), group=group)


@case
def messages_that_differ_fail_with_both_in_the_text(rank: int, n: int) -> None:
    group = dist.new_group()
    if rank == 0:
        dist.send(torch.zeros(8), 1, group=group)
    elif rank == 1:
        with fails_with("recv of 5 float", "peer 0", "32 bytes"):
            dist.recv(torch.zeros(5), 0, group=group)


@case
def ranks_that_send_to_each_other_get_the_remedy(rank: int, n: int) -> None:
    group = dist.new_group([0, 1], timeout=timedelta(seconds=6))
    if rank < 2:
        with fails_with("both send first", "into one group"):
            dist.send(torch.zeros(8 << 20), 1 - rank, group=group)


@case
def groups_in_opposite_order_are_named(rank: int, n: int) -> None:
    groups = [dist.new_group([0, 1], timeout=timedelta(seconds=6)) for _ in range(2)]
    if rank < 2:
        with fails_with("allreduce (call 1) of communicator torch"):
            dist.all_reduce(torch.ones(1000), group=groups[rank])


@case
def a_receive_of_one_thread_leaves_the_other_threads_free(rank: int, n: int) -> None:
    got = torch.zeros(3)
    if rank == 0:
        receiver = threading.Thread(target=lambda: dist.recv(got, 1))
        receiver.start()
        dist.send(torch.ones(3), 1)
        receiver.join()
        assert (got == 2).all()
    elif rank == 1:
        dist.recv(got, 0)
        dist.send(got + 1, 0)


@case
def a_lock_of_the_program_that_keeps_sends_back_is_named(rank: int, n: int) -> None:
    group = dist.new_group([0, 1], timeout=timedelta(seconds=6))
    lock, is_taken = threading.Lock(), threading.Event()

    def receive() -> None:
        with lock:
            is_taken.set()
            with fails_with(f"rank {1 - rank}", "recv (call 1)", "both receive first"):
                dist.recv(torch.zeros(3), 1 - rank, group=group)

    if rank < 2:
        with concurrent.futures.ThreadPoolExecutor() as threads:
            received = threads.submit(receive)
            is_taken.wait()
            with lock, fails_with(""):
                dist.send(torch.ones(3), 1 - rank, group=group)
            received.result()


@case
def a_group_of_some_ranks_is_made_beside_calls_of_all(rank: int, n: int) -> None:
    large = torch.full((1 << 20,), float(rank))
    work = dist.all_reduce(large, async_op=True)
    ends = dist.new_group([0, 2])
    if rank != 1:
        tensor = torch.full((3,), rank + 1.0)
        dist.all_reduce(tensor, group=ends)
        assert tensor.tolist() == [4.0] * 3
    work.wait()
    assert (large == sum(range(n))).all()


@case
def a_group_is_split_into_parts_in_the_order_of_their_lists(rank: int, n: int) -> None:
    try:
        part = dist.split_group(split_ranks=[[2, 0]], group_desc="ends")
    except (AttributeError, RuntimeError) as error:
        if "split_group" in str(error) or "No device associated" in str(error):
            raise unittest.SkipTest("this torch has no split_group(), or has it for GPUs alone") from None
        raise
    if rank != 1:
        mine, all_ = torch.tensor([rank]), [torch.zeros(1, dtype=torch.long) for _ in range(2)]
        dist.all_gather(all_, mine, group=part)
        assert [int(t) for t in all_] == [2, 0], all_


@case
def a_barrier_names_the_rank_that_does_not_come(rank: int, n: int) -> None:
    group = dist.new_group()
    if rank == 0:
        with fails_with("Rank 1 failed to pass"):
            dist.monitored_barrier(group, timeout=timedelta(seconds=1), wait_all_ranks=True)
    elif rank == 2:
        with fails_with("rank 0"):
            dist.monitored_barrier(group, timeout=timedelta(seconds=4))


@case
def weights_that_are_sharded_learn_what_whole_ones_learn(rank: int, n: int) -> None:
    try:
        from torch.distributed.fsdp import fully_shard
    except (ImportError, ValueError):  # ValueError: what torch 1.13 raises here under Python 3.11
        raise unittest.SkipTest("this torch has no fully_shard()") from None
    torch.manual_seed(1)
    whole = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
    sharded = copy.deepcopy(whole)
    fully_shard(sharded, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (n,)))
    batch = torch.randn(4 * n, 7)
    for model, data in ((whole, batch), (sharded, batch[4 * rank:4 * rank + 4])):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
    for parameter, shard in zip(whole.parameters(), sharded.parameters()):
        assert torch.allclose(parameter, shard.full_tensor(), atol=1e-6)


@case
def a_layer_is_cut_among_ranks(rank: int, n: int) -> None:
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    except ImportError:
        raise unittest.SkipTest("this torch has no device mesh, or hides DTensor") from None
    mesh = init_device_mesh("cpu", (n,))
    rows = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
    assert rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local().flatten().tolist() == list(range(12))
    torch.manual_seed(1)
    whole = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    cut = parallelize_module(copy.deepcopy(whole), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    batch = torch.randn(5, 4)
    for model in (whole, cut):
        model(batch).square().sum().backward()
    for parameter, shard in zip(whole.parameters(), cut.parameters()):
        assert torch.allclose(parameter.grad, shard.grad.full_tensor(), atol=1e-5)


@case
def ranks_with_fewer_batches_join_the_others(rank: int, n: int) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with model.join():
        for batch in range(1 + rank):
            optimizer.zero_grad()
            model(torch.full((2, 4), float(batch))).sum().backward()
            optimizer.step()
    weights = [torch.empty(2, 4) for _ in range(n)]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(weights[0], other) for other in weights)


@case
def an_optimizer_whose_state_is_sharded_learns_the_same(rank: int, n: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer
    torch.manual_seed(1)
    plain = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
    sharded = copy.deepcopy(plain)
    optimizers = {plain: torch.optim.Adam(plain.parameters(), 0.1),
                  sharded: ZeroRedundancyOptimizer(sharded.parameters(), torch.optim.Adam, lr=0.1)}
    batch = torch.randn(6, 7)
    for model, optimizer in optimizers.items():
        for _ in range(3):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), sharded.parameters()))


@case
def ctrl_c_ends_a_wait(rank: int, n: int) -> None:
    group = dist.new_group()
    if rank != 0:
        return
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        dist.recv(torch.zeros(1), 1, group=group)
    except KeyboardInterrupt:
        return
    raise AssertionError("the wait has ended without an interrupt")


@case
def a_call_that_ranks_do_not_make_ends_at_the_timeout_of_the_group(rank: int, n: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        with fails_with("a timeout has passed", "timeout= of init_process_group() or new_group()"):
            dist.barrier(group=group)
        with fails_with(""):
            dist.barrier(group=group)
    dist.barrier()


@case
def a_waiter_loses_patience_but_the_call_goes_on(rank: int, n: int) -> None:
    tensor = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        with fails_with("50 ms"):
            work.wait(timedelta(milliseconds=50))
        dist.send(torch.zeros(1), 1)
        dist.send(torch.zeros(1), 2)
        work.wait()
    else:
        dist.recv(torch.zeros(1), 0)
        dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((3,), float(n)))


@case
def tensors_may_lie_in_memory_of_collet(rank: int, n: int) -> None:
    collet_torch.use_memory()  # the last case: it holds for the rest of the process
    large, small = torch.full((1 << 18,), float(rank)), torch.ones(3)
    assert large.data_ptr() % 4096 == 0
    dist.all_reduce(large)
    dist.all_reduce(small)
    assert (large.clone() == sum(range(n))).all() and small.tolist() == [n] * 3


def main() -> int:
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("collet", timeout=timedelta(seconds=60))
    cases = [function for function in CASES if function.__name__ in sys.argv[1:] or len(sys.argv) == 1]
    skipped = 0
    for function in cases:
        try:
            function(rank, n)
        except unittest.SkipTest:
            skipped += 1
        dist.barrier()
    if rank == 0:
        print(f"{len(cases) - skipped} passed, 0 failed, {skipped} skipped")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
