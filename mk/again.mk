# SPDX-License-Identifier: Apache-2.0
#
# Makes that call make. Two rules keep them apart:
#
#    a line that calls one begins with "+"     the child shares the caller's jobs: make -j8 runs eight in all, not one and not 64
#    one make at a time builds in a folder     two would compile the same file at once

# A child make: it sees what deps.sh has just installed, and uses all CPUs unless the caller chose otherwise.
AGAIN = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

# These goals only build, in this make. Several goals of which one does more are made one after another, each with all jobs.
ONLY_BUILD := all libs portable tests core core-alone core-tests core-objects fuzzers cuda-kernels man static-link $(BUILD)/%
ONE_BY_ONE := $(and $(word 2,$(MAKECMDGOALS)),$(filter-out $(ONLY_BUILD),$(MAKECMDGOALS)))
ifneq ($(ONE_BY_ONE),)
.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)
$(sort $(MAKECMDGOALS)):
	+@$(MAKE) --no-print-directory $@
endif
