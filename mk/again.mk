# SPDX-License-Identifier: Apache-2.0
#
# Makes that call make.

# A child make: it sees what deps.sh has just installed, and uses all CPUs unless the caller chose otherwise.
AGAIN = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
