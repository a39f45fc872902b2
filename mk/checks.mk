# SPDX-License-Identifier: Apache-2.0
#
# Tests that are no part of `make test`: they take long, or need what few machines have.

# What ptxas makes of some kernels: registers, spills, fences, and rules for accesses. Skipped without a disassembler.
.PHONY: sass-lint
sass-lint:
	@NVCC=$(NVCC) BUILD=$(BUILD) tests/gpu/sass.py || [ $$? = 77 ]

# Breaks jobs on purpose: SEEDS= how many times, FIRST= the first seed. A table of what was injected and survived.
.PHONY: test-faults
SEEDS ?= 273
test-faults:
	@scripts/deps.sh test
	+@$(AGAIN) $(BUILD)/tests/core/test_faults
	@SEEDS=$(SEEDS) $(BUILD)/tests/core/test_faults

# A job that goes on, from a seed: communicators, calls and deaths at random; memory, threads and descriptors stay.
.PHONY: soak
SOAK_SECONDS ?= 60
soak:
	@scripts/deps.sh test
	+@$(AGAIN) $(BUILD)/tests/core/test_soak
	@SOAK_SECONDS=$(SOAK_SECONDS) $(BUILD)/tests/core/test_soak

# The slot layer in all interleavings, and broken in every way (tests/model/model.h). model: larger cases too, many minutes.
.PHONY: test-model model
test-model model: $(INTERNAL_LIB)
	@BUILD=$(BUILD) CC='$(CC)' tests/model/model.sh $(if $(filter model,$@),large)

# How GPUs hand over slots and lines, in all executions that the memory model of PTX allows (tests/litmus/check.py).
.PHONY: test-litmus
test-litmus:
	@tests/litmus/test_litmus.sh || [ $$? = 77 ]

# A Slurm of its own, on hosts that are network namespaces; skipped where it is not installed or not permitted.
.PHONY: test-slurm
test-slurm: all
	@BUILD=$(BUILD) scripts/run-tests.sh tests/whole/slurm.sh

# libnccl.so.2 in NCCL's place; what needs NVIDIA's NCCL is skipped where it is not installed.
.PHONY: test-nccl-abi
test-nccl-abi: libs
	@BUILD=$(BUILD) scripts/run-tests.sh tests/nccl/test_abi.sh

# collet as a backend of PyTorch, where a Python has torch. demo-torch installs Debian's first.
# test-torch-versions: on several releases of PyPI's, which are downloaded into build-torch and kept.
.PHONY: demo-torch test-torch test-torch-versions bench-torch
demo-torch:
	@scripts/deps.sh build
	@scripts/deps.sh torch
	+@$(AGAIN) libs
	@BUILD=$(BUILD) scripts/torch.sh demo
bench-torch: libs
	@BUILD=$(BUILD) TORCH=$(TORCH) DOCS=$(DOCS) scripts/torch.sh bench
test-torch: libs
	@BUILD=$(BUILD) TORCH=$(TORCH) TEST_TORCH=$(TEST_TORCH) scripts/run-tests.sh tests/torch/test_torch.sh tests/torch/test_torchcomms.sh
test-torch-versions: libs
	@BUILD=$(BUILD) TORCH='$(TORCH)' DOCS=$(DOCS) tests/torch/versions.sh || [ $$? = 77 ]

# The README's first commands on a Debian 12 where nothing is installed. CUDA=1 shows it this machine's CUDA toolkit.
.PHONY: test-bare
test-bare:
	@scripts/bare-debian.sh $(if $(filter 1,$(CUDA)),--cuda) || [ $$? = 77 ]

# Two virtual hosts with software RDMA. Where a machine cannot have them, one line says why and nothing fails.
.PHONY: test-fabric bench-fabric fabric-shell fabric-ready
test-fabric: fabric-ready
	@BUILD=$(BUILD) tests/fabric/test_fabric.sh || [ $$? = 77 ]
bench-fabric: fabric-ready
	@BUILD=$(BUILD) tests/fabric/bench_fabric.sh || [ $$? = 77 ]
fabric-shell: fabric-ready
	@BUILD=$(BUILD) bash --rcfile tests/fabric/shell.sh -i
fabric-ready:
	@scripts/deps.sh build
	@scripts/deps.sh fabric || true
	+@$(AGAIN) all

# Breaks algorithms on purpose and reports what no check notices. MUTANTS=--all: every place, which takes hours (--resume: goes on).
.PHONY: mutants
mutants:
	@scripts/deps.sh test
	+@$(AGAIN) $(TOOLS) $(BUILD)/tests/layers/verifier/test_algorithms
	LIBS='$(PRIVATE_LIBS)' scripts/mutants.py --build $(BUILD) $(MUTANTS)
