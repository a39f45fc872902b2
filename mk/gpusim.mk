# SPDX-License-Identifier: Apache-2.0
#
# The same programs, and tests of what they cannot show, on a simulated machine (tests/gpusim/): a runtime of CUDA on the CPU
# in place of NVIDIA's, and kernels as nvcc made them. Skipped where nvcc is missing.

.PHONY: test-gpu-sim test-gpu-sim-torch bench-gpu-sim
SIM          := $(BUILD)/gpusim
SIM_RUNTIME  := $(SIM)/libcudart_sim.a
SIM_OBJECTS  := $(call objects_of,$(GPUSIM_MACHINE) $(wildcard tests/gpusim/cuda_*.c))
SIM_PERFS    := $(PERF_SOURCES:examples/perf/%.c=$(SIM)/%)
SIM_CONTRACT := test_runtime test_waits test_captures test_driver test_processes
SIM_PROGRAMS := $(addprefix $(SIM)/,print_ptx $(SIM_CONTRACT) test_multicast test_gpus test_threads test_nccl test_perf bench_calls test_accept one_program overlap collet-info \
    collet-tune all_reduce_perf sendrecv_perf put_perf get_perf)
SIM_TESTS    := $(SIM_PROGRAMS) $(SIM)/beside $(addprefix $(BUILD)/tests/,layers/gpu/test_block gpusim/test_exec)
# For programs that nvcc has built: they look for the runtime by its major version.
SIM_CUDART   := $(SIM)/lib/libcudart.so.$(CUDA_MAJOR)
SIM_NCCL     := $(SIM)/lib/libnccl.so.2
$(call objects_of,$(wildcard tests/gpusim/cuda_*.c $(SIM_CONTRACT:%=tests/gpusim/%.c) tests/gpusim/test_multicast.c tests/gpusim/test_gpus.c tests/gpusim/test_threads.c tests/gpusim/test_nccl.c tests/gpusim/test_perf.c tests/gpusim/bench_calls.c)): CPPFLAGS += -I$(CUDA_HOME)/include
# The runtime's names are for all to see.
$(call objects_of,$(wildcard tests/gpusim/cuda_*.c)): CPPFLAGS += -fvisibility=default
$(SIM_RUNTIME): $(SIM_OBJECTS)
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
$(SIM_CUDART): $(SIM_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(@F) -Wl,--no-undefined -o $@ $^ -pthread -ldl -lm
	@ln -sf $(@F) $(@D)/libcudart.so
$(SIM_NCCL): CUDA_LIBS = $(SIM_CUDART)
$(SIM_NCCL): | $(SIM_CUDART)
$(SIM_PROGRAMS) $(SIM_PERFS): CUDA_LIBS = $(SIM_RUNTIME)
$(SIM)/print_ptx: $(call objects_of,tests/gpusim/print_ptx.c tests/gpusim/objects.c)
$(addprefix $(SIM)/,$(SIM_CONTRACT)): $(SIM)/%: $(OBJ)/tests/gpusim/%.o $(call objects_of,tests/gpusim/kernels.cu src/layers/gpu/cuda_entry.c)
$(SIM)/test_multicast: $(call objects_of,tests/gpusim/test_multicast.c src/layers/gpu/cuda_entry.c)
$(SIM)/test_gpus: $(call objects_of,tests/gpusim/test_gpus.c tests/gpusim/kernels.cu) $(INTERNAL_LIB)
$(SIM)/test_threads: $(call objects_of,tests/gpusim/test_threads.c tests/gpusim/kernels.cu) $(INTERNAL_LIB)
$(SIM)/test_nccl: $(call objects_of,tests/gpusim/test_nccl.c $(COMPAT_SOURCES)) $(INTERNAL_LIB)
$(SIM)/test_perf: $(call objects_of,tests/gpusim/test_perf.c tests/gpusim/kernels.cu $(PERF_COMMON) src/layers/tools/common/arguments.c) $(INTERNAL_LIB)
$(SIM)/bench_calls: $(call objects_of,tests/gpusim/bench_calls.c) $(INTERNAL_LIB)
$(SIM)/test_accept: $(ACCEPT_OBJECTS) $(INTERNAL_LIB)
$(SIM)/one_program: $(ONE_PROGRAM_OBJECTS) $(FORECAST_LIB) $(INTERNAL_LIB)
# It shares the runtime with the library that it opens.
$(SIM)/beside: private CUDA_LIBS = $(SIM_CUDART) -Wl,-rpath,$(abspath $(SIM)/lib)
$(SIM)/beside: private PACKAGE_LIBS =
$(SIM)/beside: $(call objects_of,$(BESIDE_SOURCES)) | $(SIM_CUDART) $(SIM_NCCL)
	$(LINK_PROGRAM)
$(SIM)/overlap: $(call objects_of,examples/overlap.cu) $(STATIC_LIB)
$(SIM)/collet-info $(SIM)/collet-tune: $(SIM)/%: $(OBJ)/src/layers/tools/%.o $(call objects_of,$(wildcard src/layers/tools/common/*.c)) $(FORECAST_LIB) $(INTERNAL_LIB)
$(SIM)/collet-tune: $(call objects_of,$(wildcard src/layers/tools/tune/*.c) bench/board.c)
$(SIM_PERFS): $(SIM)/%: $(OBJ)/examples/perf/%.o $(call objects_of,$(PERF_COMMON) src/layers/tools/common/arguments.c src/layers/observe/json.c src/base/plain.c src/base/spelling.c) $(STATIC_LIB)
$(sort $(SIM_PROGRAMS) $(SIM_PERFS)): $(SIM_RUNTIME)
	$(LINK_PROGRAM)
ifeq ($(WITH_CUDA),1)
test-gpu-sim: libs $(SIM_TESTS) $(if $(NCCL_TESTS),$(SIM_NCCL) $(NCCL_LIB))
	@SIM=$(SIM) NVCC=$(NVCC) COLLET_TEST_TIMEOUT=800 scripts/run-tests.sh --jobs 2 $(addprefix tests/gpusim/,same_ptx.sh run.sh nccl_tests.sh)
# PyTorch's NCCL backend on it; PYTHON names a Python with a torch for CUDA.
test-gpu-sim-torch: $(SIM_CUDART) $(SIM_NCCL)
	@SIM=$(SIM) NVCC=$(NVCC) COLLET_TEST_TIMEOUT=900 scripts/run-tests.sh tests/gpusim/torch.sh
# What the kernels ask of the memory system: fences, polls, bytes in flight. And what a collective asks of CUDA: launches, calls.
bench-gpu-sim: libs $(GPUSIM_BENCH) $(SIM)/bench_calls
	@BUILD=$(BUILD) $(GPUSIM_BENCH)
	@$(SIM)/bench_calls
else
test-gpu-sim test-gpu-sim-torch bench-gpu-sim:
	@echo 'skipped: the simulated GPU machine runs what nvcc makes, and there is no nvcc'
endif

# How many registers ptxas gives each kernel, on an H100.
define COUNT_REGISTERS
$(call say,PTXAS)
$(Q)tests/gpusim/registers.sh $(NVCC) -arch=sm_90 -cubin $(NVCC_FLAGS) $(NVCC_DEFINES) $(INTERNAL_INCLUDES) -o $@.cubin $(filter %.cu,$^) >$@
endef
$(SIM)/registers: $(CUDA_KERNELS:.o=.registers)
	@mkdir -p $(@D)
	@cat $^ >$@
$(CUDA_KERNELS:.o=.registers): %.registers: %.o
$(addprefix $(OBJ)/src/kernels/cuda/exec_cuda,.registers _team.registers): $(OBJ)/%.registers: %.cu
	$(COUNT_REGISTERS)
$(ROW_OBJECTS:.o=.registers): $(OBJ)/$(basename $(CUDA_REDUCE)).%.registers: $(CUDA_REDUCE)
	$(COUNT_REGISTERS)

# What takes minutes each on the simulated machine, in parts:
#    kernels      each kernel once, the scenes of test_exec.c under RUNS seeds from FIRST on, each mutation under 20; PTX of this build
#    kernels-90   the same with PTX of sm_90
#    programs     every perf program on 1 to 8 GPUs, with the registers that ptxas gives each kernel
#    nccl-tests   nccl-tests with all types and operators, if NCCL_TESTS names their folder
GPU_SIM_PARTS := kernels kernels-90 programs nccl-tests
.PHONY: test-gpu-sim-full $(GPU_SIM_PARTS:%=gpu-sim-%) cuda-kernels
PARTS ?= $(GPU_SIM_PARTS)
RUNS  ?= 1000
FIRST ?= 0
RUN_SCENES = $(BUILD)/tests/gpusim/test_exec 20 $(RUNS) $(FIRST) || [ $$? = 77 ]
WITH_SM_90 = GPUSIM_ARCH=90 GPUSIM_OBJECTS="$$(echo $(BUILD)-90/obj/src/kernels/cuda/*.o)"
test-gpu-sim-full:
	@scripts/deps.sh test
	+@for part in $(PARTS); do echo "=== $$part"; $(AGAIN) gpu-sim-$$part || exit 1; done
gpu-sim-kernels: libs $(BUILD)/tests/gpusim/test_ptx $(BUILD)/tests/gpusim/test_exec
	@$(BUILD)/tests/gpusim/test_ptx
	@BUILD=$(BUILD) $(RUN_SCENES)
cuda-kernels: $(CUDA_KERNELS)
gpu-sim-kernels-90: $(BUILD)/tests/gpusim/test_exec
	+@$(AGAIN) BUILD=$(BUILD)-90 CUDA_ARCH=ptx CUDA_PTX=90 cuda-kernels
	@$(WITH_SM_90) $(RUN_SCENES)
ifeq ($(WITH_CUDA),1)
gpu-sim-programs: libs $(SIM_TESTS) $(SIM_PERFS) $(SIM)/registers
	@SIM=$(SIM) GPUSIM_REGISTERS=$(SIM)/registers tests/gpusim/run.sh full
gpu-sim-nccl-tests: $(if $(NCCL_TESTS),$(SIM_NCCL))
	@SIM=$(SIM) tests/gpusim/nccl_tests.sh all
else
gpu-sim-programs gpu-sim-nccl-tests:
	@echo 'skipped: there is no nvcc'
endif
