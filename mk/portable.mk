# SPDX-License-Identifier: Apache-2.0
#
# The shared kernel sources, in every language.
#
# What a GPU will run is compiled as C, C++ and CUDA by every compiler that is there, so that the host build cannot
# drift away from it.

.PHONY: portable
PORTABLE_SOURCE := tests/portable/kernels_portable.c
have = $(if $(shell command -v $(1) 2>/dev/null),$(2))

PORTABLE := gcc-c $(call have,g++,gcc-cxx) $(call have,clang,clang-c) $(call have,clang++,clang-cxx)
PORTABLE += $(if $(WITH_CUDA),nvcc)
PORTABLE_FLAGS    := -Wall -Wextra -Werror -MMD -MP $(INTERNAL_INCLUDES)
portable_gcc-c     = $(CC) -std=c11 $(PORTABLE_FLAGS)
portable_gcc-cxx   = g++ -x c++ -std=c++17 $(PORTABLE_FLAGS)
portable_clang-c   = clang -std=c11 $(PORTABLE_FLAGS)
portable_clang-cxx = clang++ -x c++ -std=c++17 $(PORTABLE_FLAGS)
portable_nvcc      = $(NVCC) -x cu -std=c++17 -arch=compute_$(CUDA_PTX) -Werror all-warnings -MMD -MP $(INTERNAL_INCLUDES)

ifeq ($(SANITIZE),)
portable: $(PORTABLE:%=$(BUILD)/portable/%.o)
endif
$(BUILD)/portable/%.o: $(PORTABLE_SOURCE) | $(NEEDS)
	@mkdir -p $(@D)
	$(call say,$(firstword $(portable_$*)))
	$(Q)$(portable_$*) -c $< -o $@
