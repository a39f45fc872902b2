# SPDX-License-Identifier: Apache-2.0
#
# What compilers and linkers are given, and what is printed of it.

VERSION   := $(shell sed -n 's/^\#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
# Libraries of one interface have one name: 1.x and 1.y, but before 1.0 only 0.1.x and 0.1.y. CONTRIBUTING.md has the rule.
ABI       := $(shell echo $(VERSION) | sed -E 's/^(0\.[0-9]+|[0-9]+).*/\1/')
SO_NAME   := libcollet.so.$(ABI)
PACKAGES  := libsodium hwloc libxml-2.0
PKGCONFIG := $(if $(PKG_CONFIG),$(PKG_CONFIG),pkg-config)

PACKAGE_CFLAGS := $(shell $(PKGCONFIG) --cflags $(PACKAGES) 2>/dev/null)
PACKAGE_LIBS   := $(shell $(PKGCONFIG) --libs $(PACKAGES) 2>/dev/null)
# What a program that links the static library links too.
PRIVATE_LIBS    = $(strip $(CUDA_LIBS) $(PACKAGE_LIBS) -pthread -ldl -lm)

# No contraction of a*b+c anywhere: every variant and every machine makes the same bits. Linux only: all that glibc has.
BASE_FLAGS := -std=gnu11 -D_GNU_SOURCE= -Wall -Wextra $(WERROR) -ffp-contract=off -fvisibility=hidden -fPIC -pthread -MMD -MP
ifneq ($(SANITIZE),)
BASE_FLAGS += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
LINK_FLAGS += -fsanitize=$(SANITIZE)
endif
# Sanitized code is compiled quickly rather than well: it is run once.
OPTIMIZE = $(if $(SANITIZE),-O1,$(if $(filter src/kernels/% src/exec/%,$<)$(filter exec_%,$(notdir $<)),-O3,-O2))
COMPILE  = $(CC) $(BASE_FLAGS) $(OPTIMIZE) $(INCLUDES) $(PACKAGE_CFLAGS) $(VARIANT_FLAGS) $(CPPFLAGS) $(CFLAGS)
LINK     = $(CC) $(LINK_FLAGS) $(CFLAGS) $(LDFLAGS)

INTERNAL_INCLUDES := -Iinclude -Isrc
PUBLIC_INCLUDES   := -Iinclude -Iexamples/perf

# V=1 shows whole commands, else a word and the target. V=quiet: neither.
Q   = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1 quiet,$(V)),,@printf '%-5s %s\n' '$(notdir $(1))' '$@')
