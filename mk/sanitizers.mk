# SPDX-License-Identifier: Apache-2.0
#
# The fast subset of `make test`, built apart and run under a sanitizer; campaign-asan and campaign-tsan run all of it. The script tests
# look at the ordinary build and stay out; so do warnings, of which instrumented code has false ones.

sanitizers_asan := address,undefined
sanitizers_tsan := thread
SANITIZED = BUILD=build-$(1) CUDA=0 SANITIZE=$(sanitizers_$(1)) SCRIPT_TESTS= WERROR=
asan tsan:
	@scripts/deps.sh test
	+@$(AGAIN) $(call SANITIZED,$@) tests
	@$(MAKE) --no-print-directory $(call SANITIZED,$@) run-check
