# SPDX-License-Identifier: Apache-2.0
#
# What comes from others, fuzzed by clang's libFuzzer; without clang only the corpus is tried. test-fuzz tries the same inputs
# each time ("again"), campaign-fuzz new ones.

.PHONY: test-fuzz fuzz-run fuzzers
FUZZ_ENGINE  := $(if $(findstring fuzz,$(MAKECMDGOALS)),$(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer - -o /dev/null 2>/dev/null && echo yes))
FUZZERS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BUILD   := BUILD=build-fuzz CUDA=0 SANITIZE=address,undefined WERROR= $(if $(FUZZ_ENGINE),CC=clang CFLAGS='-g1 -fsanitize=fuzzer-no-link')
test-fuzz:
	@scripts/deps.sh fuzz || true
	+@$(AGAIN) fuzz-run
fuzz-run:
	+@$(AGAIN) $(FUZZ_BUILD) fuzzers
	@BUILD=build-fuzz tests/fuzz/fuzz.sh $(if $(FUZZ_ENGINE),again,0)
fuzzers: $(FUZZERS)
$(FUZZERS): $(BUILD)/%: $(OBJ)/%.o $(OBJ)/tests/fuzz/common.o $(if $(FUZZ_ENGINE),,$(OBJ)/tests/fuzz/replay.o) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
$(FUZZERS): TEST_LIBS = $(if $(FUZZ_ENGINE),-fsanitize=fuzzer)
