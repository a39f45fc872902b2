# SPDX-License-Identifier: Apache-2.0
#
# What is compiled more than once out of one source, because it is hot:
#
#    reduce_variant.c ────▶ plain, avx2, avx512          chosen at run time, by the CPU
#    exec_cuda_reduce.cu ─▶ SUM, PROD, MIN, MAX, …       one per operator, so that several CPUs share the work
#    exec_cuda.cu, exec_cuda_team.cu                     once each

VARIANT_FILE := $(filter src/kernels/reduce_variant.c,$(LIB_SOURCES))

# The vectorised reductions: one source, compiled once for each kind of CPU and chosen at run time.
VARIANTS := plain $(if $(findstring x86_64,$(shell $(CC) -dumpmachine 2>/dev/null)),avx2 avx512)
FLAGS_plain  :=
FLAGS_avx2   := -mavx2 -mf16c -mfma
FLAGS_avx512 := $(FLAGS_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
VARIANT_OBJECTS := $(if $(VARIANT_FILE),$(VARIANTS:%=$(OBJ)/src/kernels/reduce_variant.%.o))

# The kernels: one source, compiled once per operator that has code of its own: NAME,name,types,sign of its row.
CUDA_REDUCE  := src/kernels/cuda/exec_cuda_reduce.cu
OPERATORS    := $(shell sed -nE 's/^ +X.([A-Z]+), ([a-z]+), \2, \2, ([A-Z]+), ([A-Z]+).*/\1,\2,\3,\4/p' src/base/types.h)
comma        := ,
of_operator   = $(word $(2),$(subst $(comma), ,$(filter $(1)$(comma)%,$(OPERATORS))))
ROW_OBJECTS  := $(foreach o,$(OPERATORS),$(OBJ)/$(basename $(CUDA_REDUCE)).$(firstword $(subst $(comma), ,$(o))).o)
TEAM_OBJECT  := $(if $(CUDA_TEAMS),$(OBJ)/src/kernels/cuda/exec_cuda_team.o)
CUDA_KERNELS := $(if $(WITH_CUDA),$(call objects_of,src/kernels/cuda/exec_cuda.cu) $(ROW_OBJECTS) $(TEAM_OBJECT))
CUDA_OBJECTS := $(if $(WITH_CUDA),$(call objects_of,$(CUDA_SOURCES))) $(CUDA_KERNELS)

$(VARIANT_OBJECTS): VARIANT_FLAGS = -DREDUCE_VARIANT=$(VARIANT) $(FLAGS_$(VARIANT))
$(VARIANT_OBJECTS): VARIANT = $(patsubst .%,%,$(suffix $(basename $@)))
$(VARIANT_OBJECTS): $(OBJ)/src/kernels/reduce_variant.%.o: $(VARIANT_FILE) $(BUILD)/flags | $(NEEDS)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c $< -o $@

# Kernels are compiled again when nvcc or its flags change. They do not depend on the flags of the C compiler.
NVCC_NOW := $(NVCC) $(NVCC_TARGETS) $(NVCC_FLAGS)
$(eval $(call stamp,$(BUILD)/nvcc-flags,NVCC_NOW))
define COMPILE_CUDA
@mkdir -p $(@D)
$(call say,NVCC)
$(Q)$(NVCC) $(NVCC_TARGETS) $(NVCC_FLAGS) $(if $(word 2,$(CUDA_ARCHS)),--threads $(JOBS)) $(NVCC_DEFINES) $(INCLUDES) -c $< -o $@
endef
$(OBJ)/%.o: %.cu $(BUILD)/nvcc-flags
	$(COMPILE_CUDA)
$(addprefix $(OBJ)/src/kernels/cuda/exec_cuda.,o registers): NVCC_DEFINES = '-DEXEC_CODE="$(strip $(CUDA_CODE))"' -DEXEC_TEAM_SUM=$(if $(CUDA_TEAMS),exec_cuda_team_sum,NULL)
$(OBJ)/src/kernels/cuda/exec_cuda_team.o: private NVCC_TARGETS = $(call nvcc_targets,$(TEAM_ARCHS),$(TEAM_PTX))
$(ROW_OBJECTS) $(ROW_OBJECTS:.o=.registers): NVCC_DEFINES = -DEXEC_OP=$(call of_operator,$*,2) -DEXEC_ROW=exec_cuda_$(call of_operator,$*,2) \
    -DEXEC_TYPES=$(call of_operator,$*,3) -DEXEC_SIGN=$(call of_operator,$*,4)
$(ROW_OBJECTS): $(OBJ)/$(basename $(CUDA_REDUCE)).%.o: $(CUDA_REDUCE) $(BUILD)/nvcc-flags
	$(COMPILE_CUDA)
