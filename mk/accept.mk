# SPDX-License-Identifier: Apache-2.0
#
# What a GPU has to show, in 5 minutes at most: one report, its table last. PEERS_SECONDS= more for a benchmark of many cores. Or in a
# folder, for where there is no compiler, with kernels for every GPU or for those of CUDA_ARCH, and all programs as one.

.PHONY: gpu-accept gpu-accept-bundle bundle
GPU_ACCEPT_PROGRAMS := $(ACCEPT) $(addprefix $(BUILD)/bin/,collet-info collet-tune all_reduce_perf) $(if $(WITH_CUDA),$(BUILD)/bin/overlap $(BESIDE)) $(NCCL_LIB)
ONE_OBJECTS := $(addprefix $(BUILD)/one/,test_accept.o collet-info.o collet-tune.o all_reduce_perf.o overlap.o)
$(BUILD)/one/test_accept.o: $(OBJ)/tests/gpu/test_accept.o
$(BUILD)/one/collet-info.o: $(OBJ)/src/layers/tools/collet-info.o
$(BUILD)/one/collet-tune.o: $(OBJ)/src/layers/tools/collet-tune.o
$(BUILD)/one/all_reduce_perf.o: $(OBJ)/examples/perf/all_reduce_perf.o
$(BUILD)/one/overlap.o: $(OBJ)/examples/overlap.o
$(ONE_OBJECTS):
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --redefine-sym main=$(subst -,_,$(basename $(@F)))_main $< $@
ONE_PROGRAM_OBJECTS := $(ONE_OBJECTS) $(filter-out $(OBJ)/tests/gpu/test_accept.o,$(ACCEPT_OBJECTS)) \
    $(call objects_of,tests/gpu/one_program.c $(wildcard src/layers/tools/common/*.c src/layers/tools/tune/*.c) bench/board.c $(PERF_COMMON))
$(ONE_PROGRAM): $(ONE_PROGRAM_OBJECTS) $(FORECAST_LIB) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
gpu-accept: $(GPU_ACCEPT_PROGRAMS)
	@BUILD=$(BUILD) scripts/gpu-accept.sh $(or $(ACCEPT_SECONDS),300) $(PEERS_SECONDS)
gpu-accept-bundle:
	+@$(AGAIN) BUILD=build-dist CUDA_ARCH="$(if $(filter command environment,$(firstword $(origin CUDA_ARCH))),$(CUDA_ARCH),all)" CUDA_SMALL='$(CUDA_SMALLEST)' bundle
bundle: $(ONE_PROGRAM) $(BESIDE) $(NCCL_LIB)
	@BUILD=$(BUILD) CUDA_MAJOR=$(CUDA_MAJOR) scripts/gpu-accept-bundle.sh
