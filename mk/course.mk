# SPDX-License-Identifier: Apache-2.0
#
# The labs of docs/course.

.PHONY: lab1 lab2 lab3 lab4 lab5 lab6 lab7 lab8 lab9
lab9: $(BUILD)/bench/slow_link
PROG_OBJECTS := $(call objects_of,$(wildcard src/layers/tools/prog/*.c))
lab1 lab2 lab3 lab4 lab5 lab6 lab7 lab8 lab9: $(INTERNAL_LIB) $(PROG_OBJECTS) $(BUILD)/bin/collet-sim
	@BUILD=$(BUILD) CC="$(CC)" PROG_OBJECTS="$(PROG_OBJECTS)" PRIVATE_LIBS="$(PRIVATE_LIBS)" docs/course/lab.sh $(@:lab%=%)
