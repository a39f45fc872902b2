# SPDX-License-Identifier: Apache-2.0
#
# GNU make. `make help` lists what there is to make.
#
#   src/<room>/*.c ──▶ build/obj/… ──┬─▶ build/lib/libcollet.so.0.1     only collet_* visible
#                                    ├─▶ build/lib/libcollet.a          the same, as one object
#                                    ├─▶ build/lib/libnccl.so.2         NCCL's names over it (src/layers/nccl/), no others visible
#                                    ├─▶ build/lib/libnccl-net-collet.so  a network plugin for NCCL over collet's transports
#                                    └─▶ build/lib/libcollet-internal.a every name, for tools and tests
#   src/layers/tools/forecast/*.c ──────▶ build/lib/libcollet-forecast.a predictions, for tools and tests
#   examples/*.c, *.cc, examples/perf/*_perf.c, src/layers/tools/*.c ──▶ build/bin/<name>
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
MANDIR   ?= $(PREFIX)/share/man
DOCDIR   ?= $(PREFIX)/share/doc/collet
CUDA     ?= auto
SANITIZE ?=
JOBS     ?= $(shell nproc)
TEST_JOBS ?= 2
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

# ---------------------------------------------------------------------------------------------------------------- flags

VERSION   := $(shell sed -n 's/^\#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
# Libraries of one interface have one name: 1.x and 1.y, but before 1.0 only 0.1.x and 0.1.y. CONTRIBUTING.md has the rule.
ABI       := $(shell echo $(VERSION) | sed -E 's/^(0\.[0-9]+|[0-9]+).*/\1/')
SO_NAME   := libcollet.so.$(ABI)
PACKAGES  := libsodium hwloc libxml-2.0
PKGCONFIG := $(if $(PKG_CONFIG),$(PKG_CONFIG),pkg-config)

PACKAGE_CFLAGS := $(shell $(PKGCONFIG) --cflags $(PACKAGES) 2>/dev/null)
PACKAGE_LIBS   := $(shell $(PKGCONFIG) --libs $(PACKAGES) 2>/dev/null)
# What a program that links the static library links too.
PRIVATE_LIBS    = $(strip $(CUDA_LIBS) $(PACKAGE_LIBS) -pthread -ldl -lm)

# No contraction of a*b+c anywhere: every variant and every machine makes the same bits. Linux only: all that glibc has.
BASE_FLAGS := -std=gnu11 -D_GNU_SOURCE= -Wall -Wextra $(WERROR) -ffp-contract=off -fvisibility=hidden -fPIC -pthread -MMD -MP
ifneq ($(SANITIZE),)
BASE_FLAGS += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
LINK_FLAGS += -fsanitize=$(SANITIZE)
endif
# Sanitized code is compiled quickly rather than well: it is run once.
OPTIMIZE = $(if $(SANITIZE),-O1,$(if $(filter src/kernels/% src/exec/%,$<)$(filter exec_%,$(notdir $<)),-O3,-O2))
COMPILE  = $(CC) $(BASE_FLAGS) $(OPTIMIZE) $(INCLUDES) $(PACKAGE_CFLAGS) $(VARIANT_FLAGS) $(CPPFLAGS) $(CFLAGS)
LINK     = $(CC) $(LINK_FLAGS) $(CFLAGS) $(LDFLAGS)

INTERNAL_INCLUDES := -Iinclude -Isrc
PUBLIC_INCLUDES   := -Iinclude -Iexamples/perf

# V=1 shows whole commands, else a word and the target.
Q   = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '%-5s %s\n' '$(notdir $(1))' '$@')

# ------------------------------------------------------------------------------------------------------------------ CUDA
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
CUDA_HOME   := $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(lastword $(NVCC))))))
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

include mk/layers.mk

# --------------------------------------------------------------------------------------------------------------- sources

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
LIB_SOURCES  := $(CORE_SOURCES) $(filter-out $(TOOL_SOURCES) $(CUDA_SOURCES) $(COMPAT_SOURCES) $(NET_SOURCES),$(foreach l,$(LIB_LAYERS),$(call layer_sources,$(l))))
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

LIB_OBJECTS := $(call objects_of,$(filter-out $(VARIANT_FILE),$(LIB_SOURCES))) $(VARIANT_OBJECTS) $(CUDA_OBJECTS)

PERF_SOURCES    := $(wildcard examples/perf/*_perf.c)
PERF_COMMON     := $(filter-out $(PERF_SOURCES) $(if $(WITH_CUDA),,examples/perf/device_cuda.c),$(wildcard examples/perf/*.c)) \
    $(if $(WITH_CUDA),examples/perf/span_gpu.cu)
CXX_EXAMPLES    := $(if $(shell command -v $(CXX) 2>/dev/null),$(wildcard examples/*.cc))
EXAMPLE_SOURCES := $(wildcard examples/*.c) $(CXX_EXAMPLES) $(if $(WITH_CUDA),$(wildcard examples/*.cu))
TEST_COMMON     := $(filter-out $(if $(WITH_CUDA),,tests/common/gpu_side_cuda.c),$(wildcard tests/common/*.c tests/common/*.cc))
# The simulated GPU machine: what its tests and its runtime are linked with.
GPUSIM_MACHINE  := $(addprefix tests/gpusim/,access.c chain.c exec.c machine.c memory.c module.c ptx_flow.c ptx_parse.c warp.c)
TEST_SOURCES    := $(filter-out tests/common/% tests/core/% tests/portable/% tests/nccl/% tests/gpusim/%,$(wildcard tests/*/*.c)) tests/gpusim/test_ptx.c tests/gpusim/test_exec.c
# The model checker and the fuzz targets have programs of their own.
TEST_SOURCES    := $(filter-out tests/model/% tests/fuzz/%,$(TEST_SOURCES))
# So have the acceptance of GPUs and what it asks other libraries, out of many files.
TEST_SOURCES    := $(filter-out tests/gpu/accept_% tests/gpu/beside% tests/gpu/one_program.c,$(TEST_SOURCES))
BESIDE_SOURCES  := $(wildcard tests/gpu/beside*.c)
BESIDE          := $(BUILD)/tests/gpu/beside
ONE_PROGRAM     := $(BUILD)/tests/gpu/one_program
ACCEPT_SOURCES  := tests/gpu/test_accept.c $(wildcard tests/gpu/accept_*.c) $(if $(WITH_CUDA),tests/gpu/accept_kernels.cu)

