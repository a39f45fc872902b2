#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kv_nixl.py [--blocks N] [--block BYTES] [--tls NAMES]: what examples/kv_perf.c does, by NIXL.

    one process, prefill                                another one, decode
    | 0 |   | 1 |   | 2 | ...  blocks, scattered ----->  | 3 | 0 | ... scattered in another way

It moves the same blocks between the same places, and checks every byte. A line has what a line of kv_perf has: the best time of five
rounds, and the number of wrong bytes. NIXL carries by UCX; --tls sets UCX_TLS. scripts/peers.sh kv brings NIXL. Host memory only.
"""
import argparse
import os
import sys
import time
from multiprocessing import Pipe, Process

import numpy as np

ROUNDS = 5
STEP = 7919  # a prime, as in kv_perf.c


def places_here(blocks, block):
    return (blocks - 1 - np.arange(blocks, dtype=np.int64)) * block


def places_there(blocks, block):
    return np.arange(blocks, dtype=np.int64) * STEP % blocks * block


def marks(blocks, turn):
    """The byte that fills each block in this round."""
    return ((np.arange(blocks, dtype=np.int64) * 31 + turn) & 255).astype(np.uint8)


def rows(view, blocks, block, places):
    """The blocks of a buffer in their order: an index for each."""
    return view.reshape(blocks, block), places // block


class End:
    """One of the two processes: its buffer, its agent, and a pipe to the other process."""

    def __init__(self, name, pipe, blocks, block):
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        self.pipe = pipe
        self.buffer = np.zeros(blocks * block, dtype=np.uint8)
        self.address = self.buffer.ctypes.data
        self.agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
        self.memory = self.agent.register_memory([(self.address, self.buffer.nbytes, 0, "")], "DRAM")
        pipe.send((self.agent.get_agent_metadata(), self.address))
        metadata, self.peer_address = pipe.recv()
        self.peer = self.agent.add_remote_agent(metadata)
        self.peer = self.peer.decode() if isinstance(self.peer, bytes) else self.peer

    def meet(self):
        self.pipe.send(None)
        self.pipe.recv()


def pieces(address, places, block):
    """NIXL's list of pieces: address, length, device."""
    list_ = np.empty((len(places), 3), dtype=np.uint64)
    list_[:, 0], list_[:, 1], list_[:, 2] = address + places.astype(np.uint64), block, 0
    return list_


def prefill(pipe, blocks, block):
    end = End("prefill", pipe, blocks, block)
    agent, index = end.agent, np.arange(blocks)
    here, there = places_here(blocks, block), places_there(blocks, block)
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", pieces(end.address, here, block), "DRAM")
    remote = agent.prep_xfer_dlist(end.peer, pieces(end.peer_address, there, block), "DRAM")
    handle = agent.make_prepped_xfer("WRITE", local, index, remote, index)
    view, order = rows(end.buffer, blocks, block, here)
    best = float("inf")
    for turn in range(ROUNDS):
        view[order] = marks(blocks, turn)[:, None]
        end.meet()
        begin = time.perf_counter()
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        best = min(best, time.perf_counter() - begin)
        if state != "DONE":
            sys.exit(f"kv_nixl: a transfer ended as {state}")
        end.meet()
    wrong = pipe.recv()
    print(f"{'NIXL, a transfer, prepared once':<34} {best * 1e3:10.2f} {blocks * block / best * 1e-9:10.2f} {wrong:8d}", flush=True)
    end.meet()
    agent.release_xfer_handle(handle)
    sys.exit(wrong != 0)


def decode(pipe, blocks, block):
    end = End("decode", pipe, blocks, block)
    view, order = rows(end.buffer, blocks, block, places_there(blocks, block))
    wrong = 0
    for turn in range(ROUNDS):
        end.meet()
        end.meet()
        wrong += int(np.count_nonzero(view[order] != marks(blocks, turn)[:, None]))
    pipe.send(wrong)
    end.meet()


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--blocks", type=int, default=40000)
    options.add_argument("--block", type=int, default=8192)
    options.add_argument("--tls", default="", help="which of UCX's transports may be used, as UCX_TLS says it")
    given = options.parse_args()
    if given.tls:
        os.environ["UCX_TLS"] = given.tls
    blocks = given.blocks - (given.blocks % STEP == 0)
    ends = Pipe()
    processes = [Process(target=work, args=(pipe, blocks, given.block)) for work, pipe in zip((prefill, decode), ends)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(abs(process.exitcode) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
