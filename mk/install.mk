# SPDX-License-Identifier: Apache-2.0
#
# Manual pages, installation, packages, a release.

.PHONY: man install uninstall deb
INSTALLED_PROGRAMS := $(TOOLS) $(if $(shell command -v python3),$(SCRIPT_TOOLS)) $(PERFS)
CMAKEDIR      = $(LIBDIR)/cmake/collet
# What examples/CMakeLists.txt and examples/Makefile build outside this tree.
EXAMPLE_FILES = $(wildcard examples/*.c examples/*.cc examples/CMakeLists.txt examples/Makefile)
EXAMPLE_HEADERS = $(wildcard examples/common/*.h)
# What a program is linked with beside libcollet.a. The runtime of CUDA goes by its name: on another machine its file may lie
# elsewhere.
STATIC_LIBS   = $(patsubst $(CUDA_LIBDIR)lib%.a,-L$(CUDA_LIBDIR:%/=%) -l%,$(CUDA_LIBS:.so=.a)) $(PACKAGE_LIBS) -pthread -ldl -lm
# Writes packaging/NAME.in to a folder, its @WORDS@ filled in.
fill = sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCDIR@|$(INCDIR)|; s|@VERSION@|$(VERSION)|; s|@ABI@|$(ABI)|; s|@SO_NAME@|$(SO_NAME)|' \
    -e 's|@INCDIR_FROM_CMAKE@|$(shell realpath -m --relative-to=$(CMAKEDIR) $(INCDIR))|; s|@STATIC_LIBS@|$(strip $(STATIC_LIBS))|' \
    -e 's|@STATIC_LIST@|$(shell echo $(STATIC_LIBS) | tr ' ' ';')|' packaging/$(1).in > $(DESTDIR)$(2)/$(1)

man: $(BUILD)/man/made
$(BUILD)/man/made: include/collet.h scripts/man-pages.sh scripts/man-pages.awk $(INSTALLED_PROGRAMS)
	$(Q)scripts/man-pages.sh $(abspath $(BUILD)/man $(INSTALLED_PROGRAMS))
	@touch $@

install: all man
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(CMAKEDIR) $(INCDIR) $(MANDIR)/man1 $(MANDIR)/man3 $(MANDIR)/man7 $(DOCDIR)/examples/common)
	install -m 644 include/collet.h $(DESTDIR)$(INCDIR)/
	install -m 755 $(SHARED_LIB) $(DESTDIR)$(LIBDIR)/libcollet.so.$(VERSION)
	ln -sf libcollet.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(LIBDIR)/libcollet.so
	install -D -m 755 -t $(DESTDIR)$(LIBDIR)/collet $(NCCL_LIB) $(NET_LIB)
	install -D -m 644 -t $(DESTDIR)$(INCDIR)/collet/compat include/compat/*.h
	install -m 644 $(STATIC_LIB) $(DESTDIR)$(LIBDIR)/
	$(call fill,collet.pc,$(LIBDIR)/pkgconfig)
	$(call fill,collet-config.cmake,$(CMAKEDIR))
	$(call fill,collet-config-version.cmake,$(CMAKEDIR))
	$(if $(INSTALLED_PROGRAMS),install -m 755 $(INSTALLED_PROGRAMS) $(DESTDIR)$(BINDIR)/)
	$(if $(TOOLS)$(PERFS),strip --strip-unneeded $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(TOOLS) $(PERFS))))
	strip --strip-debug $(addprefix $(DESTDIR)$(LIBDIR)/,libcollet.so.$(VERSION) libcollet.a \
	    $(addprefix collet/,$(notdir $(NCCL_LIB) $(NET_LIB))))
	for section in 1 3 7; do install -m 644 $(BUILD)/man/man$$section/* $(DESTDIR)$(MANDIR)/man$$section/; done
	$(if $(EXAMPLE_FILES),install -m 644 $(EXAMPLE_FILES) $(DESTDIR)$(DOCDIR)/examples/)
	$(if $(EXAMPLE_HEADERS),install -m 644 $(EXAMPLE_HEADERS) $(DESTDIR)$(DOCDIR)/examples/common/)
	@echo 'installed in $(DESTDIR)$(PREFIX): GPU kernels for $(if $(WITH_CUDA),$(strip $(CUDA_CODE)),no GPU)'
	$(if $(DESTDIR),,@packaging/after-install.sh $(LIBDIR) $(SO_NAME))

uninstall:
	rm -f $(DESTDIR)$(INCDIR)/collet.h $(DESTDIR)$(LIBDIR)/pkgconfig/collet.pc
	rm -rf $(DESTDIR)$(LIBDIR)/collet $(DESTDIR)$(INCDIR)/collet
	rm -f $(DESTDIR)$(LIBDIR)/libcollet.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SO_NAME) $(DESTDIR)$(LIBDIR)/libcollet.so $(DESTDIR)$(LIBDIR)/libcollet.a
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(INSTALLED_PROGRAMS))) $(addsuffix .1,$(addprefix $(DESTDIR)$(MANDIR)/man1/,$(notdir $(INSTALLED_PROGRAMS))))
	rm -f $(DESTDIR)$(MANDIR)/man3/collet_*.3 $(DESTDIR)$(MANDIR)/man7/collet.7
	rm -rf $(DESTDIR)$(CMAKEDIR) $(DESTDIR)$(DOCDIR)

# The same as Debian packages: the library, what building with it needs, and the programs.
deb: all man
	@BUILD=$(BUILD) packaging/deb.sh '$(MAKE) --no-print-directory' $(DEB_DIR)

# A release: what `make install` installs, and the licence, in one archive to be unpacked anywhere. Its programs find the library
# beside them; its pkg-config file gives the folder that it lies in. Kernels for every GPU, where nvcc is.
.PHONY: dist
RELEASE := collet-$(VERSION)-$(shell uname -s | tr A-Z a-z)-$(shell uname -m)
dist:
	+@$(AGAIN) BUILD=build-dist CUDA_ARCH=all all
	@rm -rf build-dist/$(RELEASE)
	@$(MAKE) --no-print-directory BUILD=build-dist CUDA_ARCH=all PREFIX=/ DESTDIR=build-dist/$(RELEASE) BINDIR=/bin LIBDIR=/lib INCDIR=/include MANDIR=/share/man DOCDIR=/share/doc/collet install
	@sed -i -e 's|^prefix=.*|prefix=$${pcfiledir}/../..|' -e 's|^libdir=.*|libdir=$${prefix}/lib|' -e 's|^includedir=.*|includedir=$${prefix}/include|' \
	    build-dist/$(RELEASE)/lib/pkgconfig/collet.pc
	@install -m 644 LICENSE README.md CHANGELOG.md build-dist/$(RELEASE)/
	@tar -C build-dist -czf build-dist/$(RELEASE).tar.gz $(RELEASE)
	@ls -sh build-dist/$(RELEASE).tar.gz
