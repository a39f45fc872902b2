# SPDX-License-Identifier: Apache-2.0
#
# GNU make. `make help` lists what there is to make.
#
#   src/<room>/*.c ──▶ build/obj/… ──┬─▶ build/lib/libcollet.so.0       only collet_* visible
#                                    ├─▶ build/lib/libcollet.a          the same, as one object
#                                    └─▶ build/lib/libcollet-internal.a every name, for tools and tests
#   examples/*.c, examples/perf/*_perf.c, src/tools/*.c ──▶ build/bin/<name>
#   tests/<kind>/*.c ─────────────────────────────────────▶ build/tests/<kind>/<name>
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
CUDA     ?= auto
SANITIZE ?=
JOBS     ?= $(shell nproc)
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
NVCC_ARCH   ?= sm_80

# ---------------------------------------------------------------------------------------------------------------- flags

VERSION   := $(shell sed -n 's/^\#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
SO_NAME   := libcollet.so.0
PACKAGES  := libsodium hwloc libxml-2.0
PKGCONFIG := $(if $(PKG_CONFIG),$(PKG_CONFIG),pkg-config)

PACKAGE_CFLAGS := $(shell $(PKGCONFIG) --cflags $(PACKAGES) 2>/dev/null)
PACKAGE_LIBS   := $(shell $(PKGCONFIG) --libs $(PACKAGES) 2>/dev/null)
SYSTEM_LIBS    := -pthread -ldl -lm

# No contraction of a*b+c anywhere: every variant and every machine makes the same bits. Linux only: all that glibc has.
BASE_FLAGS := -std=gnu11 -D_GNU_SOURCE= -Wall -Wextra $(WERROR) -ffp-contract=off -fvisibility=hidden -fPIC -pthread -MMD -MP
ifneq ($(SANITIZE),)
BASE_FLAGS += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
LINK_FLAGS += -fsanitize=$(SANITIZE)
endif
OPTIMIZE = $(if $(findstring /kernels/,$<),-O3,-O2)
COMPILE  = $(CC) $(BASE_FLAGS) $(OPTIMIZE) $(INCLUDES) $(PACKAGE_CFLAGS) $(VARIANT_FLAGS) $(CPPFLAGS) $(CFLAGS)
LINK     = $(CC) $(LINK_FLAGS) $(CFLAGS) $(LDFLAGS)

INTERNAL_INCLUDES := -Iinclude -Isrc
PUBLIC_INCLUDES   := -Iinclude -Iexamples/perf

# V=1 shows whole commands, else a word and the target.
Q   = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '%-5s %s\n' '$(notdir $(1))' '$@')

# --------------------------------------------------------------------------------------------------------------- sources

OBJ := $(BUILD)/obj
objects_of = $(patsubst %.c,$(OBJ)/%.o,$(1))

TOOL_SOURCES := $(wildcard src/tools/*.c)
LIB_SOURCES  := $(filter-out $(TOOL_SOURCES),$(wildcard src/*/*.c))
VARIANT_FILE := $(filter src/kernels/reduce_variant.c,$(LIB_SOURCES))

# The vectorised reductions: one source, compiled once for each kind of CPU and chosen at run time.
VARIANTS := plain $(if $(findstring x86_64,$(shell $(CC) -dumpmachine 2>/dev/null)),avx2 avx512)
FLAGS_plain  :=
FLAGS_avx2   := -mavx2 -mf16c -mfma
FLAGS_avx512 := $(FLAGS_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
VARIANT_OBJECTS := $(if $(VARIANT_FILE),$(VARIANTS:%=$(OBJ)/src/kernels/reduce_variant.%.o))

LIB_OBJECTS := $(call objects_of,$(filter-out $(VARIANT_FILE),$(LIB_SOURCES))) $(VARIANT_OBJECTS)

PERF_SOURCES    := $(wildcard examples/perf/*_perf.c)
PERF_COMMON     := $(filter-out $(PERF_SOURCES),$(wildcard examples/perf/*.c))
EXAMPLE_SOURCES := $(wildcard examples/*.c)
TEST_COMMON     := $(wildcard tests/common/*.c)
TEST_SOURCES    := $(filter-out $(TEST_COMMON) tests/portable/%,$(wildcard tests/*/*.c))

