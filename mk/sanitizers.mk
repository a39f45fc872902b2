# SPDX-License-Identifier: Apache-2.0
#
# The fast subset, or all that `make test` does, built apart and run under a sanitizer. The script tests look at the ordinary build
# and stay out; so do warnings, of which instrumented code has false ones. What runs ten times as slowly gets more time.

SANITIZED = BUILD=build-$(@:-all=) CUDA=0 SANITIZE=$(SANITIZERS) SCRIPT_TESTS=
asan asan-all: SANITIZERS := address,undefined
tsan tsan-all: SANITIZERS := thread
asan tsan asan-all tsan-all:
	@scripts/deps.sh test
	+@$(AGAIN) $(SANITIZED) WERROR= tests
	@$(if $(filter %-all,$@),COLLET_TEST_TIMEOUT=3600) $(MAKE) --no-print-directory $(SANITIZED) run-$(if $(filter %-all,$@),test,check)
