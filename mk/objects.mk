# SPDX-License-Identifier: Apache-2.0
#
# From a source to its object: build/obj/FOLDER/NAME.o, and what single files are compiled with.

# $(call stamp,FILE,VARIABLE): a file with the variable's text, written when the text changes and at no other time. It is compared
# here, not in the recipe. So variables of a target that needs the file do not reach it, and `make -n` and `make -q` are right.
define stamp
$(1): FORCE
ifeq ($$(strip $$(shell cat $(1) 2>/dev/null || echo none)),$$(strip $$($(2))))
	+@:
else
	@mkdir -p $$(@D)
	@echo '$$($(2))' > $$@
endif
endef
.PHONY: FORCE
FORCE:

# Objects are made anew when the compiler or its flags change, and not before what they need is there.
FLAGS_NOW := $(if $(WITH_CUDA),CUDA) $(CC) $(BASE_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
$(eval $(call stamp,$(BUILD)/flags,FLAGS_NOW))

# The core alone needs less than the library.
NEEDS := $(BUILD)/needs$(if $(MAKECMDGOALS),$(if $(filter-out core,$(MAKECMDGOALS))$(LAYERS),,.core))
$(BUILD)/needs $(BUILD)/needs.core: scripts/deps.sh
	@mkdir -p $(@D)
	@COLLET_NO_INSTALL=1 scripts/deps.sh $(if $(filter %.core,$@),core,build)
	$(if $(filter %.core,$@)$(SANITIZE),,@scripts/found.sh '$(CC)' '$(CXX)' '$(if $(WITH_CUDA),$(NVCC))' '$(strip $(CUDA_CODE))')
	@touch $@

$(OBJ)/%.o: INCLUDES = $(INTERNAL_INCLUDES)
$(OBJ)/src/layers/tools/%.o: INCLUDES = $(INTERNAL_INCLUDES) -I.
$(OBJ)/examples/%.o: INCLUDES = $(PUBLIC_INCLUDES)
# The perf programs share the table of types (base/types.h) and the reading of options with the library and its tools.
$(OBJ)/examples/perf/%.o: INCLUDES = $(PUBLIC_INCLUDES) -Isrc
$(OBJ)/tests/%.o: INCLUDES = $(INTERNAL_INCLUDES) -Itests

$(OBJ)/%.o: %.c $(BUILD)/flags | $(NEEDS)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c $< -o $@

$(call objects_of,$(filter %.c,$(ACCEPT_SOURCES))): CPPFLAGS += -Iexamples
$(OBJ)/tests/gpu/accept_kernels.o: NVCC_DEFINES = -Itests -Iexamples
$(call objects_of,src/layers/gpu/registry.c tests/gpu/test_accept.c tests/layers/gpu/test_cuda_context.c examples/perf/device.c): CPPFLAGS += $(if $(WITH_CUDA),-DCOLLET_CUDA)
$(call objects_of,$(CUDA_SOURCES) tests/common/gpu_side_cuda.c tests/layers/gpu/test_cuda_context.c examples/perf/device_cuda.c): CPPFLAGS += -I$(CUDA_HOME)/include

# The list of the layers of a link: of all of them here, of those in LAYERS in mk/core.mk.
ALL_MOMENTS := $(call moments_of,$(LIB_LAYERS))
$(eval $(call stamp,$(BUILD)/moments,ALL_MOMENTS))
$(OBJ)/src/seams/list.o: $(BUILD)/moments
$(OBJ)/src/seams/list.o: CPPFLAGS += -DMOMENTS='$(ALL_MOMENTS)'

# The device executor's source in C++, for tests that run it on the host.
COMPILE_CXX = $(CXX) $(filter-out -std=% -D_GNU_SOURCE=,$(BASE_FLAGS)) -std=gnu++17 $(CXX_BARE) $(CXX_QUIET) $(if $(SANITIZE),-O0,-O1) $(INCLUDES) $(CPPFLAGS) $(CFLAGS)
CXX_QUIET  := -Wno-unknown-pragmas
CXX_BARE   := -fno-exceptions -fno-rtti
$(OBJ)/examples/%.o: CXX_BARE =
$(OBJ)/%.o: %.cc $(BUILD)/flags | $(NEEDS)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(COMPILE_CXX) -c $< -o $@
