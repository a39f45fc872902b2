# SPDX-License-Identifier: Apache-2.0
#
# What takes too long for one sitting. `make campaign-faults` begins it, or goes on; scripts/campaign.sh says how that works.
#
#    make campaign-faults MINUTES=30     a sitting: no unit begins after 30 minutes. Ctrl-C and kill stop it, too
#    make campaign-faults RETRY=1        units that failed are done again; UNITS='1 101': these alone, done or not
#    make campaigns                      how far each has come
#
# A campaign says with which variables it is built, if not as all else is; its units; what is done with one; and what must be there.

CAMPAIGNS := again busy asan tsan memory leaks faults soak fuzz survivors
parts_of   = $(foreach part,$(shell seq $(1)),$(part)/$(1))
patiently  = COLLET_TEST_TIMEOUT=3600 scripts/run-tests.sh $(BUILD)/tests/$(1)

# make test, ten times; and each of its programs beside 40 processes that want the CPUs all the time.
units_again = $(shell seq 10)
units_busy  = $(RUNNABLE)
do_again    = $(MAKE) --no-print-directory test
do_busy     = scripts/beside.sh 40 scripts/run-tests.sh $$UNIT
sitting-again sitting-busy: tests

# Every test program under a sanitizer.
with_asan  = $(call SANITIZED,asan)
with_tsan  = $(call SANITIZED,tsan)
units_asan = $(RUNNABLE:$(BUILD)/tests/%=%)
units_tsan = $(units_asan)
do_asan    = $(call patiently,$$UNIT)
do_tsan    = $(do_asan)
sitting-asan sitting-tsan: tests

# Every request for memory or a descriptor is refused once; under the address sanitizer, which looks for leaks at the end of each process.
with_leaks   = $(with_asan)
units_memory = $(call parts_of,60)
units_leaks  = $(units_memory)
do_memory    = PART=$$UNIT $(call patiently,whole/test_memory)
do_leaks     = $(do_memory)
sitting-memory sitting-leaks: $(BUILD)/tests/whole/test_memory

# 10,000 faults, by their seeds.
units_faults = $(shell seq 1 100 9901)
do_faults    = FIRST=$$UNIT SEEDS=100 $(BUILD)/tests/core/test_faults
sitting-faults: $(BUILD)/tests/core/test_faults

# Half an hour of random communicators, calls and deaths, by seeds. In three minutes a leak of 100 bytes per round is found.
units_soak = $(shell seq 10)
do_soak    = SOAK_SECONDS=180 SOAK_SEED=$$UNIT $(BUILD)/tests/core/test_soak
sitting-soak: $(BUILD)/tests/core/test_soak

# New inputs for each target that reads what comes from others. Without clang, the corpus alone.
FUZZ_SECONDS ?= 180
with_fuzz  = $(with_asan)
units_fuzz = $(FUZZERS:$(BUILD)/tests/fuzz/fuzz_%=%)
do_fuzz    = BUILD=$(BUILD) tests/fuzz/fuzz.sh $(if $(FUZZ_ENGINE),$(FUZZ_SECONDS),0) $$UNIT
sitting-fuzz: fuzzers

# Every rank of jobs on 3 hosts is stopped, cut off and killed, at each moment.
units_survivors = $(call parts_of,40)
do_survivors    = PART=$$UNIT $(BUILD)/tests/edges/test_survivors_agree
sitting-survivors: $(BUILD)/tests/edges/test_survivors_agree

# Three makes: what deps.sh installs is seen by the second one, and the third one has the variables.
.PHONY: campaigns $(foreach c,$(CAMPAIGNS),campaign-$(c) begin-$(c) sitting-$(c))
$(CAMPAIGNS:%=campaign-%): campaign-%:
	@scripts/deps.sh $(if $(filter fuzz,$*),fuzz,test)
	+@$(MAKE) --no-print-directory begin-$*
$(CAMPAIGNS:%=begin-%): begin-%:
	+@$(AGAIN) $(with_$*) sitting-$*
$(CAMPAIGNS:%=sitting-%): sitting-%:
	@scripts/campaign.sh $* '$(do_$*)' $(units_$*)
campaigns:
	@scripts/campaign.sh --table $(CAMPAIGNS)
