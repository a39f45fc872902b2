# SPDX-License-Identifier: Apache-2.0
#
# The core alone: collectives, messages and groups of host ranks over self, shm and tcp. Its only package is libsodium.
#
#    make core         build/core/libcollet.a; LAYERS="verbs topology" adds these, and the layers that they need
#    make -s core-files    the files that it compiles or includes
#    make -s core-seams    the names by which the core knows its layers, and the slots that they fill
#    make -s core-links    how to link a program with no layer, with each alone (and what it needs), and with all

.PHONY: core core-files core-seams core-links
LAYERS      ?=
ifneq ($(filter-out $(LIB_LAYERS),$(LAYERS)),)
$(error LAYERS=$(LAYERS): the layers are $(LIB_LAYERS))
endif
LINKED       := $(call with_needs,$(LAYERS))
SEAM_SOURCES := $(filter-out src/seams/list.c,$(wildcard src/seams/*.c))
CORE_OBJECTS := $(call objects_of,$(filter-out $(VARIANT_FILE),$(CORE_SOURCES))) $(VARIANT_OBJECTS)
# What is linked for these layers: the core, their objects, and stand-ins for the others.
link_of       = $(CORE_OBJECTS) $(call objects_of,$(call lib_sources_of,$(1)) \
    $(wildcard $(patsubst %,src/seams/%.c,$(filter-out $(1),$(LIB_LAYERS))))) $(if $(filter gpu,$(1)),$(CUDA_OBJECTS))
CORE_LINK    := $(call link_of,$(LINKED)) $(BUILD)/core/list.o
CORE_LIB     := $(BUILD)/core/libcollet.a

core: $(CORE_LIB)
$(eval $(call stamp,$(BUILD)/core/layers,LINKED))
list_flags = -DMOMENTS='$(call moments_of,$(1))'
$(BUILD)/core/list.o: INCLUDES = $(INTERNAL_INCLUDES)
$(BUILD)/core/list.o: CPPFLAGS += $(call list_flags,$(LINKED))
$(BUILD)/core/list.o: src/seams/list.c $(BUILD)/core/layers $(BUILD)/flags | $(NEEDS)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c $< -o $@
$(CORE_LIB): $(CORE_LINK) $(BUILD)/core/layers
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $(CORE_LINK)
core-files:
	+@$(AGAIN) core >&2
	@cat $(CORE_LINK:.o=.d) | tr -d '\\' | tr ' ' '\n' | grep -E '^(src|include)/.*[^:]$$' | sort -u
core-seams:
	+@$(AGAIN) core >&2
	@{ nm $(CORE_OBJECTS) | sed -n 's/^ * U //p' | sort -u; nm $(call objects_of,$(SEAM_SOURCES)) | awk 'NF == 3 && $$2 ~ /[TDBR]/ { print $$3 }' | sort -u; } | \
	    sort | uniq -d | sed 's/^transport_.*/the table of transports/; s/.*_build$$/the table of algorithms/; s/^\(many\|rails\)_apply$$/the table of algorithms/' | sort -u
	@sed -n 's/^    [^(]*(\*\([a-z_]*\))(.*/struct layer: \1()/p' src/seams/layer.h
.PHONY: core-objects
core-objects:
	@echo $(CORE_LINK)
# A line each: a name, then the command that lacks only "-o FILE". Objects are given one by one, so a name that two define is noticed.
LINK_EXAMPLE := $(OBJ)/examples/local_allreduce.o
LINK_OBJECTS := $(LINK_EXAMPLE) $(LIB_OBJECTS) $(call objects_of,$(SEAM_SOURCES))
link_line = $(info $(1) $(LINK) $(LINK_EXAMPLE) $(call link_of,$(call with_needs,$(2))) $(call list_flags,$(call with_needs,$(2))) $(INTERNAL_INCLUDES) src/seams/list.c $(if $(2),$(PRIVATE_LIBS),$(SODIUM) -pthread -lm))
core-links:
	+@$(AGAIN) $(LINK_OBJECTS) >&2
	@:$(call link_line,none)$(foreach l,$(LIB_LAYERS),$(call link_line,$(l),$(l)))$(call link_line,all,$(LIB_LAYERS))

# Tests of the core alone: programs of tests/ linked with it, and with tests/core/part.c in place of what layers would give them.
.PHONY: test-core core-tests
CORE_TESTS   := unit/test_api unit/test_base unit/test_boot unit/test_boot_deaths unit/test_boot_goodbyes unit/test_boot_ids \
    unit/test_boot_init unit/test_crowd unit/test_net_sockets unit/test_reduce unit/test_tcp unit/test_tcp_connecting unit/test_tree \
    multi/test_determinism multi/test_engine multi/test_threads multi/test_conformance \
    fault/test_death fault/test_intruder fault/test_rendezvous
CORE_PROGRAMS := $(BUILD)/core/tests/fault/test_faults $(CORE_TESTS:%=$(BUILD)/core/tests/%)
CORE_COMMON  := $(BUILD)/core/tests/common.a
$(CORE_COMMON): $(call objects_of,$(filter-out tests/common/whole.c,$(TEST_COMMON)) tests/core/part.c)
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
SODIUM       := $(shell $(PKGCONFIG) --libs libsodium 2>/dev/null)
CORE_LIBS    := -lcmocka $(SODIUM) -pthread -lm
$(CORE_PROGRAMS): $(BUILD)/core/tests/%: $(OBJ)/tests/%.o $(CORE_COMMON) $(CORE_LIB)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -o $@ $^ $(CORE_LIBS)
$(BUILD)/core/tests/unit/test_boot $(BUILD)/core/tests/fault/test_faults: LINK_FLAGS += $(REFUSED:%=-Wl,--wrap=%)
core-tests: $(CORE_PROGRAMS)
test-core:
	@scripts/deps.sh test
	+@$(AGAIN) core-tests
	@BUILD=$(BUILD)/core SEEDS=$(SEEDS) COLLET_TEST_TIMEOUT=400 scripts/run-tests.sh --level fast --jobs $(TEST_JOBS) $(CORE_PROGRAMS)
	@echo "lines of the core: $$($(MAKE) -s --no-print-directory core-files | xargs cat | wc -l), at most $$(sed -n 's/^lines //p' tests/core/limits.txt)"
	@echo "seams of the core: $$($(MAKE) -s --no-print-directory core-seams | wc -l), at most $$(sed -n 's/^seams //p' tests/core/limits.txt)"
