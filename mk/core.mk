# SPDX-License-Identifier: Apache-2.0
#
# The core alone: collectives, messages and groups of host ranks over self, shm and tcp. Its only package is libsodium.
#
#    make core         build/core/libcollet.a; LAYERS="verbs topology" adds these
#    make -s core-files    the files that it compiles or includes
#    make -s core-seams    the names by which the core knows its layers

.PHONY: core core-files core-seams
LAYERS      ?=
files_of_layer = $(filter $(layer_$(1)),$(LIB_SOURCES))
SEAM_SOURCES := $(wildcard src/seams/*.c)
CORE_SOURCES := $(filter-out $(foreach l,$(ALL_LAYERS),$(layer_$(l))) src/seams/%,$(wildcard src/*/*.c))
CORE_SOURCES := $(filter-out src/tools/% src/forecast/% src/kernels/reduce_variant.c,$(CORE_SOURCES))
CORE_OBJECTS := $(call objects_of,$(CORE_SOURCES)) $(VARIANT_OBJECTS)
ABSENT       := $(filter-out $(LAYERS),$(ALL_LAYERS))
CORE_LINK    := $(CORE_OBJECTS) $(call objects_of,$(foreach l,$(LAYERS),$(call files_of_layer,$(l))) $(wildcard $(ABSENT:%=src/seams/%.c)))
CORE_LIB     := $(BUILD)/core/libcollet.a

core: $(CORE_LIB)
$(CORE_LIB): $(CORE_LINK)
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)ar rcs $@ $^
core-files:
	@$(AGAIN) core >&2
	@cat $(CORE_LINK:.o=.d) | tr -d '\\' | tr ' ' '\n' | grep -E '^(src|include)/.*[^:]$$' | sort -u
core-seams:
	@$(AGAIN) core >&2
	@{ nm $(CORE_OBJECTS) | sed -n 's/^ * U //p' | sort -u; nm $(call objects_of,$(SEAM_SOURCES)) | awk 'NF == 3 && $$2 ~ /[TDBR]/ { print $$3 }' | sort -u; } | sort | uniq -d
.PHONY: core-objects
core-objects:
	@echo $(CORE_LINK)