TOOLS    := $(TOOL_SOURCES:src/tools/%.c=$(BUILD)/bin/%)
PERFS    := $(PERF_SOURCES:examples/perf/%.c=$(BUILD)/bin/%)
EXAMPLES := $(EXAMPLE_SOURCES:examples/%.c=$(BUILD)/bin/%)
TESTS    := $(TEST_SOURCES:%.c=$(BUILD)/%)
SCRIPT_TESTS := $(sort $(filter-out tests/fabric/%,$(wildcard tests/*/test_*.sh)))

SHARED_LIB   := $(BUILD)/lib/$(SO_NAME)
STATIC_LIB   := $(BUILD)/lib/libcollet.a
INTERNAL_LIB := $(BUILD)/lib/libcollet-internal.a

# ----------------------------------------------------------------------------------------------------------------- build

.PHONY: all libs tests
all: libs $(TOOLS) $(PERFS) $(EXAMPLES) portable
libs: $(SHARED_LIB) $(BUILD)/lib/libcollet.so $(STATIC_LIB) $(INTERNAL_LIB)
tests: $(TESTS)

# Objects are made anew when the compiler or its flags change, and not before what they need is there.
FLAGS_NOW := $(CC) $(BASE_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@[ "$$(cat $@ 2>/dev/null)" = '$(FLAGS_NOW)' ] || echo '$(FLAGS_NOW)' > $@
.PHONY: FORCE
FORCE:

$(BUILD)/needs: scripts/deps.sh
	@mkdir -p $(@D)
	@COLLET_NO_INSTALL=1 scripts/deps.sh build
	@touch $@

$(OBJ)/%.o: INCLUDES = $(INTERNAL_INCLUDES)
$(OBJ)/examples/%.o: INCLUDES = $(PUBLIC_INCLUDES)
$(OBJ)/tests/%.o: INCLUDES = $(INTERNAL_INCLUDES) -Itests

$(OBJ)/%.o: %.c $(BUILD)/flags | $(BUILD)/needs
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c $< -o $@

$(VARIANT_OBJECTS): VARIANT_FLAGS = -DREDUCE_VARIANT=$(VARIANT) $(FLAGS_$(VARIANT))
$(VARIANT_OBJECTS): VARIANT = $(patsubst .%,%,$(suffix $(basename $@)))
$(VARIANT_OBJECTS): $(OBJ)/src/kernels/reduce_variant.%.o: $(VARIANT_FILE) $(BUILD)/flags | $(BUILD)/needs
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c $< -o $@

$(SHARED_LIB): $(LIB_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(SO_NAME) -Wl,-z,relro,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl,--no-undefined) \
	    -o $@ $(LIB_OBJECTS) $(PACKAGE_LIBS) $(SYSTEM_LIBS)

$(BUILD)/lib/libcollet.so: $(SHARED_LIB)
	$(Q)ln -sf $(SO_NAME) $@

# One object whose internal names are local: they cannot meet names of the program it is linked into.
$(STATIC_LIB): $(LIB_OBJECTS)
	@mkdir -p $(@D)
	$(call say,AR)
	$(Q)$(LD) -r -o $(OBJ)/collet.o $(LIB_OBJECTS)
	$(Q)$(OBJCOPY) --localize-hidden $(OBJ)/collet.o
	@rm -f $@
	$(Q)$(AR) rcsD $@ $(OBJ)/collet.o

$(INTERNAL_LIB): $(LIB_OBJECTS)
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $(LIB_OBJECTS)

define LINK_PROGRAM
@mkdir -p $(@D)
$(call say,LINK)
$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(PACKAGE_LIBS) $(SYSTEM_LIBS) $(TEST_LIBS)
endef

$(TOOLS): $(BUILD)/bin/%: $(OBJ)/src/tools/%.o $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(PERFS): $(BUILD)/bin/%: $(OBJ)/examples/perf/%.o $(call objects_of,$(PERF_COMMON)) $(STATIC_LIB)
	$(LINK_PROGRAM)
$(EXAMPLES): $(BUILD)/bin/%: $(OBJ)/examples/%.o $(STATIC_LIB)
	$(LINK_PROGRAM)
$(TESTS): $(BUILD)/%: $(OBJ)/%.o $(call objects_of,$(TEST_COMMON)) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(TESTS): TEST_LIBS = -lcmocka

# ------------------------------------------------------------------------- the shared kernel sources, in every language

# What a GPU will run is compiled as C, C++ and CUDA by every compiler that is there, so that the host build cannot
# drift away from it. CUDA=auto uses nvcc where it is found, 1 insists, 0 leaves it out.
.PHONY: portable
PORTABLE_SOURCE := tests/portable/kernels_portable.c
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
ifneq ($(filter-out auto 0 1,$(CUDA)),)
$(error CUDA=$(CUDA): expected auto, 0 or 1)
endif
ifeq ($(CUDA)$(NVCC),1)
$(error CUDA=1, but nvcc is neither in PATH nor in /usr/local/cuda/bin; set NVCC=/path/to/nvcc)
endif
have = $(if $(shell command -v $(1) 2>/dev/null),$(2))

PORTABLE := gcc-c $(call have,g++,gcc-cxx) $(call have,clang,clang-c) $(call have,clang++,clang-cxx)
PORTABLE += $(if $(filter-out 0,$(CUDA)),$(if $(NVCC),nvcc))
PORTABLE_FLAGS    := -Wall -Wextra -Werror -MMD -MP $(INTERNAL_INCLUDES)
portable_gcc-c     = $(CC) -std=c11 $(PORTABLE_FLAGS)
portable_gcc-cxx   = g++ -x c++ -std=c++17 $(PORTABLE_FLAGS)
portable_clang-c   = clang -std=c11 $(PORTABLE_FLAGS)
portable_clang-cxx = clang++ -x c++ -std=c++17 $(PORTABLE_FLAGS)
portable_nvcc      = $(NVCC) -x cu -std=c++17 -arch=$(NVCC_ARCH) -Werror all-warnings -MMD -MP $(INTERNAL_INCLUDES)

ifeq ($(SANITIZE),)
portable: $(PORTABLE:%=$(BUILD)/portable/%.o)
endif
$(BUILD)/portable/%.o: $(PORTABLE_SOURCE) | $(BUILD)/needs
	@mkdir -p $(@D)
	$(call say,$(firstword $(portable_$*)))
	$(Q)$(portable_$*) -c $< -o $@

# -------------------------------------------------------------------------------------------------- demo, tests, sanitizers

# A child make: it sees what deps.sh has just installed, and uses all CPUs unless the caller chose otherwise.
AGAIN = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
RUN_TESTS = scripts/run-tests.sh --level $(1) $(sort $(filter-out $(UNTHREADED),$(TESTS))) $(SCRIPT_TESTS)
# Programs without threads have nothing to show to the thread sanitizer, and some are slow under it.
UNTHREADED := $(if $(filter thread,$(SANITIZE)),$(BUILD)/tests/unit/test_algorithms $(BUILD)/tests/unit/test_program \
    $(BUILD)/tests/unit/test_topo% $(BUILD)/tests/unit/test_reduce $(BUILD)/tests/unit/test_perf_format)

.PHONY: deps demo test check test-full asan tsan run-check run-test run-test-full
deps:
	@scripts/deps.sh build
demo:
	@scripts/deps.sh build
	@$(AGAIN) all
	@$(BUILD)/bin/hello_allreduce
	@$(BUILD)/bin/all_reduce_perf --procs 4 -b 8 -e 64M -f 8 -n 20
test check test-full:
	@scripts/deps.sh test
	@$(AGAIN) all tests
	@$(MAKE) --no-print-directory run-$@
run-check:
	@BUILD=$(BUILD) $(call RUN_TESTS,fast)
run-test:
	@BUILD=$(BUILD) $(call RUN_TESTS,normal)
run-test-full:
	@BUILD=$(BUILD) $(call RUN_TESTS,full)

# The fast subset, built apart and run under a sanitizer. The script tests look at the ordinary build and stay out; so
# do warnings, of which instrumented code has false ones.
asan: SANITIZERS := address,undefined
tsan: SANITIZERS := thread
asan tsan:
	@scripts/deps.sh test
	@$(AGAIN) BUILD=build-$@ SANITIZE=$(SANITIZERS) WERROR= all tests
	@$(MAKE) --no-print-directory BUILD=build-$@ SANITIZE=$(SANITIZERS) SCRIPT_TESTS= run-check

# A Slurm of its own, on hosts that are network namespaces; skipped where it is not installed or not permitted.
.PHONY: test-slurm
test-slurm: all
	@BUILD=$(BUILD) scripts/run-tests.sh tests/multi/slurm.sh

# Two virtual hosts with software RDMA. Where a machine cannot have them, one line says why and nothing fails.
.PHONY: test-fabric fabric-shell fabric-ready
test-fabric: fabric-ready
	@BUILD=$(BUILD) tests/fabric/test_fabric.sh || [ $$? = 77 ]
fabric-shell: fabric-ready
	@BUILD=$(BUILD) bash --rcfile tests/fabric/shell.sh -i
fabric-ready:
	@scripts/deps.sh build
	@scripts/deps.sh fabric || true
	@$(AGAIN) all

.PHONY: bench-peers scaling
bench-peers: all
	scripts/bench-peers.sh
scaling: $(BUILD)/bin/collet-sim
	@BUILD=$(BUILD) scripts/scaling.sh

# --------------------------------------------------------------------------------------------------------------- install

.PHONY: install uninstall
INSTALLED_PROGRAMS := $(TOOLS) $(PERFS)
install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCDIR)
	install -m 644 include/collet.h $(DESTDIR)$(INCDIR)/
	install -m 755 $(SHARED_LIB) $(DESTDIR)$(LIBDIR)/
	ln -sf $(SO_NAME) $(DESTDIR)$(LIBDIR)/libcollet.so
	install -m 644 $(STATIC_LIB) $(DESTDIR)$(LIBDIR)/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCDIR@|$(INCDIR)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@PACKAGES@|$(PACKAGES)|' \
	    collet.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/collet.pc
	$(if $(INSTALLED_PROGRAMS),install -m 755 $(INSTALLED_PROGRAMS) $(DESTDIR)$(BINDIR)/)

uninstall:
	rm -f $(DESTDIR)$(INCDIR)/collet.h $(DESTDIR)$(LIBDIR)/pkgconfig/collet.pc
	rm -f $(DESTDIR)$(LIBDIR)/$(SO_NAME) $(DESTDIR)$(LIBDIR)/libcollet.so $(DESTDIR)$(LIBDIR)/libcollet.a
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(INSTALLED_PROGRAMS)))

# ----------------------------------------------------------------------------------------------------------- housekeeping

.PHONY: format format-check clean help
FORMATTED = git ls-files '*.c' '*.h' '*.cu'
format:
	$(FORMATTED) | xargs -r $(CLANGFORMAT) -i
format-check:
	$(FORMATTED) | xargs -r $(CLANGFORMAT) --dry-run -Werror
clean:
	rm -rf $(BUILD) build-asan build-tsan

help:
	@echo 'make               libraries in build/lib, programs in build/bin'
	@echo 'make demo          installs what is missing, builds, runs an allreduce among 4 processes'
	@echo 'make test          installs what is missing, builds, runs the tests (minutes)'
	@echo 'make check         the fast part of the tests (below a minute)'
	@echo 'make test-full     every combination of collective, type, algorithm, transport … (long)'
	@echo 'make asan tsan     the fast tests under gcc'"'"'s sanitizers, built in build-asan, build-tsan'
	@echo 'make test-slurm    jobs by srun of a real Slurm, where it is installed'
	@echo 'make test-fabric   between two virtual hosts with software RDMA (minutes); fabric-shell: to try things in them'
	@echo 'make bench-peers   measures collet beside the MPI libraries that are installed'
	@echo 'make scaling       prints the tables of docs/scaling.md: predictions for up to 131,072 ranks (minutes)'
	@echo 'make install       PREFIX=/usr/local DESTDIR= ; make uninstall'
	@echo 'make format        clang-format over all tracked C files; format-check only looks'
	@echo 'make clean'
	@echo 'Variables: V=1 CC CFLAGS LDFLAGS WERROR= BUILD=build CUDA=auto|0|1 NVCC NVCC_ARCH JOBS PREFIX DESTDIR LIBDIR'

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
