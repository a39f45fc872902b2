# SPDX-License-Identifier: Apache-2.0
"""A backend of torch.distributed in pure Python, where nothing can be compiled:

    import torch.distributed as dist, collet.c10d
    dist.init_process_group("collet_python")

Each operation is done when it is issued, so it does not overlap with the backward pass; the backend in C++ (integrations/torch)
does. How does torch come to the methods below? Every release lets Python derive from ProcessGroup, and takes such a group as it is:

    dist.reduce(tensor, 0)            ─▶  group.reduce([tensor], options): Python finds the method here
    DistributedDataParallel, in C++   ─▶  a virtual function  ─▶  the method of that name
"""
from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from .communicator import Communicator, unique_id

_c10d = torch._C._distributed_c10d

_OPS = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "AVG": "avg", "BAND": "band", "BOR": "bor", "BXOR": "bxor"}

Tensors = list[torch.Tensor]


def _op(opts: Any) -> str:
    for theirs, ours in _OPS.items():
        if opts.reduceOp == getattr(dist.ReduceOp, theirs):
            return ours
    raise ValueError(f"collet does not know the reduction {opts.reduceOp}")


def _done(outputs: Tensors) -> Any:
    """The handle of an operation that is over. It is one of C++: a Python one would not outlive its last Python name."""
    future: Any = torch.futures.Future()
    future.set_result(outputs)
    return _c10d._create_work_from_future(future)


def _counts(tensors: Tensors) -> list[int]:
    return [tensor.numel() for tensor in tensors]