TOOLS    := $(TOOL_SOURCES:src/layers/tools/%.c=$(BUILD)/bin/%)
SCRIPT_TOOLS := $(patsubst src/layers/tools/%.py,$(BUILD)/bin/%,$(wildcard src/layers/tools/*.py))
PERFS    := $(PERF_SOURCES:examples/perf/%.c=$(BUILD)/bin/%)
EXAMPLES := $(basename $(EXAMPLE_SOURCES:examples/%=$(BUILD)/bin/%))
TESTS    := $(TEST_SOURCES:%.c=$(BUILD)/%)
SCRIPT_TESTS := $(sort $(filter-out tests/fabric/% tests/nccl/% tests/torch/% tests/browser/%,$(wildcard tests/*/test_*.sh)))

SHARED_LIB   := $(BUILD)/lib/$(SO_NAME)
STATIC_LIB   := $(BUILD)/lib/libcollet.a
NCCL_LIB     := $(BUILD)/lib/libnccl.so.2
NET_LIB      := $(BUILD)/lib/libnccl-net-collet.so
INTERNAL_LIB := $(BUILD)/lib/libcollet-internal.a
FORECAST_LIB := $(BUILD)/lib/libcollet-forecast.a

# ----------------------------------------------------------------------------------------------------------------- build

.PHONY: all libs
all: libs $(TOOLS) $(SCRIPT_TOOLS) $(PERFS) $(EXAMPLES) portable
libs: $(SHARED_LIB) $(BUILD)/lib/libcollet.so $(NCCL_LIB) $(NET_LIB) $(STATIC_LIB) $(FORECAST_LIB) $(INTERNAL_LIB)

# Objects are made anew when the compiler or its flags change, and not before what they need is there.
FLAGS_NOW := $(if $(WITH_CUDA),CUDA) $(CC) $(BASE_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
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
$(OBJ)/src/layers/tools/%.o: INCLUDES = $(INTERNAL_INCLUDES) -I.
$(OBJ)/examples/%.o: INCLUDES = $(PUBLIC_INCLUDES)
# The perf programs share the table of types (base/types.h) and the reading of options with the library and its tools.
$(OBJ)/examples/perf/%.o: INCLUDES = $(PUBLIC_INCLUDES) -Isrc
$(OBJ)/tests/%.o: INCLUDES = $(INTERNAL_INCLUDES) -Itests

$(OBJ)/%.o: %.c $(BUILD)/flags | $(BUILD)/needs
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c $< -o $@

$(call objects_of,$(filter %.c,$(ACCEPT_SOURCES))): CPPFLAGS += -Iexamples
$(OBJ)/tests/gpu/accept_kernels.o: NVCC_DEFINES = -Itests -Iexamples
$(call objects_of,src/layers/gpu/registry.c tests/gpu/test_accept.c tests/unit/test_cuda_context.c examples/perf/device.c): CPPFLAGS += $(if $(WITH_CUDA),-DCOLLET_CUDA)
$(call objects_of,$(CUDA_SOURCES) tests/common/gpu_side_cuda.c tests/unit/test_cuda_context.c examples/perf/device_cuda.c): CPPFLAGS += -I$(CUDA_HOME)/include

# Kernels are compiled again when nvcc or its flags change. They do not depend on the flags of the C compiler.
$(BUILD)/nvcc-flags: FORCE
	@mkdir -p $(@D)
	@[ "$$(cat $@ 2>/dev/null)" = '$(NVCC) $(NVCC_TARGETS) $(NVCC_FLAGS)' ] || echo '$(NVCC) $(NVCC_TARGETS) $(NVCC_FLAGS)' > $@
define COMPILE_CUDA
@mkdir -p $(@D)
$(call say,NVCC)
$(Q)$(NVCC) $(NVCC_TARGETS) $(NVCC_FLAGS) $(if $(word 2,$(CUDA_ARCHS)),--threads $(JOBS)) $(NVCC_DEFINES) $(INCLUDES) -c $< -o $@
endef
$(OBJ)/%.o: %.cu $(BUILD)/nvcc-flags
	$(COMPILE_CUDA)
$(addprefix $(OBJ)/src/kernels/cuda/exec_cuda.,o registers): NVCC_DEFINES = '-DEXEC_CODE="$(strip $(CUDA_CODE))"' -DEXEC_TEAM_SUM=$(if $(CUDA_TEAMS),exec_cuda_team_sum,NULL)
$(OBJ)/src/kernels/cuda/exec_cuda_team.o: NVCC_TARGETS = $(call nvcc_targets,$(TEAM_ARCHS),$(TEAM_PTX))
$(ROW_OBJECTS) $(ROW_OBJECTS:.o=.registers): NVCC_DEFINES = -DEXEC_OP=$(call of_operator,$*,2) -DEXEC_ROW=exec_cuda_$(call of_operator,$*,2) \
    -DEXEC_TYPES=$(call of_operator,$*,3) -DEXEC_SIGN=$(call of_operator,$*,4)
$(ROW_OBJECTS): $(OBJ)/$(basename $(CUDA_REDUCE)).%.o: $(CUDA_REDUCE) $(BUILD)/nvcc-flags
	$(COMPILE_CUDA)

# The device executor's source in C++, for tests that run it on the host.
COMPILE_CXX = $(CXX) $(filter-out -std=% -D_GNU_SOURCE=,$(BASE_FLAGS)) -std=gnu++17 $(CXX_BARE) $(CXX_QUIET) $(if $(SANITIZE),-O0,-O1) $(INCLUDES) $(CPPFLAGS) $(CFLAGS)
CXX_QUIET  := -Wno-unknown-pragmas
CXX_BARE   := -fno-exceptions -fno-rtti
$(OBJ)/examples/%.o: CXX_BARE =
$(OBJ)/%.o: %.cc $(BUILD)/flags | $(BUILD)/needs
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(COMPILE_CXX) -c $< -o $@

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
	    -Wl,--exclude-libs,ALL -o $@ $(LIB_OBJECTS) $(PRIVATE_LIBS)

$(BUILD)/lib/libcollet.so: $(SHARED_LIB)
	$(Q)ln -sf $(SO_NAME) $@

$(NCCL_LIB) $(BUILD)/gpusim/lib/libnccl.so.2: $(call objects_of,$(COMPAT_SOURCES)) $(LIB_OBJECTS) src/layers/nccl/nccl.map
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(@F) -Wl,-z,relro,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl,--no-undefined) \
	    -Wl,--exclude-libs,ALL -Wl,--version-script,src/layers/nccl/nccl.map -o $@ $(filter %.o,$^) $(PRIVATE_LIBS)

