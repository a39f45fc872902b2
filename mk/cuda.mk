# SPDX-License-Identifier: Apache-2.0
#
# Which nvcc there is, and for which GPUs it compiles.
#
# CUDA=auto uses nvcc if it is there, 1 requires it, 0 leaves GPUs out. CUDA_ARCH says for which GPUs there will be kernels:
#
#   auto      for the GPUs of this machine; without one, as ptx
#   ptx       PTX for the lowest architecture that nvcc knows from 7.0 on; the driver compiles it when a communicator is made
#   all       for every architecture that nvcc knows from 7.0 on
#   90        for this architecture; "80 90" for two
#
# PTX of the highest of them is always there too, for newer GPUs.

# CUDA_HOME of the environment says which nvcc; an NVCC that is given says which CUDA_HOME: its own, never that of another version.
ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(wildcard $(CUDA_HOME:%=%/bin/nvcc)) $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
endif
ifneq ($(filter-out auto 0 1,$(CUDA)),)
$(error CUDA=$(CUDA): expected auto, 0 or 1)
endif
ifeq ($(CUDA)$(NVCC),1)
$(error CUDA=1, but nvcc is neither in PATH nor in /usr/local/cuda/bin; set NVCC=/path/to/nvcc)
endif
WITH_CUDA := $(if $(filter-out 0,$(CUDA)),$(if $(NVCC),1))

ifeq ($(WITH_CUDA),1)
# One of the environment stays as it is if it is the same folder: a make below this one finds the same nvcc by it.
CUDA_FOUND  := $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(lastword $(NVCC))))))
CUDA_HOME   := $(if $(filter $(CUDA_FOUND),$(realpath $(CUDA_HOME))),$(CUDA_HOME),$(CUDA_FOUND))
CUDA_LIBDIR ?= $(firstword $(dir $(wildcard $(foreach r,static.a so,$(addsuffix /libcudart*$(r),$(addprefix $(CUDA_HOME)/,lib64 targets/*/lib lib/*-linux-gnu lib))))))
CUDA_MAJOR  := $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
CUDA_KNOWN  := $(shell $(NVCC) --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$$/\1/p' | sort -n | awk '$$1 >= 70')
ifeq ($(CUDA_ARCH),auto)
CUDA_HERE   := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -nu)
override CUDA_ARCH := $(or $(filter $(CUDA_KNOWN),$(CUDA_HERE)),ptx)
endif
CUDA_ARCHS  := $(if $(filter all,$(CUDA_ARCH)),$(CUDA_KNOWN),$(filter-out ptx,$(CUDA_ARCH)))
CUDA_PTX    := $(or $(lastword $(CUDA_ARCHS)),$(firstword $(CUDA_KNOWN)))
CUDA_CODE   := $(CUDA_ARCHS:%=sm_%) compute_$(CUDA_PTX)
nvcc_targets = $(foreach a,$(1),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_$(2),code=compute_$(2)
NVCC_TARGETS := $(call nvcc_targets,$(CUDA_ARCHS),$(CUDA_PTX))
# multimem is for GPUs from 9.0 on, with a compiler of CUDA 12.1 or later. Kernels with it are always there as PTX, for GPUs that have it.
CUDA_TEAMS  := $(if $(filter 90,$(CUDA_KNOWN)),$(shell $(NVCC) --version | awk '/release/ { sub(/.*release /, ""); if ($$0 + 0 >= 12.1) print 1 }'))
TEAM_ARCHS  := $(shell echo $(CUDA_ARCHS) | tr ' ' '\n' | awk '$$1 >= 90')
TEAM_PTX    := $(or $(lastword $(TEAM_ARCHS)),90)
CUDA_SMALLEST := $(if $(shell $(NVCC) --help | grep -- --compress-mode),--compress-mode=size,-Xfatbin=-compress-all)
CUDA_SMALL  := $(if $(filter all,$(CUDA_ARCH)),$(CUDA_SMALLEST))
NVCC_FLAGS  := -std=c++17 -O3 $(CUDA_SMALL) -fmad=false -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics -MMD -MP
# Without a static runtime the shared one.
CUDA_LIBS   := $(firstword $(wildcard $(CUDA_LIBDIR)libcudart_static.a $(CUDA_LIBDIR)libcudart.so)) -lrt
endif
