# SPDX-License-Identifier: Apache-2.0
#
# What measures, and prints figures or the tables of docs.

.PHONY: lab-slow
lab-slow: all $(BUILD)/bench/slow_link
	@BUILD=$(BUILD) scripts/lab-slow.sh
.PHONY: bench-forecasts bench-peers bench-regret bench-instructions bench-trace bench-first-calls bench-reduce bench-overlap bench-rendezvous bench-far
.PHONY: scaling
bench-peers: all
	scripts/bench-peers.sh
.PHONY: peers-archive
peers-archive: libs $(BUILD)/bin/collet-prog
	@BUILD=$(BUILD) scripts/peers.sh archive
bench-regret: $(BUILD)/bin/collet-tune
	$(BUILD)/bin/collet-tune --regret --procs 2,4
$(BUILD)/bench/instructions: bench/instructions.c $(STATIC_LIB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 $(PUBLIC_INCLUDES) $< -o $@ $(STATIC_LIB) $(PRIVATE_LIBS)
bench-instructions: $(BUILD)/bench/instructions
	scripts/instructions.sh $<
$(BUILD)/bench/trace: bench/trace.c $(STATIC_LIB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -D_GNU_SOURCE $(PUBLIC_INCLUDES) $< -o $@ $(STATIC_LIB) $(PRIVATE_LIBS)
$(BUILD)/bench/first_calls: bench/first_calls.c $(STATIC_LIB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -D_GNU_SOURCE $(PUBLIC_INCLUDES) $< -o $@ $(STATIC_LIB) $(PRIVATE_LIBS)
bench-first-calls: $(BUILD)/bench/first_calls
	@$< 8
bench-trace: $(BUILD)/bench/trace
	@$< 500 8 512 4096 65536
$(BUILD)/bench/reduce: $(OBJ)/bench/reduce.o $(INTERNAL_LIB)
	$(LINK_PROGRAM)
bench-forecasts: $(BUILD)/tests/layers/tools/test_forecasts
	$<

bench-reduce: $(BUILD)/bench/reduce
	@$<
$(OBJ)/bench/rendezvous.o: INCLUDES = $(INTERNAL_INCLUDES) -Itests
$(BUILD)/bench/rendezvous: $(OBJ)/bench/rendezvous.o $(call objects_of,tests/common/guests.c) $(INTERNAL_LIB)
	$(LINK_PROGRAM)
bench-rendezvous: $(BUILD)/bench/rendezvous
	@$<
$(BUILD)/bench/slow_link: bench/slow_link.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -std=gnu11 -D_GNU_SOURCE -Wall -Wextra $(WERROR) $< -o $@
bench-overlap: $(BUILD)/bench/slow_link $(BUILD)/bin/overlap_host
	@echo 'two hosts, one rank on each, over a link that takes 10 ms'
	@$(BUILD)/bench/slow_link $(BUILD)/bin/overlap_host || [ $$? = 77 ]
	@echo; echo 'one rank per two CPUs of this host, but two at least'
	@$(BUILD)/bin/overlap_host --procs $$(( $(JOBS) > 4 ? $(JOBS) / 2 : 2 ))
bench-far: $(BUILD)/bench/slow_link $(BUILD)/bin/broadcast_perf
	@BUILD=$(BUILD) scripts/bench-far.sh
scaling: $(BUILD)/bin/collet-sim
	@BUILD=$(BUILD) scripts/scaling.sh
