# SPDX-License-Identifier: Apache-2.0
#
# The fast subset of `make test`, built apart and run under a sanitizer; campaign-asan and campaign-tsan run all of it. The script tests
# look at the ordinary build and stay out; so do warnings, of which instrumented code has false ones. If clang is there, what is built
# for the address sanitizer is what the fuzzers are linked with, too.

FUZZ_ENGINE := $(if $(findstring fuzz,$(MAKECMDGOALS))$(findstring asan,$(MAKECMDGOALS))$(findstring leaks,$(MAKECMDGOALS)),$(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer - -o /dev/null 2>/dev/null && echo yes))
variables_asan = SANITIZE=address,undefined $(if $(FUZZ_ENGINE),CC=clang CXX=clang++ CFLAGS='-g1 -fsanitize=fuzzer-no-link -fno-sanitize=function -fno-sanitize=vptr')
variables_tsan = SANITIZE=thread
SANITIZED = BUILD=build-$(1) CUDA=0 SCRIPT_TESTS= WERROR= $(variables_$(1))
asan tsan:
	@scripts/deps.sh test
	@$(if $(filter asan,$@),scripts/deps.sh fuzz || true)
	+@$(MAKE) --no-print-directory $@-with-engine
.PHONY: asan-with-engine tsan-with-engine
asan-with-engine tsan-with-engine: %-with-engine:
	+@$(AGAIN) $(call SANITIZED,$*) tests
	@$(MAKE) --no-print-directory $(call SANITIZED,$*) run-check
