# SPDX-License-Identifier: Apache-2.0
#
# The demo and the tests. scripts/run-tests.sh runs programs and prints a line for each.

RUN_TESTS = scripts/run-tests.sh --level $(1) --jobs $(TEST_JOBS) $(CHOSEN)
# Programs without threads have nothing to show to the thread sanitizer, and some are slow under it. It cannot see what orders the ranks
# of test_gpu_copies, either: words that each maps at an address of its own.
UNTHREADED_NAMES := verifier/test_algorithms verifier/test_verifier verifier/test_order tools/test_program tools/test_cost tools/test_one_tuner \
    tools/test_forecasts tuner/test_gpu_room tuner/test_gpu_rows tuner/test_model tuner/test_sim_queue topology/test_map \
    topology/test_topo_files topology/test_topo_search topology/test_topo_machine topology/test_topo_graph topology/test_topology \
    gpu/test_block gpu/test_emulated_gpu windows/test_gpu_windows memory/test_gpu_copies core/test_reduce whole/test_perf_format
UNTHREADED := $(if $(filter thread,$(SANITIZE)),$(foreach n,$(UNTHREADED_NAMES),$(or $(filter %/$(n),$(TESTS)),$(error no test is called $(n)))) \
    $(BUILD)/tests/gpu/% $(BUILD)/tests/gpusim/%)
# PROGRAMS='core/test_tcp whole/test_links.sh': these alone.
RUNNABLE := $(sort $(filter-out $(UNTHREADED),$(TESTS))) $(SCRIPT_TESTS)
CHOSEN   := $(if $(PROGRAMS),$(foreach p,$(PROGRAMS),$(or $(filter %tests/$(p),$(RUNNABLE)),$(BUILD)/tests/$(p))),$(RUNNABLE))

.PHONY: deps demo demo-kv tests test-edges test-users test check test-full asan tsan run-check run-test run-test-full
# The bridge is there before script tests run, two at a time: each makes it if it is missing.
tests: $(CHOSEN) $(if $(WITH_CUDA),$(ONE_PROGRAM) $(BESIDE)) $(if $(SCRIPT_TESTS),$(BUILD)/bench/slow_link)
deps:
	@scripts/deps.sh build
demo:
	@scripts/deps.sh build
	@[ -e $(BUILD)/bin/all_reduce_perf ] || echo 'building: about a minute on 2 CPUs (V=0 shows what)'
	+@$(AGAIN) $(if $(filter command environment,$(origin V)),,V=quiet) all
	@set -o pipefail; $(BUILD)/bin/all_reduce_perf --procs 4 -b 8 -e 64M -f 8 -n 20 | grep -v '^#\? *$$'
	@echo; echo 'That was an allreduce of floats among 4 processes of this machine. Every element of the results was checked: #wrong is 0.'
	@echo 'busbw is the speed of the busiest link. Its best numbers need as many idle CPUs as processes.'; echo
	@echo '    $(BUILD)/bin/collet-prog allreduce_ring 4   one of the algorithms, step by step'
	@echo '    make test                                  all tests (12 to 13 minutes)'
	@echo '    make help                                  what else there is; README.md goes on from here'
# 40,000 blocks of 8 KiB, as a key-value cache has them: docs/transfers.md.
# The same beside NIXL, if `scripts/peers.sh kv` has brought it. Its ends are in one namespace, so tcp between two has no row of it.
kv_beside = [ ! -d $(BUILD)/nixl ] || PYTHONPATH=$(BUILD)/nixl NIXL_LOG_LEVEL=WARN python3 bench/kv_nixl.py
demo-kv: $(BUILD)/bin/kv_perf
	@echo 'in shared memory:' && $(BUILD)/bin/kv_perf --procs 2 && $(kv_beside)
	@echo 'over tcp, on this host:' && COLLET_TRANSPORT=tcp $(BUILD)/bin/kv_perf --procs 2 && $(kv_beside) --tls tcp
	@echo 'over tcp, between two network namespaces:' && { scripts/two-hosts.sh --ranks 1 $(BUILD)/bin/kv_perf || [ $$? = 77 ]; }
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
