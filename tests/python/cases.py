# SPDX-License-Identifier: Apache-2.0
"""Cases of the Python package. Most run as ranks of a job: the functions named rank_*, started by collet.run."""
from __future__ import annotations

import array
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import collet
import collet.run
from collet import _buffers, _library, communicator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def floats(*values: float) -> array.array:
    return array.array("f", values)


# ---- what ranks do ----

def rank_collectives() -> None:
    with collet.init(name="cases") as comm:
        n, r = comm.nranks, comm.rank
        one = floats(r, r + 1)
        comm.allreduce(one)
        assert list(one) == [sum(range(n)), sum(range(n)) + n], one
        out = floats(0, 0)
        comm.allreduce(floats(r, -r), out, op="max")
        assert list(out) == [n - 1, 0], out
        comm.allreduce(floats(r, r), out, op="avg")
        assert list(out) == [(n - 1) / 2] * 2, out
        blocks = array.array("q", [0] * 2 * n)
        comm.allgather(array.array("q", [r, 10 * r]), blocks)
        assert list(blocks) == [x for s in range(n) for x in (s, 10 * s)], blocks
        mine = array.array("i", [0])
        comm.reducescatter(array.array("i", [100 * r + s for s in range(n)]), mine)
        assert mine[0] == sum(100 * s + r for s in range(n)), mine
        everybodys = bytearray(n)
        comm.alltoall(bytes(16 * r + s for s in range(n)), everybodys)
        assert list(everybodys) == [16 * s + r for s in range(n)], everybodys
        word = bytearray(b"collet" if r == 1 else b"      ")
        comm.broadcast(word, root=1)
        assert word == b"collet"
        source, total = floats(r + 1.0), floats(-1.0)
        comm.reduce(source, total if r == 0 else None, op="prod")
        assert source[0] == r + 1 and (r != 0 or total[0] == 2), (source, total)
        assert re.match(r"\w+, (Simple|LL)", comm.plan("allreduce", 1000)), comm.plan("allreduce", 1000)


def rank_counts_and_split() -> None:
    with collet.init() as comm:
        n, r = comm.nranks, comm.rank
        counts = [s + 1 for s in range(n)]
        total = sum(counts)
        everything = array.array("i", [0] * total)
        comm.allgatherv(array.array("i", [r] * (r + 1)), everything, counts)
        assert list(everything) == [s for s in range(n) for _ in range(s + 1)], everything
        own = array.array("i", [0] * (r + 1))
        comm.reducescatterv(everything, own, counts)
        assert list(own) == [n * r] * (r + 1), own
        received = array.array("i", [-1] * (n * (r + 1)))
        comm.alltoallv(array.array("i", [r] * total), counts, received, [r + 1] * n)
        assert list(received) == [s for s in range(n) for _ in range(r + 1)], received
        try:
            comm.alltoallv(everything, [total + 1] * n, everything, counts)
        except collet.InvalidArgument as error:
            assert "sendcounts" in str(error), error
        else:
            raise AssertionError("counts that do not fit were accepted")
        half = comm.split(None if r == n - 1 else 0, key=-r)
        assert (half is None) == (r == n - 1)
        if half is not None:
            assert (half.nranks, half.rank) == (n - 1, n - 2 - r), half
            half.destroy()


def rank_probe() -> None:
    with collet.init() as comm:
        if comm.rank > 0:
            comm.send(floats(comm.rank), 0)
            return
        found = set()
        for _ in range(1, comm.nranks):
            peer, message = comm.probe(), floats(0)
            comm.recv(message, peer)
            assert message[0] == peer
            found.add(peer)
        assert found == set(range(1, comm.nranks))


