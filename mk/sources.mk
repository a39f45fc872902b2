# SPDX-License-Identifier: Apache-2.0
#
# Which files there are, and what each list of them becomes. Folders are globbed: a new file needs no line here.
#
#    CORE_SOURCES, LIB_SOURCES   the library: what lies in the rooms of src, and what lies in layers (mk/layers.mk)
#    COMPAT_, NET_SOURCES        two libraries of their own, for those who know NCCL
#    TOOL_, PERF_, EXAMPLE_      programs in build/bin
#    TEST_SOURCES                programs in build/tests

OBJ := $(BUILD)/obj
objects_of = $(addprefix $(OBJ)/,$(addsuffix .o,$(basename $(1))))

TOOL_SOURCES := $(wildcard src/layers/tools/*.c)
CUDA_SOURCES := $(wildcard src/layers/gpu/cuda*.c)
# What only tools need is no part of the library.
FORECAST_SOURCES := $(wildcard src/layers/tools/forecast/*.c)
# NCCL's names are a library of their own, and so is the network plugin for NCCL.
NET_SOURCES    := src/layers/nccl/nccl_net.c src/layers/nccl/nccl_net_forms.c
COMPAT_SOURCES := $(filter-out $(NET_SOURCES),$(wildcard src/layers/nccl/nccl*.c))
# The core lies in the rooms of src; layers lie deeper (mk/layers.mk).
CORE_SOURCES := $(filter-out src/seams/%,$(wildcard src/*/*.c))
# What a library takes of layers: what is compiled only with CUDA, and what are libraries of their own, it takes elsewhere.
lib_sources_of = $(filter-out $(CUDA_SOURCES) $(COMPAT_SOURCES) $(NET_SOURCES),$(foreach l,$(1),$(call layer_sources,$(l))))
LIB_SOURCES  := $(CORE_SOURCES) src/seams/list.c $(call lib_sources_of,$(LIB_LAYERS))

PERF_SOURCES    := $(wildcard examples/perf/*_perf.c)
PERF_COMMON     := $(filter-out $(PERF_SOURCES) $(if $(WITH_CUDA),,examples/perf/device_cuda.c),$(wildcard examples/perf/*.c)) \
    $(if $(WITH_CUDA),examples/perf/span_gpu.cu)
CXX_EXAMPLES    := $(if $(shell command -v $(CXX) 2>/dev/null),$(wildcard examples/*.cc))
EXAMPLE_SOURCES := $(wildcard examples/*.c) $(CXX_EXAMPLES) $(if $(WITH_CUDA),$(wildcard examples/*.cu))
TEST_COMMON     := $(filter-out tests/common/part.c $(if $(WITH_CUDA),,tests/common/gpu_side_cuda.c),$(wildcard tests/common/*.c tests/common/*.cc))
# The simulated GPU machine: what its tests and its runtime are linked with.
GPUSIM_MACHINE  := $(addprefix tests/gpusim/,access.c chain.c exec.c machine.c memory.c module.c ptx_flow.c ptx_parse.c warp.c)
# Tests of the core, of each layer, of the library as a whole, of what users and attackers found at its edges, and of what users of NCCL
# set. Folders beside these have targets of their own.
TEST_FOLDERS    := tests/core tests/whole tests/edges tests/users $(wildcard tests/layers/*)
TEST_SOURCES    := $(wildcard $(TEST_FOLDERS:%=%/test_*.c)) tests/gpu/test_accept.c tests/gpusim/test_ptx.c tests/gpusim/test_exec.c
BESIDE_SOURCES  := $(wildcard tests/gpu/beside*.c)
BESIDE          := $(BUILD)/tests/gpu/beside
ONE_PROGRAM     := $(BUILD)/tests/gpu/one_program
ACCEPT_SOURCES  := tests/gpu/test_accept.c $(wildcard tests/gpu/accept_*.c) $(if $(WITH_CUDA),tests/gpu/accept_kernels.cu)

TOOLS    := $(TOOL_SOURCES:src/layers/tools/%.c=$(BUILD)/bin/%)
SCRIPT_TOOLS := $(patsubst src/layers/tools/%.py,$(BUILD)/bin/%,$(wildcard src/layers/tools/*.py))
PERFS    := $(PERF_SOURCES:examples/perf/%.c=$(BUILD)/bin/%)
EXAMPLES := $(basename $(EXAMPLE_SOURCES:examples/%=$(BUILD)/bin/%))
TESTS    := $(TEST_SOURCES:%.c=$(BUILD)/%)
SCRIPT_TESTS := $(sort $(wildcard $(addsuffix /test_*.sh,$(TEST_FOLDERS) tests/gpu tests/litmus tests/python)))

SHARED_LIB   := $(BUILD)/lib/$(SO_NAME)
STATIC_LIB   := $(BUILD)/lib/libcollet.a
NCCL_LIB     := $(BUILD)/lib/libnccl.so.2
NET_LIB      := $(BUILD)/lib/libnccl-net-collet.so
INTERNAL_LIB := $(BUILD)/lib/libcollet-internal.a
FORECAST_LIB := $(BUILD)/lib/libcollet-forecast.a