$(NET_LIB): $(call objects_of,$(NET_SOURCES)) $(LIB_OBJECTS) src/layers/nccl/nccl_net.map
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(@F) -Wl,-z,relro,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl,--no-undefined) \
	    -Wl,--exclude-libs,ALL -Wl,--version-script,src/layers/nccl/nccl_net.map -o $@ $(filter %.o,$^) $(PRIVATE_LIBS)

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

$(FORECAST_LIB): $(call objects_of,$(FORECAST_SOURCES))
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

# What a program is linked with, to use the static library.
.PHONY: static-link
static-link:
	@echo $(STATIC_LIB) $(PRIVATE_LIBS)

define LINK_PROGRAM
@mkdir -p $(@D)
$(call say,LINK)
$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(PRIVATE_LIBS) $(TEST_LIBS)
endef

$(TOOLS): $(BUILD)/bin/%: $(OBJ)/src/layers/tools/%.o $(call objects_of,$(wildcard src/layers/tools/common/*.c)) $(FORECAST_LIB) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
# A tool of several files has a folder; collet-tune takes its meetings from the bench.
$(BUILD)/bin/collet-prog $(BUILD)/tests/unit/test_program $(BUILD)/tests/unit/test_verifier: $(call objects_of,$(wildcard src/layers/tools/prog/*.c))
$(OBJ)/src/layers/tools/prog/page_text.o: src/layers/tools/prog/page.html
$(OBJ)/src/layers/tuner/cards.o: $(wildcard src/layers/tuner/cards/*.tuning)
$(BUILD)/bin/collet-sim: $(call objects_of,$(wildcard src/layers/tools/sim/*.c))
$(BUILD)/bin/collet-status $(BUILD)/tests/fault/test_status: $(call objects_of,$(wildcard src/layers/tools/status/*.c))
$(BUILD)/bin/collet-tune: $(call objects_of,$(wildcard src/layers/tools/tune/*.c) bench/board.c)
$(SCRIPT_TOOLS): $(BUILD)/bin/%: src/layers/tools/%.py include/collet.h
	@mkdir -p $(@D)
	$(Q)sed 's/@VERSION@/$(VERSION)/' $< > $@ && chmod 755 $@
$(PERFS): $(BUILD)/bin/%: $(OBJ)/examples/perf/%.o $(call objects_of,$(PERF_COMMON) src/layers/tools/common/arguments.c src/layers/observe/json.c) $(STATIC_LIB)
	$(LINK_PROGRAM)
$(EXAMPLES): $(BUILD)/bin/%: $(OBJ)/examples/%.o $(STATIC_LIB)
	$(LINK_PROGRAM)
$(CXX_EXAMPLES:examples/%.cc=$(BUILD)/bin/%): TEST_LIBS = -lstdc++
# What is to run where there is little beside a GPU does without cmocka.
ACCEPT := $(BUILD)/tests/gpu/test_accept
GPUSIM_BENCH := $(BUILD)/tests/gpusim/bench_exec
$(filter-out $(ACCEPT),$(TESTS)) $(GPUSIM_BENCH): $(BUILD)/%: $(OBJ)/%.o $(call objects_of,$(TEST_COMMON)) $(FORECAST_LIB) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(filter-out $(ACCEPT),$(TESTS)) $(GPUSIM_BENCH): TEST_LIBS = -lcmocka
# What tests/common/refuse.h may refuse to the library.
REFUSED := malloc calloc realloc strdup open_memstream fmemopen mmap pthread_create memfd_create socket accept4 eventfd epoll_create1 \
    fopen opendir open
$(BUILD)/tests/fault/test_memory $(BUILD)/tests/fault/test_faults $(BUILD)/tests/multi/test_gpu_windows $(BUILD)/tests/unit/test_boot: LINK_FLAGS += $(REFUSED:%=-Wl,--wrap=%)
$(BUILD)/tests/fault/test_fork: LINK_FLAGS += -Wl,--wrap=dlopen
# Of collet it knows nothing: it opens what it is given.
$(call objects_of,$(BESIDE_SOURCES)): CPPFLAGS += -I$(CUDA_HOME)/include
$(BESIDE): $(call objects_of,$(BESIDE_SOURCES))
	$(LINK_PROGRAM)
$(BESIDE): private PACKAGE_LIBS =
ACCEPT_OBJECTS := $(call objects_of,$(ACCEPT_SOURCES) $(filter-out %/gang.c %/slots.c %/world.c,$(TEST_COMMON)))
$(ACCEPT): $(ACCEPT_OBJECTS) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(addprefix $(BUILD)/tests/gpusim/,test_ptx test_exec bench_exec): $(call objects_of,$(GPUSIM_MACHINE))
$(addprefix $(BUILD)/tests/gpusim/,test_exec bench_exec): $(call objects_of,tests/gpusim/objects.c tests/gpusim/stage.c)
$(BUILD)/tests/unit/test_net_collet: $(call objects_of,$(NET_SOURCES))
$(BUILD)/tests/unit/test_tune_gpu: $(call objects_of,$(wildcard src/layers/tools/tune/*.c) bench/board.c)
$(BUILD)/tests/unit/test_perf_rows: $(call objects_of,$(PERF_COMMON) src/layers/tools/common/arguments.c)

# ------------------------------------------------------------------------- the shared kernel sources, in every language

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
$(BUILD)/portable/%.o: $(PORTABLE_SOURCE) | $(BUILD)/needs
	@mkdir -p $(@D)
	$(call say,$(firstword $(portable_$*)))
	$(Q)$(portable_$*) -c $< -o $@

# -------------------------------------------------------------------------------------------------- demo, tests, sanitizers

# A child make: it sees what deps.sh has just installed, and uses all CPUs unless the caller chose otherwise.
AGAIN = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
RUN_TESTS = scripts/run-tests.sh --level $(1) --jobs $(TEST_JOBS) $(CHOSEN)
# Programs without threads have nothing to show to the thread sanitizer, and some are slow under it. It cannot see what orders the ranks
# of test_gpu_copies, either: words that each maps at an address of its own.
UNTHREADED := $(if $(filter thread,$(SANITIZE)),$(BUILD)/tests/unit/test_algorithms $(BUILD)/tests/unit/test_program \
    $(BUILD)/tests/unit/test_verifier $(BUILD)/tests/unit/test_cost $(BUILD)/tests/unit/test_one_tuner \
    $(BUILD)/tests/unit/test_block $(BUILD)/tests/multi/test_emulated_gpu $(BUILD)/tests/multi/test_gpu_windows $(BUILD)/tests/multi/test_gpu_copies $(BUILD)/tests/gpu/% $(BUILD)/tests/gpusim/% $(BUILD)/tests/unit/test_topo% $(BUILD)/tests/unit/test_reduce $(BUILD)/tests/unit/test_perf_format)
# PROGRAMS='unit/test_tcp fault/test_links.sh': these alone. PART=2/8: each eighth one, from the second on.
RUNNABLE := $(sort $(filter-out $(UNTHREADED),$(TESTS))) $(SCRIPT_TESTS)
each_nth  = $(shell printf '%s\n' $(RUNNABLE) | awk -v part=$(PART) 'BEGIN { split(part, p, "/") } NR % p[2] == p[1] % p[2]')
CHOSEN   := $(if $(PROGRAMS),$(foreach p,$(PROGRAMS),$(or $(filter %tests/$(p),$(RUNNABLE)),$(BUILD)/tests/$(p))),$(if $(PART),$(each_nth),$(RUNNABLE)))

.PHONY: deps demo tests test check test-full asan tsan asan-all tsan-all run-check run-test run-test-full
tests: $(CHOSEN) $(if $(WITH_CUDA),$(ONE_PROGRAM) $(BESIDE))
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

# The fast subset, or all that `make test` does, built apart and run under a sanitizer. The script tests look at the ordinary build
# and stay out; so do warnings, of which instrumented code has false ones. What runs ten times as slowly gets more time.
SANITIZED = BUILD=build-$(@:-all=) CUDA=0 SANITIZE=$(SANITIZERS) SCRIPT_TESTS=
asan asan-all: SANITIZERS := address,undefined
tsan tsan-all: SANITIZERS := thread
asan tsan asan-all tsan-all:
	@scripts/deps.sh test
	@$(AGAIN) $(SANITIZED) WERROR= tests
	@$(if $(filter %-all,$@),COLLET_TEST_TIMEOUT=3600) $(MAKE) --no-print-directory $(SANITIZED) run-$(if $(filter %-all,$@),test,check)

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

# The same programs, and tests of what they cannot show, on a simulated machine (tests/gpusim/): a runtime of CUDA on the CPU
# in place of NVIDIA's, and kernels as nvcc made them. Skipped where nvcc is missing.
.PHONY: test-gpu-sim test-gpu-sim-torch bench-gpu-sim
SIM          := $(BUILD)/gpusim
SIM_RUNTIME  := $(SIM)/libcudart_sim.a
SIM_OBJECTS  := $(call objects_of,$(GPUSIM_MACHINE) $(wildcard tests/gpusim/cuda_*.c))
SIM_PERFS    := $(PERF_SOURCES:examples/perf/%.c=$(SIM)/%)
SIM_CONTRACT := test_runtime test_waits test_captures test_driver test_processes
SIM_PROGRAMS := $(addprefix $(SIM)/,print_ptx $(SIM_CONTRACT) test_multicast test_gpus test_threads test_nccl test_perf bench_calls test_accept one_program overlap collet-info \
    collet-tune all_reduce_perf sendrecv_perf)
SIM_TESTS    := $(SIM_PROGRAMS) $(SIM)/beside $(addprefix $(BUILD)/tests/,unit/test_block gpusim/test_exec)
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
$(SIM_PERFS): $(SIM)/%: $(OBJ)/examples/perf/%.o $(call objects_of,$(PERF_COMMON) src/layers/tools/common/arguments.c src/layers/observe/json.c) $(STATIC_LIB)
$(sort $(SIM_PROGRAMS) $(SIM_PERFS)): $(SIM_RUNTIME)
	$(LINK_PROGRAM)
ifeq ($(WITH_CUDA),1)
test-gpu-sim: libs $(SIM_TESTS) $(if $(NCCL_TESTS),$(SIM_NCCL) $(NCCL_LIB))
	@SIM=$(SIM) NVCC=$(NVCC) COLLET_TEST_TIMEOUT=800 scripts/run-tests.sh $(addprefix tests/gpusim/,same_ptx.sh run.sh nccl_tests.sh)
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
	@for part in $(PARTS); do echo "=== $$part"; $(AGAIN) gpu-sim-$$part || exit 1; done
gpu-sim-kernels: libs $(BUILD)/tests/gpusim/test_ptx $(BUILD)/tests/gpusim/test_exec
	@$(BUILD)/tests/gpusim/test_ptx
	@BUILD=$(BUILD) $(RUN_SCENES)
cuda-kernels: $(CUDA_KERNELS)
gpu-sim-kernels-90: $(BUILD)/tests/gpusim/test_exec
	@$(AGAIN) BUILD=$(BUILD)-90 CUDA_ARCH=ptx CUDA_PTX=90 cuda-kernels
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

# What ptxas makes of some kernels: registers, spills, fences, and rules for accesses. Skipped without a disassembler.
.PHONY: sass-lint
sass-lint:
	@NVCC=$(NVCC) BUILD=$(BUILD) tests/gpu/sass.py || [ $$? = 77 ]

# Breaks jobs on purpose: SEEDS= how many times, FIRST= the first seed. A table of what was injected and survived.
.PHONY: test-faults
SEEDS ?= 273
test-faults:
	@scripts/deps.sh test
	@$(AGAIN) $(BUILD)/tests/fault/test_faults
	@SEEDS=$(SEEDS) $(BUILD)/tests/fault/test_faults

# A job that goes on and on, from a seed: communicators, calls and deaths at random; memory, threads and descriptors stay.
.PHONY: soak
SOAK_SECONDS ?= 1800
soak:
	@scripts/deps.sh test
	@$(AGAIN) $(BUILD)/tests/fault/test_soak
	@SOAK_SECONDS=$(SOAK_SECONDS) $(BUILD)/tests/fault/test_soak

# The slot layer in all interleavings, and broken in every way (tests/model/model.h). model: larger cases too, many minutes.
.PHONY: test-model model
test-model model: $(INTERNAL_LIB)
	@BUILD=$(BUILD) CC='$(CC)' tests/model/model.sh $(if $(filter model,$@),large)

# How GPUs hand over slots and lines, in all executions that the memory model of PTX allows (tests/litmus/check.py).
.PHONY: test-litmus
test-litmus:
	@tests/litmus/test_litmus.sh || [ $$? = 77 ]

# What comes from others, fuzzed by clang's libFuzzer; without clang only the corpus is tried. test-fuzz tries the same inputs
# each time ("again"), fuzz new ones for an hour per target; FUZZ_SECONDS says otherwise.
.PHONY: test-fuzz fuzz fuzz-run fuzzers
FUZZ_SECONDS ?= $(if $(filter fuzz,$(MAKECMDGOALS)),3600,again)
FUZZ_ENGINE  := $(if $(findstring fuzz,$(MAKECMDGOALS)),$(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer - -o /dev/null 2>/dev/null && echo yes))
FUZZERS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BUILD   := BUILD=build-fuzz CUDA=0 SANITIZE=address,undefined WERROR= $(if $(FUZZ_ENGINE),CC=clang CFLAGS='-g1 -fsanitize=fuzzer-no-link')
test-fuzz fuzz:
	@scripts/deps.sh fuzz || true
	@$(AGAIN) fuzz-run FUZZ_SECONDS=$(FUZZ_SECONDS)
fuzz-run:
	@$(AGAIN) $(FUZZ_BUILD) fuzzers
	@BUILD=build-fuzz tests/fuzz/fuzz.sh $(if $(FUZZ_ENGINE),$(FUZZ_SECONDS),0)
fuzzers: $(FUZZERS)
$(FUZZERS): $(BUILD)/%: $(OBJ)/%.o $(OBJ)/tests/fuzz/common.o $(if $(FUZZ_ENGINE),,$(OBJ)/tests/fuzz/replay.o) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(FUZZERS): TEST_LIBS = $(if $(FUZZ_ENGINE),-fsanitize=fuzzer)

# A Slurm of its own, on hosts that are network namespaces; skipped where it is not installed or not permitted.
.PHONY: test-slurm
test-slurm: all
	@BUILD=$(BUILD) scripts/run-tests.sh tests/multi/slurm.sh

# libnccl.so.2 in NCCL's place; what needs NVIDIA's NCCL is skipped where it is not installed.
.PHONY: test-nccl-abi
test-nccl-abi: libs
	@BUILD=$(BUILD) scripts/run-tests.sh tests/nccl/test_abi.sh

# collet as a backend of PyTorch, where a Python has torch. demo-torch installs Debian's first.
.PHONY: demo-torch test-torch bench-torch
demo-torch:
	@scripts/deps.sh build
	@scripts/deps.sh torch
	@$(AGAIN) libs
	@BUILD=$(BUILD) scripts/torch.sh demo
bench-torch: libs
	@BUILD=$(BUILD) TORCH=$(TORCH) DOCS=$(DOCS) scripts/torch.sh bench
test-torch: libs
	@BUILD=$(BUILD) TORCH=$(TORCH) TEST_TORCH=$(TEST_TORCH) scripts/run-tests.sh tests/torch/test_torch.sh tests/torch/test_torchcomms.sh

# The README's first commands on a Debian 12 where nothing is installed. CUDA=1 shows it this machine's CUDA toolkit.
.PHONY: test-bare
test-bare:
	@scripts/bare-debian.sh $(if $(filter 1,$(CUDA)),--cuda) || [ $$? = 77 ]

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

# Breaks algorithms on purpose and reports what no check notices. MUTANTS=--all: every place, which takes hours (--resume: goes on).
.PHONY: mutants
mutants:
	@scripts/deps.sh test
	@$(AGAIN) $(TOOLS) $(BUILD)/tests/unit/test_algorithms
	LIBS='$(PRIVATE_LIBS)' scripts/mutants.py --build $(BUILD) $(MUTANTS)

.PHONY: lab-slow
lab-slow: all $(BUILD)/bench/slow_link
	@BUILD=$(BUILD) scripts/lab-slow.sh
.PHONY: bench-forecasts bench-peers bench-regret bench-instructions bench-trace bench-first-calls bench-reduce bench-overlap bench-rendezvous bench-far
.PHONY: scaling
bench-peers: all
	scripts/bench-peers.sh
.PHONY: peers-archive
peers-archive: libs
	@BUILD=$(BUILD) scripts/peers.sh archive
bench-regret: $(BUILD)/bin/collet-tune
	$(BUILD)/bin/collet-tune --regret --procs 2,4
$(BUILD)/bench/instructions: bench/instructions.c $(STATIC_LIB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 $(PUBLIC_INCLUDES) $< -o $@ $(STATIC_LIB) $(PRIVATE_LIBS)
bench-instructions: $(BUILD)/bench/instructions
	scripts/instructions.sh $<
$(BUILD)/bench/trace: bench/trace.c $(STATIC_LIB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -D_GNU_SOURCE $(PUBLIC_INCLUDES) $< -o $@ $(STATIC_LIB) $(PRIVATE_LIBS)
$(BUILD)/bench/first_calls: bench/first_calls.c $(STATIC_LIB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -D_GNU_SOURCE $(PUBLIC_INCLUDES) $< -o $@ $(STATIC_LIB) $(PRIVATE_LIBS)
bench-first-calls: $(BUILD)/bench/first_calls
	@$< 8
bench-trace: $(BUILD)/bench/trace
	@$< 500 8 512 4096 65536
$(BUILD)/bench/reduce: $(OBJ)/bench/reduce.o $(INTERNAL_LIB)
	$(LINK_PROGRAM)
bench-forecasts: $(BUILD)/tests/unit/test_forecasts
	$<

bench-reduce: $(BUILD)/bench/reduce
	@$<
$(OBJ)/bench/rendezvous.o: INCLUDES = $(INTERNAL_INCLUDES) -Itests
$(BUILD)/bench/rendezvous: $(OBJ)/bench/rendezvous.o $(call objects_of,tests/common/guests.c) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
bench-rendezvous: $(BUILD)/bench/rendezvous
	@$<
$(BUILD)/bench/slow_link: bench/slow_link.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -std=gnu11 -D_GNU_SOURCE -Wall -Wextra $(WERROR) $< -o $@
bench-overlap: $(BUILD)/bench/slow_link $(BUILD)/bin/overlap_host
	@echo 'two hosts, one rank on each, over a link that takes 10 ms'
	@$(BUILD)/bench/slow_link $(BUILD)/bin/overlap_host || [ $$? = 77 ]
	@echo; echo 'one rank per two CPUs of this host, but two at least'
	@$(BUILD)/bin/overlap_host --procs $$(( $(JOBS) > 4 ? $(JOBS) / 2 : 2 ))
bench-far: $(BUILD)/bench/slow_link $(BUILD)/bin/broadcast_perf
	@BUILD=$(BUILD) scripts/bench-far.sh
scaling: $(BUILD)/bin/collet-sim
	@BUILD=$(BUILD) scripts/scaling.sh

# ---------------------------------------------------------------------------------------------------------------- course

.PHONY: lab1 lab2 lab3 lab4 lab5 lab6 lab7 lab8
PROG_OBJECTS := $(call objects_of,$(wildcard src/layers/tools/prog/*.c))
lab1 lab2 lab3 lab4 lab5 lab6 lab7 lab8: $(INTERNAL_LIB) $(PROG_OBJECTS) $(BUILD)/bin/collet-sim
	@BUILD=$(BUILD) CC="$(CC)" PROG_OBJECTS="$(PROG_OBJECTS)" PRIVATE_LIBS="$(PRIVATE_LIBS)" docs/course/lab.sh $(@:lab%=%)

# --------------------------------------------------------------------------------------------------------------- install

.PHONY: man install uninstall deb
INSTALLED_PROGRAMS := $(TOOLS) $(if $(shell command -v python3),$(SCRIPT_TOOLS)) $(PERFS)
CMAKEDIR      = $(LIBDIR)/cmake/collet
# What examples/CMakeLists.txt and examples/Makefile build outside this tree.
EXAMPLE_FILES = $(wildcard examples/*.c examples/*.cc examples/CMakeLists.txt examples/Makefile)
EXAMPLE_HEADERS = $(wildcard examples/common/*.h)
# Writes packaging/NAME.in to a folder, its @WORDS@ filled in.
fill = sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCDIR@|$(INCDIR)|; s|@VERSION@|$(VERSION)|; s|@ABI@|$(ABI)|; s|@SO_NAME@|$(SO_NAME)|' \
    -e 's|@INCDIR_FROM_CMAKE@|$(shell realpath -m --relative-to=$(CMAKEDIR) $(INCDIR))|; s|@PRIVATE_LIBS@|$(PRIVATE_LIBS)|' \
    -e 's|@PRIVATE_LIST@|$(shell echo $(PRIVATE_LIBS) | tr ' ' ';')|' packaging/$(1).in > $(DESTDIR)$(2)/$(1)

man: $(BUILD)/man/made
$(BUILD)/man/made: include/collet.h scripts/man-pages.sh scripts/man-pages.awk $(INSTALLED_PROGRAMS)
	$(Q)scripts/man-pages.sh $(abspath $(BUILD)/man $(INSTALLED_PROGRAMS))
	@touch $@

install: all man
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(CMAKEDIR) $(INCDIR) $(MANDIR)/man1 $(MANDIR)/man3 $(MANDIR)/man7 $(DOCDIR)/examples/common)
	install -m 644 include/collet.h $(DESTDIR)$(INCDIR)/
	install -m 755 $(SHARED_LIB) $(DESTDIR)$(LIBDIR)/libcollet.so.$(VERSION)
	ln -sf libcollet.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(LIBDIR)/libcollet.so
	install -D -m 755 -t $(DESTDIR)$(LIBDIR)/collet $(NCCL_LIB) $(NET_LIB)
	install -D -m 644 -t $(DESTDIR)$(INCDIR)/collet/compat include/compat/*.h
	install -m 644 $(STATIC_LIB) $(DESTDIR)$(LIBDIR)/
	$(call fill,collet.pc,$(LIBDIR)/pkgconfig)
	$(call fill,collet-config.cmake,$(CMAKEDIR))
	$(call fill,collet-config-version.cmake,$(CMAKEDIR))
	$(if $(INSTALLED_PROGRAMS),install -m 755 $(INSTALLED_PROGRAMS) $(DESTDIR)$(BINDIR)/)
	for section in 1 3 7; do install -m 644 $(BUILD)/man/man$$section/* $(DESTDIR)$(MANDIR)/man$$section/; done
	$(if $(EXAMPLE_FILES),install -m 644 $(EXAMPLE_FILES) $(DESTDIR)$(DOCDIR)/examples/)
	$(if $(EXAMPLE_HEADERS),install -m 644 $(EXAMPLE_HEADERS) $(DESTDIR)$(DOCDIR)/examples/common/)
	@echo 'installed in $(DESTDIR)$(PREFIX): GPU kernels for $(if $(WITH_CUDA),$(strip $(CUDA_CODE)),no GPU)'

uninstall:
	rm -f $(DESTDIR)$(INCDIR)/collet.h $(DESTDIR)$(LIBDIR)/pkgconfig/collet.pc
	rm -rf $(DESTDIR)$(LIBDIR)/collet $(DESTDIR)$(INCDIR)/collet
	rm -f $(DESTDIR)$(LIBDIR)/libcollet.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SO_NAME) $(DESTDIR)$(LIBDIR)/libcollet.so $(DESTDIR)$(LIBDIR)/libcollet.a
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(INSTALLED_PROGRAMS))) $(addsuffix .1,$(addprefix $(DESTDIR)$(MANDIR)/man1/,$(notdir $(INSTALLED_PROGRAMS))))
	rm -f $(DESTDIR)$(MANDIR)/man3/collet_*.3 $(DESTDIR)$(MANDIR)/man7/collet.7
	rm -rf $(DESTDIR)$(CMAKEDIR) $(DESTDIR)$(DOCDIR)

# The same as Debian packages: the library, what building with it needs, and the programs.
deb: all man
	@BUILD=$(BUILD) packaging/deb.sh '$(MAKE) --no-print-directory' $(DEB_DIR)

# A release: what `make install` installs, and the licence, in one archive to be unpacked anywhere. Its programs are linked
# statically; its pkg-config file gives the folder that it lies in. Kernels for every GPU, where nvcc is.
.PHONY: dist
RELEASE := collet-$(VERSION)-$(shell uname -s | tr A-Z a-z)-$(shell uname -m)
dist:
	@$(AGAIN) BUILD=build-dist CUDA_ARCH=all all
	@rm -rf build-dist/$(RELEASE)
	@$(MAKE) --no-print-directory BUILD=build-dist CUDA_ARCH=all PREFIX=/ DESTDIR=build-dist/$(RELEASE) BINDIR=/bin LIBDIR=/lib INCDIR=/include MANDIR=/share/man DOCDIR=/share/doc/collet install
	@sed -i -e 's|^prefix=.*|prefix=$${pcfiledir}/../..|' -e 's|^libdir=.*|libdir=$${prefix}/lib|' -e 's|^includedir=.*|includedir=$${prefix}/include|' \
	    build-dist/$(RELEASE)/lib/pkgconfig/collet.pc
	@install -m 644 LICENSE README.md CHANGELOG.md build-dist/$(RELEASE)/
	@strip --strip-debug build-dist/$(RELEASE)/lib/libcollet.so.$(VERSION) build-dist/$(RELEASE)/lib/libcollet.a build-dist/$(RELEASE)/lib/collet/libnccl*.so*
	@find build-dist/$(RELEASE)/bin -type f ! -exec grep -qI . {} \; -exec strip --strip-debug {} +
	@tar -C build-dist -czf build-dist/$(RELEASE).tar.gz $(RELEASE)
	@ls -sh build-dist/$(RELEASE).tar.gz

# For gdb: no optimisation, and no GPU kernels.
.PHONY: gdb
gdb:
	@$(AGAIN) BUILD=build-gdb CUDA=0 CFLAGS='-g -O0' all

.PHONY: gallery
gallery: $(BUILD)/bin/collet-prog
	@mkdir -p $(BUILD)/gallery
	@scripts/playground.sh $(BUILD)/gallery/playground.html || [ $$? = 3 ]
	@BUILD=$(BUILD) scripts/gallery.sh $(BUILD)/gallery
# The playground in a browser; half a minute of a CPU to build it, so it is not part of `make test`.
.PHONY: test-playground
test-playground:
	@tests/browser/test_playground.sh
.PHONY: docs-site
docs-site: gallery
	@scripts/deps.sh site && scripts/docs-site.sh $(BUILD)/site $(BUILD)/gallery

# ----------------------------------------------------------------------------------------------------------- housekeeping

.PHONY: format format-check clean help
FORMATTED = git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.cuh'
format:
	$(FORMATTED) | xargs -r $(CLANGFORMAT) -i
format-check:
	$(FORMATTED) | xargs -r $(CLANGFORMAT) --dry-run -Werror
clean:
	rm -rf $(BUILD) $(BUILD)-90 build-asan build-tsan build-fuzz build-dist build-gdb

help:
	@echo 'make               libraries in build/lib, programs in build/bin'
	@echo 'make demo          installs what is missing, builds, runs an allreduce among 4 processes'
	@echo 'make test          installs what is missing, builds, runs the tests (minutes)'
	@echo 'make check         the fast part of the tests (about a minute on 2 CPUs)'
	@echo 'make test-full     every combination of collective, type, algorithm, transport … (long)'
	@echo 'make asan tsan     the fast tests under gcc'"'"'s sanitizers, built in build-asan, build-tsan'
	@echo 'make asan-all tsan-all  all test programs under them (an hour each); PART=2/8: each eighth one, from the second on;'
	@echo "                   PROGRAMS='unit/test_tcp unit/test_chan': these alone. make test takes both, too"
	@echo 'make test-nccl-abi libnccl.so.2 in NCCL'"'"'s place (a minute; NCCL_HOME=, NCCL_TESTS= name what it is compared with)'
	@echo 'make demo-torch    installs PyTorch if it is missing, trains a model with DDP on gloo and on collet'
	@echo 'make test-torch    PyTorch'"'"'s own distributed tests on collet, where PyTorch is installed (minutes; TEST_TORCH=all: every one;'
	@echo '                   TORCH=pypi: on the newest release, which is downloaded into $(BUILD)/torch-pypi, 5 GB)'
	@echo 'make bench-torch   torch.distributed on gloo and on collet, side by side (a minute; DOCS=1: into docs/pytorch.md, too)'
	@echo 'make test-faults   kills, stops and aborts ranks on purpose, and prints what was survived (2 minutes; SEEDS=, FIRST=)'
	@echo 'make soak          random communicators, calls and deaths for half an hour; memory, threads and descriptors stay (SOAK_SECONDS=, SOAK_SEED=)'
	@echo 'make test-model    the slot layer in all interleavings, and broken on purpose (a minute); model: larger cases, too'
	@echo 'make test-litmus   how GPUs hand over slots and lines, in all executions that PTX allows (a second; python3)'
	@echo 'make test-fuzz     what comes from others, fuzzed, the same inputs each time; fuzz: an hour per target (FUZZ_SECONDS=)'
	@echo 'make test-slurm    jobs by srun of a real Slurm, where it is installed'
	@echo 'make test-fabric   between two virtual hosts with software RDMA (minutes); fabric-shell: to try things in them'
	@echo 'make test-bare     the commands of README on a Debian 12 with nothing installed (as root, with a network; CUDA=1: with nvcc)'
	@echo 'make gpu-accept    everything that a GPU has to show, in one report (5 minutes, ACCEPT_SECONDS=; skipped where there is none;'
	@echo '                   PEERS_SECONDS=480: then MPI libraries beside collet, on 8 CPUs or more)'
	@echo 'make test-gpu-sim  the kernels as nvcc made them, and the library over them, on a simulated GPU machine (minutes; needs nvcc)'
	@echo 'make sass-lint     what ptxas makes of some kernels, in figures and rules (a minute; needs nvcc, and nvdisasm or pip)'
	@echo 'make bench-gpu-sim fences, polls and bytes in flight of the kernels, and calls of CUDA per collective, counted there'
	@echo 'make gpu-accept-bundle  the same in a folder, for a machine without a compiler; kernels for every GPU, or CUDA_ARCH=90: in minutes'
	@echo 'make test-gpu-sim-full  kernels as nvcc made them, on a simulated GPU machine: 1,000 runs, and mutations that must fail'
	@echo 'make test-gpu-sim-torch  NCCL'"'"'s backend of PyTorch and its CUDA graphs on that machine (PYTHON= names one with a torch for CUDA)'
	@echo 'make gallery       a page per algorithm that a browser animates, in build/gallery; with emscripten a playground too'
	@echo 'make test-playground  the playground in a browser (needs emscripten and Chromium; half a minute of a CPU)'
	@echo 'make lab1 … lab8   the labs of docs/course (HINT=1: a hint)'
	@echo 'make lab-slow      bad cases made on purpose, beside healthy jobs: docs/slow.md (half a minute)'
	@echo 'make docs-site     the documents, with search and the gallery, in build/site (installs Sphinx; a minute)'
	@echo 'make bench-peers   measures collet beside the MPI libraries that are installed'
	@echo 'make peers-archive  the newest MPI libraries and the loops in one file, to measure on a machine without compiler and network'
	@echo 'make bench-overlap what calls on a stream hide of their time, over a link that takes 10 ms and in memory (a minute)'
	@echo 'make bench-far     a broadcast over a link with a round trip of 50 ms, and plain sockets, by turns (a minute)'
	@echo 'make bench-rendezvous  time, memory and descriptors of a root that 100, 1,000 and 10,000 processes meet at'
	@echo 'make bench-forecasts  what the cost model predicts beside published figures, with their sources (seconds)'
	@echo 'make bench-reduce  speed of each type and operator beside a sum of floats, in cache'
	@echo 'make bench-instructions  instructions of a warm call, under valgrind'
	@echo 'make bench-first-calls  how soon two ranks are fast that the scheduler has put onto one CPU (a second; needs 2 free CPUs)'
	@echo 'make bench-trace   what COLLET_TRACE costs, in time: calls with and without it, in turns (seconds; needs 2 free CPUs)'
	@echo 'make mutants       breaks algorithms on purpose and reports what no check notices (minutes)'
	@echo 'make bench-regret  the cost model'"'"'s choices beside the best ones, for 2 and 4 ranks on this machine (minutes)'
	@echo 'make scaling       prints the tables of docs/scaling.md: predictions for up to 131,072 ranks (minutes)'
	@echo 'make install       PREFIX=/usr/local DESTDIR= ; make uninstall; make man: the manual pages alone'
	@echo 'make deb           Debian packages in build/deb (DEB_DIR=): libcollet$(ABI), libcollet-dev, collet-tools'
	@echo 'make dist          a release in one archive: library, header, programs, licence, kernels for every GPU (many minutes of CPU time)'
	@echo 'make gdb           the same as make, in build-gdb, without optimisation and GPU kernels'
	@echo 'make format        clang-format over all tracked C files; format-check only looks'
	@echo 'make clean'
	@echo 'Variables: V=1 CC CFLAGS LDFLAGS WERROR= BUILD=build CUDA=auto|0|1 NVCC CUDA_ARCH=auto|ptx|all|90 JOBS PREFIX DESTDIR LIBDIR'

include mk/core.mk

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