def rank_gather_scatter() -> None:
    with collet.init() as comm:
        n, r = comm.nranks, comm.rank
        blocks = array.array("h", [0] * n) if r == 0 else None
        comm.gather(array.array("h", [7 + r]), blocks)
        assert r != 0 or list(blocks) == [7 + s for s in range(n)], blocks
        mine = array.array("H", [0])
        comm.scatter(array.array("H", range(50, 50 + n)) if r == 1 else None, mine, root=1)
        assert mine[0] == 50 + r, mine
        truth = memoryview(bytearray([r == 0, 0, 1])).cast("?")
        comm.allreduce(truth)
        assert truth.tobytes() == b"\1\0\1", truth.tobytes()
        try:
            comm.allreduce(truth, op="avg")
        except collet.InvalidArgument as error:
            assert "truth values" in str(error), error
        else:
            raise AssertionError("an average of truth values was accepted")
        bits = array.array("B", [1 << r])
        comm.allreduce(bits, op="bor")
        assert bits[0] == (1 << n) - 1, bits
        comm.barrier()


def rank_streams() -> None:
    with collet.init() as comm, collet.Stream() as stream:
        peer = 1 - comm.rank
        sums = [floats(*range(1000)) for _ in range(20)]
        for x in sums:
            comm.allreduce(x, stream=stream)
        first = stream.record()
        got = floats(*[0] * 1000)
        with collet.group():
            comm.send(floats(*[comm.rank] * 1000), peer, stream=stream)
            comm.recv(got, peer, stream=stream)
        first.wait()
        assert all(x[999] == 2 * 999 for x in sums)
        while not stream.query():
            pass
        assert got[0] == peer and first.test()
        late = collet.Stream()
        comm.recv(got, peer, stream=late)
        if comm.rank == 1:  # rank 0 waits for what rank 1 sends only after this
            late.synchronize()
        else:
            assert not late.query() and late.record().wait(0.03) is False
        comm.send(floats(*[5] * 1000), peer)
        late.synchronize()
        late.destroy()
        late.destroy()
        assert got[0] == 5
        try:
            late.record()
        except collet.InvalidArgument as error:
            assert "destroyed" in str(error)
        else:
            raise AssertionError("a destroyed stream was not refused")


def rank_messages() -> None:
    with collet.init() as comm:
        right, left = (comm.rank + 1) % comm.nranks, (comm.rank - 1) % comm.nranks
        got = [floats(0.0), floats(0.0)]
        with collet.group():
            with collet.group():
                comm.send(floats(comm.rank), right)
                comm.recv(got[0], left)
            comm.send(floats(comm.rank + 0.5), right)
            comm.recv(got[1], left)
        assert [got[0][0], got[1][0]] == [left, left + 0.5], got


def rank_refusals() -> None:
    with collet.init() as comm:
        def refused(kind: type, text: str, function, *arguments, **options) -> None:
            try:
                function(*arguments, **options)
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(f"{function} was not refused")

        refused(collet.InvalidArgument, "op is 'plus': use one of sum", comm.allreduce, floats(1), op="plus")
        refused(collet.InvalidArgument, "send has 2 elements, recv 1", comm.allreduce, floats(1, 2), floats(1))
        refused(collet.InvalidArgument, "it needs 2 times as many", comm.allgather, floats(1), floats(1, 2, 3))
        refused(collet.InvalidArgument, "different types", comm.allreduce, floats(1), array.array("d", [1]))
        refused(BufferError, "send is of type bytes and read-only, but the call writes to it", comm.allreduce, b"constant")
        refused(BufferError, "recv is of type bytes and read-only", comm.allreduce, b"constant", b"constant")
        refused(BufferError, "buffer is of type memoryview and not contiguous", comm.send, memoryview(b"constant")[::2], 0)
        refused(TypeError, "send is of type str, which lends no memory", comm.allreduce, "text")
        refused(TypeError, "recv is of type list, which lends no memory", comm.allgather, floats(1), [1.0, 2.0])
        refused(TypeError, "buffer has elements of format", comm.send, array.array("u", "text"), 0)
        refused(collet.InvalidArgument, "root is 2", comm.broadcast, floats(1), root=2)
        refused(collet.InvalidArgument, "root is '1': a whole number is needed", comm.broadcast, floats(1), root="1")
        refused(collet.InvalidArgument, "peer is 4294967296", comm.send, floats(1), 1 << 32)
        refused(collet.InvalidArgument, "counts are 1: a list of 2", comm.allgatherv, floats(1), floats(1, 2), 1)
        refused(collet.InvalidArgument, "counts are [0.5, 1.5]", comm.reducescatterv, floats(1, 2), floats(1), [0.5, 1.5])
        refused(ValueError, "", comm.send, floats(1), 7)
        try:
            with collet.group():
                raise KeyError("mine")
        except KeyError:
            pass
        comm.allreduce(floats(1))
        comm.destroy()
        comm.destroy()
        refused(collet.InvalidArgument, "was destroyed", comm.allreduce, floats(1))


