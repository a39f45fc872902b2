# SPDX-License-Identifier: Apache-2.0
#
# From objects and a library to programs: tools, examples, tests.

define LINK_PROGRAM
@mkdir -p $(@D)
$(call say,LINK)
$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(PRIVATE_LIBS) $(TEST_LIBS)
endef

$(TOOLS): $(BUILD)/bin/%: $(OBJ)/src/layers/tools/%.o $(call objects_of,$(wildcard src/layers/tools/common/*.c)) $(FORECAST_LIB) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
# A tool of several files has a folder; collet-tune takes its meetings from the bench.
# The test of a layer is linked with the whole library, and with no more than the layer needs (mk/core.mk).
test_of = $(BUILD)/tests/layers/$(1)/test_$(2) $(BUILD)/links/$(1)/tests/layers/$(1)/test_$(2)
$(BUILD)/bin/collet-prog $(BUILD)/tests/layers/tools/test_program $(call test_of,verifier,verifier): $(call objects_of,$(wildcard src/layers/tools/prog/*.c))
$(BUILD)/bin/collet-prog: $(call objects_of,$(wildcard src/layers/tools/lines/*.c))
$(BUILD)/tests/layers/tools/test_lines: $(call objects_of,src/layers/tools/lines/count.c)
$(OBJ)/src/layers/tools/prog/page_text.o: src/layers/tools/prog/page.html
$(OBJ)/src/layers/tuner/cards.o: $(wildcard src/layers/tuner/cards/*.tuning)
$(BUILD)/bin/collet-plot: $(call objects_of,$(wildcard src/layers/tools/plot/*.c))
$(BUILD)/bin/collet-sim: $(call objects_of,$(wildcard src/layers/tools/sim/*.c))
$(BUILD)/bin/collet-status: $(call objects_of,$(wildcard src/layers/tools/status/*.c))
$(BUILD)/tests/layers/tools/test_status: $(call objects_of,$(filter-out %/screen.c,$(wildcard src/layers/tools/status/*.c)))
$(BUILD)/bin/collet-tune: $(call objects_of,$(wildcard src/layers/tools/tune/*.c) bench/board.c)
$(SCRIPT_TOOLS): $(BUILD)/bin/%: src/layers/tools/%.py integrations/python/collet/_options.py include/collet.h
	@mkdir -p $(@D)
	$(Q)sed -e 's/@VERSION@/$(VERSION)/' -e '/^# @OPTIONS@$$/{r $(word 2,$^)' -e 'd;}' $< > $@ && chmod 755 $@
$(PERFS): $(BUILD)/bin/%: $(OBJ)/examples/perf/%.o $(call objects_of,$(PERF_COMMON) src/layers/tools/common/arguments.c src/layers/observe/json.c src/base/plain.c src/base/spelling.c) | $(BUILD)/lib/libcollet.so
	$(LINK_PROGRAM)
# They are programs of users: linked with the shared library, which lies beside them in a build and in an installation.
$(PERFS): private TEST_LIBS = -L$(BUILD)/lib -lcollet -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'
$(PERFS): private PACKAGE_LIBS =
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
%/tests/whole/test_memory %/tests/core/test_faults %/tests/layers/windows/test_gpu_windows %/tests/core/test_boot: LINK_FLAGS += $(REFUSED:%=-Wl,--wrap=%)
$(BUILD)/tests/whole/test_fork: LINK_FLAGS += -Wl,--wrap=dlopen
$(BUILD)/tests/edges/test_secure: LINK_FLAGS += -Wl,--wrap=getauxval
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
$(call test_of,nccl,net_collet): $(call objects_of,$(NET_SOURCES))
$(BUILD)/tests/layers/tools/test_tune_gpu: $(call objects_of,$(wildcard src/layers/tools/tune/*.c) bench/board.c)
$(BUILD)/tests/whole/test_perf_rows: $(call objects_of,$(PERF_COMMON) src/layers/tools/common/arguments.c)