def _row(tensors: Tensors) -> torch.Tensor:
    """One behind another."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _split_counts(name: str, tensor: torch.Tensor, splits: list[int], size: int) -> list[int]:
    """Splits count rows of the first dimension; none means equal ones."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if not splits and rows % size:
        raise ValueError(f"{rows} rows do not divide equally among {size} ranks: give {name}")
    splits = splits or [rows // size] * size
    if len(splits) != size or min(splits) < 0 or sum(splits) != rows:
        raise ValueError(f"{name} is {splits}: {size} numbers are needed, which add up to the {rows} rows of the tensor")
    return [split * (tensor.numel() // rows if rows else 0) for split in splits]


class _Communicator(Communicator):
    """Its failures are told in the words of torch."""

    _words = {
        "COLLET_TIMEOUT or config.timeout_ms": "timeout= of init_process_group() or new_group()",
        "collet_alltoallv": "all_to_all_single",
        "sendcounts": "input_split_sizes",
        "recvcounts": "output_split_sizes",
    }


class Backend(_c10d.ProcessGroup):  # type: ignore[misc]
    """One rank of a group. The ranks find each other through torch's store."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        if rank == 0:
            store.set("collet", unique_id())
        self._comm = _Communicator(store.get("collet"), size, rank, timeout=timeout.total_seconds())
        self._name = ""

    # ---- what torch asks a group ----

    def getBackendName(self) -> str:
        return "collet_python"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    setGroupName, group_name = _set_group_name, property(getGroupName)

    # ---- memory ----

    def _into(self, tensor: torch.Tensor, call: Callable[[torch.Tensor], None]) -> None:
        """call writes to contiguous memory."""
        flat = tensor.detach().contiguous()
        call(flat)
        if flat.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(flat)

    def _into_row(self, outputs: Tensors, call: Callable[[torch.Tensor], None]) -> Any:
        """call writes to all of them, one behind another."""
        row = torch.empty(sum(_counts(outputs)), dtype=outputs[0].dtype)
        call(row)
        for output, block in zip(outputs, row.split(_counts(outputs))):
            output.detach().copy_(block.view(output.shape))
        return _done(outputs)

    # ---- all ranks, one tensor ----

    def allreduce(self, tensors: Tensors, opts: Any) -> Any:
        for tensor in tensors:
            self._into(tensor, lambda flat: self._comm.allreduce(flat, op=_op(opts)))
        return _done(tensors)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        self._into(tensors[0], lambda flat: self._comm.broadcast(flat, root=opts.rootRank))
        return _done(tensors)

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        flat = tensors[0].detach().contiguous()
        total = torch.empty_like(flat)
        self._comm.reduce(flat, total, op=_op(opts), root=opts.rootRank)
        if self._comm.rank == opts.rootRank:
            tensors[0].detach().copy_(total)
        return _done(tensors)

    def barrier(self, opts: Any = None) -> Any:
        self._comm.barrier()
        return _done([])

    # ---- lists of blocks, which may differ in size ----

    def allgather(self, outputs: list[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        own, counts = inputs[0].detach().contiguous(), _counts(outputs[0])
        return self._into_row(outputs[0], lambda row: self._comm.allgatherv(own, row, counts))

    def allgather_coalesced(self, outputs: list[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        for own, blocks in zip(inputs, zip(*outputs)):
            self.allgather([list(blocks)], [own])
        return _done(inputs)

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any) -> Any:
        row, counts = _row(inputs[0]), _counts(inputs[0])
        self._into(outputs[0], lambda flat: self._comm.reducescatterv(row, flat, counts, op=_op(opts)))
        return _done(outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        row, counts = _row(inputs), _counts(inputs)
        return self._into_row(outputs, lambda into: self._comm.alltoallv(row, counts, into, _counts(outputs)))

    def gather(self, outputs: list[Tensors], inputs: Tensors, opts: Any) -> Any:
        own = inputs[0].detach().contiguous()
        if self._comm.rank == opts.rootRank:
            return self._into_row(outputs[0], lambda row: self._comm.gather(own, row, root=opts.rootRank))
        self._comm.gather(own, None, root=opts.rootRank)
        return _done([])

    def scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any) -> Any:
        row = _row(inputs[0]) if self._comm.rank == opts.rootRank else None
        self._into(outputs[0], lambda flat: self._comm.scatter(row, flat, root=opts.rootRank))
        return _done(outputs)

    # ---- one tensor for all blocks. Newer releases have new names for them ----

    def all_gather_single(self, output: torch.Tensor, own: torch.Tensor, opts: Any = None) -> Any:
        self._into(output, lambda flat: self._comm.allgather(own.detach().contiguous(), flat))
        return _done([output])

    def reduce_scatter_single(self, output: torch.Tensor, whole: torch.Tensor, opts: Any) -> Any:
        self._into(output, lambda flat: self._comm.reducescatter(whole.detach().contiguous(), flat, op=_op(opts)))
        return _done([output])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        for output, own in zip(outputs, inputs):
            self.all_gather_single(output, own)
        return _done(outputs)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Any:
        for output, whole in zip(outputs, inputs):
            self.reduce_scatter_single(output, whole, opts)
        return _done(outputs)

    def all_to_all_single(self, output: torch.Tensor, input_: torch.Tensor, output_splits: list[int],
                          input_splits: list[int], opts: Any = None) -> Any:
        sent = _split_counts("input_split_sizes", input_, input_splits, self._comm.nranks)
        received = _split_counts("output_split_sizes", output, output_splits, self._comm.nranks)
        source = input_.detach().contiguous()
        self._into(output, lambda flat: self._comm.alltoallv(source, sent, flat, received))
        return _done([output])

    _allgather_base, _reduce_scatter_base, alltoall_base = all_gather_single, reduce_scatter_single, all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- several calls as one: each is done already ----

    def _start_coalescing(self, device: Any = None) -> None:
        pass

    def _end_coalescing(self, device: Any = None, works: Any = None) -> Any:
        return _done([])

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    # ---- messages ----

    def send(self, tensors: Tensors, peer: int, tag: int) -> Any:
        self._comm.send(tensors[0].detach().contiguous(), peer)
        return _done([])

    def recv(self, tensors: Tensors, peer: int, tag: int) -> Any:
        self._into(tensors[0], lambda flat: self._comm.recv(flat, peer))
        return _done(tensors)


def _register() -> None:
    knows_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend("collet_python", Backend, **({"devices": ["cpu"]} if knows_devices else {}))


_register()