def rank_mismatch() -> None:
    with collet.init() as comm:
        try:
            comm.allreduce(floats(*range(4 + comm.rank)))
        except collet.Mismatch as error:
            assert "4" in str(error) and "5" in str(error), error
            sys.exit(0)
    raise AssertionError("the mismatch was not noticed")


def rank_gives_up() -> None:
    is_patient = os.environ["RANK"] == "1"
    with collet.init(timeout=100 if is_patient else 0.2) as comm:
        try:
            comm.recv(floats(0), 1 - comm.rank)
        except collet.ColletError as error:
            if is_patient:  # rank 0 has left
                sys.exit(0)
            assert isinstance(error, collet.TimeoutExpired), error
            assert "timeout= of collet.init()" in str(error) and "config." not in str(error), error
            sys.exit(0)
    raise AssertionError("the wait has not ended")


def rank_waits() -> None:
    comm = collet.init()
    if comm.rank == 0:
        try:
            comm.recv(floats(0), 1)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            return
    try:
        print("ready", flush=True)
        comm.recv(floats(0), 0)
    except collet.ColletError as error:
        print("ended:", type(error).__name__, flush=True)


def rank_fails() -> None:
    comm = collet.init()
    if comm.rank == 1:
        os._exit(3)
    try:
        comm.recv(floats(0), 1)
    except collet.RemoteError:
        sys.exit(4)


def rank_numpy() -> None:
    import numpy
    with collet.init() as comm:
        for name in _buffers.TYPES:
            if name == "bfloat16" or name.startswith("float8"):
                continue
            x = numpy.arange(6).astype(name).reshape(2, 3)
            comm.allreduce(x)
            assert (x == (numpy.arange(6) * comm.nranks).astype(name).reshape(2, 3)).all(), (name, x)
        try:
            comm.allreduce(numpy.zeros((4, 4), numpy.float32)[:, 1])
        except (BufferError, ValueError) as error:
            assert "contiguous" in str(error), error
        else:
            raise AssertionError("a column was not refused")


def rank_torch() -> None:
    import torch
    with collet.init() as comm:
        for type_ in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8):
            x = torch.ones(5, 3, dtype=type_)
            comm.allreduce(x)
            assert (x == comm.nranks).all(), x
        weight = torch.nn.Parameter(torch.ones(4) * comm.rank)
        comm.broadcast(weight, root=1)
        assert (weight == 1).all(), weight


# ---- cases ----

def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def run(function: str, nranks: int) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "collet.run", "-n", str(nranks), __file__, function],
                          capture_output=True, text=True, timeout=120)


