# SPDX-License-Identifier: Apache-2.0
#
# Pages: the gallery, the playground in a browser, the site of the documents, the record of what users see.

.PHONY: gallery
gallery: $(BUILD)/bin/collet-prog
	@mkdir -p $(BUILD)/gallery
	@scripts/playground.sh $(BUILD)/gallery/playground.html || [ $$? = 3 ]
	@BUILD=$(BUILD) scripts/gallery.sh $(BUILD)/gallery
# The playground in a browser; half a minute of a CPU to build it, so it is not part of `make test`.
.PHONY: test-playground
test-playground:
	@tests/browser/test_playground.sh
.PHONY: docs-site
docs-site: gallery
	@scripts/deps.sh site && scripts/docs-site.sh $(BUILD)/site $(BUILD)/gallery
# Nothing but the record goes to standard output: make surface > docs/surface.txt.
.PHONY: surface
surface:
	+@$(AGAIN) all >&2
	@BUILD=$(BUILD) scripts/surface.sh
