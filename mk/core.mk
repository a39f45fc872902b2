# SPDX-License-Identifier: Apache-2.0
#
# The core alone: collectives, messages and groups of host ranks over self, shm and tcp. Its only package is libsodium.
#
#    make core         build/core/libcollet.a; LAYERS="verbs topology" adds these, and the layers that they need
#    make -s core-files    the files that it compiles or includes
#    make -s core-seams    the names by which the core knows its layers, the slots that they fill, conditionals on layers
#    make -s core-links    how to link a program with no layer, with each alone (and what it needs), and with all

.PHONY: core core-alone core-files core-seams core-links
LAYERS      ?=
ifneq ($(filter-out $(LIB_LAYERS),$(LAYERS)),)
$(error LAYERS=$(LAYERS): the layers are $(LIB_LAYERS))
endif
LINKED       := $(call with_needs,$(LAYERS))
SEAM_SOURCES := $(filter-out src/seams/list.c,$(wildcard src/seams/*.c))
# What takes longest comes first: then no CPU waits at the end.
CORE_OBJECTS := $(VARIANT_OBJECTS) $(call objects_of,$(filter-out $(VARIANT_FILE),$(CORE_SOURCES)))
# What is linked for these layers: the core, their objects, and stand-ins for the others.
link_of       = $(CORE_OBJECTS) $(call objects_of,$(call lib_sources_of,$(1)) \
    $(wildcard $(patsubst %,src/seams/%.c,$(filter-out $(1),$(LIB_LAYERS))))) $(if $(filter gpu,$(1)),$(CUDA_OBJECTS))
CORE_LINK    := $(call link_of,$(LINKED)) $(BUILD)/core/list.o
CORE_LIB     := $(BUILD)/core/libcollet.a

core:
	+@$(AGAIN) core-alone
core-alone: $(CORE_LIB)
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
	@$(MAKE) -s --no-print-directory core-files | xargs grep -nE '^ *# *(el)?if.*(COLLET_CUDA|COLLET_LAYER|WITH_|HAVE_)' || true
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

# Tests of the core alone: every program of tests/core. Links with other layers run some of these, and those of tests/layers/NAME.
# Each has tests/common/part.c for what it names and has not. That comes last: a linker looks into no library for what an object
# before it has, even if that is weak.
.PHONY: test-core core-tests test-links
PART_COMMON  := $(BUILD)/core/tests/common.a
$(PART_COMMON): $(call objects_of,$(filter-out tests/common/whole.c,$(TEST_COMMON)))
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
SODIUM       := $(shell $(PKGCONFIG) --libs libsodium 2>/dev/null)
PART         := $(call objects_of,tests/common/part.c)
LINK_PART     = $(Q)$(LINK) -o $@ $(filter-out $(PART),$(filter %.o,$^)) $(LINKED_LIB) $(PART_COMMON) $(LINKED_LIB) $(PART) -lcmocka
CORE_PROGRAMS := $(patsubst tests/%.c,$(BUILD)/core/tests/%,$(filter-out tests/core/test_soak.c,$(wildcard tests/core/test_*.c)))
$(CORE_PROGRAMS): LINKED_LIB = $(CORE_LIB)
$(CORE_PROGRAMS): $(BUILD)/core/tests/%: $(OBJ)/tests/%.o $(PART_COMMON) $(PART) $(CORE_LIB)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(LINK_PART) $(SODIUM) -pthread -lm
# What calls enter, for tests/whole/entered.sh: linked with the core alone, and with all.
.PHONY: entered
ENTERED := $(OBJ)/tests/whole/entered.o
entered: $(BUILD)/core/entered $(BUILD)/entered
$(BUILD)/core/entered: $(ENTERED) $(CORE_LIB)
	$(call say,LINK)
	$(Q)$(LINK) -o $@ $^ $(SODIUM) -pthread -lm
$(BUILD)/entered: $(ENTERED) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
.PHONY: walk
walk:
	+@$(AGAIN) CUDA=0 BUILD=build-gdb CFLAGS='-gdwarf-4 -O0 -finstrument-functions' entered >&2
	@tests/whole/entered.sh $(or $(OF),core) $(or $(BY),shm) $(or $(CALL),allreduce)
core-tests: $(CORE_PROGRAMS)
test-core:
	@scripts/deps.sh test
	+@$(AGAIN) core-tests
	@BUILD=$(BUILD)/core SEEDS=$(SEEDS) COLLET_TEST_TIMEOUT=400 scripts/run-tests.sh --level fast --jobs $(TEST_JOBS) $(CORE_PROGRAMS)
	@echo "lines of the core: $$($(MAKE) -s --no-print-directory core-files | xargs cat | wc -l), at most $$(sed -n 's/^lines //p' tests/core/limits.txt)"
	@echo "seams of the core: $$($(MAKE) -s --no-print-directory core-seams | wc -l), at most $$(sed -n 's/^seams //p' tests/core/limits.txt)"

# The core with each layer alone (and what that layer needs, or what its tests call): build/links/NAME has the library and its tests.
# tests/whole/test_layers.sh links each layer with its needs alone.
tests_call_tuner    := many
tests_call_vectors  := streams
tests_call_gpu      := many vectors memory
tests_call_memory   := vectors windows
tests_call_streams  := vectors
tests_call_windows  := vectors
tests_call_verifier := many
in_link_of           = $(call with_needs,$(1) $(tests_call_$(1)))
LINK_TESTS   := core/test_calls core/test_boot_ids
tests_of_link = $(LINK_TESTS) $(patsubst tests/%.c,%,$(wildcard tests/layers/$(1)/test_*.c))
define LINK_OF_LAYER
$(BUILD)/links/$(1)/list.o: INCLUDES = $$(INTERNAL_INCLUDES)
$(BUILD)/links/$(1)/list.o: CPPFLAGS += $$(call list_flags,$$(call in_link_of,$(1)))
$(BUILD)/links/$(1)/list.o: src/seams/list.c mk/layers.mk mk/core.mk $(BUILD)/flags | $(NEEDS)
	@mkdir -p $$(@D)
	$$(call say,CC)
	$$(Q)$$(COMPILE) -c $$< -o $$@
$(BUILD)/links/$(1)/libcollet.a: $(call link_of,$(call in_link_of,$(1))) $(BUILD)/links/$(1)/list.o
	$$(call say,AR)
	@rm -f $$@
	$$(Q)$$(AR) rcsD $$@ $$(filter %.o,$$^)
$(addprefix $(BUILD)/links/$(1)/tests/,$(call tests_of_link,$(1))): LINKED_LIB = $(BUILD)/links/$(1)/libcollet.a
$(addprefix $(BUILD)/links/$(1)/tests/,$(call tests_of_link,$(1))): $(BUILD)/links/$(1)/tests/%: $(OBJ)/tests/%.o $(PART_COMMON) $(PART) $(BUILD)/links/$(1)/libcollet.a
	@mkdir -p $$(@D)
	$$(call say,LINK)
	$$(LINK_PART) $$(PRIVATE_LIBS)
LINK_PROGRAMS += $(addprefix $(BUILD)/links/$(1)/tests/,$(call tests_of_link,$(1)))
endef
LINK_PROGRAMS :=
$(foreach l,$(LIB_LAYERS),$(eval $(call LINK_OF_LAYER,$(l))))
test-links:
	@scripts/deps.sh test
	+@$(AGAIN) $(LINK_PROGRAMS)
	@COLLET_TEST_TIMEOUT=400 scripts/run-tests.sh --level fast --jobs $(TEST_JOBS) $(LINK_PROGRAMS)