class Package(unittest.TestCase):
    def ranks(self, function: str, nranks: int) -> None:
        ended = run(function, nranks)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_types_and_ops_are_the_header_s(self) -> None:
        with open(os.path.join(ROOT, "include", "collet.h")) as header:
            text = header.read()
        types = {m[1].lower(): int(m[2]) for m in re.finditer(r"COLLET_((?:B?FLOAT|U?INT)\d\w*) = (\d+)", text)}
        self.assertEqual(_buffers.TYPES, types)
        ops = re.search(r"enum collet_op \{(.*?)\}", text, re.S)
        made = ("PREMULSUM", "OP_COUNT", "OP_LAST")  # not passed by name
        found = {m[1].lower(): int(m[2]) for m in re.finditer(r"COLLET_(\w+) = (\d+)", ops[1]) if m[1] not in made}
        self.assertEqual(communicator.OPS, found)

    def test_every_function_exists_and_every_result_has_its_number(self) -> None:
        for function in _library._SIGNATURES:
            self.assertTrue(hasattr(_library.library, function))
        self.assertRaises(collet.InvalidArgument, _library.check, -1)
        self.assertEqual(len(collet.unique_id()), _library.UNIQUE_ID_BYTES)
        self.assertEqual(collet.__version__, ".".join(map(str, collet.version())))

    def test_one_rank_needs_no_launcher(self) -> None:
        with collet.Communicator(collet.unique_id(), 1, 0) as comm:
            x = floats(1, 2)
            comm.allreduce(x)
            self.assertEqual(list(x), [1, 2])
            self.assertEqual(repr(comm), "<collet.Communicator: rank 0 of 1>")

    def test_info_names_the_library_and_its_version(self) -> None:
        told = subprocess.run([sys.executable, "-m", "collet.info"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn(f"collet     {collet.__version__}", told)
        self.assertIn("libcollet.so", told)

    def test_a_rank_that_stays_alone_gives_up_after_its_own_time(self) -> None:
        with self.assertRaises(collet.TimeoutExpired) as raised:
            collet.Communicator(collet.unique_id(), 2, 0, init_timeout=0.001)
        self.assertIn("init_timeout=", str(raised.exception))

    def test_every_collective_gives_its_result(self) -> None:
        self.ranks("rank_collectives", 2)

    def test_blocks_with_counts_of_their_own_and_splits(self) -> None:
        self.ranks("rank_counts_and_split", 3)

    def test_a_probe_finds_the_ranks_that_send(self) -> None:
        self.ranks("rank_probe", 3)

    def test_gather_scatter_barrier_and_bits(self) -> None:
        self.ranks("rank_gather_scatter", 3)

    def test_calls_on_a_stream_return_at_once_and_keep_their_order(self) -> None:
        self.ranks("rank_streams", 2)

    def test_messages_in_nested_groups_cross(self) -> None:
        self.ranks("rank_messages", 3)

    def test_mistakes_raise_with_a_text_that_names_them(self) -> None:
        self.ranks("rank_refusals", 2)

    def test_a_timeout_names_the_argument_that_sets_it(self) -> None:
        self.ranks("rank_gives_up", 2)

    def test_a_mismatch_raises_on_every_rank(self) -> None:
        self.ranks("rank_mismatch", 2)

    def test_the_launcher_passes_the_status_of_the_rank_that_failed_first(self) -> None:
        ended = run("rank_fails", 2)
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("rank 1 ended first, with status 3", ended.stderr)

    def test_the_launcher_says_which_option_was_probably_meant(self) -> None:
        ended = subprocess.run([sys.executable, "-m", "collet.run", "--modlue", "this"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn("unrecognized arguments: --modlue; did you mean --module?", ended.stderr)

    def test_the_launcher_ends_processes_that_ctrl_c_does_not_end(self) -> None:
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
        with unittest.mock.patch.object(collet.run, "GRACE_SECONDS", 0.05):
            self.assertEqual(collet.run.wait([sleeper], 130), 130)
        self.assertEqual(sleeper.returncode, -signal.SIGTERM)

    def test_ctrl_c_ends_a_wait_on_every_rank(self) -> None:
        job = subprocess.Popen([sys.executable, "-m", "collet.run", "-n", "2", __file__, "rank_waits"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.assertEqual(job.stdout.readline(), "ready\n")
        time.sleep(0.3)  # until rank 0 is in its call, too; a signal before that ends it all the same
        os.killpg(job.pid, signal.SIGINT)
        output, _ = job.communicate(timeout=60)
        self.assertTrue("interrupted" in output or "ended" in output or job.returncode != 0, output)

    @unittest.skipUnless(has("numpy"), "numpy is not installed")
    def test_numpy_arrays_are_buffers(self) -> None:
        self.ranks("rank_numpy", 2)

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_torch_tensors_are_buffers(self) -> None:
        self.ranks("rank_torch", 2)


def main() -> int:
    if len(sys.argv) > 1:
        globals()[sys.argv[1]]()
        return 0
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Package))
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
