# SPDX-License-Identifier: Apache-2.0
#
# The demo and the tests. scripts/run-tests.sh runs programs and prints a line for each.

RUN_TESTS = scripts/run-tests.sh --level $(1) --jobs $(TEST_JOBS) $(CHOSEN)
# Programs without threads have nothing to show to the thread sanitizer, and some are slow under it. It cannot see what orders the ranks
# of test_gpu_copies, either: words that each maps at an address of its own.
UNTHREADED := $(if $(filter thread,$(SANITIZE)),$(BUILD)/tests/layers/verifier/test_algorithms $(BUILD)/tests/layers/tools/test_program \
    $(BUILD)/tests/layers/verifier/test_verifier $(BUILD)/tests/layers/tools/test_cost $(BUILD)/tests/layers/tools/test_one_tuner \
    $(addprefix $(BUILD)/tests/unit/test_,forecasts gpu_room gpu_rows map model order sim_queue) \
    $(BUILD)/tests/layers/gpu/test_block $(BUILD)/tests/layers/gpu/test_emulated_gpu $(BUILD)/tests/layers/memory/test_gpu_windows $(BUILD)/tests/layers/memory/test_gpu_copies $(BUILD)/tests/gpu/% $(BUILD)/tests/gpusim/% $(BUILD)/tests/unit/test_topo% $(BUILD)/tests/core/test_reduce $(BUILD)/tests/whole/test_perf_format)
# PROGRAMS='core/test_tcp whole/test_links.sh': these alone. PART=2/8: each eighth one, from the second on.
RUNNABLE := $(sort $(filter-out $(UNTHREADED),$(TESTS))) $(SCRIPT_TESTS)
each_nth  = $(shell printf '%s\n' $(RUNNABLE) | awk -v part=$(PART) 'BEGIN { split(part, p, "/") } NR % p[2] == p[1] % p[2]')
CHOSEN   := $(if $(PROGRAMS),$(foreach p,$(PROGRAMS),$(or $(filter %tests/$(p),$(RUNNABLE)),$(BUILD)/tests/$(p))),$(if $(PART),$(each_nth),$(RUNNABLE)))

.PHONY: deps demo tests test-edges test-users test check test-full asan tsan asan-all tsan-all run-check run-test run-test-full
# The bridge is there before script tests run, two at a time: each makes it if it is missing.
tests: $(CHOSEN) $(if $(WITH_CUDA),$(ONE_PROGRAM) $(BESIDE)) $(if $(SCRIPT_TESTS),$(BUILD)/bench/slow_link)
deps:
	@scripts/deps.sh build
demo:
	@scripts/deps.sh build
	+@$(AGAIN) all
	@$(BUILD)/bin/hello_allreduce
	@$(BUILD)/bin/all_reduce_perf --procs 4 -b 8 -e 64M -f 8 -n 20
test check test-full:
	@scripts/deps.sh test
	+@$(AGAIN) all tests
	@$(MAKE) --no-print-directory run-$@
# What users and attackers found, each as a test that failed before: tests/edges. What users of NCCL set: tests/users.
test-edges test-users: test-%:
	@scripts/deps.sh test
	+@$(AGAIN) all $(filter $(BUILD)/tests/$*/%,$(TESTS))
	@BUILD=$(BUILD) scripts/run-tests.sh --jobs $(TEST_JOBS) $(filter $(BUILD)/tests/$*/%,$(TESTS)) $(filter tests/$*/%,$(SCRIPT_TESTS))
run-check:
	@BUILD=$(BUILD) $(call RUN_TESTS,fast)
run-test:
	@BUILD=$(BUILD) $(call RUN_TESTS,normal)
run-test-full:
	@BUILD=$(BUILD) $(call RUN_TESTS,full)
