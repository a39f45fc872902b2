# SPDX-License-Identifier: Apache-2.0
#
# GNU make. `make help` lists what there is to make. This page says what is built from what; mk/ has a file for each concern.
#
#   src/<room>/*.c ──▶ build/obj/… ──┬─▶ build/lib/libcollet.so.0.1     only collet_* visible
#                                    ├─▶ build/lib/libcollet.a          the same, as one object
#                                    ├─▶ build/lib/libnccl.so.2         NCCL's names over it (src/layers/nccl/), no others visible
#                                    ├─▶ build/lib/libnccl-net-collet.so  a network plugin for NCCL over collet's transports
#                                    └─▶ build/lib/libcollet-internal.a every name, for tools and tests
#   src/layers/tools/forecast/*.c ──────▶ build/lib/libcollet-forecast.a predictions, for tools and tests
#   examples/*.c, *.cc, examples/perf/*_perf.c, src/layers/tools/*.c ──▶ build/bin/<name>
#   tests/{core,whole,layers/*}/test_*.c ─────────────────▶ build/tests/…/<name>
#   tests/portable/kernels_portable.c as C, C++ and CUDA ─▶ build/portable/*.o
#
# Folders are globbed: a new algorithm, transport, tool or test needs no line here.

MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

# ------------------------------------------------------------------------------------------ what may be set from outside

BUILD    ?= build
PREFIX   ?= /usr/local
BINDIR   ?= $(PREFIX)/bin
LIBDIR   ?= $(PREFIX)/lib
INCDIR   ?= $(PREFIX)/include
MANDIR   ?= $(PREFIX)/share/man
DOCDIR   ?= $(PREFIX)/share/doc/collet
CUDA     ?= auto
SANITIZE ?=
JOBS     ?= $(shell nproc)
TEST_JOBS ?= 4
WERROR   ?= -Werror
V        ?= 0
CFLAGS   ?= -g
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
OBJCOPY     ?= objcopy
CLANGFORMAT ?= clang-format
CUDA_ARCH   ?= auto

# ------------------------------------------------------------------------------------------------- what there is to build

include mk/again.mk
ifeq ($(ONE_BY_ONE),)
include mk/flags.mk
include mk/cuda.mk
include mk/layers.mk
include mk/sources.mk

.PHONY: all libs
all: libs $(TOOLS) $(SCRIPT_TOOLS) $(PERFS) $(EXAMPLES) portable
libs: $(SHARED_LIB) $(BUILD)/lib/libcollet.so $(NCCL_LIB) $(NET_LIB) $(STATIC_LIB) $(FORECAST_LIB) $(INTERNAL_LIB)
# Where there is nothing to do, nothing is said.
all libs tests core-alone core-tests portable man fuzzers:
	+@:

# For gdb: no optimisation, and no GPU kernels.
.PHONY: gdb
gdb:
	+@$(AGAIN) BUILD=build-gdb CUDA=0 CFLAGS='-g -O0' all

# --------------------------------------------------------------------------------------------------------- how it is built

include mk/objects.mk
include mk/kernels.mk
include mk/libraries.mk
include mk/programs.mk
include mk/portable.mk
include mk/core.mk

# ------------------------------------------------------------------------------------------- what is done with what is built

include mk/tests.mk
include mk/sanitizers.mk
include mk/accept.mk
include mk/gpusim.mk
include mk/checks.mk
include mk/fuzz.mk
include mk/campaigns.mk
include mk/bench.mk
include mk/course.mk
include mk/install.mk
include mk/docs.mk
include mk/help.mk

.PHONY: format format-check clean
FORMATTED = git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.cuh'
format:
	$(FORMATTED) | xargs -r $(CLANGFORMAT) -i
format-check:
	$(FORMATTED) | xargs -r $(CLANGFORMAT) --dry-run -Werror
clean:
	rm -rf $(BUILD) $(BUILD)-90 build-asan build-tsan build-dist build-gdb

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
endif
