# SPDX-License-Identifier: Apache-2.0
#
# What comes from others, fuzzed by clang's libFuzzer; without clang only the corpus is tried. test-fuzz tries the same inputs
# each time ("again"), campaign-fuzz new ones.

.PHONY: test-fuzz fuzz-run fuzzers
FUZZERS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
test-fuzz:
	@scripts/deps.sh fuzz || true
	+@$(AGAIN) fuzz-run
fuzz-run:
	+@$(AGAIN) $(call SANITIZED,asan) fuzzers
	@BUILD=build-asan tests/fuzz/fuzz.sh $(if $(FUZZ_ENGINE),again,0)
fuzzers: $(FUZZERS)
$(FUZZERS): $(BUILD)/%: $(OBJ)/%.o $(OBJ)/tests/fuzz/common.o $(if $(FUZZ_ENGINE),,$(OBJ)/tests/fuzz/replay.o) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(FUZZERS): TEST_LIBS = $(if $(FUZZ_ENGINE),-fsanitize=fuzzer)
