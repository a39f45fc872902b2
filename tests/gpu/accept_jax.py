#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX on collet's libnccl.so.2, in 2 processes that share a GPU:

   accept_jax.py [--seconds N] [--cpu] [--nccl FILE] [--only PART,…]

Exit status: 0 all passed, 1 the checks that failed are listed last, 77 it does not apply here (a word says why).

   processes   jax.distributed: psum, pmax, all_gather, psum_scatter, all_to_all, ppermute inside shard_map, training by mean gradients
   graphs      only if --only names it: the same with XLA's command buffers, which capture collectives into CUDA graphs

--cpu runs the same checks on JAX's own collectives for the CPU: it is there to find the mistakes of this file.

accept_ranks.py has the options, and how ranks are started.
"""
from __future__ import annotations

import argparse
import os
import sys

from accept_ranks import (NOT_APPLICABLE, Checks, check_library, collet_has_made_communicators, not_applicable, parser_of, preload,
                          run_parts, say, take_python_with)

HERE: argparse.Namespace  # of a rank: rank, ranks, mesh, checks, nccl, address, cpu
COUNTS = (2, 8192, 4 << 20)


def ramp(rank: int, count: int, kind: str = "float32"):
    """Small whole numbers, different on each rank and in neighbouring elements: their sums are exact in all types."""
    return ((numpy.arange(count) + rank) % 3 + 1).astype(kind)


def everybody(count: int, kind: str = "float32"):
    return numpy.stack([ramp(rank, count, kind) for rank in range(HERE.ranks)])


def same(got, wanted, what: str) -> None:
    wrong = int((got != wanted).sum()) if got.shape == wanted.shape else -1
    HERE.checks.expect(wrong == 0, f"{what}: {wrong} of {wanted.size} elements are wrong: {got.ravel()[:4]} … instead of {wanted.ravel()[:4]} …")


def spread(mine):
    """An array of which every process has its own part."""
    return jax.make_array_from_process_local_data(jax.NamedSharding(HERE.mesh, jax.P("ranks")), mine)


def on_all(function, mine):
    """What the function gives on this rank, with `mine` as its argument. All ranks call it at the same time."""
    mapped = jax.jit(jax.shard_map(function, mesh=HERE.mesh, in_specs=jax.P("ranks"), out_specs=jax.P("ranks")))
    return numpy.asarray(mapped(spread(mine)).addressable_data(0))


def reduces(function, name: str) -> None:
    for kind in ("float32", "bfloat16", "int32"):
        kind = jax.numpy.dtype(kind)
        for count in COUNTS[:2]:
            wanted = getattr(everybody(count, "float64"), name)(0).astype(kind)
            same(on_all(lambda x: function(x, "ranks"), ramp(HERE.rank, count, kind)), wanted, f"{kind} × {count}")


def psum() -> None:
    reduces(jax.lax.psum, "sum")


def pmax() -> None:
    reduces(jax.lax.pmax, "max")


def pmin() -> None:
    reduces(jax.lax.pmin, "min")


def pmean() -> None:
    same(on_all(lambda x: jax.lax.pmean(x, "ranks"), ramp(HERE.rank, 5000)), everybody(5000).mean(0), "5000 elements")


def psum_of_16_MB() -> None:
    same(on_all(lambda x: jax.lax.psum(x, "ranks"), ramp(HERE.rank, COUNTS[-1])), everybody(COUNTS[-1]).sum(0), "16 MB")


def all_gather() -> None:
    for count in COUNTS:
        got = on_all(lambda x: jax.lax.all_gather(x, "ranks", tiled=True), ramp(HERE.rank, count))
        same(got, everybody(count).ravel(), f"{count} elements")


def psum_scatter() -> None:
    for count in COUNTS:
        part = count // HERE.ranks
        got = on_all(lambda x: jax.lax.psum_scatter(x, "ranks", tiled=True), ramp(HERE.rank, count))
        same(got, everybody(count).sum(0)[HERE.rank * part:(HERE.rank + 1) * part], f"{count} elements")


def all_to_all() -> None:
    for count in COUNTS:
        part = count // HERE.ranks
        got = on_all(lambda x: jax.lax.all_to_all(x, "ranks", 0, 0, tiled=True), ramp(HERE.rank, count))
        wanted = numpy.concatenate([row[HERE.rank * part:(HERE.rank + 1) * part] for row in everybody(count)])
        same(got, wanted, f"{count} elements")


def ppermute() -> None:
    ring = [(rank, (rank + 1) % HERE.ranks) for rank in range(HERE.ranks)]
    for count in COUNTS:
        got = on_all(lambda x: jax.lax.ppermute(x, "ranks", ring), ramp(HERE.rank, count))
        same(got, ramp((HERE.rank - 1) % HERE.ranks, count), f"{count} elements")


def several_in_one_program() -> None:
    """XLA may merge and overlap them."""
    def program(x):
        total = jax.lax.psum(x, "ranks")
        parts = jax.lax.psum_scatter(x * 2, "ranks", tiled=True)
        return total + jax.lax.all_gather(parts, "ranks", tiled=True)
    for i in range(5):
        got = on_all(program, ramp(HERE.rank + i, 6000))
        same(got, 3 * numpy.stack([ramp(rank + i, 6000) for rank in range(HERE.ranks)]).sum(0), f"run {i}")


def training_by_mean_gradients() -> str:
    """The same losses as one process that sees all samples."""
    numbers = numpy.random.default_rng(5)
    inputs, targets = numbers.normal(size=(64, 32)).astype("float32"), numbers.normal(size=(64, 4)).astype("float32")
    start = numbers.normal(size=(32, 4)).astype("float32") / 8
    share = slice(HERE.rank * 64 // HERE.ranks, (HERE.rank + 1) * 64 // HERE.ranks)

    def error(weights, x, y):
        return jax.numpy.mean((jax.numpy.tanh(x @ weights) - y) ** 2)

    def step(weights, x, y):
        loss, gradient = jax.value_and_grad(error)(weights[0], x, y)
        gradient, loss = jax.lax.pmean(gradient, "ranks"), jax.lax.pmean(loss, "ranks")
        return (weights[0] - 0.5 * gradient)[None], loss[None]
    parts = jax.P("ranks")
    together = jax.jit(jax.shard_map(step, mesh=HERE.mesh, in_specs=(parts, parts, parts), out_specs=(parts, parts)))
    alone = jax.jit(jax.value_and_grad(error))
    weights, whole, worst = spread(start[None]), start, 0.0
    for _ in range(10):
        weights, loss = together(weights, spread(inputs[share]), spread(targets[share]))
        loss = float(loss.addressable_data(0)[0])
        wanted, gradient = alone(whole, inputs, targets)
        whole = whole - 0.5 * gradient
        worst = max(worst, abs(loss - float(wanted)))
    HERE.checks.expect(worst < 1e-3, f"losses differ by {worst}")
    return f"last loss {loss:.4f}, at most {worst:.1e} from that of one process"


CALLS = [psum, pmax, pmin, pmean, psum_of_16_MB, all_gather, psum_scatter, all_to_all, ppermute, several_in_one_program,
         training_by_mean_gradients]


# ---- one rank ------------------------------------------------------------------------------------------------------------------


def library_is_of_collet() -> str:
    return check_library(HERE.nccl)


def jax_distributed() -> str:
    global jax
    import jax
    if HERE.cpu:
        jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_default_matmul_precision", "highest")  # losses are compared
    where = {} if HERE.cpu else {"local_device_ids": [HERE.gpu]}
    jax.distributed.initialize(HERE.address, HERE.ranks, HERE.rank, initialization_timeout=20, **where)
    HERE.mesh = jax.make_mesh((HERE.ranks,), ("ranks",))
    return f"jax {jax.__version__}, devices {jax.devices()}, here {jax.local_devices()}"


def shutdown() -> None:
    jax.distributed.shutdown()


def gpu_of(rank: int) -> int:
    """Numbers of GPUs without a call of CUDA: a file for each."""
    gpus = sum(name[6:].isdigit() for name in os.listdir("/dev") if name.startswith("nvidia"))
    return rank % max(gpus, 1)


def be_rank(options, part: str, rank: int, ranks: int, port: int) -> int:
    global HERE
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # several processes share the GPU's memory
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if part == "graphs":
        os.environ["XLA_FLAGS"] = "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,COLLECTIVES --xla_gpu_graph_min_graph_size=1"
    HERE = argparse.Namespace(rank=rank, ranks=ranks, cpu=options.cpu, gpu=0 if options.cpu else gpu_of(rank), nccl=options.nccl,
                              address=f"127.0.0.1:{port}", checks=Checks(lambda: None))
    speaks = [] if options.cpu else [collet_has_made_communicators]
    return HERE.checks.run([library_is_of_collet, jax_distributed, *CALLS, *speaks, shutdown])


def main() -> int:
    global numpy
    options = parser_of(__doc__, 35).parse_args()
    why = not_applicable(options) or take_python_with("jax")
    if why:
        print(f"not applicable: {why}")
        return NOT_APPLICABLE
    preload(options)
    import numpy
    say(f"Python {sys.version.split()[0]}, {'on the CPU' if options.cpu else 'on a GPU'}, {options.nccl}")
    parts = ["graphs"] if "graphs" in options.only.split(",") else ["processes"]
    return run_parts(options, [(part, 2) for part in parts], lambda *rank: be_rank(options, *rank))


if __name__ == "__main__":
    sys.exit(main())
