# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own distributed_test.py on collet, with the word gloo in it replaced by collet.

    BACKEND=gloo python3 upstream.py [test …]       the same tests on gloo, unchanged

PyTorch ships the tests without what starts them; this file is that. Each test is 3 processes, which are forked. A test that
needs a GPU is skipped by PyTorch itself.
"""
import importlib
import importlib.util
import logging
import os
import sys
import tempfile
import types
import unittest
import warnings

WORLD_SIZE = 3
os.environ.setdefault("BACKEND", "collet")
os.environ.setdefault("WORLD_SIZE", str(WORLD_SIZE))
WORKPLACE = tempfile.TemporaryDirectory(prefix="collet-torch-")  # all files of the tests lie there; it goes with this process
os.environ["TMPDIR"] = tempfile.tempdir = WORKPLACE.name
os.environ.setdefault("INIT_METHOD", "file://" + WORKPLACE.name + "/meeting")
os.environ.setdefault("TEMP_DIR", WORKPLACE.name)
BACKEND = os.environ["BACKEND"]

if importlib.util.find_spec("expecttest") is None:  # PyTorch derives from its TestCase, and uses no more of it here
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    vars(sys.modules["expecttest"]).update(TestCase=unittest.TestCase, ACCEPT=False)

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler of newer releases says much

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

if importlib.util.find_spec("torch.nn.parallel._replicated_tensor_ddp_utils") is not None:
    # This experiment of torch 1.13 cannot be imported by Python 3.11.
    importlib.import_module("torch.nn.parallel._replicated_tensor_ddp_utils")._set_ddp_with_replicated_tensor = lambda value: None


REPLACED = (
    ('ddp_logging_data.get("backend_name") == "gloo"', "False"),  # goes on to look at settings of gloo
    ('("backend_name"), dist.get_backend(group_id)', '("backend_name"), NAME_OF_BACKEND'),
    ('"gloo"', '"collet"'),
    ("Backend.GLOO", "Backend.COLLET"),
    ('BACKEND != "mpi", "Only MPI', 'False, "Only MPI'),  # all to all, which gloo does not have
)


def let_collet_in() -> None:
    """What PyTorch says of gloo by name holds for collet too."""
    import collet_torch  # noqa: F401

    for names in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in names:
            names.add("collet")
    common_distributed.DistTestCases.backend_feature["plugin"].add("collet")


def load_tests_of_torch() -> types.ModuleType:
    origin = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test").origin
    with open(origin) as file:
        source = file.read()
    if BACKEND == "collet":
        let_collet_in()
        for old, new in REPLACED:
            source = source.replace(old, new)
    module = sys.modules["distributed_test"] = types.ModuleType("distributed_test")
    module.NAME_OF_BACKEND = "collet" if torch.__version__.startswith("1.") else "custom"  # torch 2 calls all others so
    exec(compile(source, origin, "exec"), vars(module))
    return module


tests = load_tests_of_torch()


class Upstream(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


# What gloo passes and collet leaves out.
LEFT_OUT = {"test_sparse_all_reduce_sum": "collet refuses sparse tensors"}
for name, reason in LEFT_OUT.items() if BACKEND == "collet" else ():
    setattr(Upstream, name, unittest.skip(reason)(getattr(Upstream, name)))


class OneLineEach(unittest.TextTestResult):
    def startTest(self, test: unittest.TestCase) -> None:
        unittest.TestResult.startTest(self, test)

    def tell(self, word: str, test: unittest.TestCase, reason: str = "") -> None:
        self.stream.writeln(f"{word:5} {test.id().split('.')[-1]}{reason and ': ' + reason}")
        self.stream.flush()

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.passed = getattr(self, "passed", 0) + 1
        self.tell("ok", test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        unittest.TestResult.addSkip(self, test, reason)
        self.tell("skip", test, reason)

    def addError(self, test: unittest.TestCase, err: tuple) -> None:
        unittest.TestResult.addError(self, test, err)
        self.tell("FAIL", test)

    addFailure = addError


def main(names: list[str]) -> int:
    """names: of tests; none: all."""
    logging.getLogger().setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*will be deprecated")
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names, Upstream) if names else loader.loadTestsFromTestCase(Upstream)
    result = unittest.TextTestRunner(sys.stdout, resultclass=OneLineEach).run(suite)
    failed = len(result.errors) + len(result.failures)
    print(f"{getattr(result, 'passed', 0)} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
