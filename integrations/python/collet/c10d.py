# SPDX-License-Identifier: Apache-2.0
"""A backend of torch.distributed in pure Python, where nothing can be compiled:

    import torch.distributed as dist, collet.c10d
    dist.init_process_group("collet_python")

Each operation is done when it is issued, so it does not overlap with the backward pass; the backend in C++ (integrations/torch)
does. torch 1.13 lets Python classes have some of the operations: allreduce, allgather, broadcast, reduce_scatter, barrier, send
and recv, which is what DistributedDataParallel needs. torch 2.15 lets them have all.
"""
from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from .communicator import Communicator, unique_id

_c10d = torch._C._distributed_c10d
_Base: Any = getattr(_c10d, "Backend", _c10d.ProcessGroup)  # torch 2 has Backend

_OPS = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "AVG": "avg", "BAND": "band", "BOR": "bor", "BXOR": "bxor"}


def _op(opts: Any) -> str:
    for theirs, ours in _OPS.items():
        if opts.reduceOp == getattr(dist.ReduceOp, theirs):
            return ours
    raise ValueError(f"collet does not know the reduction {opts.reduceOp}")


def _done(outputs: list[torch.Tensor]) -> Any:
    """The handle of an operation that is over. It is one of C++: a Python one would not outlive its last Python name."""
    future: Any = torch.futures.Future()
    future.set_result(outputs)
    return _c10d._create_work_from_future(future)


class Backend(_Base):
    """One rank of a group. The ranks find each other through torch's store."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        if rank == 0:
            store.set("collet", unique_id())
        self._comm = Communicator(store.get("collet"), size, rank, timeout=timeout.total_seconds())

    def getBackendName(self) -> str:
        return "collet_python"

    def _into(self, tensor: torch.Tensor, call: Callable[[torch.Tensor], None]) -> None:
        """call writes to contiguous memory."""
        flat = tensor.detach().contiguous()
        call(flat)
        if flat.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(flat)

    def _blocks(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty((self._comm.nranks, *like.shape), dtype=like.dtype)

    # ---- what torch 1.13 asks for, too ----

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        for tensor in tensors:
            self._into(tensor, lambda flat: self._comm.allreduce(flat, op=_op(opts)))
        return _done(tensors)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        self._into(tensors[0], lambda flat: self._comm.broadcast(flat, root=opts.rootRank))
        return _done(tensors)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        blocks = self._blocks(inputs[0])
        self._comm.allgather(inputs[0].contiguous(), blocks)
        for output, block in zip(outputs[0], blocks):
            output.copy_(block)
        return _done(outputs[0])

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Any:
        blocks = torch.stack(inputs[0])
        self._into(outputs[0], lambda flat: self._comm.reducescatter(blocks, flat, op=_op(opts)))
        return _done(outputs)

    def barrier(self, opts: Any = None) -> Any:
        self._comm.barrier()
        return _done([])

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Any:
        self._comm.send(tensors[0].contiguous(), peer)
        return _done([])

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> Any:
        self._into(tensors[0], lambda flat: self._comm.recv(flat, peer))
        return _done(tensors)

    # ---- what only newer ones do ----

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        flat = tensors[0].detach().contiguous()
        total = torch.empty_like(flat)
        self._comm.reduce(flat, total, op=_op(opts), root=opts.rootRank)
        if self._comm.rank == opts.rootRank:
            tensors[0].detach().copy_(total)
        return _done(tensors)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> Any:
        is_root = self._comm.rank == opts.rootRank
        blocks = self._blocks(inputs[0]) if is_root else None
        self._comm.gather(inputs[0].contiguous(), blocks, root=opts.rootRank)
        for output, block in zip(outputs[0], blocks) if blocks is not None else []:
            output.copy_(block)
        return _done(outputs[0] if is_root else [])

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Any:
        blocks = torch.stack(inputs[0]) if self._comm.rank == opts.rootRank else None
        self._into(outputs[0], lambda flat: self._comm.scatter(blocks, flat, root=opts.rootRank))
        return _done(outputs)

    def all_gather_single(self, output: torch.Tensor, input_: torch.Tensor, opts: Any = None) -> Any:
        self._into(output, lambda flat: self._comm.allgather(input_.contiguous(), flat))
        return _done([output])

    def reduce_scatter_single(self, output: torch.Tensor, input_: torch.Tensor, opts: Any) -> Any:
        self._into(output, lambda flat: self._comm.reducescatter(input_.contiguous(), flat, op=_op(opts)))
        return _done([output])

    def all_to_all_single(self, output: torch.Tensor, input_: torch.Tensor, output_splits: list[int],
                          input_splits: list[int], opts: Any = None) -> Any:
        def counts(tensor: torch.Tensor, splits: list[int]) -> list[int]:
            n = self._comm.nranks
            rows = splits or [tensor.shape[0] // n] * n
            return [count * (tensor[0].numel() if len(tensor) else 0) for count in rows]

        self._into(output, lambda flat: self._comm.alltoallv(input_.contiguous(), counts(input_, input_splits), flat,
                                                             counts(output, output_splits)))
        return _done([output])


def _register() -> None:
    knows_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend("collet_python", Backend, **({"devices": ["cpu"]} if knows_devices else {}))


_register()
